/* Test data from a seed: element i depends on (seed, tensor name, i) alone, so any thread can make any part
 * and every machine makes the same uniform values bit for bit. */
#ifndef CLI_RANDOM_H
#define CLI_RANDOM_H

#include "../problem.h"

enum random_kind {
    RANDOM_UNIFORM,   /* in [-1, 1) */
    RANDOM_NORMAL,    /* mean and spread */
    RANDOM_CONSTANT,  /* mean */
    RANDOM_ROWS,      /* uniform, a row times its own power of two from -20 to 20 */
    RANDOM_WIDE,      /* of either sign, the logarithms of the sizes uniform from 1e-20 to 1e20 */
    RANDOM_LOGNORMAL, /* of either sign, the logarithms of the sizes normal with mean 0 and spread */
    RANDOM_HALVES,    /* uniform, the second half of a row the same as its first */
    RANDOM_CANCELLING /* uniform, the second half of a row what cancels its first but for a sixteenth, in
                         rows of 1024 and more a quarter */
};
enum random_special { RANDOM_FINITE, RANDOM_ONE_NAN, RANDOM_ONE_INF };

struct random_recipe {
    enum random_kind kind;
    double mean;                 /* normal: the mean; constant: the value */
    double spread;               /* normal: the standard deviation; lognormal: that of the logarithm */
    enum random_special special; /* one element replaced, at a place that depends on the seed */
    double scale;                /* times this; 0: 1 */
};

/* `row`: elements a row, 0 where there is only one. */
void random_fill(const struct random_recipe *data, uint64_t seed, const char *name, enum gnf_dtype dtype,
                 void *out, int64_t count, int64_t row);
/* Uniform in [-1, 1), a multiple of 2^-23. */
float random_uniform(uint64_t key, uint64_t i);
uint64_t random_key(uint64_t seed, const char *name);

#endif
