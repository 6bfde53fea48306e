/* Plans with `tune`: when the program is started, which is this test again (fake_tuner.c), and when not. */
#include "fake_tuner.h"
#include "tuning.h"
#include <stdio.h>
#include <string.h>

static gnf_status create(gnf_context *context, int64_t samples, gnf_plan_options options)
{
    gnf_plan *plan = NULL;
    options.size = sizeof options;
    options.samples = samples;
    gnf_status status = gnf_plan_create(&plan, context, problem, &options);
    gnf_plan_destroy(&plan);
    return status;
}

static int started(void)
{
    return count_said("argument tune\n");
}

static void test_once_for_a_problem(void **state)
{
    gnf_context *context = open_context(device_context, "cache", NULL);
    (void)state;
    tuning_way("good");
    assert_ok(create(context, 3, (gnf_plan_options){0}));
    assert_int_equal(started(), 0);
    assert_ok(create(context, 3, (gnf_plan_options){.tune = 1, .tune_budget = 1.5}));
    assert_int_equal(started(), 1);
    assert_int_equal(count_said("argument --budget\nargument 1.5\n"), 1);
    assert_int_equal(count_said("argument f32[3,6,7] | groupnorm(3) | add(r: full)\n"), 1);
    /* The fake program wrote no record, and is not asked again all the same. */
    assert_ok(create(context, 3, (gnf_plan_options){.tune = 1}));
    assert_ok(create(context, 3, (gnf_plan_options){.tune = 1, .alignment = 4}));
    assert_int_equal(started(), 1);
    assert_ok(create(context, 4, (gnf_plan_options){.tune = 1}));
    assert_int_equal(started(), 2);
    assert_ok(gnf_tune(context, problem, &plain, NULL)); /* what is asked for by call is always done */
    assert_int_equal(started(), 3);
    gnf_context_destroy(&context);
}

static void test_not_for_nothing(void **state)
{
    char names[64][64];
    struct log log = LOG_INIT;
    gnf_context *context = open_context(device_context, "cache", &log);
    gnf_plan *plan = NULL;
    gnf_plan_options options = {.size = sizeof options, .tune = 1};
    (void)state;
    tuning_way("good");
    list_variants(context, problem, 3, names, 64);
    assert_ok(create(context, 3, (gnf_plan_options){.tune = 1, .variant = names[0]}));
    assert_ok(gnf_plan_create(&plan, context, "f32[0,6,7] | groupnorm(3) | add(r: full)", &options));
    gnf_plan_destroy(&plan);
    assert_refused(create(context, 3, (gnf_plan_options){.tune = 1, .tune_budget = -1}), GNF_INVALID_ARGUMENT,
                   "tune_budget = -1");
    assert_refused(create(context, 3, (gnf_plan_options){.tune = 2}), GNF_INVALID_ARGUMENT, "tune = 2");
    assert_refused(create(context, 3, (gnf_plan_options){.tune = 1, .alignment = 3}), GNF_INVALID_ARGUMENT,
                   "alignment");
    assert_int_equal(started(), 0);
    assert_int_equal(log.warnings, 0);
    gnf_context_destroy(&context);
}

/* A failure costs a warning, once, and the plan is made. */
static void test_failure(void **state)
{
    struct log log = LOG_INIT;
    gnf_context *context = open_context(device_context, "cache", &log);
    (void)state;
    tuning_way("error");
    assert_ok(create(context, 3, (gnf_plan_options){0})); /* compiles */
    assert_int_equal(log.warnings, 0);
    assert_ok(create(context, 3, (gnf_plan_options){.tune = 1}));
    assert_int_equal(log.warnings, 1);
    assert_non_null(strstr(log.last, "libnvrtc is out fishing"));
    assert_ok(create(context, 3, (gnf_plan_options){.tune = 1}));
    assert_int_equal(log.warnings, 1);
    assert_int_equal(started(), 1);
    gnf_context_destroy(&context);
}

static void test_not_while_capturing(void **state)
{
    CUstream stream;
    CUgraph graph;
    CUstreamCaptureStatus capture;
    gnf_context *context = open_context(device_context, "cache", NULL);
    (void)state;
    tuning_way("good");
    assert_ok(create(context, 3, (gnf_plan_options){0})); /* loads what the next ones need */
    assert_int_equal(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    gnf_status status = create(context, 3, (gnf_plan_options){.tune = 1, .stream = stream});
    assert_int_equal(cuda.cuStreamIsCapturing(stream, &capture), CUDA_SUCCESS);
    assert_int_equal(capture, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(cuda.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    cuda.cuGraphDestroy(graph);
    assert_ok(status);
    assert_int_equal(started(), 0);
    assert_ok(create(context, 3, (gnf_plan_options){.tune = 1, .stream = stream})); /* now it may */
    assert_int_equal(started(), 1);
    cuda.cuStreamDestroy(stream);
    gnf_context_destroy(&context);
}

struct first_use {
    gnf_context *context;
    pthread_t thread;
    gnf_status status;
    double seconds;
};
static void *plan_in_a_thread(void *user)
{
    struct first_use *use = user;
    double begin = now_s();
    use->status = create(use->context, 3, (gnf_plan_options){.tune = 1});
    use->seconds = now_s() - begin;
    return NULL;
}

/* The second waits for the first. */
static void test_two_threads(void **state)
{
    struct first_use uses[2];
    gnf_context *context = open_context(device_context, "cache", NULL);
    (void)state;
    tuning_way("slow");
    for (int i = 0; i < 2; i++) {
        uses[i].context = context;
        assert_int_equal(pthread_create(&uses[i].thread, NULL, plan_in_a_thread, &uses[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(uses[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uses[i].status, GNF_OK);
        assert_true(uses[i].seconds > 0.5);
    }
    assert_int_equal(started(), 1);
    gnf_context_destroy(&context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once_for_a_problem),
        cmocka_unit_test(test_not_for_nothing),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_not_while_capturing),
        cmocka_unit_test(test_two_threads),
    };
    if (argc > 1 && !strcmp(argv[1], "tune"))
        return fake_tuner(argc, argv);
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, tuning_setup, tuning_teardown);
}
