#include "compare_measure.h"

#include "../runtime/cli/output.h"
#include "../runtime/cli/simulate.h"
#include "../runtime/cli/tensors.h"
#include "../runtime/monotonic.h"
#include "../runtime/plan.h"
#include "compiling.h"
#include "measurable.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A row's median must not hang on a moment's disturbance, so the rounds come in portions, between which the
 * budget is asked. */
enum { ROUNDS = 20, PORTION = 5, COMPILE_SECONDS = 60, ALIGNMENT = 16 };

/* One comparison at work. */
struct work {
    struct compare *compare;
    struct measurer *measurer;
    struct compiling *compiling;
    struct progress progress;
    double deadline; /* seconds of the monotonic clock; 0: none */
    double *samples; /* ROUNDS a row */
    double *portion;
    const char **names;
    int *rows; /* of the names */
};

static bool over(void *user)
{
    const struct work *work = user;
    return work->deadline > 0 && gnf_now() > work->deadline;
}

static void fail_row(struct compare_row *row, enum gnf_record_status status, const char *error)
{
    row->measured.status = status;
    snprintf(row->measured.error, sizeof row->measured.error, "%s", error);
    for (char *c = row->measured.error; *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    row->cold = row->hot = (struct compare_times){0};
}

/* The kernels, and for the simulator their host-compiled form, before any child needs them. */
static gnf_status prepare(struct compare *compare)
{
    const struct args *args = compare->args;
    struct session *session = &compare->session;
    struct args *child = &compare->child_args;
    compare->table.simulated = args->sim || simulate_is(session->options.driver);
    GNF_TRY(packs_require(&session->packs, args, &session->options, &compare->problem));
    if (compare->table.simulated)
        GNF_TRY(simulate_prepare(&session->packs, args, &session->options, &compare->problem));
    *child = *args;
    child->packs.count = 0;
    for (int i = 0; i < session->packs.count && child->packs.count < ARGS_MAX_LIST; i++)
        if (session->packs.at[i].added)
            child->packs.at[child->packs.count++] = session->packs.at[i].path;
    return packs_variants(&session->packs, &compare->problem, args->variant, &compare->list,
                          &compare->table.count);
}

static gnf_status make_rows(struct compare *compare)
{
    const struct gnf_terms terms = {
        .alignment = ALIGNMENT, .prepared = true, .no_cublaslt = compare->no_cublaslt, .named = true};
    struct compare_table *table = &compare->table;
    table->rows = calloc((size_t)table->count, sizeof *table->rows);
    if (table->rows == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d variants", table->count);
    for (int i = 0; i < table->count; i++) {
        const struct gnf_variant *variant = compare->list[i].variant;
        struct gnf_choice choice = {.pack = compare->list[i].file->pack, .variant = variant};
        struct compare_row *row = &table->rows[i];
        *row = (struct compare_row){
            .name = variant->name,
            .strategy = variant->strategy,
            .parameters = variant->parameters,
            .generic = variant->generic,
            .rank = i,
            .measured = {.max_error = NAN},
        };
        if (gnf_choice_check(&choice, &compare->problem, &terms, &compare->facts) != GNF_OK ||
            gnf_choice_size(&choice, &compare->problem) != GNF_OK) {
            row->reached = true;
            fail_row(row, GNF_RECORD_REFUSED, gnf_error_message());
        }
    }
    return GNF_OK;
}

/* Random tensors have no null among them, so all of them are read. */
static gnf_status count_work(struct compare *compare)
{
    struct tensors tensors;
    const struct gnf_problem *problem = &compare->problem;
    GNF_TRY(tensors_create(&tensors, problem, problem->samples));
    compare->table.bytes = tensors_bytes(&tensors, true);
    compare->table.flop = tensors_flop(problem, problem->samples);
    tensors_free(&tensors);
    return GNF_OK;
}

static gnf_status compile_rows(struct work *work)
{
    struct compare_table *table = &work->compare->table;
    for (int i = 0; i < table->count; i++)
        if (!table->rows[i].reached)
            GNF_TRY(compiling_add(work->compiling, table->problem, table->rows[i].name));
    for (int i = 0; i < table->count && !over(work); i++) {
        struct compare_row *row = &table->rows[i];
        if (row->reached)
            continue;
        progress_step(&work->progress, "compiling %s", row->name);
        gnf_status status =
            compiling_wait(work->compiling, table->problem, row->name, &row->measured.compile_ms, over, work);
        if (over(work))
            break;
        if (status == GNF_COMPILE_FAILED) {
            row->reached = true;
            fail_row(row, GNF_RECORD_NOT_COMPILED, gnf_error_message());
            continue;
        }
        GNF_TRY(status);
    }
    return GNF_OK;
}

static gnf_status check_rows(struct work *work)
{
    struct compare_table *table = &work->compare->table;
    GNF_TRY(measurer_open(work->measurer, &work->compare->problem, table->samples));
    for (int i = 0; i < table->count && !over(work); i++) {
        struct compare_row *row = &table->rows[i];
        if (row->reached)
            continue;
        double compile_ms = row->measured.compile_ms;
        progress_step(&work->progress, "checking %s", row->name);
        GNF_TRY(measurer_check(work->measurer, row->name, &row->measured));
        row->reached = true;
        if (compile_ms > 0)
            row->measured.compile_ms = compile_ms;
    }
    return GNF_OK;
}

/* Rows in the running, by name. */
static int gather(struct work *work)
{
    struct compare_table *table = &work->compare->table;
    int count = 0;
    for (int i = 0; i < table->count; i++)
        if (compare_row_ok(&table->rows[i])) {
            work->rows[count] = i;
            work->names[count++] = table->rows[i].name;
        }
    return count;
}

/* Samples of all rows in turns. One that breaks down leaves the running, and the portion is repeated without
 * it; what was sampled before stays. */
static gnf_status sample_rows(struct work *work, bool hot, int *done)
{
    struct compare_table *table = &work->compare->table;
    int count;
    *done = 0;
    while (*done < ROUNDS && (count = gather(work)) > 0 && !over(work)) {
        int rounds = ROUNDS - *done < PORTION ? ROUNDS - *done : PORTION, failed = -1;
        struct measured how;
        progress_at(&work->progress, 2 * table->count + (hot ? ROUNDS : 0) + *done,
                    "timing %d variants, %s, round %d of %d", count, hot ? "hot" : "cold", *done + 1, ROUNDS);
        GNF_TRY(measurer_time(work->measurer, work->names, count, rounds, hot, false, work->portion, &failed,
                              &how));
        if (failed >= 0) {
            fail_row(&table->rows[work->rows[failed]], how.status, how.error);
            continue;
        }
        for (int i = 0; i < count; i++)
            memcpy(work->samples + work->rows[i] * ROUNDS + *done, work->portion + i * rounds,
                   (size_t)rounds * sizeof *work->portion);
        *done += rounds;
    }
    return GNF_OK;
}

static gnf_status time_rows(struct work *work, bool hot)
{
    struct compare_table *table = &work->compare->table;
    int done;
    GNF_TRY(sample_rows(work, hot, &done));
    table->complete &= done == ROUNDS || gather(work) == 0;
    for (int i = 0; i < table->count; i++) {
        struct compare_row *row = &table->rows[i];
        if (done == 0 || !compare_row_ok(row))
            continue;
        struct compare_times *times = hot ? &row->hot : &row->cold;
        *times = compare_summary(work->samples + i * ROUNDS, done);
        if (times->count == 0)
            fail_row(row, GNF_RECORD_FAILED,
                     "none of its samples is a time: the clock gave 0, less, or no number");
    }
    return GNF_OK;
}

static gnf_status measure(struct work *work)
{
    struct compare_table *table = &work->compare->table;
    GNF_TRY(compile_rows(work));
    GNF_TRY(check_rows(work));
    for (int i = 0; i < table->count; i++)
        table->complete &= table->rows[i].reached;
    if (!table->timed || gather(work) == 0)
        return GNF_OK;
    int64_t bytes;
    progress_at(&work->progress, 2 * table->count, "timing a copy of as many bytes");
    GNF_TRY(measurer_copy(work->measurer, &table->copy_us, &bytes));
    GNF_TRY(time_rows(work, false));
    GNF_TRY(time_rows(work, true));
    for (int i = 0; i < table->count; i++) {
        struct compare_row *row = &table->rows[i];
        if (row->cold.count == 0)
            continue;
        row->copy_fraction = table->copy_us / row->cold.median_us;
        row->tflops = table->flop / row->cold.median_us * 1e-6;
    }
    return GNF_OK;
}

static gnf_status allocate(struct work *work, size_t count)
{
    work->samples = calloc(count * ROUNDS, sizeof *work->samples);
    work->portion = calloc(count * PORTION, sizeof *work->portion);
    work->names = calloc(count, sizeof *work->names);
    work->rows = calloc(count, sizeof *work->rows);
    if (work->samples == NULL || work->portion == NULL || work->names == NULL || work->rows == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for the samples of %zu variants", count);
    return GNF_OK;
}

static gnf_status describe(struct work *work)
{
    struct compare *compare = work->compare;
    struct compare_table *table = &compare->table;
    struct gnf_record_device device;
    GNF_TRY(measurer_device(work->measurer, &device, &table->nvrtc));
    GNF_TRY(measurer_facts(work->measurer, &compare->facts, NULL));
    bool cublaslt = true;
    if (compare->problem.inputs > 0 && compare->problem.conv.kernel == 0)
        GNF_TRY(measurer_cublaslt(work->measurer, &cublaslt));
    compare->no_cublaslt = !cublaslt;
    table->simulated |= device.simulated;
    table->timed = measurable_clock(table->simulated);
    table->problem = compare->problem.text;
    table->samples = compare->problem.samples;
    table->gpu = compare->facts.name;
    table->multiprocessors = compare->facts.multiprocessors;
    table->driver = compare->facts.driver_version;
    table->rounds = ROUNDS;
    table->complete = true;
    struct tm now;
    time_t seconds = time(NULL);
    if (gmtime_r(&seconds, &now) != NULL)
        strftime(table->date, sizeof table->date, "%Y-%m-%dT%H:%M:%SZ", &now);
    return GNF_OK;
}

gnf_status compare_measure(struct compare *compare, const struct args *args)
{
    struct work work = {.compare = compare, .deadline = args->budget > 0 ? gnf_now() + args->budget : 0};
    const struct measurer_options options = {
        .args = &compare->child_args, .device = args->device, .hang_s = args->hang};
    compare->args = args;
    gnf_status status = prepare(compare);
    if (status == GNF_OK)
        status = measurer_create(&work.measurer, &options);
    if (status == GNF_OK)
        status = describe(&work);
    if (status == GNF_OK)
        status = make_rows(compare);
    if (status == GNF_OK)
        status = count_work(compare);
    if (status == GNF_OK)
        status = allocate(&work, (size_t)compare->table.count);
    if (status == GNF_OK)
        status = compiling_create(&work.compiling, &compare->child_args, compare->facts.capability,
                                  args->jobs, COMPILE_SECONDS);
    progress_begin(&work.progress, 2 * compare->table.count + (compare->table.timed ? 2 * ROUNDS : 0),
                   args->quiet);
    if (status == GNF_OK)
        status = measure(&work);
    progress_clear(&work.progress);
    compiling_destroy(work.compiling);
    measurer_destroy(work.measurer);
    free(work.samples);
    free(work.portion);
    free(work.names);
    free(work.rows);
    return status;
}

void compare_free(struct compare *compare)
{
    free(compare->list);
    free(compare->table.rows);
    compare->list = NULL;
    compare->table.rows = NULL;
}
