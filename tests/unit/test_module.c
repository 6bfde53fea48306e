/* Kernels of a context: captured streams, cached and refused images, sources that do not compile, threads. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "plan_fixture.h"

static void capture(void **state)
{
    (void)state;
    OPEN_OR_SKIP(context)
    gnf_plan *plan;
    gnf_plan_options options = {.size = sizeof options, .stream = stream};
    fake.capturing = 1;
    expect(gnf_plan_create(&plan, context, text, &options), GNF_NOT_PREPARED, "k_a");
    assert_int_equal(fake.calls + compiles, 0);
    fake.capturing = 0;
    plan = plan_for(context, text, &options);
    gnf_plan_destroy(&plan);
    fake.capturing = 1;
    int calls = fake.calls;
    options.samples = 1000;
    plan = plan_for(context, text, &options); /* everything is ready */
    assert_int_equal(fake.calls, calls);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

static void cached_images(void **state)
{
    (void)state;
    OPEN_OR_SKIP(context)
    gnf_plan *plan;
    gnf_context_destroy(&context);
    /* nothing is cached yet */
    context = open_context("/nonexistent/libnvrtc.so", false);
    expect(gnf_plan_create(&plan, context, text, NULL), GNF_NOT_COMPILED, "k_a");
    gnf_context_destroy(&context);
    context = open_context(NULL, true);
    plan = plan_for(context, text, NULL);
    assert_int_equal(compiles, 2);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    /* without NVRTC, and without leave to compile, what is cached still runs */
    for (int jit = 0; jit < 2; jit++) {
        context = open_context("/nonexistent/libnvrtc.so", jit);
        plan = plan_for(context, text, NULL);
        assert_int_equal(fake.loads, 2);
        gnf_plan_destroy(&plan);
        gnf_plan_options options = {.size = sizeof options, .variant = "split.v4"};
        expect(gnf_plan_create(&plan, context, "f32[3,6] | groupnorm(3) | tanh", NULL),
               jit ? GNF_NO_COMPILER : GNF_NOT_COMPILED, jit ? "/nonexistent/libnvrtc.so" : "k_c");
        plan = plan_for(context, text, &options); /* the same sources */
        gnf_plan_destroy(&plan);
        assert_int_equal(compiles, jit);
        gnf_context_destroy(&context);
    }
    /* an image that the driver refuses is made again, once */
    context = open_context(NULL, true);
    fake.refuse = 1;
    plan = plan_for(context, text, NULL);
    assert_int_equal(compiles, 1);
    assert_int_equal(warnings, 1);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    context = open_context(NULL, true);
    fake.refuse = 2;
    expect(gnf_plan_create(&plan, context, text, NULL), GNF_DRIVER_ERROR, "k_a");
    assert_int_equal(compiles, 1);
    gnf_context_destroy(&context);
}

static void broken_source(void **state)
{
    (void)state;
    OPEN_OR_SKIP(context)
    gnf_plan *plan;
    for (int i = 1; i <= 2; i++) {
        expect(gnf_plan_create(&plan, context, "f32[3,6] | groupnorm(3) | tanh", NULL), GNF_COMPILE_FAILED,
               "error");
        assert_int_equal(compiles, i);
    }
    gnf_context_destroy(&context);
}

static void *create_in_thread(void *context)
{
    gnf_plan *plan;
    for (int i = 0; i < 20; i++) {
        if (gnf_plan_create(&plan, context, text, NULL) != GNF_OK)
            return (void *)1;
        gnf_plan_destroy(&plan);
    }
    return fake_current ? (void *)1 : NULL;
}

static void many_threads(void **state)
{
    pthread_t threads[8];
    void *failed;
    (void)state;
    OPEN_OR_SKIP(context)
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, create_in_thread, context), 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(compiles, 2);
    assert_int_equal(fake.loads, 2);
    gnf_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capture),
        cmocka_unit_test(cached_images),
        cmocka_unit_test(broken_source),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
