/* The product in front of the tail: what linear's or conv2d's output is made of, and the cuBLASLt calls that
 * make it.
 *
 * N is worked through in slabs of rows, so that partial sums stay small; every kernel of the variant, the
 * tail's too, is launched once a slab, but for the weight's split, which comes once. In the workspace:
 * partial sums [sums, rows, OUT] fp32, row scales, row norms, a byte for every 128 columns of a row (which
 * the product kernel computes again where hi + lo are not enough; less than 16 columns at the end count with
 * those before), split x, (weights split each time: column scales, column norms, split weight), the tail's
 * chunks, cuBLASLt's own (whose address is rounded up), each aligned to 256 bytes. A prepared weight is
 * column scales, column norms, then split weight, the same for every N and every variant of its method. Split
 * rows are [parts, padded] fp16: x hi then lo, weight lo then hi, so that one product over 2 * padded gives
 * both cross terms; padded is IN rounded up to 128, so that every number of chunks up to 16 divides it into
 * multiples of 8. For the method "wgmma" both are tiles of 128 rows by 64 columns, hi then lo
 * (templates/lib/tiles.cuh), with rows and IN rounded up to whole ones.
 *
 * Of conv2d a row is a sample: the workspace has [sums, rows, OUT, height, width] fp32 in x's layout, (where
 * a kernel makes something of the weight each time: a float a row, a float an output channel, the
 * weight_bytes that it fills), the tail's chunks. Where the convolution is stored, slabs are as even as its
 * bytes allow; where it is not (sums = 0), there is one. */
#ifndef GNF_LINEAR_H
#define GNF_LINEAR_H

#include "plan.h"

enum { GNF_SLAB = 2048 }; /* rows of linear's x at once where N is more than a quarter larger */
/* Bytes of conv2d's output at once, if that is a sample or more: they stay in the L2 cache of a large GPU
 * until the tail reads them. generator/products.py has it too. */
enum { GNF_CONV_SLAB = 32 << 20 };

/* Rows of a slab of the variant: all of N where it has no product. */
int64_t gnf_slab_rows(const struct gnf_variant *variant, const struct gnf_problem *problem, int64_t samples);
/* Slabs and workspace of a choice with a product, whose workspace_size is the tail's until then.
 * GNF_TOO_LARGE. */
gnf_status gnf_linear_size(struct gnf_choice *choice, const struct gnf_problem *problem);
/* cuBLASLt's products of a slab: 0, 1 or 2. */
int gnf_linear_gemms(enum gnf_method method);

/* Makes the cuBLASLt side of a choice ready, where it has one: the recorded algorithms (choice->gemm) where
 * they are of this cuBLASLt and pass its check, else the first of its heuristics; trims workspace_size to
 * what they need. GNF_NO_CUBLAS, GNF_NOT_PREPARED. */
gnf_status gnf_linear_prepare(gnf_context *context, struct gnf_choice *choice,
                              const struct gnf_problem *problem, CUstream stream);
/* Fine for one that is not ready, and for all zeros. */
void gnf_linear_release(struct gnf_choice *choice);
/* cuBLASLt's product number `gemm` of a slab, on the pointers that the kernels get. */
gnf_status gnf_linear_multiply(const struct gnf_choice *choice, const struct gnf_kernel_args *args, int gemm,
                               void *workspace, CUstream stream);

/* Enqueues an execution of a choice with a product. `args` has the caller's pointers, `workspace` among them;
 * `prepared` is the prepared weight or 0. */
gnf_status gnf_linear_execute(const struct gnf_plan *plan, const struct gnf_choice *choice,
                              struct gnf_kernel_args *args, uint64_t prepared, CUstream stream);

/* For measuring: the matrix products of a plan's own choice, and the algorithms that the heuristics offer for
 * each. A plan that is being executed elsewhere must not change. */
int gnf_plan_gemms(const struct gnf_plan *plan);
int gnf_plan_gemm_candidates(const struct gnf_plan *plan, int gemm);
void gnf_plan_gemm_take(struct gnf_plan *plan, int gemm, int candidate);
/* What record.gemm holds: cuBLASLt's version and each product's algorithm, "130101:HEX,HEX", of a whole slab;
 * malloc'ed. NULL (and GNF_OK) where there is none. */
gnf_status gnf_plan_gemm_text(const struct gnf_plan *plan, char **text);

#endif
