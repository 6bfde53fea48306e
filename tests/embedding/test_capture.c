/* H20: plans in graph captures. */
#include "fixture.h"
#include <math.h>

enum { REPLAYS = 100, N = 3 };

static const char problem[] = "f32[*,6,7] | groupnorm(3) | add(r: full)";
static const char split_problem[] = "f32[*,2,160,161] | groupnorm(1) | clamp(-1, 1)";

static bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status;
    assert_int_equal(cuda.cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static float input[N * 51520];
static struct layer layer;

static const double *next_x(unsigned i)
{
    fill_random(input, layer.x.bytes / sizeof *input, 100 + i);
    tensor_write(&layer.x, input);
    return NULL;
}

static void check_plan(const char *text, const char *variant, size_t elements)
{
    const struct replays replays = {.count = REPLAYS, .every = 10, .run_before = true, .next = next_x};
    size_t bytes = N * elements * sizeof *input;
    gnf_context *context = open_context(device_context, "cache", NULL);
    gnf_plan *plan = make_plan(context, text, N, variant);
    fill_random(input, N * elements, 1);
    layer = (struct layer){
        .x = tensor_of(input, bytes, 0),
        .operand = tensor_of(input, bytes, 0),
        .y = tensor_new(bytes, 0),
    };
    check_replays(&layer, plan, N * elements, &replays);
    layer_free(&layer);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

static void test_replays_equal_eager(void **state)
{
    (void)state;
    check_plan(problem, NULL, 42);
    check_plan(split_problem, "split.t256.v4.i8.l1.c4096", 51520);
}

/* The first plan in a capture is refused, the capture goes on and takes a plan made before. */
static void test_first_plan_in_a_capture(void **state)
{
    float x[N * 42], y[N * 42];
    struct log log = LOG_INIT;
    gnf_context *context = open_context(device_context, "capture", &log);
    struct tensor dx = tensor_new(sizeof x, 0), dy = tensor_new(sizeof y, 0);
    gnf_plan *plan, *prepared;
    CUstream stream;
    gnf_arguments arguments = {.size = sizeof arguments, .x = dx.at, .y = dy.at, .operand = {dx.at}};
    const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                         CU_STREAM_CAPTURE_MODE_RELAXED};
    (void)state;
    fill_random(x, N * 42, 3);
    tensor_write(&dx, x);
    assert_int_equal(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    gnf_plan_options options = {.size = sizeof options, .samples = N, .stream = stream};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cuda.cuStreamBeginCapture(stream, modes[i]), CUDA_SUCCESS);
        assert_refused(gnf_plan_create(&plan, context, problem, &options), GNF_NOT_PREPARED, "captur");
        assert_null(plan);
        assert_true(is_capturing(stream));
        CUgraphExec empty = end_capture(stream);
        assert_int_equal(cuda.cuGraphExecDestroy(empty), CUDA_SUCCESS);
    }
    assert_int_equal(log.compiles, 0);
    assert_ok(gnf_plan_create(&prepared, context, problem, &options));
    assert_true(log.compiles > 0);

    /* its kernels are loaded: now a capture may make plans, for another N too */
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    options.samples = N + 1;
    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    gnf_plan_destroy(&plan);
    assert_refused(gnf_plan_create(&plan, context, split_problem, &options), GNF_NOT_PREPARED, "captur");
    assert_ok(gnf_execute(prepared, &arguments, stream));
    arguments.x += 2;
    assert_refused(gnf_execute(prepared, &arguments, stream), GNF_INVALID_ARGUMENT, "x = 0x");
    CUgraphExec exec = end_capture(stream);
    tensor_read(&dy, y);
    assert_true(isnan(y[0])); /* captured, not run */
    assert_int_equal(cuda.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
    tensor_read(&dy, y);
    assert_false(isnan(y[0]));
    assert_int_equal(cuda.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamDestroy(stream), CUDA_SUCCESS);
    tensor_free(&dx);
    tensor_free(&dy);
    gnf_plan_destroy(&prepared);
    gnf_context_destroy(&context);
}

/* The pointers of the day are worse than planned, for the first time, in a capture: nothing is loaded then.
 */
static void test_fallback_in_a_capture(void **state)
{
    float x[N * 42], y[N * 42];
    double want[N * 42];
    gnf_context *context = open_context(device_context, "fallback", NULL);
    gnf_plan *plan = make_plan(context, problem, N, NULL);
    CUstream stream;
    (void)state;
    fill_random(x, N * 42, 4);
    reference(x, want, N, 6, 7, 3);
    for (int i = 0; i < N * 42; i++)
        want[i] += x[i];
    struct tensor dx = tensor_of(x, sizeof x, 4), dy = tensor_new(sizeof y, 12);
    gnf_arguments arguments = {.size = sizeof arguments, .x = dx.at, .y = dy.at, .operand = {dx.at}};
    assert_int_equal(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(gnf_execute(plan, &arguments, stream));
    CUgraphExec exec = end_capture(stream);
    assert_int_equal(cuda.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
    tensor_read(&dy, y);
    check_close(y, want, N * 42);
    assert_int_equal(cuda.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamDestroy(stream), CUDA_SUCCESS);
    tensor_free(&dx);
    tensor_free(&dy);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replays_equal_eager),
        cmocka_unit_test(test_first_plan_in_a_capture),
        cmocka_unit_test(test_fallback_in_a_capture),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, group_setup, group_teardown);
}
