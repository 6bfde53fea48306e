/* A matrix product in front: weights prepared or not, in graphs, and without cuBLASLt. */
#include "fixture.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INPUTS = 96, OUTPUTS = 64, GROUPS = 8, MOST = 40, REPLAYS = 100 };
static const char problem[] = "f32[*,96] | linear(64) | groupnorm(8) | silu";
static const char split_prepared[] = "fp16x3.s1.", split_each[] = "fp16x3.s1.each.";

static struct {
    float x[MOST * INPUTS], weight[OUTPUTS * INPUTS], bias[OUTPUTS], y[MOST * OUTPUTS];
    double want[MOST * OUTPUTS];
} host;
static struct layer layer;

static void make_layer(void)
{
    fill_random(host.x, MOST * INPUTS, 1);
    fill_random(host.weight, OUTPUTS * INPUTS, 2);
    fill_random(host.bias, OUTPUTS, 3);
    layer = (struct layer){
        .x = tensor_of(host.x, sizeof host.x, 0),
        .weight = tensor_of(host.weight, sizeof host.weight, 0),
        .bias = tensor_of(host.bias, sizeof host.bias, 0),
        .y = tensor_new(sizeof host.y, 0),
    };
}

static void compute(int samples)
{
    static float product[MOST * OUTPUTS];
    for (int n = 0; n < samples; n++)
        for (int c = 0; c < OUTPUTS; c++) {
            double sum = host.bias[c];
            for (int k = 0; k < INPUTS; k++)
                sum += (double)host.x[n * INPUTS + k] * host.weight[c * INPUTS + k];
            product[n * OUTPUTS + c] = (float)sum;
        }
    reference(product, host.want, samples, OUTPUTS, 1, GROUPS);
    for (int i = 0; i < samples * OUTPUTS; i++)
        host.want[i] /= 1 + exp(-host.want[i]);
}

static gnf_plan *plan_layer(gnf_context *context, int samples, int prepared, const char *variant)
{
    gnf_plan *plan;
    gnf_plan_options options = {
        .size = sizeof options, .samples = samples, .prepared = prepared, .variant = variant};
    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    return plan;
}

static void check_result(int samples)
{
    tensor_read(&layer.y, host.y);
    check_close(host.y, host.want, (size_t)(samples * OUTPUTS));
}

/* The first variant whose name begins so, and does not go on with "each." where `prepared`. */
static const char *variant_named(gnf_context *context, const char *prefix, bool prepared)
{
    static char name[128];
    gnf_variant_info info = {.size = sizeof info};
    for (int i = 0; gnf_get_variant(context, problem, i, &info) == GNF_OK; i++) {
        snprintf(name, sizeof name, "%s", info.name);
        size_t length = strlen(prefix);
        if (strncmp(name, prefix, length) == 0 && !(prepared && strncmp(name + length, "each.", 5) == 0))
            return name;
    }
    fail_msg("no variant is called %s...", prefix);
    return NULL;
}

/* Every N that a product is preferred for, by the default rule. */
static void test_prepared_and_given(void **state)
{
    static const int samples[] = {1, 2, 4, 5, 16, 17, 40};
    gnf_context *context = open_context(device_context, "linear", NULL);
    (void)state;
    make_layer();
    compute(MOST);
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        for (int prepared = 0; prepared < 2; prepared++) {
            gnf_plan *plan = plan_layer(context, samples[i], prepared, NULL);
            gnf_arguments arguments = layer_bind(&layer, plan);
            assert_true(prepared || plan_info(plan).prepared_size == 0);
            assert_ok(gnf_execute(plan, &arguments, NULL));
            check_result(samples[i]);
            gnf_plan_destroy(&plan);
        }
    layer_free(&layer);
    gnf_context_destroy(&context);
}

/* One prepared weight for every N, and for variants of one method. */
static void test_one_prepared_weight(void **state)
{
    gnf_context *context = open_context(device_context, "linear", NULL);
    const char *variant = variant_named(context, split_prepared, true);
    (void)state;
    make_layer();
    compute(MOST);
    gnf_plan *first = plan_layer(context, 3, 1, variant);
    gnf_arguments arguments = layer_bind(&layer, first);
    for (int samples = 1; samples <= MOST; samples += 13) {
        gnf_plan *plan = plan_layer(context, samples, 1, variant);
        gnf_plan_info info = plan_info(plan);
        assert_int_equal(info.prepared_size, layer.prepared.bytes);
        struct tensor work = tensor_new(info.workspace_size, 0);
        arguments.workspace = work.at;
        arguments.workspace_size = work.bytes;
        assert_ok(gnf_execute(plan, &arguments, NULL));
        check_result(samples);
        tensor_free(&work);
        gnf_plan_destroy(&plan);
    }
    gnf_plan_destroy(&first);
    layer_free(&layer);
    gnf_context_destroy(&context);
}

static void test_what_is_refused(void **state)
{
    gnf_context *context = open_context(device_context, "linear", NULL);
    const char *variant = variant_named(context, split_prepared, true);
    gnf_plan *plan = NULL;
    gnf_plan_options options = {.size = sizeof options, .samples = 20, .variant = variant};
    (void)state;
    assert_refused(gnf_plan_create(&plan, context, problem, &options), GNF_INVALID_ARGUMENT, "prepared");
    options.prepared = 2;
    assert_refused(gnf_plan_create(&plan, context, problem, &options), GNF_INVALID_ARGUMENT, "prepared = 2");
    options.prepared = 1;
    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    make_layer();
    compute(20);
    gnf_arguments arguments = layer_bind(&layer, plan), bad = arguments;
    size_t size = layer.prepared.bytes;
    CUdeviceptr weight = layer.weight.at, prepared = layer.prepared.at;
    assert_refused(gnf_prepare_weight(plan, 0, prepared, size, NULL), GNF_INVALID_ARGUMENT, "weight is null");
    assert_refused(gnf_prepare_weight(plan, weight + 1, prepared, size, NULL), GNF_INVALID_ARGUMENT,
                   "weight = 0x");
    assert_refused(gnf_prepare_weight(plan, weight, 0, size, NULL), GNF_INVALID_ARGUMENT, "prepared is null");
    assert_refused(gnf_prepare_weight(plan, weight, prepared + 4, size, NULL), GNF_INVALID_ARGUMENT,
                   "prepared = 0x");
    assert_refused(gnf_prepare_weight(plan, weight, prepared, size - 1, NULL), GNF_INVALID_ARGUMENT,
                   "prepared_size = ");
    assert_refused(gnf_prepare_weight(NULL, weight, prepared, size, NULL), GNF_INVALID_ARGUMENT, "plan");
    bad.weight = 0;
    assert_refused(gnf_execute(plan, &bad, NULL), GNF_INVALID_ARGUMENT, "weight is null");
    bad = arguments;
    bad.prepared = 0;
    assert_refused(gnf_execute(plan, &bad, NULL), GNF_INVALID_ARGUMENT, "prepared is null");
    bad = arguments;
    bad.bias += 2;
    assert_refused(gnf_execute(plan, &bad, NULL), GNF_INVALID_ARGUMENT, "bias = 0x");
    bad = arguments;
    bad.y = bad.x;
    assert_refused(gnf_execute(plan, &bad, NULL), GNF_INVALID_ARGUMENT, "overlaps");
    bad = arguments;
    bad.y = bad.weight;
    assert_refused(gnf_execute(plan, &bad, NULL), GNF_INVALID_ARGUMENT, "overlaps");
    tensor_read(&layer.y, host.y);
    assert_true(isnan(host.y[0])); /* nothing was launched */
    arguments.bias = 0;
    memset(host.bias, 0, sizeof host.bias);
    compute(20);
    assert_ok(gnf_execute(plan, &arguments, NULL));
    check_result(20);
    gnf_plan_destroy(&plan);

    /* where nothing is prepared there is nothing to do */
    plan = plan_layer(context, 1, 0, NULL);
    assert_ok(gnf_prepare_weight(plan, weight, 0, 0, NULL));
    gnf_plan_destroy(&plan);
    layer_free(&layer);
    gnf_context_destroy(&context);
}

static const double *next_x(unsigned i)
{
    fill_random(host.x, MOST * INPUTS, 100 + i);
    tensor_write(&layer.x, host.x);
    compute(MOST);
    return host.want;
}

/* H20 with a product in front. */
static void check_graph(gnf_context *context, int prepared, const char *variant, bool run_before)
{
    enum { SAMPLES = 20 };
    const struct replays replays = {.count = REPLAYS, .every = 25, .run_before = run_before, .next = next_x};
    gnf_plan *plan = plan_layer(context, SAMPLES, prepared, variant);
    make_layer();
    check_replays(&layer, plan, SAMPLES * OUTPUTS, &replays);
    layer_free(&layer);
    gnf_plan_destroy(&plan);
}

static void test_replays_equal_eager(void **state)
{
    gnf_context *context = open_context(device_context, "linear", NULL);
    (void)state;
    check_graph(context, 1, variant_named(context, split_prepared, true), false);
    check_graph(context, 0, variant_named(context, split_each, false), true);
    check_graph(context, 0, variant_named(context, "sgemm.", false), true);
    check_graph(context, 0, variant_named(context, "ffma.", false), false);
    gnf_context_destroy(&context);
}

/* A context's first plan with a product has cuBLASLt to load, which a capture forbids; then it may be made,
 * and the weight prepared, in one. */
static void test_first_plan_in_a_capture(void **state)
{
    enum { SAMPLES = 20 };
    gnf_context *context = open_context(device_context, "linear capture", NULL);
    char variant[128];
    gnf_plan *plan;
    CUstream stream;
    (void)state;
    snprintf(variant, sizeof variant, "%s", variant_named(context, split_prepared, true));
    make_layer();
    compute(SAMPLES);
    assert_int_equal(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    gnf_plan_options options = {
        .size = sizeof options, .samples = SAMPLES, .variant = variant, .prepared = 1, .stream = stream};
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_refused(gnf_plan_create(&plan, context, problem, &options), GNF_NOT_PREPARED, "captur");
    CUgraphExec empty = end_capture(stream);
    assert_int_equal(cuda.cuGraphExecDestroy(empty), CUDA_SUCCESS);

    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    const gnf_arguments arguments = layer_arguments(&layer, plan);
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(gnf_prepare_weight(plan, layer.weight.at, layer.prepared.at, layer.prepared.bytes, stream));
    assert_ok(gnf_execute(plan, &arguments, stream));
    CUgraphExec exec = end_capture(stream);
    assert_int_equal(cuda.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
    check_result(SAMPLES);
    assert_int_equal(cuda.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamDestroy(stream), CUDA_SUCCESS);
    layer_free(&layer);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

/* Own kernels take over, with one warning a context; a variant that cannot do without it is a status. */
static void test_without_cublaslt(void **state)
{
    struct log log = LOG_INIT;
    gnf_context *context;
    gnf_context_options options = {
        .size = sizeof options,
        .cuda_context = device_context,
        .cache_dir = scratch_path("linear"),
        .log = log_line,
        .log_user = &log,
        .cublaslt = "/nonexistent/libcublasLt.so.13",
    };
    (void)state;
    assert_ok(gnf_context_create(&context, &options));
    make_layer();
    compute(MOST);
    assert_int_equal(log.warnings, 0);
    for (int round = 0; round < 2; round++) {
        gnf_plan *plan = plan_layer(context, MOST, 0, NULL);
        gnf_arguments arguments = layer_bind(&layer, plan);
        assert_true(strncmp(plan_info(plan).variant, "ffma.", 5) == 0);
        assert_ok(gnf_execute(plan, &arguments, NULL));
        check_result(MOST);
        gnf_plan_destroy(&plan);
        assert_int_equal(log.warnings, 1);
        assert_non_null(strstr(log.last, "/nonexistent/libcublasLt.so.13"));
    }
    gnf_plan *plan;
    gnf_plan_options named = {.size = sizeof named, .samples = MOST, .prepared = 1};
    named.variant = variant_named(context, "sgemm.", false);
    assert_refused(gnf_plan_create(&plan, context, problem, &named), GNF_NO_CUBLAS, "cuBLASLt");
    layer_free(&layer);
    gnf_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepared_and_given),      cmocka_unit_test(test_one_prepared_weight),
        cmocka_unit_test(test_what_is_refused),         cmocka_unit_test(test_replays_equal_eager),
        cmocka_unit_test(test_first_plan_in_a_capture), cmocka_unit_test(test_without_cublaslt),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, group_setup, group_teardown);
}
