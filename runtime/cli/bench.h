/* A plan's time on a GPU, beside a copy of the same bytes in the same run, and what the host spends on it. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "copy.h"
#include "tensors.h"

struct bench_result {
    double time_us, spread_us;
    int samples, batch, sets;
    bool cold;              /* no launch found its inputs in the L2 cache, */
    bool weight_hot;        /* but the weight perhaps, which fits there */
    int64_t bytes;          /* read and written at least: y and every tensor given */
    double flop;            /* of linear or conv2d, 0 without either */
    double copy_us;         /* 0: no copy could be measured */
    double copy_fraction;   /* copy_us / time_us */
    char copy_missing[256]; /* why there is no copy; "" otherwise */
    double execute_us;  /* host time of gnf_execute beyond bare launches of the same kernels; where cuBLASLt
                           or a product's slabs are among them, all of it */
    bool execute_whole; /* all of it */
};

/* In the simulator the times are those of its simulated clock, and there are no copy_us and execute_us.
 * Uploads the tensors as often as it takes to find the L2 cache cold. */
gnf_status bench_run(struct bench_result *result, struct session *session, const struct tensors *tensors,
                     const gnf_plan *plan);

#endif
