/* The whole chain in float64 on the host, applied to the stored (already rounded) inputs: what every kernel
 * is judged by. */
#ifndef CLI_REFERENCE_H
#define CLI_REFERENCE_H

#include "tensors.h"

/* The float64 form of an elementwise operation; `scalars` in the order of its parameters. */
typedef double (*gnf_reference_fn)(double x, const double *scalars);
/* Parallel to gnf_ops; NULL for other kinds. Generated from generator/ops.py. */
extern const gnf_reference_fn gnf_op_references[];

/* y[0 .. tensors->y_elements) in logical C order. All required tensors must have data. Uses up to 16 threads,
 * a sample or a group at a time. GNF_OUT_OF_MEMORY. */
gnf_status reference_run(const struct tensors *tensors, double *y);

#endif
