/* A matrix product in front: weights prepared or not, in graphs, and without cuBLASLt. */
#include "fixture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 96, OUTPUTS = 64, GROUPS = 8, MOST = 40, REPLAYS = 100 };
static const char problem[] = "f32[*,96] | linear(64) | groupnorm(8) | silu";
static const char split_prepared[] = "fp16x3.s1.", split_each[] = "fp16x3.s1.each.";

/* A layer's tensors, on the host and on the device. */
struct layer {
    float x[MOST * INPUTS], weight[OUTPUTS * INPUTS], bias[OUTPUTS], y[MOST * OUTPUTS];
    double want[MOST * OUTPUTS];
    struct tensor dx, dweight, dbias, dy, work, prepared;
};

static void make_layer(struct layer *layer)
{
    fill_random(layer->x, MOST * INPUTS, 1);
    fill_random(layer->weight, OUTPUTS * INPUTS, 2);
    fill_random(layer->bias, OUTPUTS, 3);
    layer->dx = tensor_of(layer->x, sizeof layer->x, 0);
    layer->dweight = tensor_of(layer->weight, sizeof layer->weight, 0);
    layer->dbias = tensor_of(layer->bias, sizeof layer->bias, 0);
    layer->dy = tensor_new(sizeof layer->y, 0);
    layer->work = layer->prepared = (struct tensor){0};
}

static void free_tensor(struct tensor *tensor)
{
    if (tensor->at)
        tensor_free(tensor);
}

static void free_layer(struct layer *layer)
{
    free_tensor(&layer->dx);
    free_tensor(&layer->dweight);
    free_tensor(&layer->dbias);
    free_tensor(&layer->dy);
    free_tensor(&layer->work);
    free_tensor(&layer->prepared);
}

static void compute(struct layer *layer, int samples)
{
    static float product[MOST * OUTPUTS];
    for (int n = 0; n < samples; n++)
        for (int c = 0; c < OUTPUTS; c++) {
            double sum = layer->bias[c];
            for (int k = 0; k < INPUTS; k++)
                sum += (double)layer->x[n * INPUTS + k] * layer->weight[c * INPUTS + k];
            product[n * OUTPUTS + c] = (float)sum;
        }
    reference(product, layer->want, samples, OUTPUTS, 1, GROUPS);
    for (int i = 0; i < samples * OUTPUTS; i++)
        layer->want[i] /= 1 + exp(-layer->want[i]);
}

static gnf_plan *plan_layer(gnf_context *context, int samples, int prepared, const char *variant)
{
    gnf_plan *plan;
    gnf_plan_options options = {
        .size = sizeof options, .samples = samples, .prepared = prepared, .variant = variant};
    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    return plan;
}

/* Workspace and prepared weight as the plan wants them. */
static gnf_arguments bind(struct layer *layer, const gnf_plan *plan)
{
    gnf_plan_info info = plan_info(plan);
    free_tensor(&layer->work);
    free_tensor(&layer->prepared);
    if (info.workspace_size)
        layer->work = tensor_new(info.workspace_size, 0);
    if (info.prepared_size) {
        layer->prepared = tensor_new(info.prepared_size, 0);
        assert_ok(
            gnf_prepare_weight(plan, layer->dweight.at, layer->prepared.at, layer->prepared.bytes, NULL));
    }
    return (gnf_arguments){
        .size = sizeof(gnf_arguments),
        .x = layer->dx.at,
        .y = layer->dy.at,
        .weight = layer->dweight.at,
        .bias = layer->dbias.at,
        .workspace = layer->work.at,
        .workspace_size = info.workspace_size,
        .prepared = layer->prepared.at,
    };
}

static void check_result(struct layer *layer, int samples)
{
    tensor_read(&layer->dy, layer->y);
    check_close(layer->y, layer->want, (size_t)(samples * OUTPUTS));
}

static struct layer layer;

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
    make_layer(&layer);
    compute(&layer, MOST);
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        for (int prepared = 0; prepared < 2; prepared++) {
            gnf_plan *plan = plan_layer(context, samples[i], prepared, NULL);
            gnf_arguments arguments = bind(&layer, plan);
            assert_true(prepared || plan_info(plan).prepared_size == 0);
            assert_ok(gnf_execute(plan, &arguments, NULL));
            check_result(&layer, samples[i]);
            gnf_plan_destroy(&plan);
        }
    free_layer(&layer);
    gnf_context_destroy(&context);
}

/* One prepared weight for every N, and for variants of one method. */
static void test_one_prepared_weight(void **state)
{
    gnf_context *context = open_context(device_context, "linear", NULL);
    const char *variant = variant_named(context, split_prepared, true);
    (void)state;
    make_layer(&layer);
    compute(&layer, MOST);
    gnf_plan *first = plan_layer(context, 3, 1, variant);
    bind(&layer, first);
    for (int samples = 1; samples <= MOST; samples += 13) {
        gnf_plan *plan = plan_layer(context, samples, 1, variant);
        gnf_plan_info info = plan_info(plan);
        assert_int_equal(info.prepared_size, layer.prepared.bytes);
        struct tensor work = tensor_new(info.workspace_size, 0);
        gnf_arguments arguments = {
            .size = sizeof arguments,
            .x = layer.dx.at,
            .y = layer.dy.at,
            .weight = layer.dweight.at,
            .bias = layer.dbias.at,
            .workspace = work.at,
            .workspace_size = work.bytes,
            .prepared = layer.prepared.at,
        };
        assert_ok(gnf_execute(plan, &arguments, NULL));
        check_result(&layer, samples);
        tensor_free(&work);
        gnf_plan_destroy(&plan);
    }
    gnf_plan_destroy(&first);
    free_layer(&layer);
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
    make_layer(&layer);
    compute(&layer, 20);
    gnf_arguments arguments = bind(&layer, plan), bad = arguments;
    size_t size = layer.prepared.bytes;
    CUdeviceptr weight = layer.dweight.at, prepared = layer.prepared.at;
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
    tensor_read(&layer.dy, layer.y);
    assert_true(isnan(layer.y[0])); /* nothing was launched */
    arguments.bias = 0;
    memset(layer.bias, 0, sizeof layer.bias);
    compute(&layer, 20);
    assert_ok(gnf_execute(plan, &arguments, NULL));
    check_result(&layer, 20);
    gnf_plan_destroy(&plan);

    /* where nothing is prepared there is nothing to do */
    plan = plan_layer(context, 1, 0, NULL);
    assert_ok(gnf_prepare_weight(plan, weight, 0, 0, NULL));
    gnf_plan_destroy(&plan);
    free_layer(&layer);
    gnf_context_destroy(&context);
}

static CUgraphExec end_capture(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    assert_int_equal(cuda.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    return exec;
}

/* H20 with a product in front: captured, replayed with another x each time, equal to eager bit for bit, and
 * no memory grows. The first execution of all may be the captured one. */
static void check_replays(gnf_context *context, int prepared, const char *variant, bool run_before)
{
    enum { SAMPLES = 20, COUNT = SAMPLES * OUTPUTS };
    static float eager[MOST * OUTPUTS], replayed[MOST * OUTPUTS];
    size_t before, after, total;
    CUstream stream;
    make_layer(&layer);
    gnf_plan *plan = plan_layer(context, SAMPLES, prepared, variant);
    gnf_arguments arguments = bind(&layer, plan);
    assert_int_equal(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    synchronise();
    if (run_before)
        assert_ok(gnf_execute(plan, &arguments, stream));
    assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(cuda.cuMemGetInfo(&before, &total), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(gnf_execute(plan, &arguments, stream));
    CUgraphExec exec = end_capture(stream);
    for (unsigned i = 0; i < REPLAYS; i++) {
        fill_random(layer.x, MOST * INPUTS, 100 + i);
        tensor_write(&layer.dx, layer.x);
        assert_int_equal(cuda.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
        if (i % 25 && i != REPLAYS - 1)
            continue;
        tensor_read(&layer.dy, replayed);
        compute(&layer, SAMPLES);
        check_close(replayed, layer.want, COUNT);
        assert_ok(gnf_execute(plan, &arguments, stream));
        assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
        tensor_read(&layer.dy, eager);
        assert_memory_equal(replayed, eager, COUNT * sizeof(float));
    }
    assert_int_equal(cuda.cuMemGetInfo(&after, &total), CUDA_SUCCESS);
    if (cuda.simulated_calls) /* a real driver keeps memory for graphs */
        assert_int_equal(after, before);
    assert_int_equal(cuda.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamDestroy(stream), CUDA_SUCCESS);
    free_layer(&layer);
    gnf_plan_destroy(&plan);
}

static void test_replays_equal_eager(void **state)
{
    gnf_context *context = open_context(device_context, "linear", NULL);
    (void)state;
    check_replays(context, 1, variant_named(context, split_prepared, true), false);
    check_replays(context, 0, variant_named(context, split_each, false), true);
    check_replays(context, 0, variant_named(context, "sgemm.", false), true);
    check_replays(context, 0, variant_named(context, "ffma.", false), false);
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
    make_layer(&layer);
    compute(&layer, SAMPLES);
    assert_int_equal(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    gnf_plan_options options = {
        .size = sizeof options, .samples = SAMPLES, .variant = variant, .prepared = 1, .stream = stream};
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_refused(gnf_plan_create(&plan, context, problem, &options), GNF_NOT_PREPARED, "captur");
    CUgraphExec empty = end_capture(stream);
    assert_int_equal(cuda.cuGraphExecDestroy(empty), CUDA_SUCCESS);

    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    gnf_plan_info info = plan_info(plan);
    layer.prepared = tensor_new(info.prepared_size, 0);
    layer.work = tensor_new(info.workspace_size, 0);
    const gnf_arguments arguments = {
        .size = sizeof arguments,
        .x = layer.dx.at,
        .y = layer.dy.at,
        .weight = layer.dweight.at,
        .bias = layer.dbias.at,
        .workspace = layer.work.at,
        .workspace_size = layer.work.bytes,
        .prepared = layer.prepared.at,
    };
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(gnf_prepare_weight(plan, layer.dweight.at, layer.prepared.at, info.prepared_size, stream));
    assert_ok(gnf_execute(plan, &arguments, stream));
    CUgraphExec exec = end_capture(stream);
    assert_int_equal(cuda.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
    check_result(&layer, SAMPLES);
    assert_int_equal(cuda.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamDestroy(stream), CUDA_SUCCESS);
    free_layer(&layer);
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
    make_layer(&layer);
    compute(&layer, MOST);
    assert_int_equal(log.warnings, 0);
    for (int round = 0; round < 2; round++) {
        gnf_plan *plan = plan_layer(context, MOST, 0, NULL);
        gnf_arguments arguments = bind(&layer, plan);
        assert_true(strncmp(plan_info(plan).variant, "ffma.", 5) == 0);
        assert_ok(gnf_execute(plan, &arguments, NULL));
        check_result(&layer, MOST);
        gnf_plan_destroy(&plan);
        assert_int_equal(log.warnings, 1);
        assert_non_null(strstr(log.last, "/nonexistent/libcublasLt.so.13"));
    }
    gnf_plan *plan;
    gnf_plan_options named = {.size = sizeof named, .samples = MOST, .prepared = 1};
    named.variant = variant_named(context, "sgemm.", false);
    assert_refused(gnf_plan_create(&plan, context, problem, &named), GNF_NO_CUBLAS, "cuBLASLt");
    free_layer(&layer);
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
