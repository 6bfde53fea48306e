/* linear on the host: its tensors, the data it is checked on, and its product in float64. */
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

static void parse(const char *text, struct gnf_problem *problem, struct tensors *tensors)
{
    if (gnf_problem_parse(text, problem) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    assert_int_equal(tensors_create(tensors, problem, problem->samples), GNF_OK);
}

static void tensors_of_linear(void **state)
{
    struct gnf_problem problem;
    struct tensors tensors;
    int64_t shape[TENSORS_RANK];
    (void)state;
    parse("f16[5,3] | linear(8) | add(c: channel) | groupnorm(2) | add(r: full)", &problem, &tensors);
    assert_int_equal(tensors.count, 7);
    assert_int_equal(tensors.weight, 5);
    static const char *const names[] = {"x", "gamma", "beta", "c", "r", "weight", "bias"};
    static const int elements[] = {15, 8, 8, 8, 40, 24, 8};
    for (int i = 0; i < 7; i++) {
        assert_string_equal(tensors.at[i].name, names[i]);
        assert_int_equal(tensors.at[i].elements, elements[i]);
    }
    assert_true(tensors.at[5].required && !tensors.at[6].required);
    assert_true(tensors.at[5].rank == 2 && tensors.at[5].shape[0] == 8 && tensors.at[5].shape[1] == 3);
    assert_int_equal(tensors_y_shape(&tensors, shape), 2);
    assert_true(shape[0] == 5 && shape[1] == 8);
    assert_int_equal(tensors_bytes(&tensors, true), 2 * (40 + 15 + 8 + 8 + 8 + 40 + 24 + 8));
    assert_true(tensors_flop(&problem, 5) == 2 * 5 * 3 * 8);
    /* y has another shape than x, or might, and the product reads x while y is written */
    assert_false(tensors_can_share(&tensors, TENSOR_X));
    assert_true(tensors_can_share(&tensors, TENSOR_OPERAND + 1));
    assert_false(tensors_can_share(&tensors, tensors.weight));

    parse("f32[5,8] | groupnorm(2)", &problem, &tensors);
    assert_int_equal(tensors.weight, -1);
    assert_true(tensors_can_share(&tensors, TENSOR_X));
    assert_true(tensors_flop(&problem, 5) == 0);
}

static void files_of_weights(void **state)
{
    struct gnf_problem problem;
    struct tensors tensors;
    char path[] = "/tmp/gnfuse-linear-XXXXXX";
    const float values[24] = {0};
    const int64_t good[2] = {8, 3}, turned[2] = {3, 8};
    (void)state;
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    parse("f32[5,3] | linear(8) | groupnorm(2)", &problem, &tensors);
    assert_int_equal(npy_write(path, GNF_F32, 2, turned, values), GNF_OK);
    assert_int_equal(tensors_load(&tensors, "weight", path), GNF_INVALID_ARGUMENT);
    assert_non_null(strstr(gnf_error_message(), "holds '<f4' (3, 8), wanted '<f4' (8, 3)"));
    assert_int_equal(tensors_load(&tensors, "wight", path), GNF_INVALID_ARGUMENT);
    assert_non_null(strstr(gnf_error_message(), "allowed: x, gamma, beta, weight, bias"));
    tensors.at[TENSOR_X].data = malloc(1);
    assert_int_equal(tensors_require(&tensors), GNF_INVALID_ARGUMENT);
    assert_non_null(strstr(gnf_error_message(), "weight is missing"));
    assert_int_equal(npy_write(path, GNF_F32, 2, good, values), GNF_OK);
    assert_int_equal(tensors_load(&tensors, "weight", path), GNF_OK);
    assert_int_equal(tensors_require(&tensors), GNF_OK);
    tensors_free(&tensors);
    unlink(path);
}

/* ---- data ---- */

static bool has(const char *text, const char *name)
{
    struct gnf_problem problem;
    struct data_set list[DATA_SETS_MAX];
    if (gnf_problem_parse(text, &problem) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    int count = data_sets_list(&problem, list);
    assert_true(count <= DATA_SETS_MAX);
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return true;
    return false;
}

static void data_sets_fit_the_problem(void **state)
{
    (void)state;
    assert_true(has("f32[5,8] | groupnorm(2)", "large-mean"));
    assert_false(has("f32[5,8] | groupnorm(2)", "mean-3"));
    static const char *const all[] = {"uniform",        "one-inf",    "mean-3",     "scaled-rows",
                                      "wide-exponents", "cancelling", "weight-nan", "weight-inf"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_true(has("f32[5,96] | linear(64) | groupnorm(8) | silu", all[i]));
    assert_false(has("f16[5,96] | linear(64) | groupnorm(8)", "scaled-rows"));
    assert_true(has("bf16[5,96] | linear(64) | groupnorm(8)", "scaled-rows"));
    assert_false(has("f32[5,96] | linear(64) | silu | groupnorm(8)", "wide-exponents"));
    assert_false(has("f32[5,64] | linear(64) | groupnorm(8) | add(x)", "scaled-rows"));
    assert_false(has("f32[5,96] | y = linear(64) | groupnorm(8) | mul(y)", "scaled-rows"));
    assert_true(has("f32[5,96] | linear(64) | h = groupnorm(8) | silu | mul(h)", "scaled-rows"));
    assert_true(has("f32[5,96] | linear(64) | groupnorm(8) | add(r: full)", "scaled-rows"));
    assert_false(has("f32[5,96] | linear(64, tf32) | groupnorm(8)", "cancelling"));
    assert_true(has("f32[5,96] | linear(64, strict) | groupnorm(8)", "cancelling"));

    struct gnf_problem problem;
    struct data_set list[DATA_SETS_MAX];
    assert_int_equal(gnf_problem_parse("f32[5,96] | linear(64, tf32) | groupnorm(8)", &problem), GNF_OK);
    data_sets_list(&problem, list);
    assert_string_equal(list[2].name, "large-mean");
    assert_true(list[2].recipe.x.mean == 8);
}

static void tolerance_of_tf32(void **state)
{
    struct gnf_problem problem;
    (void)state;
    assert_int_equal(gnf_problem_parse("f32[5,96] | linear(64, tf32) | groupnorm(8)", &problem), GNF_OK);
    assert_true(compare_tolerance(&problem) == 1e-2);
    assert_int_equal(gnf_problem_parse("f32[5,96] | linear(64, strict) | groupnorm(8)", &problem), GNF_OK);
    assert_true(compare_tolerance(&problem) == 1e-4);
}

static void recipes_of_rows(void **state)
{
    enum { ROWS = 50, ROW = 400 };
    static float values[ROWS * ROW], weights[ROWS * ROW];
    double least = INFINITY, most = 0;
    (void)state;
    const struct random_recipe rows = {.kind = RANDOM_ROWS}, wide = {.kind = RANDOM_WIDE};
    random_fill(&rows, 1, "x", GNF_F32, values, ROWS * ROW, ROW);
    for (int r = 0; r < ROWS; r++) {
        double largest = 0;
        for (int i = 0; i < ROW; i++)
            largest = fmax(largest, fabs(values[r * ROW + i]));
        least = fmin(least, largest);
        most = fmax(most, largest);
    }
    assert_true(least <= 0x1p-20 && least > 0x1p-21 && most <= 0x1p20 && most > 0x1p19);

    random_fill(&wide, 1, "x", GNF_F32, values, ROWS * ROW, ROW);
    int negative = 0, small = 0;
    for (int i = 0; i < ROWS * ROW; i++) {
        double size = fabs(values[i]);
        assert_true(size >= 0.99e-20 && size <= 1.01e20);
        negative += values[i] < 0;
        small += size < 1;
    }
    assert_true(negative > 9500 && negative < 10500 && small > 9500 && small < 10500);

    /* what cancels does, but for a sixteenth of it */
    const struct random_recipe cancelling = {.kind = RANDOM_CANCELLING, .scale = 32};
    const struct random_recipe halves = {.kind = RANDOM_HALVES};
    random_fill(&cancelling, 1, "x", GNF_F32, values, ROWS * ROW, ROW);
    random_fill(&halves, 1, "weight", GNF_F32, weights, ROWS * ROW, ROW);
    double left = 0, half = 0;
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, first = 0;
        for (int i = 0; i < ROW; i++) {
            assert_true(i < ROW / 2 || weights[r * ROW + i] == weights[r * ROW + i - ROW / 2]);
            sum += (double)values[r * ROW + i] * weights[r * ROW + i];
            first += i < ROW / 2 ? (double)values[r * ROW + i] * weights[r * ROW + i] : 0;
        }
        left += sum * sum;
        half += first * first;
    }
    assert_true(left < half / 100 && left > half / 1000);
}

static void weights_are_a_fresh_layers(void **state)
{
    struct gnf_problem problem;
    struct tensors tensors;
    const struct tensors_recipe uniform = {.affine = true};
    double largest[2] = {0}, sum = 0;
    (void)state;
    parse("f32[2,400] | linear(96) | groupnorm(8)", &problem, &tensors);
    assert_int_equal(tensors_random(&tensors, &uniform, 1), GNF_OK);
    for (int which = 0; which < 2; which++)
        for (int64_t i = 0; i < tensors.at[tensors.weight + which].elements; i++)
            largest[which] =
                fmax(largest[which], fabs(((float *)tensors.at[tensors.weight + which].data)[i]));
    for (int64_t i = 0; i < 400 * 96; i++)
        sum += ((float *)tensors.at[tensors.weight].data)[i];
    assert_true(largest[0] <= 0.05 && largest[0] > 0.0499);
    assert_true(largest[1] <= 0.05 && largest[1] > 0.045);
    assert_true(fabs(sum) < 38400 * 0.001);
    tensors_free(&tensors);
}

/* ---- the product ---- */

static double naive(const struct tensors *tensors, int64_t row, int64_t column)
{
    const struct gnf_problem *problem = tensors->problem;
    const void *bias = tensors->at[tensors->weight + 1].data;
    double sum = bias != NULL ? stored_load(problem->dtype, bias, column) : 0;
    for (int64_t k = 0; k < problem->inputs; k++)
        sum += stored_load(problem->dtype, tensors->at[TENSOR_X].data, row * problem->inputs + k) *
               stored_load(problem->dtype, tensors->at[tensors->weight].data, column * problem->inputs + k);
    return sum;
}

static void check_product(const char *text, bool bias)
{
    struct gnf_problem problem;
    struct tensors tensors;
    const struct tensors_recipe recipe = {.affine = bias};
    parse(text, &problem, &tensors);
    assert_int_equal(tensors_random(&tensors, &recipe, 1), GNF_OK);
    double *out = malloc((size_t)(problem.samples * problem.channels) * sizeof *out);
    assert_int_equal(product_run(&tensors, 0, problem.samples, out), GNF_OK);
    for (int64_t r = 0; r < problem.samples; r++)
        for (int64_t c = 0; c < problem.channels; c++) {
            double want = naive(&tensors, r, c), got = out[r * problem.channels + c];
            if (!(fabs(got - want) <= 1e-13))
                fail_msg("%s: [%d, %d]: got %.17g, wanted %.17g", text, (int)r, (int)c, got, want);
        }
    if (problem.samples > 2) { /* some of the rows */
        double *rest = malloc((size_t)((problem.samples - 2) * problem.channels) * sizeof *rest);
        assert_int_equal(product_run(&tensors, 2, problem.samples - 2, rest), GNF_OK);
        assert_memory_equal(rest, out + 2 * problem.channels,
                            (size_t)((problem.samples - 2) * problem.channels) * sizeof *rest);
        free(rest);
    }
    free(out);
    tensors_free(&tensors);
}

static void products(void **state)
{
    (void)state;
    check_product("f32[1,1] | linear(1) | groupnorm(1)", true);
    check_product("f32[3,193] | linear(9) | groupnorm(1)", true);
    check_product("f32[131,7] | linear(129) | groupnorm(1)", false);
    check_product("f32[5,385] | linear(260) | groupnorm(1)", true);
    check_product("f16[6,50] | linear(12) | groupnorm(1)", true);
    check_product("bf16[6,50] | linear(12) | groupnorm(1)", false);
}

static void nan_and_infinity_follow(void **state)
{
    struct gnf_problem problem;
    struct tensors tensors;
    double out[5 * 4];
    const struct tensors_recipe uniform = {.affine = true};
    (void)state;
    parse("f32[5,200] | linear(4) | groupnorm(1)", &problem, &tensors);
    assert_int_equal(tensors_random(&tensors, &uniform, 1), GNF_OK);
    float *x = tensors.at[TENSOR_X].data, *weight = tensors.at[tensors.weight].data;
    x[1 * 200 + 195] = INFINITY;
    weight[2 * 200 + 3] = NAN;
    weight[3 * 200 + 195] = 0;
    assert_int_equal(product_run(&tensors, 0, 5, out), GNF_OK);
    for (int r = 0; r < 5; r++)
        for (int c = 0; c < 4; c++) {
            double got = out[r * 4 + c];
            bool nan = c == 2 || (r == 1 && c == 3); /* infinity times 0 */
            assert_true(nan ? isnan(got) : r == 1 ? isinf(got) : isfinite(got));
            assert_true(r != 1 || nan || (got > 0) == (weight[c * 200 + 195] > 0));
        }
    tensors_free(&tensors);
}

/* Labels of x and of linear's output, a tensor between, more rows than a slab, and a reduction. */
static void the_whole_chain(void **state)
{
    enum { N = 1500, C = 6 };
    struct gnf_problem problem;
    struct tensors tensors;
    const struct tensors_recipe uniform = {.affine = true};
    static double y[N];
    (void)state;
    parse("f32[1500,6] | l = linear(6) | add(c: channel) | groupnorm(2) | mul(x) | add(l) | sum", &problem,
          &tensors);
    assert_int_equal(tensors_random(&tensors, &uniform, 1), GNF_OK);
    if (reference_run(&tensors, y) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    const float *x = tensors.at[TENSOR_X].data, *gamma = tensors.at[TENSOR_GAMMA].data,
                *beta = tensors.at[TENSOR_BETA].data, *c = tensors.at[TENSOR_OPERAND].data;
    for (int n = 0; n < N; n++) {
        double want = 0;
        for (int g = 0; g < 2; g++) {
            double l[3], z[3], mean = 0, variance = 0;
            for (int i = 0; i < 3; i++) {
                l[i] = naive(&tensors, n, 3 * g + i);
                z[i] = l[i] + c[3 * g + i];
                mean += z[i] / 3;
            }
            for (int i = 0; i < 3; i++)
                variance += (z[i] - mean) * (z[i] - mean) / 3;
            for (int i = 0; i < 3; i++)
                want +=
                    ((z[i] - mean) / sqrt(variance + (double)1e-5f) * gamma[3 * g + i] + beta[3 * g + i]) *
                        x[n * C + 3 * g + i] +
                    l[i];
        }
        if (!(fabs(y[n] - want) <= 1e-9))
            fail_msg("sample %d: got %.12g, wanted %.12g", n, y[n], want);
    }
    tensors_free(&tensors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_linear),
        cmocka_unit_test(files_of_weights),
        cmocka_unit_test(data_sets_fit_the_problem),
        cmocka_unit_test(tolerance_of_tf32),
        cmocka_unit_test(recipes_of_rows),
        cmocka_unit_test(weights_are_a_fresh_layers),
        cmocka_unit_test(products),
        cmocka_unit_test(nan_and_infinity_follow),
        cmocka_unit_test(the_whole_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
