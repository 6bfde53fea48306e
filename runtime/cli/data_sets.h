/* The data that every variant is checked on. */
#ifndef CLI_DATA_SETS_H
#define CLI_DATA_SETS_H

#include "tensors.h"

struct data_set {
    const char *name;
    struct tensors_recipe recipe;
    bool thorough; /* also a second time, misaligned pointers, y in place of its inputs, inputs left alone */
};
enum { DATA_SETS_MAX = 12 };

/* Those for the problem; returns their number. Of what no arithmetic in float can resolve to the tolerance
 * they have a milder form, or none. */
int data_sets_list(const struct gnf_problem *problem, struct data_set list[DATA_SETS_MAX]);

#endif
