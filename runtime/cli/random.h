/* Test data from a seed: element i depends on (seed, tensor name, i) alone, so any thread can make any part
 * and every machine makes the same uniform values bit for bit. */
#ifndef CLI_RANDOM_H
#define CLI_RANDOM_H

#include "../problem.h"

enum random_kind { RANDOM_UNIFORM, RANDOM_NORMAL, RANDOM_CONSTANT };
enum random_special { RANDOM_FINITE, RANDOM_ONE_NAN, RANDOM_ONE_INF };

struct random_recipe {
    enum random_kind kind;
    double mean;                 /* normal: the mean; constant: the value */
    double spread;               /* normal: the standard deviation */
    enum random_special special; /* one element replaced, at a place that depends on the seed */
};

/* Uniform in [-1, 1) takes no mean and spread. */
void random_fill(const struct random_recipe *data, uint64_t seed, const char *name, enum gnf_dtype dtype,
                 void *out, int64_t count);
/* Uniform in [-1, 1), a multiple of 2^-23. */
float random_uniform(uint64_t key, uint64_t i);
uint64_t random_key(uint64_t seed, const char *name);

#endif
