/* linear's matrix product in float64 on the host, for the reference. */
#ifndef CLI_PRODUCT_H
#define CLI_PRODUCT_H

#include "tensors.h"

/* out[r * OUT + c] = x[first + r] . weight[c] + bias[c] for `rows` rows. x and weight must have data. Uses up
 * to 16 threads; 1024 rows with IN = OUT = 8192 take a second or two on 16 cores. NaN and infinities go
 * through as in any sum. GNF_OUT_OF_MEMORY. */
gnf_status product_run(const struct tensors *tensors, int64_t first, int64_t rows, double *out);

#endif
