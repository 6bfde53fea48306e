/* What the library says and when it compiles: log lines, silence, GNFUSE_JIT, kernels that plans share. */
#include "fixture.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 3, COUNT = N * 42 };

static const char problem[] = "f32[*,6,7] | groupnorm(3) | add(r: full)";

/* ---- compiles ---- */

/* The default choice may differ with N; whatever variant was seen before, as choice or as fallback, costs
 * nothing. */
static void test_plans_share_kernels(void **state)
{
    struct log log = LOG_INIT, warm = LOG_INIT;
    char seen[32][64];
    int count = 0;
    long loads = cuda.simulated_calls ? cuda.simulated_calls("cuModuleLoadData") : 0;
    gnf_context *context = open_context(device_context, "share", &log);
    (void)state;
    for (int64_t samples = 1; samples < 200000; samples += 1 + samples / 2) {
        gnf_plan *plan = make_plan(context, problem, samples, NULL);
        const char *const names[] = {plan_info(plan).variant, plan_info(plan).fallback};
        assert_int_equal(plan_info(plan).kernels, 1);
        for (int i = 0, j; i < 2; i++) {
            for (j = 0; j < count && strcmp(seen[j], names[i]); j++)
                ;
            if (j == count)
                snprintf(seen[count++], sizeof seen[0], "%s", names[i]);
        }
        assert_int_equal(log.compiles, count);
        if (cuda.simulated_calls)
            assert_int_equal(cuda.simulated_calls("cuModuleLoadData"), loads + count);
        gnf_plan_destroy(&plan);
    }
    assert_non_null(strstr(log.last, "compiled "));
    gnf_context_destroy(&context);

    context = open_context(device_context, "share", &warm); /* the next process, so to say */
    gnf_plan *plan = make_plan(context, problem, N, NULL);
    assert_int_equal(warm.compiles, 0);
    assert_int_equal(warm.warnings, 0);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

/* Other bounds, another eps and other spatial sizes of the same product are the same kernels. */
static void test_scalars_share_kernels(void **state)
{
    struct log log = LOG_INIT;
    gnf_context *context = open_context(device_context, "scalars", &log);
    gnf_plan *plan = make_plan(context, "f32[1,2,160,161] | groupnorm(1) | clamp(-1, 1)", 0, NULL);
    int first = log.compiles;
    (void)state;
    assert_true(first > 0);
    gnf_plan_destroy(&plan);
    plan = make_plan(context, "f32[2,2,25760] | groupnorm(1, eps=0.01) | clamp(-0.5, 3)", 0, NULL);
    assert_int_equal(log.compiles, first);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

/* Each compile is announced, with its place among all. */
struct announcements {
    int begun, ended;
    char line[8][256];
};
static void announce(void *user, gnf_log_level level, const char *line)
{
    struct announcements *all = user;
    assert_null(strchr(line, '\n'));
    assert_in_range(level, GNF_LOG_ERROR, GNF_LOG_DEBUG);
    if (!strncmp(line, "compiling ", 10) && all->begun < 8)
        snprintf(all->line[all->begun++], sizeof all->line[0], "%s", line);
    all->ended += !strncmp(line, "compiled ", 9);
}

static void test_compiles_are_announced(void **state)
{
    struct announcements all = {0};
    gnf_context *context;
    gnf_context_options options = {.size = sizeof options,
                                   .cuda_context = device_context,
                                   .cache_dir = scratch_path("announced"),
                                   .log = announce,
                                   .log_user = &all,
                                   .log_level = GNF_LOG_DEBUG};
    (void)state;
    assert_ok(gnf_context_create(&context, &options));
    gnf_plan *plan = make_plan(context, problem, N, NULL);
    assert_int_equal(all.begun, 2);
    assert_int_equal(all.ended, 2);
    assert_non_null(strstr(all.line[0], "(1 of 2)"));
    assert_non_null(strstr(all.line[1], "(2 of 2)"));
    assert_non_null(strstr(all.line[0], "gnf_"));
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

static void test_log_levels(void **state)
{
    static const gnf_log_level levels[] = {0, GNF_LOG_ERROR, GNF_LOG_WARNING, GNF_LOG_INFO, GNF_LOG_DEBUG};
    int lines[5];
    char name[32];
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct log log = LOG_INIT;
        gnf_context *context;
        snprintf(name, sizeof name, "level%d", i);
        gnf_context_options options = {.size = sizeof options,
                                       .cuda_context = device_context,
                                       .cache_dir = scratch_path(name),
                                       .log = log_line,
                                       .log_user = &log,
                                       .log_level = levels[i]};
        assert_ok(gnf_context_create(&context, &options));
        gnf_plan *plan = make_plan(context, problem, N, NULL);
        gnf_plan_destroy(&plan);
        gnf_context_destroy(&context);
        lines[i] = log.lines;
    }
    assert_int_equal(lines[0], 0); /* warnings, and there were none */
    assert_int_equal(lines[1], 0);
    assert_int_equal(lines[2], 0);
    assert_true(lines[3] > 0);
    assert_true(lines[4] > lines[3]);
    gnf_context *context;
    gnf_context_options wrong = {.size = sizeof wrong, .cuda_context = device_context, .log_level = 9};
    assert_refused(gnf_context_create(&context, &wrong), GNF_INVALID_ARGUMENT, "log_level");
}

/* ---- GNFUSE_JIT ---- */

static gnf_status plan_with_jit(const char *jit, const char *cache, struct log *log)
{
    gnf_context *context;
    gnf_plan *plan = NULL;
    gnf_context_options options = {.size = sizeof options,
                                   .cuda_context = device_context,
                                   .cache_dir = scratch_path(cache),
                                   .jit = jit,
                                   .log = log_line,
                                   .log_user = log,
                                   .log_level = GNF_LOG_INFO};
    gnf_plan_options plan_options = {.size = sizeof plan_options, .samples = N};
    gnf_status status = gnf_context_create(&context, &options);
    if (status == GNF_OK)
        status = gnf_plan_create(&plan, context, problem, &plan_options);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    return status;
}

static void test_jit_off(void **state)
{
    struct log log = LOG_INIT;
    (void)state;
    assert_refused(plan_with_jit("off", "jit", &log), GNF_NOT_COMPILED, "gnf_");
    assert_int_equal(log.compiles, 0);
    assert_int_equal(access(scratch_path("jit"), F_OK), -1); /* no folder for nothing */
    setenv("GNFUSE_JIT", "off", 1);
    assert_refused(plan_with_jit(NULL, "jit", &log), GNF_NOT_COMPILED, "GNFUSE_JIT");
    assert_ok(plan_with_jit("on", "jit", &log)); /* what is set by call wins */
    assert_int_equal(log.compiles, 2);
    assert_ok(plan_with_jit(NULL, "jit", &log)); /* the cache serves */
    assert_ok(plan_with_jit("off", "jit", &log));
    setenv("GNFUSE_JIT", "maybe", 1);
    assert_refused(plan_with_jit(NULL, "jit", &log), GNF_INVALID_ARGUMENT, "maybe");
    assert_ok(plan_with_jit("off", "jit", &log));
    unsetenv("GNFUSE_JIT");
    assert_refused(plan_with_jit("perhaps", "jit", &log), GNF_INVALID_ARGUMENT, "perhaps");
    assert_int_equal(log.compiles, 2);
    assert_int_equal(log.warnings, 0);
}

/* ---- silence ---- */

/* Puts a file in the place of standard output and standard error. */
struct streams {
    int out, error;
    const char *path;
};
static struct streams divert(void)
{
    struct streams kept = {dup(1), dup(2), scratch_path("said")};
    int file;
    fflush(NULL);
    file = open(kept.path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    assert_true(kept.out >= 0 && kept.error >= 0 && file >= 0);
    dup2(file, 1);
    dup2(file, 2);
    close(file);
    return kept;
}
/* Whatever was written meanwhile. */
static const char *restore(const struct streams *kept)
{
    static char text[65536];
    FILE *file;
    fflush(NULL);
    dup2(kept->out, 1);
    dup2(kept->error, 2);
    close(kept->out);
    close(kept->error);
    file = fopen(scratch_path("said"), "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* All kinds of success and failure, a cache that cannot be made included. Counts what is not as it should be.
 */
static int do_everything(void)
{
    static const char *const wrong[] = {"f32[2,4,9] | groupnorm(3)", "f32[2,4",
                                        "f32[2,4,9] | groupnorm(2) | elu"};
    const char *const caches[] = {"silent", "file/beyond"};
    int surprises = 0;
    gnf_context *context;
    gnf_plan *plan;
    for (int i = 0; i < 2; i++) {
        gnf_context_options options = {
            .size = sizeof options, .cuda_context = device_context, .cache_dir = scratch_path(caches[i])};
        gnf_plan_options plan_options = {.size = sizeof plan_options, .samples = N};
        surprises += gnf_context_create(&context, &options) != GNF_OK;
        surprises += gnf_plan_create(&plan, context, problem, &plan_options) != GNF_OK;
        gnf_arguments arguments = {.size = sizeof arguments};
        surprises += gnf_execute(plan, &arguments, NULL) != GNF_INVALID_ARGUMENT;
        gnf_plan_destroy(&plan);
        for (int j = 0; j < 3; j++)
            surprises += gnf_plan_create(&plan, context, wrong[j], NULL) == GNF_OK;
        surprises += gnf_context_load_pack(context, "/nonexistent") != GNF_IO;
        gnf_context_destroy(&context);
    }
    gnf_context_options options = {.size = sizeof options, .driver = "/nonexistent/libcuda.so.1"};
    surprises += gnf_context_create(&context, &options) != GNF_NO_DRIVER;
    return surprises;
}

static void test_silence(void **state)
{
    (void)state;
    unsetenv("GNFUSE_LOG");
    fclose(fopen(scratch_path("file"), "w"));
    struct streams kept = divert();
    int surprises = do_everything();
    const char *said = restore(&kept);
    assert_string_equal(said, "");
    assert_int_equal(surprises, 0);
}

static void test_log_on_standard_error(void **state)
{
    (void)state;
    setenv("GNFUSE_LOG", "info", 1);
    struct streams kept = divert();
    int surprises = do_everything();
    const char *said = restore(&kept);
    unsetenv("GNFUSE_LOG");
    assert_int_equal(surprises, 0);
    assert_non_null(strstr(said, "gnfuse: info: compiling gnf_"));
    assert_non_null(strstr(said, "gnfuse: warning: "));
    assert_non_null(strstr(said, "GNFUSE_CACHE_DIR"));
    for (const char *line = said; *line; line = strchr(line, '\n') + 1)
        assert_int_equal(strncmp(line, "gnfuse: ", 8), 0);
    setenv("GNFUSE_LOG", "loud", 1);
    gnf_context *context;
    assert_refused(gnf_context_create(&context, NULL), GNF_INVALID_ARGUMENT, "loud");
    unsetenv("GNFUSE_LOG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_share_kernels),
        cmocka_unit_test(test_scalars_share_kernels),
        cmocka_unit_test(test_compiles_are_announced),
        cmocka_unit_test(test_log_levels),
        cmocka_unit_test(test_jit_off),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_log_on_standard_error),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, group_setup, group_teardown);
}
