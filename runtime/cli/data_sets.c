#include "data_sets.h"

#include <string.h>

static bool conv2d_first(const struct gnf_problem *problem)
{
    return problem->conv.kernel > 0;
}

/* groupnorm stands right behind linear or conv2d and its output is all that is used, so that an error in it
 * counts by the group's deviation. */
static bool norm_takes_all(const struct gnf_problem *problem)
{
    bool all = problem->norm == 1;
    for (int k = problem->norm + 1; k < problem->stage_count; k++)
        all &= problem->stage[k].op->kind != GNF_OP_BINARY || problem->stage[k].label < 0 ||
               problem->stage[k].label > problem->norm;
    return all;
}

/* What the stored type resolves, and what is left of it after float arithmetic before the norm or a product
 * with x. conv2d turns a mean into an offset a channel, as large as the mean: beside a group's other channels
 * its error is none, alone it is float's. */
static double large_mean(const struct gnf_problem *problem)
{
    if (problem->dtype == GNF_BF16 || problem->tf32)
        return 8;
    if (conv2d_first(problem) && problem->dtype == GNF_F32 && problem->channels > problem->groups &&
        norm_takes_all(problem))
        return 1e4;
    bool product = false;
    for (int k = 0; k < problem->stage_count; k++)
        product |= problem->stage[k].op->kind == GNF_OP_BINARY &&
                   strcmp(problem->stage[k].op->name, "mul") == 0 && problem->stage[k].label >= 0;
    return problem->dtype == GNF_F16 || problem->norm > 0 || product ? 100 : 1e4;
}

/* Can rows, or samples, be of any size? An f16 holds 2^-14 to 2^15. And an error of float in y = linear(x)
 * grows with the row. */
static bool takes_any_scale(const struct gnf_problem *problem)
{
    return problem->dtype != GNF_F16 && norm_takes_all(problem);
}

/* What a matrix product can do wrong. */
static int list_linear(const struct gnf_problem *problem, struct data_set *list)
{
    const struct random_recipe uniform = {.kind = RANDOM_UNIFORM};
    int count = 0;
    list[count++] = (struct data_set){"mean-3", {{RANDOM_NORMAL, 3, 1, 0, 0}, uniform, true}, false};
    if (takes_any_scale(problem)) {
        list[count++] = (struct data_set){"scaled-rows", {{.kind = RANDOM_ROWS}, uniform, true}, false};
        /* Weights around 1e-6, as the squares of the norm would overflow with values of 1e20. */
        const struct random_recipe small = {.kind = RANDOM_UNIFORM, .scale = 0x1p-20};
        list[count++] = (struct data_set){"wide-exponents", {{.kind = RANDOM_WIDE}, small, true}, false};
    }
    /* A sixteenth is left, of thousands of inputs a quarter: with less of it the sums of float, in whatever
     * order, are off by more than the tolerance; TF32's operands are for any number. x of 32 keeps eps out.
     */
    if (!problem->tf32) {
        const struct random_recipe x = {.kind = RANDOM_CANCELLING, .scale = 32};
        list[count++] = (struct data_set){"cancelling", {x, {.kind = RANDOM_HALVES}, true}, false};
    }
    const struct random_recipe nan = {.special = RANDOM_ONE_NAN}, infinity = {.special = RANDOM_ONE_INF};
    list[count++] = (struct data_set){"weight-nan", {uniform, nan, true}, false};
    list[count++] = (struct data_set){"weight-inf", {uniform, infinity, true}, false};
    return count;
}

/* What a convolution can do wrong. */
static int list_conv2d(const struct gnf_problem *problem, struct data_set *list)
{
    const struct random_recipe uniform = {.kind = RANDOM_UNIFORM}, nan = {.special = RANDOM_ONE_NAN},
                               infinity = {.special = RANDOM_ONE_INF};
    int count = 0;
    list[count++] = (struct data_set){"mean-3", {{RANDOM_NORMAL, 3, 1, 0, 0}, uniform, true}, false};
    const struct random_recipe lognormal = {.kind = RANDOM_LOGNORMAL,
                                            .spread = norm_takes_all(problem) ? 2 : 1};
    list[count++] = (struct data_set){"lognormal", {lognormal, uniform, true}, false};
    if (takes_any_scale(problem)) /* without a bias, beside which the smallest have no digits left in fp32 */
        list[count++] = (struct data_set){"scaled-samples", {{.kind = RANDOM_ROWS}, uniform, false}, false};
    list[count++] = (struct data_set){"weight-nan", {uniform, nan, true}, false};
    list[count++] = (struct data_set){"weight-inf", {uniform, infinity, true}, false};
    return count;
}

int data_sets_list(const struct gnf_problem *problem, struct data_set list[DATA_SETS_MAX])
{
    const struct random_recipe weight = {.kind = RANDOM_UNIFORM};
    const struct data_set all[] = {
        {"uniform", {{.kind = RANDOM_UNIFORM}, weight, true}, true},
        {"null-affine", {{.kind = RANDOM_UNIFORM}, weight, false}, false},
        {"large-mean", {{RANDOM_NORMAL, large_mean(problem), 1, 0, 0}, weight, true}, false},
        {"constant", {{RANDOM_CONSTANT, -513.3, 0, 0, 0}, weight, true}, false},
        {"one-nan", {{.special = RANDOM_ONE_NAN}, weight, true}, false},
        {"one-inf", {{.special = RANDOM_ONE_INF}, weight, true}, false},
    };
    int count = sizeof all / sizeof all[0];
    memcpy(list, all, sizeof all);
    if (conv2d_first(problem))
        return count + list_conv2d(problem, list + count);
    return problem->inputs > 0 ? count + list_linear(problem, list + count) : count;
}
