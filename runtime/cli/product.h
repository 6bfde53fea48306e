/* linear or conv2d in float64 on the host, for the reference. */
#ifndef CLI_PRODUCT_H
#define CLI_PRODUCT_H

#include "tensors.h"

/* The output of the first stage, bias included, for samples [first, first + samples): out[s * OUT + c] of
 * linear, out[(s * OUT + c) * spatial + pixel] of conv2d, whatever the layout. x and weight must have data.
 * Uses up to 16 threads; 1024 rows with IN = OUT = 8192, 69 G multiply-adds, take a second or two on 16
 * cores. NaN and infinities go through as in any sum; padding is zeros. GNF_OUT_OF_MEMORY. */
gnf_status product_run(const struct tensors *tensors, int64_t first, int64_t samples, double *out);

#endif
