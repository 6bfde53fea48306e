/* Kernels of a context: captured streams, cached and refused images, an NVRTC that changes, sources that do
 * not compile, threads. Arguments: a stub of NVRTC. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "plan_fixture.h"

static const char *stub;

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
        assert_int_equal(compiles, 0);
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

/* The record of the compiler is right about the file that it names, and another one is found all the same (a
 * path before it on the search, for instance): what that one makes must not be taken for the first one's. */
static void another_nvrtc(void **state)
{
    static const char other[] = "f32[3,6] | groupnorm(3) | tanh";
    gnf_context *context;
    gnf_plan *plan;
    (void)state;
    clear_cache();
    setenv("STUB_NVRTC_ARCHS", "90", 1);
    setenv("STUB_NVRTC_VERSION", "12040", 1);
    context = open_context(stub, true);
    plan = plan_for(context, text, NULL);
    assert_int_equal(compiles, 2);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);

    setenv("STUB_NVRTC_VERSION", "13000", 1);
    context = open_context(stub, true);
    plan = plan_for(context, text, NULL); /* out of the cache, NVRTC is not asked */
    assert_int_equal(context->target.nvrtc, 12040);
    gnf_plan_destroy(&plan);
    plan = plan_for(context, other, NULL);
    assert_int_equal(context->target.nvrtc, 13000);
    assert_int_equal(compiles, 1);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);

    context = open_context(stub, false);
    plan = plan_for(context, other, NULL);
    assert_int_equal(context->target.nvrtc, 13000);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    unsetenv("STUB_NVRTC_ARCHS");
    unsetenv("STUB_NVRTC_VERSION");
}

static int give_to_nobody(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return chown(path, 65534, (gid_t)-1);
}

/* The same where the record cannot be replaced. */
static void another_nvrtc_read_only(void **state)
{
    (void)state;
    bool root = geteuid() == 0; /* whom no mode stops */
    clear_cache();
    setenv("STUB_NVRTC_ARCHS", "90", 1);
    setenv("STUB_NVRTC_VERSION", "12040", 1);
    gnf_context *context = open_context(stub, true);
    gnf_plan *plan = plan_for(context, text, NULL);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);

    setenv("STUB_NVRTC_VERSION", "13000", 1);
    context = open_context(stub, true);
    assert_true(have_nvrtc(context));
    assert_int_equal(chmod(folder, 0555), 0);
    assert_int_equal(root ? nftw(folder, give_to_nobody, 8, FTW_PHYS) + seteuid(65534) : 0, 0);
    plan = plan_for(context, "f32[3,6] | groupnorm(3) | tanh", NULL);
    assert_int_equal(root ? seteuid(0) : 0, 0);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(root ? chown(folder, 0, (gid_t)-1) : 0, 0);
    assert_int_equal(context->target.nvrtc, 13000);
    assert_int_equal(compiles, 1);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    unsetenv("STUB_NVRTC_ARCHS");
    unsetenv("STUB_NVRTC_VERSION");
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

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capture),       cmocka_unit_test(cached_images),
        cmocka_unit_test(another_nvrtc), cmocka_unit_test(another_nvrtc_read_only),
        cmocka_unit_test(broken_source), cmocka_unit_test(many_threads),
    };
    stub = count > 1 ? arguments[1] : NULL;
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
