#include "data_sets.h"

#include <string.h>

/* What the stored type resolves, and what is left of it after float arithmetic before the norm or a product
 * with x. */
static double large_mean(const struct gnf_problem *problem)
{
    if (problem->dtype == GNF_BF16)
        return 8;
    bool product = false;
    for (int k = 0; k < problem->stage_count; k++)
        product |= problem->stage[k].op->kind == GNF_OP_BINARY &&
                   strcmp(problem->stage[k].op->name, "mul") == 0 && problem->stage[k].label >= 0;
    return problem->dtype == GNF_F16 || problem->norm > 0 || product ? 100 : 1e4;
}

struct data_set data_sets_get(const struct gnf_problem *problem, int i)
{
    const struct data_set all[DATA_SETS] = {
        {"uniform", {RANDOM_UNIFORM, 0, 0, RANDOM_FINITE}, true, true},
        {"null-affine", {RANDOM_UNIFORM, 0, 0, RANDOM_FINITE}, false, false},
        {"large-mean", {RANDOM_NORMAL, large_mean(problem), 1, RANDOM_FINITE}, true, false},
        {"constant", {RANDOM_CONSTANT, -513.3, 0, RANDOM_FINITE}, true, false},
        {"one-nan", {RANDOM_UNIFORM, 0, 0, RANDOM_ONE_NAN}, true, false},
        {"one-inf", {RANDOM_UNIFORM, 0, 0, RANDOM_ONE_INF}, true, false},
    };
    return all[i];
}
