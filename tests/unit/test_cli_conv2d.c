/* conv2d, maxpool2d and mean(all) on the host: tensors, the data they are checked on, and the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/compare.h"
#include "cli/data_sets.h"
#include "cli/halves.h"
#include "cli/npy.h"
#include "cli/product.h"
#include "cli/reference.h"
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 15 };

struct run {
    struct gnf_problem problem;
    struct tensors tensors;
    double y[MOST];
};

static void begin(struct run *run, const char *text)
{
    if (gnf_problem_parse(text, &run->problem) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    assert_int_equal(tensors_create(&run->tensors, &run->problem, run->problem.samples), GNF_OK);
    assert_true(run->tensors.y_elements <= MOST);
}

static void begin_random(struct run *run, const char *text, bool affine)
{
    const struct tensors_recipe uniform = {.affine = affine};
    begin(run, text);
    assert_int_equal(tensors_random(&run->tensors, &uniform, 1), GNF_OK);
}

static void fill(struct run *run, int which, float (*value)(int64_t i))
{
    struct tensor *tensor = &run->tensors.at[which];
    tensor->data = malloc((size_t)tensor->elements * sizeof(float));
    for (int64_t i = 0; i < tensor->elements; i++)
        ((float *)tensor->data)[i] = value(i);
}

static void finish(struct run *run)
{
    if (reference_run(&run->tensors, run->y) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    tensors_free(&run->tensors);
}

static void close_to(double got, double wanted, double tolerance, int64_t at)
{
    if (!(fabs(got - wanted) <= tolerance) && !(isnan(got) && isnan(wanted)))
        fail_msg("%lld: got %.12g, wanted %.12g", (long long)at, got, wanted);
}

static float one(int64_t i)
{
    return 1 + 0 * (float)i;
}

static float zero(int64_t i)
{
    return 0 * (float)i;
}

static void shape_is(const struct run *run, int64_t n, int64_t c, int64_t height, int64_t width)
{
    int64_t shape[TENSORS_RANK];
    assert_int_equal(tensors_y_shape(&run->tensors, shape), 4);
    assert_true(shape[0] == n && shape[1] == c && shape[2] == height && shape[3] == width);
    assert_int_equal(run->tensors.y_elements, n * c * height * width);
}

static void tensors_of_conv2d(void **state)
{
    static struct run run;
    (void)state;
    begin(&run,
          "f16[2,3,9,6] | conv2d(8, 3, stride=2, padding=1) | add(c: channel) | groupnorm(2) | add(r: full)");
    static const char *const names[] = {"x", "gamma", "beta", "c", "r", "weight", "bias"};
    static const int elements[] = {324, 8, 8, 8, 240, 216, 8};
    assert_int_equal(run.tensors.count, 7);
    assert_int_equal(run.tensors.weight, 5);
    for (int i = 0; i < 7; i++) {
        assert_string_equal(run.tensors.at[i].name, names[i]);
        assert_int_equal(run.tensors.at[i].elements, elements[i]);
    }
    static const int64_t weight[4] = {8, 3, 3, 3}, x[4] = {2, 3, 9, 6}, full[4] = {2, 8, 5, 3};
    assert_memory_equal(run.tensors.at[5].shape, weight, sizeof weight);
    assert_memory_equal(run.tensors.at[TENSOR_X].shape, x, sizeof x);
    assert_memory_equal(run.tensors.at[TENSOR_OPERAND + 1].shape, full, sizeof full);
    assert_true(run.tensors.at[5].rank == 4 && run.tensors.at[5].required && !run.tensors.at[6].required);
    shape_is(&run, 2, 8, 5, 3);
    assert_int_equal(tensors_bytes(&run.tensors, true), 2 * (240 + 324 + 8 + 8 + 8 + 240 + 216 + 8));
    assert_true(tensors_flop(&run.problem, 2) == 2.0 * 2 * 8 * 27 * 15);
    assert_false(tensors_can_share(&run.tensors, TENSOR_X)); /* other pixels still need what y would cover */
    assert_true(tensors_can_share(&run.tensors, TENSOR_OPERAND + 1));
}

static void sizes_of_y(void **state)
{
    static struct run run;
    (void)state;
    begin(&run, "f32[2,3,11,8] | conv2d(4, 2) | groupnorm(2) | maxpool2d(3, 2) | clamp(0, 1)");
    shape_is(&run, 2, 4, 4, 3);
    begin(&run, "f32[2,3,11,8] | conv2d(4, 2) | groupnorm(2) | maxpool2d(3, 2) | logsumexp");
    shape_is(&run, 2, 1, 4, 3);
    begin(&run, "f32[2,3,11,8] | conv2d(4, 2) | groupnorm(2) | mean(all)");
    shape_is(&run, 2, 1, 1, 1);
    begin(&run, "f32[2,4,11,8] | add(r: full) | groupnorm(2) | maxpool2d(3)");
    shape_is(&run, 2, 4, 3, 2);
    assert_true(tensors_flop(&run.problem, 2) == 0);
    assert_false(tensors_can_share(&run.tensors, TENSOR_X));
    assert_false(tensors_can_share(&run.tensors, TENSOR_OPERAND));
    begin(&run,
          "f32[2,3,11,8] | conv2d(4, 2) | mul(q: full) | groupnorm(2) | maxpool2d(3, 2) | add(b: channel) | "
          "add(r: full)");
    static const int64_t before[4] = {2, 4, 10, 7}, behind[4] = {2, 4, 4, 3};
    assert_memory_equal(run.tensors.at[TENSOR_OPERAND].shape, before, sizeof before);
    assert_memory_equal(run.tensors.at[TENSOR_OPERAND + 2].shape, behind, sizeof behind);
    assert_int_equal(run.tensors.at[TENSOR_OPERAND + 2].elements, 96);
    for (int i = 0; i < run.tensors.count; i++)
        assert_true(tensors_can_share(&run.tensors, i) == (i == TENSOR_OPERAND + 2));
}

static void files_of_weights(void **state)
{
    static struct run run;
    char path[] = "/tmp/gnfuse-conv2d-XXXXXX";
    const float values[24] = {0};
    const int64_t good[4] = {3, 2, 2, 2}, flat[2] = {3, 8};
    (void)state;
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    begin(&run, "f32[1,2,5,5] | conv2d(3, 2) | groupnorm(1)");
    assert_int_equal(npy_write(path, GNF_F32, 2, flat, values), GNF_OK);
    assert_int_equal(tensors_load(&run.tensors, "weight", path), GNF_INVALID_ARGUMENT);
    assert_non_null(strstr(gnf_error_message(), "holds '<f4' (3, 8), wanted '<f4' (3, 2, 2, 2)"));
    assert_int_equal(npy_write(path, GNF_F32, 4, good, values), GNF_OK);
    assert_int_equal(tensors_load(&run.tensors, "weight", path), GNF_OK);
    tensors_free(&run.tensors);
    unlink(path);
}

/* x, y and the full tensors have sizes of their own. */
static void channels_last(void **state)
{
    static struct run run;
    static float memory[2 * 4 * 20], y[2 * 4 * 6], back[2 * 4 * 6];
    (void)state;
    begin_random(&run, "f32[2,3,5,4]:nhwc | conv2d(4, 2) | add(r: full) | groupnorm(2) | maxpool2d(2, 1)",
                 true);
    shape_is(&run, 2, 4, 3, 2);
    assert_int_equal(tensors_scratch_bytes(&run.tensors), 4 * 2 * 3 * 20);
    const float *x = run.tensors.at[TENSOR_X].data, *r = run.tensors.at[TENSOR_OPERAND].data;
    assert_ptr_equal(tensors_to_memory(&run.tensors, TENSOR_X, memory), memory);
    for (int i = 0; i < 2 * 3 * 20; i++)
        assert_true(memory[(i / 60 * 20 + i % 20) * 3 + i / 20 % 3] == x[i]);
    tensors_to_memory(&run.tensors, TENSOR_OPERAND, memory);
    for (int i = 0; i < 2 * 4 * 12; i++)
        assert_true(memory[(i / 48 * 12 + i % 12) * 4 + i / 12 % 4] == r[i]);
    const int weight = run.tensors.weight; /* [OUT, IN, K, K] in any layout */
    assert_ptr_equal(tensors_to_memory(&run.tensors, weight, memory), run.tensors.at[weight].data);
    for (int i = 0; i < 48; i++)
        y[i] = (float)i;
    tensors_from_memory(&run.tensors, y, back);
    for (int i = 0; i < 48; i++)
        assert_true(back[i] == y[(i / 24 * 6 + i % 6) * 4 + i / 6 % 4]);
    tensors_free(&run.tensors);
    begin_random(&run, "f32[2,4,5,4]:nhwc | add(q: full) | groupnorm(2) | maxpool2d(2, 1) | add(r: full)",
                 true);
    r = run.tensors.at[TENSOR_OPERAND + 1].data;
    assert_int_equal(tensors_scratch_bytes(&run.tensors), 4 * 2 * 4 * 20);
    tensors_to_memory(&run.tensors, TENSOR_OPERAND + 1, memory);
    for (int i = 0; i < 2 * 4 * 12; i++)
        assert_true(memory[(i / 48 * 12 + i % 12) * 4 + i / 12 % 4] == r[i]);
    tensors_free(&run.tensors);
    /* one channel in, several out */
    begin(&run, "f32[2,1,5,4]:nhwc | conv2d(4, 2) | groupnorm(2)");
    assert_true(tensors_in_order(&run.tensors, TENSOR_X));
    assert_false(tensors_in_order(&run.tensors, TENSOR_Y));
    begin(&run, "f32[2,3,5,4]:nhwc | conv2d(4, 2) | groupnorm(2) | sum");
    assert_false(tensors_in_order(&run.tensors, TENSOR_X));
    assert_true(tensors_in_order(&run.tensors, TENSOR_Y));
}

/* ---- data ---- */

static const struct data_set *find(const char *text, const char *name)
{
    static struct data_set list[DATA_SETS_MAX];
    struct gnf_problem problem;
    if (gnf_problem_parse(text, &problem) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    int count = data_sets_list(&problem, list);
    assert_true(count <= DATA_SETS_MAX);
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

#define CONV "f32[2,3,9,9] | y = conv2d(8, 3) | "

static void data_sets_fit_the_problem(void **state)
{
    (void)state;
    static const char *const all[] = {"uniform", "null-affine", "large-mean",     "constant",   "one-nan",
                                      "one-inf", "mean-3",      "scaled-samples", "weight-nan", "lognormal"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_non_null(find(CONV "groupnorm(2)", all[i]));
    assert_true(find(CONV "groupnorm(2)", "large-mean")->recipe.x.mean == 1e4);
    assert_true(find(CONV "groupnorm(8)", "large-mean")->recipe.x.mean == 100);
    assert_true(find(CONV "groupnorm(2) | add(y)", "large-mean")->recipe.x.mean == 100);
    assert_true(find(CONV "silu | groupnorm(2)", "large-mean")->recipe.x.mean == 100);
    assert_true(find("f32[2,3,9,9] | conv2d(8, 3, tf32) | groupnorm(2)", "large-mean")->recipe.x.mean == 8);
    assert_true(find("f16[2,3,9,9] | conv2d(8, 3) | groupnorm(2)", "large-mean")->recipe.x.mean == 100);
    assert_null(find(CONV "groupnorm(2) | add(y)", "scaled-samples"));
    assert_null(find("f16[2,3,9,9] | conv2d(8, 3) | groupnorm(2)", "scaled-samples"));
    assert_true(find(CONV "groupnorm(2)", "lognormal")->recipe.x.spread == 2);
    assert_true(find(CONV "groupnorm(2) | add(y)", "lognormal")->recipe.x.spread == 1);
    assert_non_null(find(CONV "sigmoid | groupnorm(2)", "one-inf"));
    assert_non_null(find(CONV "sigmoid | groupnorm(2)", "weight-inf"));
    assert_false(find(CONV "groupnorm(2)", "scaled-samples")->recipe.affine);
}

static void weights_are_a_fresh_layers(void **state)
{
    static struct run run;
    (void)state;
    begin_random(&run, "f32[1,25,5,5] | conv2d(96, 4) | groupnorm(8)", true);
    for (int which = 0; which < 2; which++) {
        const struct tensor *tensor = &run.tensors.at[run.tensors.weight + which];
        double largest = 0;
        for (int64_t i = 0; i < tensor->elements; i++)
            largest = fmax(largest, fabs(((float *)tensor->data)[i]));
        assert_true(largest <= 0.05 && largest > (which ? 0.045 : 0.0499)); /* 1 / sqrt(25 * 4 * 4) */
    }
    tensors_free(&run.tensors);
}

static void lognormal(void **state)
{
    enum { COUNT = 20000 };
    static float values[COUNT];
    double sum = 0, squares = 0;
    int negative = 0;
    (void)state;
    const struct random_recipe recipe = {.kind = RANDOM_LOGNORMAL, .spread = 2};
    random_fill(&recipe, 1, "x", GNF_F32, values, COUNT, 0);
    for (int i = 0; i < COUNT; i++) {
        double size = log(fabs(values[i]));
        negative += values[i] < 0;
        sum += size / COUNT;
        squares += size * size / COUNT;
    }
    assert_true(fabs(sum) < 0.06 && fabs(squares - 4) < 0.2 && abs(negative - COUNT / 2) < 300);
}

/* ---- the reference ---- */

static double naive(const struct tensors *tensors, int64_t sample, int64_t out, int64_t y, int64_t x)
{
    const struct gnf_problem *problem = tensors->problem;
    const struct gnf_window *conv = &problem->conv;
    const void *bias = tensors->at[tensors->weight + 1].data, *weight = tensors->at[tensors->weight].data;
    double sum = bias != NULL ? stored_load(problem->dtype, bias, out) : 0;
    for (int64_t c = 0; c < problem->inputs; c++)
        for (int64_t i = 0; i < conv->kernel; i++)
            for (int64_t j = 0; j < conv->kernel; j++) {
                int64_t row = y * conv->stride + i - conv->padding,
                        column = x * conv->stride + j - conv->padding;
                if (row < 0 || row >= problem->size[0] || column < 0 || column >= problem->size[1])
                    continue;
                int64_t at =
                    ((sample * problem->inputs + c) * problem->size[0] + row) * problem->size[1] + column;
                int64_t tap = ((out * problem->inputs + c) * conv->kernel + i) * conv->kernel + j;
                sum += stored_load(problem->dtype, tensors->at[TENSOR_X].data, at) *
                       stored_load(problem->dtype, weight, tap);
            }
    return sum;
}

static void check_product(const char *text, bool bias)
{
    static struct run run;
    begin_random(&run, text, bias);
    const struct gnf_problem *problem = &run.problem;
    const int64_t *size = problem->conv.output, samples = problem->samples;
    int64_t sample = problem->channels * problem->spatial;
    double *out = calloc((size_t)(samples * sample), sizeof *out);
    assert_int_equal(problem->spatial, size[0] * size[1]);
    assert_int_equal(product_run(&run.tensors, 0, samples, out), GNF_OK);
    for (int64_t i = 0; i < samples * sample; i++)
        close_to(out[i],
                 naive(&run.tensors, i / sample, i / problem->spatial % problem->channels,
                       i / size[1] % size[0], i % size[1]),
                 1e-13, i);
    double *last = calloc((size_t)sample, sizeof *last); /* one of the samples */
    assert_int_equal(product_run(&run.tensors, samples - 1, 1, last), GNF_OK);
    assert_memory_equal(last, out + (samples - 1) * sample, (size_t)sample * sizeof *last);
    free(last);
    free(out);
    tensors_free(&run.tensors);
}

static void products(void **state)
{
    (void)state;
    check_product("f32[1,1,1,1] | conv2d(1, 1) | groupnorm(1)", true);
    check_product("f32[3,3,13,12] | conv2d(9, 3) | groupnorm(1)", true);
    check_product("f32[2,2,7,9] | conv2d(4, 3, stride=2, padding=1) | groupnorm(1)", false);
    check_product("f32[2,1,5,4] | conv2d(3, 5, stride=3, padding=2) | groupnorm(1)", true);
    check_product("f32[2,20,8,7] | conv2d(130, 3, padding=2) | groupnorm(1)", true); /* several steps of K */
    check_product("f32[2,22,6,6] | conv2d(2, 3) | groupnorm(1)", true); /* 192 ends within a window's row */
    check_product("f32[1,2,3,3] | conv2d(2, 1, padding=4) | groupnorm(1)", true); /* most of it padding */
    check_product("f32[1,2,3,2] | conv2d(2, 6, padding=3) | groupnorm(1)", true);
    check_product("f16[2,3,6,7]:nhwc | conv2d(5, 2, stride=2) | groupnorm(1)", true);
    check_product("bf16[2,3,6,7] | conv2d(5, 2) | groupnorm(1)", false);
}

/* Corner, edge and inside of a 14 x 14 image of ones under 3 x 3 weights of ones. */
static void borders(void **state)
{
    static struct run run;
    (void)state;
    begin(&run, "f32[1,1,14,14] | y = conv2d(1, 3, stride=2, padding=1) | groupnorm(1) | scale(0) | add(y)");
    fill(&run, TENSOR_X, one);
    fill(&run, run.tensors.weight, one);
    finish(&run);
    for (int i = 0; i < 49; i++)
        close_to(run.y[i], (i / 7 == 0 ? 2 : 3) * (i % 7 == 0 ? 2 : 3), 0, i);
}

static void the_whole_chain(void **state)
{
    static struct run run;
    (void)state;
    begin_random(
        &run, "f32[2,3,6,7] | y = conv2d(4, 3) | groupnorm(2) | tanh | hardswish | add(y) | logsumexp", true);
    const float *gamma = run.tensors.at[TENSOR_GAMMA].data, *beta = run.tensors.at[TENSOR_BETA].data;
    double want[2 * 20] = {0};
    for (int n = 0; n < 2; n++) {
        double z[4][20], sums[20] = {0};
        for (int g = 0; g < 2; g++) {
            double mean = 0, variance = 0;
            for (int i = 0; i < 40; i++)
                mean +=
                    (z[2 * g + i / 20][i % 20] = naive(&run.tensors, n, 2 * g + i / 20, i % 20 / 5, i % 5)) /
                    40;
            for (int i = 0; i < 40; i++)
                variance += pow(z[2 * g + i / 20][i % 20] - mean, 2) / 40;
            for (int i = 0; i < 40; i++) {
                int c = 2 * g + i / 20;
                double v = z[c][i % 20];
                double t = tanh((v - mean) / sqrt(variance + (double)1e-5f) * gamma[c] + beta[c]);
                sums[i % 20] += exp(t * (t + 3) / 6 + v);
            }
        }
        for (int p = 0; p < 20; p++)
            want[n * 20 + p] = log(sums[p]);
    }
    finish(&run);
    for (int i = 0; i < 40; i++)
        close_to(run.y[i], want[i], 1e-12, i);
}

static float steps(int64_t i)
{
    return (float)(i * 7 % 30);
}

static void pooling(void **state)
{
    static struct run run;
    (void)state;
    begin(&run,
          "f32[2,2,5,6] | groupnorm(1) | scale(0) | add(x) | maxpool2d(3, 2) | h = scale(2) | relu | add(h)");
    fill(&run, TENSOR_X, steps);
    ((float *)run.tensors.at[TENSOR_X].data)[60 + 30 + 2] = -INFINITY;
    double want[2 * 2 * 4];
    for (int i = 0; i < 16; i++) {
        want[i] = -1;
        for (int k = 0; k < 9; k++)
            want[i] = fmax(want[i], steps(i / 4 * 30 + (i / 2 % 2 * 2 + k / 3) * 6 + i % 2 * 2 + k % 3));
        want[i] = i >= 8 ? NAN : 4 * want[i]; /* an infinity in the group is NaN behind it */
    }
    finish(&run);
    for (int i = 0; i < 16; i++)
        close_to(run.y[i], want[i], 0, i);

    begin(&run,
          "f32[2,2,5,6] | groupnorm(1) | scale(0) | maxpool2d(3, 2) | add(r: full) | relu | mul(r: full)");
    fill(&run, TENSOR_X, steps);
    fill(&run, TENSOR_OPERAND, steps);
    finish(&run);
    for (int i = 0; i < 16; i++)
        close_to(run.y[i], steps(i) * steps(i), 0, i);

    begin(&run, "f32[1,6,5,6] | groupnorm(6) | maxpool2d(3, 2)");
    fill(&run, TENSOR_X, zero);
    struct tensor *gamma = &run.tensors.at[TENSOR_GAMMA], *beta = &run.tensors.at[TENSOR_BETA];
    gamma->data = calloc(6, sizeof(float));
    beta->data = calloc(6, sizeof(float));
    for (int c = 0; c < 6; c++)
        ((float *)beta->data)[c] = c == 3 ? NAN : c == 4 ? -INFINITY : (float)-c;
    finish(&run);
    for (int i = 0; i < 24; i++)
        close_to(run.y[i], i / 4 == 3 ? NAN : 0 - i / 4, i / 4 == 4 ? INFINITY : 0, i);
}

static void a_nan_in_a_window(void **state)
{
    static struct run run;
    (void)state;
    /* Every place of the tensor that is added, once. */
    for (int at = 0; at < 30; at++) {
        begin(&run, "f32[1,1,5,6] | groupnorm(1) | add(r: full) | maxpool2d(3, 2)");
        fill(&run, TENSOR_X, zero);
        fill(&run, TENSOR_OPERAND, one);
        ((float *)run.tensors.at[TENSOR_OPERAND].data)[at] = NAN;
        finish(&run);
        for (int i = 0; i < 4; i++) {
            int y = at / 6 - i / 2 * 2, x = at % 6 - i % 2 * 2;
            close_to(run.y[i], y >= 0 && y < 3 && x >= 0 && x < 3 ? NAN : 1, 0, at);
        }
    }
}

static void mean_of_everything(void **state)
{
    static struct run run;
    (void)state;
    begin(&run, "f32[2,3,5] | groupnorm(1) | scale(0) | add(x) | mean(all) | scale(2)");
    fill(&run, TENSOR_X, steps);
    double want[2] = {0};
    for (int i = 0; i < 30; i++)
        want[i / 15] += 2.0 * steps(i) / 15;
    finish(&run);
    close_to(run.y[0], want[0], 1e-12, 0);
    close_to(run.y[1], want[1], 1e-12, 1);

    begin(&run, "f32[2,5] | linear(6) | groupnorm(2) | mean(all)");
    assert_int_equal(run.tensors.y_elements, 2);
    begin(&run,
          "f32[1,1,6,6] | y = conv2d(2, 3) | groupnorm(2) | scale(0) | add(y) | maxpool2d(2) | mean(all)");
    fill(&run, TENSOR_X, one);
    fill(&run, run.tensors.weight, one);
    finish(&run);
    close_to(run.y[0], 9, 0, 0);
}

/* More samples than a slab holds. */
static void slabs(void **state)
{
    static struct run run;
    (void)state;
    begin(&run, "f32[1030,1,2,2] | y = conv2d(1, 2) | groupnorm(1) | scale(0) | add(y)");
    fill(&run, TENSOR_X, steps);
    fill(&run, run.tensors.weight, one);
    finish(&run);
    for (int i = 0; i < 1030; i++)
        close_to(run.y[i], steps(4 * i) + steps(4 * i + 1) + steps(4 * i + 2) + steps(4 * i + 3), 0, i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_conv2d),
        cmocka_unit_test(sizes_of_y),
        cmocka_unit_test(files_of_weights),
        cmocka_unit_test(channels_last),
        cmocka_unit_test(data_sets_fit_the_problem),
        cmocka_unit_test(weights_are_a_fresh_layers),
        cmocka_unit_test(lognormal),
        cmocka_unit_test(products),
        cmocka_unit_test(borders),
        cmocka_unit_test(the_whole_chain),
        cmocka_unit_test(pooling),
        cmocka_unit_test(a_nan_in_a_window),
        cmocka_unit_test(mean_of_everything),
        cmocka_unit_test(slabs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
