/* gnf_tune() with the gnfuse program itself, on the simulator's clock: what is measured, what plans make of
 * it, and that nothing of the caller's is touched. */
#include "fixture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Rows H21 and H23 of the cases: tanh, hardswish and a residual in place, 0 to 7 in each group. */
static const char problem[] = "f32[*,4,4] | groupnorm(2) | tanh | hardswish | add(r: full)";
enum { N = 3, COUNT = N * 16, MOST = 64 };
static const gnf_tune_options three = {.size = sizeof three, .samples = N};

static char names[MOST][64];
static int count;
static char default_name[64];
static unsigned default_kernels;

static int setup(void **state)
{
    if (group_setup(state))
        return -1;
    setenv("GNFUSE_DB", scratch_path("none.jsonl"), 1);
    gnf_context *context = open_context(device_context, "cache", NULL);
    count = list_variants(context, problem, N, names, MOST);
    gnf_plan *plan = make_plan(context, problem, N, NULL);
    snprintf(default_name, sizeof default_name, "%s", plan_info(plan).variant);
    default_kernels = plan_info(plan).kernels;
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    return 0;
}

/* With a database of its own. */
static gnf_context *open_with(const char *db, struct log *log)
{
    setenv("GNFUSE_DB", scratch_path(db), 1);
    return open_context(device_context, "cache", log);
}

/* The first kernel's entry, out of the log of its compile. */
static void take_entry(void *user, gnf_log_level level, const char *line)
{
    char *entry = user;
    (void)level;
    if (!*entry && sscanf(line, "compiling %127s", entry) != 1)
        *entry = '\0';
}

static void entry_of(const char *variant, char entry[128])
{
    static int number;
    char cache[32];
    gnf_context *context;
    snprintf(cache, sizeof cache, "entry%d", number++);
    gnf_context_options options = {.size = sizeof options,
                                   .cuda_context = device_context,
                                   .cache_dir = scratch_path(cache),
                                   .log = take_entry,
                                   .log_user = entry,
                                   .log_level = GNF_LOG_INFO};
    *entry = '\0';
    assert_ok(gnf_context_create(&context, &options));
    gnf_plan *plan = make_plan(context, problem, N, variant);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    assert_int_equal(strncmp(entry, "gnf_", 4), 0);
}

/* One of a single kernel that is not the default. */
static const char *some_variant(int which)
{
    gnf_context *context = open_with("none.jsonl", NULL);
    gnf_variant_info info = {.size = sizeof info};
    const char *found = NULL;
    for (int i = 0; i < count && !found; i++) {
        assert_ok(gnf_get_variant(context, problem, i, &info));
        if (info.kernels == 1 && strcmp(names[i], default_name) && which-- == 0)
            found = names[i];
    }
    gnf_context_destroy(&context);
    assert_non_null(found);
    return found;
}

/* The child's clock; this process read its own when it opened the driver. */
static void set_clock(const char *rules)
{
    const char *path = scratch_path("clock");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(rules, file);
    fclose(file);
    setenv("CUDASIM_CLOCK", path, 1);
}

/* A clock by which the kernel of `variant` takes 20 us, the others 100, and what else `more` says of it. */
static void favour(const char *variant, const char *more)
{
    char entry[128], rules[512];
    entry_of(variant, entry);
    snprintf(rules, sizeof rules, "skip\ntime * 100\ntime %s 20\n", entry);
    set_clock(rules);
    if (more) {
        size_t length = strlen(rules);
        snprintf(rules + length, sizeof rules - length, more, entry);
        set_clock(rules);
    }
}

static bool is_near(double value, double want)
{
    return fabs(value - want) < 0.1 * want;
}

/* ---- results ---- */

struct calls {
    int count, last_done, total, end_at;
    bool ordered;
    char best[64];
};
static int on_progress(void *user, const gnf_tune_progress *progress)
{
    struct calls *calls = user;
    calls->ordered = (calls->count == 0 || calls->ordered) && progress->done >= calls->last_done;
    calls->count++;
    calls->last_done = progress->done;
    calls->total = progress->total;
    snprintf(calls->best, sizeof calls->best, "%s", progress->best);
    return calls->end_at && progress->done >= calls->end_at;
}

static void test_winner(void **state)
{
    const char *winner = some_variant(0);
    struct calls calls = {0};
    gnf_tune_report report = {.size = sizeof report};
    gnf_tune_options options = three;
    (void)state;
    if (!cuda.simulated_calls)
        skip();
    favour(winner, NULL);
    gnf_context *context = open_with("winner.jsonl", NULL);
    options.progress = on_progress;
    options.progress_user = &calls;
    assert_ok(gnf_tune(context, problem, &options, &report));
    assert_string_equal(report.variant, winner);
    assert_string_equal(report.default_variant, default_name);
    assert_true(is_near(report.time_us, 20));
    assert_true(is_near(report.default_us, 100 * default_kernels));
    assert_int_equal(report.measured + report.failed, count);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.known, 0);
    assert_int_equal(report.complete, 1);
    assert_true(calls.count > 2 && calls.ordered);
    assert_int_equal(calls.total, count);
    assert_string_equal(calls.best, winner);

    gnf_plan *plan = make_plan(context, problem, N, NULL);
    assert_string_equal(plan_info(plan).variant, winner);
    assert_string_equal(plan_info(plan).match, "exact");
    assert_true(is_near(plan_info(plan).recorded_us, 20));
    gnf_plan_destroy(&plan);
    plan = make_plan(context, problem, N, default_name); /* the caller's word is the last one */
    assert_string_equal(plan_info(plan).variant, default_name);
    assert_string_equal(plan_info(plan).match, "named");
    gnf_plan_destroy(&plan);
    plan = make_plan(context, problem, 4 * N, NULL);
    assert_string_equal(plan_info(plan).variant, winner);
    assert_string_equal(plan_info(plan).match, "other batch");
    gnf_plan_destroy(&plan);

    assert_ok(gnf_tune(context, problem, &three, &report)); /* all is known */
    assert_string_equal(report.variant, winner);
    assert_int_equal(report.measured, 0);
    assert_int_equal(report.known, count);
    assert_int_equal(report.complete, 1);
    gnf_context_destroy(&context);

    favour(default_name, NULL); /* the next process, and other times */
    context = open_with("winner.jsonl", NULL);
    plan = make_plan(context, problem, N, NULL);
    assert_string_equal(plan_info(plan).variant, winner);
    gnf_plan_destroy(&plan);
    options = three;
    options.again = 1;
    assert_ok(gnf_tune(context, problem, &options, &report));
    assert_int_equal(report.measured, count);
    assert_string_equal(report.variant, default_name);
    plan = make_plan(context, problem, N, NULL);
    assert_string_equal(plan_info(plan).variant, default_name);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

static void test_list_of_variants(void **state)
{
    gnf_context *context = open_with("none.jsonl", NULL);
    gnf_variant_info info = {.size = sizeof info};
    char part[32];
    (void)state;
    assert_ok(
        gnf_context_load_pack(context, getenv("GNFUSE_PACK_PATH"))); /* once more: each name is there once */
    for (int i = 0; i < count; i++) {
        assert_ok(gnf_get_variant(context, problem, i, &info));
        assert_string_equal(info.name, names[i]);
        assert_int_equal(strncmp(info.name, info.strategy, strlen(info.strategy)), 0);
        assert_true(*info.parameters && info.alignment >= 4 && info.capability >= 50 && info.kernels >= 1);
        gnf_plan *plan = make_plan(context, problem, N, info.name);
        assert_string_equal(plan_info(plan).variant, info.name);
        assert_int_equal(plan_info(plan).shared_bytes, info.shared_bytes);
        assert_int_equal(plan_info(plan).kernels, info.kernels);
        gnf_plan_destroy(&plan);
    }
    snprintf(part, sizeof part, "i = %d", count);
    assert_refused(gnf_get_variant(context, problem, count, &info), GNF_INVALID_ARGUMENT, part);
    assert_refused(gnf_get_variant(context, problem, -1, &info), GNF_INVALID_ARGUMENT, "i = -1");
    assert_refused(gnf_get_variant(context, problem, 0, NULL), GNF_INVALID_ARGUMENT, "info");
    assert_refused(gnf_get_variant(NULL, problem, 0, &info), GNF_INVALID_ARGUMENT, "context");
    assert_refused(gnf_get_variant(context, NULL, 0, &info), GNF_INVALID_ARGUMENT, "problem");
    assert_refused(gnf_get_variant(context, "f32[2,4,9] | groupnorm(3)", 0, &info), GNF_INVALID_PROBLEM, "3");
    assert_refused(gnf_get_variant(context, "bf16[2,4,9] | groupnorm(2) | elu | mish", 0, &info),
                   GNF_NO_KERNEL, "gnfuse-gen");
    info.size = 1;
    assert_refused(gnf_get_variant(context, problem, 0, &info), GNF_INVALID_ARGUMENT, "info.size = 1");
    gnf_context_destroy(&context);
}

/* Whatever the program had started ends with it. */
static void check_that_all_have_ended(void)
{
    for (int i = 0; i < 1000; i++) {
        if (waitpid(-1, NULL, WNOHANG) < 0)
            return;
        usleep(10000);
    }
    fail_msg("a process is still there");
}

static void test_ended_and_resumed(void **state)
{
    struct calls calls = {.end_at = 3};
    gnf_tune_report report = {.size = sizeof report};
    gnf_tune_options options = three;
    (void)state;
    set_clock("skip\ntime * 100\n");
    gnf_context *context = open_with("ended.jsonl", NULL);
    options.progress = on_progress;
    options.progress_user = &calls;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* its children become ours */
    assert_ok(gnf_tune(context, problem, &options, &report));
    check_that_all_have_ended();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    assert_int_equal(report.complete, 0);
    assert_true(report.measured >= 1 && report.measured < count);
    assert_true(*report.variant);
    assert_string_equal(report.default_variant, default_name);
    int kept = report.measured;
    assert_ok(gnf_tune(context, problem, &three, &report));
    assert_int_equal(report.complete, 1);
    assert_true(report.known + report.measured >= count && report.known <= kept);
    gnf_context_destroy(&context);
}

static void test_budget(void **state)
{
    gnf_tune_report report = {.size = sizeof report};
    gnf_tune_options options = three;
    (void)state;
    set_clock("skip\ntime * 100\n");
    options.budget = 1e-60; /* too short for anything */
    gnf_context *context = open_with("budget.jsonl", NULL);
    assert_ok(gnf_tune(context, problem, &options, &report));
    assert_int_equal(report.complete, 0);
    assert_true(report.measured < count);
    assert_string_equal(report.variant, default_name);
    assert_string_equal(report.default_variant, default_name);
    gnf_context_destroy(&context);
}

/* ---- what is the caller's ---- */

static void fill(float *x, float *r)
{
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 8);
        r[i] = 10;
    }
}

/* Once, with y in the place of r. */
static void add_residual(const gnf_plan *plan, const struct tensor *x, const struct tensor *r)
{
    size_t size = gnf_plan_workspace_size(plan);
    struct tensor work = tensor_new(size ? size : 16, 0);
    gnf_arguments arguments = {.size = sizeof arguments,
                               .x = x->at,
                               .y = r->at,
                               .operand = {r->at},
                               .workspace = work.at,
                               .workspace_size = size};
    assert_ok(gnf_execute(plan, &arguments, NULL));
    synchronise();
    tensor_free(&work);
}

/* H21: the first use tunes, and leaves the caller's buffers alone: then the residual is added once. */
static void test_first_use_in_place(void **state)
{
    float x[COUNT], r[COUNT], got[COUNT];
    struct log log = LOG_INIT;
    gnf_plan_options options = {.size = sizeof options, .samples = N, .tune = 1};
    gnf_plan *plan = NULL;
    (void)state;
    set_clock("skip\ntime * 100\n");
    fill(x, r);
    struct tensor in = tensor_of(x, sizeof x, 0), out = tensor_of(r, sizeof r, 0);
    gnf_context *context = open_with("first.jsonl", &log);
    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    assert_string_equal(plan_info(plan).match, "exact");
    assert_int_equal(log.warnings, 0);
    tensor_read(&in, got);
    assert_memory_equal(got, x, sizeof x);
    tensor_read(&out, got);
    assert_memory_equal(got, r, sizeof r);

    add_residual(plan, &in, &out);
    tensor_read(&out, got);
    for (int i = 0; i < COUNT; i += 8) {
        assert_true(fabs(got[i] - 9.683017) < 1e-4);
        assert_true(fabs(got[i + 7] - 10.593017) < 1e-4);
    }
    tensor_read(&in, got);
    assert_memory_equal(got, x, sizeof x);
    tensor_free(&in);
    tensor_free(&out);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);

    /* What is known is not tuned again: this one could not. */
    const char *given = getenv("GNFUSE_PROGRAM");
    char program[4096];
    snprintf(program, sizeof program, "%s", given ? given : "");
    setenv("GNFUSE_PROGRAM", "/nonexistent/gnfuse", 1);
    context = open_with("first.jsonl", &log);
    setenv("GNFUSE_PROGRAM", program, 1);
    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    assert_string_equal(plan_info(plan).match, "exact");
    assert_int_equal(log.warnings, 0);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

/* H23: variants that break the context, or the process, of whoever runs them. */
static void test_broken_variants(void **state)
{
    const char *const rules[] = {"fault %s 700\n", "crash %s\n"};
    float x[COUNT], r[COUNT], got[COUNT];
    (void)state;
    if (!cuda.simulated_calls)
        skip();
    fill(x, r);
    for (int i = 0; i < 2; i++) {
        const char *bad = some_variant(i);
        char db[32];
        gnf_tune_report report = {.size = sizeof report};
        favour(bad, rules[i]); /* it would be the fastest */
        snprintf(db, sizeof db, "broken%d.jsonl", i);
        gnf_context *context = open_with(db, NULL);
        gnf_plan *before = make_plan(context, problem, N, NULL);
        assert_ok(gnf_tune(context, problem, &three, &report));
        assert_int_equal(report.failed, 1);
        assert_int_equal(report.measured, count);
        assert_int_equal(report.complete, 1);
        assert_string_not_equal(report.variant, bad);
        assert_true(is_near(report.time_us, 100));

        struct tensor in = tensor_of(x, sizeof x, 0), out = tensor_of(r, sizeof r, 0);
        add_residual(before, &in, &out); /* this context is as good as new */
        tensor_read(&out, got);
        assert_true(fabs(got[0] - 9.683017) < 1e-4);
        gnf_plan *after = make_plan(context, problem, N, NULL);
        assert_string_equal(plan_info(after).match, "exact");
        assert_string_not_equal(plan_info(after).variant, bad);
        add_residual(after, &in, &out);
        tensor_free(&in);
        tensor_free(&out);
        gnf_plan_destroy(&before);
        gnf_plan_destroy(&after);
        gnf_context_destroy(&context);
    }
}

/* ---- failures, threads ---- */

static void test_database_that_cannot_be_written(void **state)
{
    gnf_tune_report report = {.size = sizeof report};
    (void)state;
    fclose(fopen(scratch_path("file"), "w"));
    gnf_context *context = open_with("file/tuned.jsonl", NULL);
    assert_refused(gnf_tune(context, problem, &three, &report), GNF_IO, "file/tuned.jsonl");
    gnf_plan *plan = make_plan(context, problem, N, NULL);
    assert_string_equal(plan_info(plan).match, "default");
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

static void test_no_compiler(void **state)
{
    gnf_context *context;
    gnf_context_options options = {.size = sizeof options,
                                   .cuda_context = device_context,
                                   .cache_dir = scratch_path("empty"),
                                   .nvrtc = "/nonexistent/libnvrtc.so"};
    (void)state;
    setenv("GNFUSE_DB", scratch_path("compiler.jsonl"), 1);
    assert_ok(gnf_context_create(&context, &options));
    assert_refused(gnf_tune(context, problem, &three, NULL), GNF_NO_COMPILER, "/nonexistent/libnvrtc.so");
    gnf_context_destroy(&context);
}

struct task {
    pthread_t thread;
    gnf_context *context;
    gnf_status status;
    char message[256];
    gnf_tune_report report;
};
static void *run(void *user)
{
    struct task *task = user;
    task->report.size = sizeof task->report;
    task->status = gnf_tune(task->context, problem, &three, &task->report);
    if (task->status != GNF_OK)
        strncpy(task->message, gnf_error_message(), sizeof task->message - 1);
    return NULL;
}

static void test_two_threads(void **state)
{
    struct task tasks[2] = {0};
    (void)state;
    set_clock("skip\ntime * 100\n");
    gnf_context *context = open_with("threads.jsonl", NULL);
    for (int i = 0; i < 2; i++) {
        tasks[i].context = context;
        assert_int_equal(pthread_create(&tasks[i].thread, NULL, run, &tasks[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(tasks[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        if (tasks[i].status != GNF_OK)
            fail_msg("thread %d: %s", i, tasks[i].message);
        assert_int_equal(tasks[i].report.complete, 1);
    }
    gnf_plan *plan = make_plan(context, problem, N, NULL);
    assert_string_equal(plan_info(plan).match, "exact");
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_winner),
        cmocka_unit_test(test_list_of_variants),
        cmocka_unit_test(test_ended_and_resumed),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_first_use_in_place),
        cmocka_unit_test(test_broken_variants),
        cmocka_unit_test(test_database_that_cannot_be_written),
        cmocka_unit_test(test_no_compiler),
        cmocka_unit_test(test_two_threads),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, setup, group_teardown);
}
