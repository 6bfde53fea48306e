#include "data_sets.h"

#include <string.h>

/* What the stored type resolves, and what is left of it after float arithmetic before the norm or a product
 * with x. */
static double large_mean(const struct gnf_problem *problem)
{
    if (problem->dtype == GNF_BF16 || problem->tf32)
        return 8;
    bool product = false;
    for (int k = 0; k < problem->stage_count; k++)
        product |= problem->stage[k].op->kind == GNF_OP_BINARY &&
                   strcmp(problem->stage[k].op->name, "mul") == 0 && problem->stage[k].label >= 0;
    return problem->dtype == GNF_F16 || problem->norm > 0 || product ? 100 : 1e4;
}

/* Can rows be of any size? An f16 holds 2^-14 to 2^15. And an error of float in y = linear(x) grows with the
 * row: groupnorm right behind takes that back, but not what comes between, nor a later stage that takes x or
 * y again. */
static bool takes_any_scale(const struct gnf_problem *problem)
{
    bool any = problem->dtype != GNF_F16 && problem->norm == 1;
    for (int k = problem->norm + 1; k < problem->stage_count; k++)
        any &= problem->stage[k].op->kind != GNF_OP_BINARY || problem->stage[k].label < 0 ||
               problem->stage[k].label > problem->norm;
    return any;
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
    enum { ANY = sizeof all / sizeof all[0] };
    memcpy(list, all, sizeof all);
    return problem->inputs > 0 ? ANY + list_linear(problem, list + ANY) : ANY;
}
