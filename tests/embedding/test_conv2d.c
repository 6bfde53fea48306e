/* A convolution in front: every variant at several N, in place, in graphs, and what is refused. */
#include "fixture.h"
#include <math.h>
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

static struct {
    float x[MOST * X], weight[WEIGHT], bias[OUTPUTS], r[MOST * SEEN], y[MOST * SEEN];
    double want[MOST * SEEN];
} host;
static struct layer layer;

/* x and y `offset` bytes off an aligned address. */
static void make_layer(size_t offset)
{
    fill_random(host.x, MOST * X, 1);
    fill_random(host.weight, WEIGHT, 2);
    fill_random(host.bias, OUTPUTS, 3);
    fill_random(host.r, MOST * SEEN, 4);
    layer = (struct layer){
        .x = tensor_of(host.x, sizeof host.x, offset),
        .weight = tensor_of(host.weight, sizeof host.weight, 0),
        .bias = tensor_of(host.bias, sizeof host.bias, 0),
        .operand = tensor_of(host.r, sizeof host.r, 0),
        .y = tensor_new(sizeof host.y, offset),
    };
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
        const float *weight = host.weight + c * INPUTS * SIDE * SIDE;
        seen[i] = (float)(pixel(chain, host.x + n * X, weight, s / chain->width, s % chain->width) +
                          (with_bias ? (double)host.bias[c] : 0));
    }
    reference(seen, host.want, samples, OUTPUTS, spatial, chain->groups);
    for (int n = 0; n < samples && chain->reduces; n++) {
        reduce(chain, host.want + n * sample, seen + n * sample);
        memmove(host.want + n * spatial, host.want + n * sample, (size_t)spatial * sizeof *host.want);
    }
    for (int i = 0; i < samples * sample && !chain->reduces; i++)
        host.want[i] += (double)host.r[i];
}

static void check_result(const struct chain *chain, int samples)
{
    tensor_read(&layer.y, host.y);
    check_close(host.y, host.want, y_elements(chain, samples));
    if (y_elements(chain, samples) < sizeof host.y / sizeof *host.y)
        assert_true(isnan(host.y[y_elements(chain, samples)])); /* as it was before */
}

static void clear_y(void)
{
    memset(host.y, 0xff, sizeof host.y);
    tensor_write(&layer.y, host.y);
}

static void run(gnf_context *context, const struct chain *chain, int samples, const char *variant)
{
    gnf_plan *plan = make_plan(context, chain->text, samples, variant);
    const gnf_arguments arguments = layer_bind(&layer, plan);
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
    layer_free(&layer);
    gnf_context_destroy(&context);
}

/* Tensors that a variant is not for: the plan's other one. */
static void test_off_its_alignment(void **state)
{
    gnf_context *context = open_context(device_context, "conv2d", NULL);
    gnf_variant_info info = {.size = sizeof info};
    int count = 0;
    (void)state;
    make_layer(sizeof(float));
    for (int i = 0; gnf_get_variant(context, chains[0].text, i, &info) == GNF_OK; i++) {
        if (info.alignment == sizeof(float))
            continue;
        gnf_plan *plan = make_plan(context, chains[0].text, 2, info.name);
        assert_string_not_equal(plan_info(plan).variant, plan_info(plan).fallback);
        gnf_plan_destroy(&plan);
        run(context, &chains[0], 2, info.name);
        count++;
    }
    assert_true(count > 0);
    layer_free(&layer);
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
    gnf_arguments arguments = layer_bind(&layer, plan);
    arguments.bias = 0;
    compute(&chains[1], MOST, false);
    assert_ok(gnf_execute(plan, &arguments, NULL));
    check_result(&chains[1], MOST);
    arguments.y = arguments.operand[0];
    assert_ok(gnf_execute(plan, &arguments, NULL));
    tensor_read(&layer.operand, in_place);
    assert_memory_equal(in_place, host.y, y_elements(&chains[1], MOST) * sizeof(float));
    gnf_plan_destroy(&plan);
    layer_free(&layer);
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
    const gnf_arguments good = layer_bind(&layer, plan);
    gnf_arguments bad = good;
    assert_int_equal(plan_info(plan).prepared_size, 0);
    assert_ok(gnf_prepare_weight(plan, layer.weight.at, 0, 0, NULL));
    assert_refused(gnf_prepare_weight(plan, layer.weight.at, layer.operand.at, 864, NULL),
                   GNF_INVALID_ARGUMENT, "as every plan with conv2d does");
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
    tensor_read(&layer.y, host.y);
    assert_true(isnan(host.y[0])); /* nothing was launched */
    gnf_plan_destroy(&plan);
    layer_free(&layer);
    gnf_context_destroy(&context);
}

static const struct chain *replayed;

static const double *next_x(unsigned i)
{
    fill_random(host.x, MOST * X, 100 + i);
    tensor_write(&layer.x, host.x);
    compute(replayed, MOST, true);
    return host.want;
}

static void check_graph(gnf_context *context, const struct chain *chain, const char *variant)
{
    const struct replays replays = {.count = REPLAYS, .every = 1, .next = next_x};
    gnf_plan *plan = make_plan(context, chain->text, MOST, variant);
    make_layer(0);
    replayed = chain;
    check_replays(&layer, plan, y_elements(chain, MOST), &replays);
    gnf_plan_destroy(&plan);
    layer_free(&layer);
}

static void test_replays_equal_eager(void **state)
{
    gnf_context *context = open_context(device_context, "conv2d", NULL);
    gnf_variant_info info = {.size = sizeof info};
    (void)state;
    check_graph(context, &chains[0], NULL);
    for (int i = 0; gnf_get_variant(context, chains[1].text, i, &info) == GNF_OK; i++)
        if (strncmp(info.name, "ffma.", 5) == 0)
            break;
    check_graph(context, &chains[1], info.name);
    gnf_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_variant),
        cmocka_unit_test(test_off_its_alignment),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_replays_equal_eager),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, group_setup, group_teardown);
}
