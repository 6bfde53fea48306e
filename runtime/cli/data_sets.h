/* The data that every variant is checked on. */
#ifndef CLI_DATA_SETS_H
#define CLI_DATA_SETS_H

#include "../problem.h"
#include "random.h"

struct data_set {
    const char *name;
    struct random_recipe x;
    bool affine;   /* gamma and beta given, not null */
    bool thorough; /* also misaligned pointers, y in place of its inputs, inputs left alone */
};
enum { DATA_SETS = 6 };

/* The i-th of DATA_SETS, for the problem: a mean of 1e4 only where dtype and chain can resolve a spread of 1
 * there. */
struct data_set data_sets_get(const struct gnf_problem *problem, int i);

#endif
