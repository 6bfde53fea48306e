/* A convolution in front: every variant at several N, in place, in graphs, and what is refused. */
#include "fixture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 3, HEIGHT = 9, WIDTH = 10, OUTPUTS = 8, SIDE = 3, MOST = 5, REPLAYS = 5 };
enum {
    X = INPUTS * HEIGHT * WIDTH,
    SEEN = OUTPUTS * HEIGHT * WIDTH,
    WEIGHT = OUTPUTS * INPUTS * SIDE * SIDE
};

/* Both with padding 1. */
struct chain {
    const char *text;
    int stride, height, width, groups; /* as groupnorm sees it */
    bool reduces;
};
static const struct chain chains[] = {
    {"f32[*,3,9,10] | y = conv2d(8, 3, padding=1) | groupnorm(2) | tanh | add(y) | logsumexp", 1, 9, 10, 2,
     true},
    {"f32[*,3,9,10] | conv2d(8, 3, stride=2, padding=1) | groupnorm(4) | add(r: full)", 2, 5, 5, 4, false},
};

static size_t y_elements(const struct chain *chain, int samples)
{
    return (size_t)(samples * (chain->reduces ? 1 : OUTPUTS) * chain->height * chain->width);
}

/* A layer's tensors, on the host and on the device. */
static struct layer {
    float x[MOST * X], weight[WEIGHT], bias[OUTPUTS], r[MOST * SEEN], y[MOST * SEEN];
    double want[MOST * SEEN];
    struct tensor dx, dweight, dbias, dr, dy, work;
} layer;

static void make_layer(size_t offset)
{
    fill_random(layer.x, MOST * X, 1);
    fill_random(layer.weight, WEIGHT, 2);
    fill_random(layer.bias, OUTPUTS, 3);
    fill_random(layer.r, MOST * SEEN, 4);
    layer.dx = tensor_of(layer.x, sizeof layer.x, offset);
    layer.dweight = tensor_of(layer.weight, sizeof layer.weight, 0);
    layer.dbias = tensor_of(layer.bias, sizeof layer.bias, 0);
    layer.dr = tensor_of(layer.r, sizeof layer.r, 0);
    layer.dy = tensor_new(sizeof layer.y, 0);
    layer.work = (struct tensor){0};
}

static void free_tensor(struct tensor *tensor)
{
    if (tensor->at)
        tensor_free(tensor);
}

static void free_layer(void)
{
    struct tensor *const all[] = {&layer.dx, &layer.dweight, &layer.dbias, &layer.dr, &layer.dy, &layer.work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free_tensor(all[i]);
}

static double pixel(const struct chain *chain, const float *x, const float *weight, int row, int column)
{
    double sum = 0;
    for (int c = 0; c < INPUTS; c++)
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) {
                int h = row * chain->stride + i - 1, w = column * chain->stride + j - 1;
                if (h >= 0 && h < HEIGHT && w >= 0 && w < WIDTH)
                    sum += (double)x[(c * HEIGHT + h) * WIDTH + w] * weight[(c * SIDE + i) * SIDE + j];
            }
    return sum;
}

/* In place, of one sample: each pixel over the channels. */
static void reduce(const struct chain *chain, double *want, const float *seen)
{
    int spatial = chain->height * chain->width;
    for (int s = 0; s < spatial; s++) {
        double sum = 0;
        for (int c = 0; c < OUTPUTS; c++)
            sum += exp(tanh(want[c * spatial + s]) + (double)seen[c * spatial + s]);
        want[s] = log(sum);
    }
}

static void compute(const struct chain *chain, int samples, bool with_bias)
{
    static float seen[MOST * SEEN];
    int spatial = chain->height * chain->width, sample = OUTPUTS * spatial;
    for (int i = 0; i < samples * sample; i++) {
        int n = i / sample, c = i % sample / spatial, s = i % spatial;
        const float *weight = layer.weight + c * INPUTS * SIDE * SIDE;
        seen[i] = (float)(pixel(chain, layer.x + n * X, weight, s / chain->width, s % chain->width) +
                          (with_bias ? (double)layer.bias[c] : 0));
    }
    reference(seen, layer.want, samples, OUTPUTS, spatial, chain->groups);
    for (int n = 0; n < samples && chain->reduces; n++) {
        reduce(chain, layer.want + n * sample, seen + n * sample);
        memmove(layer.want + n * spatial, layer.want + n * sample, (size_t)spatial * sizeof *layer.want);
    }
    for (int i = 0; i < samples * sample && !chain->reduces; i++)
        layer.want[i] += (double)layer.r[i];
}

static gnf_arguments bind(const gnf_plan *plan)
{
    size_t size = gnf_plan_workspace_size(plan);
    free_tensor(&layer.work);
    layer.work = tensor_new(size, 0);
    return (gnf_arguments){
        .size = sizeof(gnf_arguments),
        .x = layer.dx.at,
        .y = layer.dy.at,
        .operand = {layer.dr.at},
        .weight = layer.dweight.at,
        .bias = layer.dbias.at,
        .workspace = layer.work.at,
        .workspace_size = size,
    };
}

static void check_result(const struct chain *chain, int samples)
{
    tensor_read(&layer.dy, layer.y);
    check_close(layer.y, layer.want, y_elements(chain, samples));
    if (y_elements(chain, samples) < sizeof layer.y / sizeof *layer.y)
        assert_true(isnan(layer.y[y_elements(chain, samples)])); /* as it was before */
}

static void clear_y(void)
{
    memset(layer.y, 0xff, sizeof layer.y);
    tensor_write(&layer.dy, layer.y);
}

static void run(gnf_context *context, const struct chain *chain, int samples, const char *variant)
{
    gnf_plan *plan = make_plan(context, chain->text, samples, variant);
    const gnf_arguments arguments = bind(plan);
    assert_int_equal(plan_info(plan).x_elements, samples * X);
    assert_int_equal(plan_info(plan).y_elements, y_elements(chain, samples));
    clear_y();
    compute(chain, samples, true);
    assert_ok(gnf_execute(plan, &arguments, NULL));
    check_result(chain, samples);
    gnf_plan_destroy(&plan);
}

static void test_every_variant(void **state)
{
    static const int samples[] = {1, 2, MOST};
    gnf_context *context = open_context(device_context, "conv2d", NULL);
    gnf_variant_info info = {.size = sizeof info};
    (void)state;
    make_layer(0);
    int count = 0;
    for (; gnf_get_variant(context, chains[0].text, count, &info) == GNF_OK; count++)
        run(context, &chains[0], samples[count % 3], info.name);
    assert_in_range(count, 3, 20);
    for (int i = 0; i < 3; i++) {
        run(context, &chains[0], samples[i], NULL);
        run(context, &chains[1], samples[i], NULL);
    }
    free_layer();
    make_layer(4); /* the plan's other variant */
    run(context, &chains[0], 2, NULL);
    free_layer();
    gnf_context_destroy(&context);
}

/* y is the operand: the same bits as beside it. */
static void test_in_place(void **state)
{
    static float in_place[MOST * SEEN];
    gnf_context *context = open_context(device_context, "conv2d", NULL);
    gnf_plan *plan = make_plan(context, chains[1].text, MOST, NULL);
    (void)state;
    make_layer(0);
    gnf_arguments arguments = bind(plan);
    arguments.bias = 0;
    compute(&chains[1], MOST, false);
    assert_ok(gnf_execute(plan, &arguments, NULL));
    check_result(&chains[1], MOST);
    arguments.y = arguments.operand[0];
    assert_ok(gnf_execute(plan, &arguments, NULL));
    tensor_read(&layer.dr, in_place);
    assert_memory_equal(in_place, layer.y, y_elements(&chains[1], MOST) * sizeof(float));
    gnf_plan_destroy(&plan);
    free_layer();
    gnf_context_destroy(&context);
}

static void test_what_is_refused(void **state)
{
    gnf_context *context = open_context(device_context, "conv2d", NULL);
    gnf_plan_options options = {.size = sizeof options, .samples = 2, .prepared = 1};
    gnf_plan *plan;
    (void)state;
    make_layer(0);
    assert_ok(gnf_plan_create(&plan, context, chains[1].text, &options));
    const gnf_arguments good = bind(plan);
    gnf_arguments bad = good;
    assert_int_equal(plan_info(plan).prepared_size, 0);
    assert_ok(gnf_prepare_weight(plan, layer.dweight.at, 0, 0, NULL));
    assert_refused(gnf_prepare_weight(plan, layer.dweight.at, layer.dr.at, 864, NULL), GNF_INVALID_ARGUMENT,
                   "as every plan with conv2d does");
#define BAD(change, part)                                                                                    \
    bad = good;                                                                                              \
    change;                                                                                                  \
    assert_refused(gnf_execute(plan, &bad, NULL), GNF_INVALID_ARGUMENT, part)
    BAD(bad.weight = 0, "weight is null: allowed is a device address of 864 bytes");
    BAD(bad.weight += 2, "weight = 0x");
    BAD(bad.bias += 1, "bias = 0x");
    BAD(bad.y = bad.x, "overlaps x");
    BAD(bad.y = bad.weight, "overlaps weight");
    BAD(bad.y = bad.operand[0] + 4, "overlaps r");
    BAD(bad.workspace = bad.x, "overlaps x");
    BAD(bad.workspace_size--, "workspace_size = ");
#undef BAD
    tensor_read(&layer.dy, layer.y);
    assert_true(isnan(layer.y[0])); /* nothing was launched */
    gnf_plan_destroy(&plan);
    free_layer();
    gnf_context_destroy(&context);
}

/* Captured, replayed with another x each time, equal to eager bit for bit. */
static void check_replays(gnf_context *context, const struct chain *chain, const char *variant)
{
    static float replayed[MOST * SEEN];
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    make_layer(0);
    gnf_plan *plan = make_plan(context, chain->text, MOST, variant);
    const gnf_arguments arguments = bind(plan);
    assert_int_equal(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    synchronise();
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(gnf_execute(plan, &arguments, stream));
    assert_int_equal(cuda.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    for (unsigned i = 0; i < REPLAYS; i++) {
        fill_random(layer.x, MOST * X, 100 + i);
        tensor_write(&layer.dx, layer.x);
        assert_int_equal(cuda.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
        tensor_read(&layer.dy, replayed);
        clear_y();
        assert_ok(gnf_execute(plan, &arguments, stream));
        assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
        compute(chain, MOST, true);
        check_result(chain, MOST);
        assert_memory_equal(replayed, layer.y, y_elements(chain, MOST) * sizeof(float));
    }
    assert_int_equal(cuda.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamDestroy(stream), CUDA_SUCCESS);
    gnf_plan_destroy(&plan);
    free_layer();
}

static void test_replays_equal_eager(void **state)
{
    gnf_context *context = open_context(device_context, "conv2d", NULL);
    gnf_variant_info info = {.size = sizeof info};
    (void)state;
    check_replays(context, &chains[0], NULL);
    for (int i = 0; gnf_get_variant(context, chains[1].text, i, &info) == GNF_OK; i++)
        if (strncmp(info.name, "ffma.", 5) == 0)
            break;
    check_replays(context, &chains[1], info.name);
    gnf_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_variant),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_replays_equal_eager),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, group_setup, group_teardown);
}
