#include "../runtime/cli/commands.h"

#include "../runtime/cli/bench.h"
#include "../runtime/cli/bindings.h"
#include "../runtime/cli/output.h"
#include "measurable.h"
#include <stdio.h>
#include <stdlib.h>

/* One problem's line. */
struct row {
    struct gnf_problem problem;
    char variant[128], match[32];
    int64_t bytes;
    struct bench_result result;
    bool timed;
};
struct benching {
    const struct args *args;
    struct row *rows;
    int count;
    char gpu[128], device[16];
    bool simulated;
    struct progress progress;
};

static gnf_status run_once(struct session *session, const struct tensors *tensors, const gnf_plan *plan)
{
    struct bindings bindings;
    GNF_TRY(bindings_create(&bindings, session, tensors, false, -1));
    gnf_status status = bindings_run(&bindings, plan);
    bindings_free(&bindings);
    return status;
}

static gnf_status measure(struct row *row, struct session *session, const struct tensors *tensors)
{
    const gnf_plan_options options = {
        .size = sizeof options,
        .variant = session->args->variant,
        .prepared = !session->args->each_weight,
    };
    gnf_plan_info info = {.size = sizeof info};
    gnf_plan *plan;
    GNF_TRY(gnf_plan_create(&plan, session->context, row->problem.text, &options));
    gnf_status status = gnf_plan_get_info(plan, &info);
    row->timed = measurable_clock(session->simulated);
    row->bytes = tensors_bytes(tensors, false);
    if (status == GNF_OK) {
        snprintf(row->variant, sizeof row->variant, "%s", info.variant);
        snprintf(row->match, sizeof row->match, "%s", info.match);
        status =
            row->timed ? bench_run(&row->result, session, tensors, plan) : run_once(session, tensors, plan);
    }
    gnf_plan_destroy(&plan);
    return status;
}

static gnf_status run_row(struct benching *benching, struct row *row)
{
    const struct tensors_recipe uniform = {.affine = true};
    const bool given = getenv("CUDASIM_KERNELS") != NULL;
    struct tensors tensors;
    struct session session;
    progress_step(&benching->progress, "%s", row->problem.text);
    GNF_TRY(tensors_create(&tensors, &row->problem, row->problem.samples));
    gnf_status status = tensors_random(&tensors, &uniform, benching->args->seed);
    if (status == GNF_OK)
        status = session_open(&session, benching->args, &row->problem);
    if (status == GNF_OK) {
        status = measure(row, &session, &tensors);
        snprintf(benching->gpu, sizeof benching->gpu, "%s", session.context->device.name);
        snprintf(benching->device, sizeof benching->device, "%s", session.device);
        benching->simulated = session.simulated;
        session_close(&session);
    }
    tensors_free(&tensors);
    if (!given) /* the next problem's are others */
        unsetenv("CUDASIM_KERNELS");
    return status;
}

static gnf_status print_json(const struct benching *benching)
{
    json_t *problems = json_array();
    for (int i = 0; i < benching->count; i++) {
        const struct row *row = &benching->rows[i];
        const struct bench_result *result = &row->result;
        json_t *object = json_pack("{s:s, s:I, s:s, s:s, s:I}", "problem", row->problem.text, "samples",
                                   (json_int_t)row->problem.samples, "variant", row->variant, "match",
                                   row->match, "bytes", (json_int_t)row->bytes);
        if (row->timed) {
            json_object_set_new(object, "time_us", output_number(result->time_us));
            json_object_set_new(object, "spread_us", output_number(result->spread_us));
            json_object_set_new(object, "timing_samples", json_integer(result->samples));
            json_object_set_new(object, "cold", json_boolean(result->cold));
        }
        double flop = tensors_flop(&row->problem, row->problem.samples);
        if (flop > 0)
            json_object_set_new(object, "flop", json_real(flop));
        if (flop > 0 && row->timed)
            json_object_set_new(object, "tflops", output_number(flop / result->time_us * 1e-6));
        if (row->timed && result->copy_us > 0) {
            json_object_set_new(object, "copy_us", output_number(result->copy_us));
            json_object_set_new(object, "copy_fraction", output_number(result->copy_fraction));
        }
        json_array_append_new(problems, object);
    }
    return output_json(json_pack("{s:b, s:s, s:s, s:b, s:I, s:o}", "ok", 1, "device", benching->device, "gpu",
                                 benching->gpu, "simulated", benching->simulated, "seed",
                                 (json_int_t)benching->args->seed, "problems", problems));
}

static void print_number(int width, double value)
{
    if (value > 0)
        printf(" %*.*f", width, value < 99.995 ? 2 : value < 999.95 ? 1 : 0, value);
    else
        printf(" %*s", width, "-");
}

static void print_text(const struct benching *benching)
{
    bool timed = benching->rows[0].timed;
    printf("device   %s (%s)\n", benching->gpu, benching->device);
    if (!timed)
        printf("time     none: this was the simulator, whose times mean nothing; each problem ran once\n");
    else if (benching->simulated)
        printf("time     simulated, no GPU's\n");
    printf("\n%9s %7s %10s %9s %5s  %-36s %-12s problem\n", "cold", "+-", "bytes", "copy", "copy", "variant",
           "match");
    printf("%9s %7s %10s %9s %5s\n", "us", "us", "", "us", "%");
    for (int i = 0; i < benching->count; i++) {
        const struct row *row = &benching->rows[i];
        const struct bench_result *result = &row->result;
        char size[32];
        print_number(8, row->timed ? result->time_us : 0);
        print_number(7, row->timed ? result->spread_us / 2 : 0);
        output_bytes(size, sizeof size, (double)row->bytes);
        printf(" %10s", size);
        print_number(9, row->timed ? result->copy_us : 0);
        if (row->timed && result->copy_us > 0)
            printf(" %5.0f", 100 * result->copy_fraction);
        else
            printf(" %5s", "-");
        printf("  %-36s %-12s %s%s\n", row->variant, row->match, row->problem.text,
               row->timed && !result->cold ? "  (in the L2 cache: too small to be cold)" : "");
    }
    if (timed)
        printf("\ncold: median of a launch whose inputs are not in the L2 cache; +-: half the "
               "distance of the quartiles;\ncopy: of as many bytes in the same run, and the share of its "
               "bandwidth\n");
}

static gnf_status run(struct benching *benching)
{
    const struct args *args = benching->args;
    for (int i = 0; i < args->operands.count; i++)
        GNF_TRY(measurable_parse(args->operands.at[i], &benching->rows[benching->count++].problem));
    progress_begin(&benching->progress, benching->count, args->quiet);
    for (int i = 0; i < benching->count; i++) {
        gnf_status status = run_row(benching, &benching->rows[i]);
        if (status != GNF_OK) {
            progress_clear(&benching->progress);
            return benching->count > 1 ? gnf_fail_more(status, "; at '%s'", benching->rows[i].problem.text)
                                       : status;
        }
    }
    progress_clear(&benching->progress);
    if (args->json)
        return print_json(benching);
    print_text(benching);
    return GNF_OK;
}

gnf_status command_bench(const struct args *args, int *exit_status)
{
    (void)exit_status;
    struct benching benching = {.args = args};
    benching.rows = calloc((size_t)args->operands.count, sizeof *benching.rows);
    if (benching.rows == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d problems", args->operands.count);
    gnf_status status = run(&benching);
    free(benching.rows);
    return status;
}
