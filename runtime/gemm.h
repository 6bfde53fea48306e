/* cuBLASLt: loaded by dlopen when first needed, and single matrix products through it. Nothing else knows it.
 * Whoever calls what is not said to need no CUDA context has the right one current. */
#ifndef GNF_GEMM_H
#define GNF_GEMM_H

#include "status.h"
#include <cuda.h>
#include <stdbool.h>

enum {
    GNF_GEMM_WORKSPACE = 32 << 20, /* bytes that an algorithm may ask for */
    GNF_GEMM_WORKSPACE_ALIGNMENT = 256,
    GNF_GEMM_SLACK = 240,    /* bytes that aligning what is aligned to 16 may take */
    GNF_GEMM_ALIGNMENT = 16, /* of the result; of operands the most that is made use of */
    GNF_GEMM_CANDIDATES = 8,
    GNF_GEMM_ALGORITHM = 64 /* bytes */
};

/* cuBLASLt with a handle, of one gnf_context. Thread-safety: safe. */
struct gnf_cublaslt;

/* Loads nothing yet. `path` names the library; NULL: `simulated`, the simulator's own file, which has one
 * too; NULL: by version, then the toolkit's folder. Needs no CUDA context. */
gnf_status gnf_cublaslt_create(struct gnf_cublaslt **cublaslt, const char *path, const char *simulated);
/* `current`: the CUDA context is, so that the handle is freed too. */
void gnf_cublaslt_destroy(struct gnf_cublaslt *cublaslt, bool current);
/* Loads it and makes the handle, where that is not done yet: nothing for a capture. GNF_NO_CUBLAS. */
gnf_status gnf_cublaslt_load(struct gnf_cublaslt *cublaslt);
bool gnf_cublaslt_is_loaded(struct gnf_cublaslt *cublaslt);
/* It was tried and there is no library: no further attempt is made. Needs no CUDA context. */
bool gnf_cublaslt_is_missing(struct gnf_cublaslt *cublaslt);
/* For people and records: 130101, and the file. Loads the library, makes no handle, needs no CUDA context.
 * GNF_NO_CUBLAS. `path` may be NULL. */
gnf_status gnf_cublaslt_version(struct gnf_cublaslt *cublaslt, int *version, const char **path);

enum gnf_gemm_type {
    GNF_GEMM_F32,  /* fp32 operands, fp32 arithmetic */
    GNF_GEMM_TF32, /* fp32 operands, rounded to TF32 */
    GNF_GEMM_F16,
    GNF_GEMM_BF16
};
/* result[b] = x[b] * weight[b]^T in fp32, row-major: [rows, columns], of [rows, depth] and [columns, depth].
 */
struct gnf_gemm_shape {
    enum gnf_gemm_type type;
    int64_t rows, columns, depth;
    int64_t x_pitch, weight_pitch; /* elements from row to row; the result's is `columns` */
    int batch;
    int64_t x_stride, weight_stride; /* elements from one product of the batch to the next; the result's is
                                        rows * columns */
    unsigned alignment;              /* bytes that the addresses of x and weight are multiples of */
};

/* One such product, with the algorithms that cuBLASLt's heuristics offer for it, of which the first is taken.
 * Const calls may come from many threads at once. */
struct gnf_gemm;

/* *gemm is NULL on failure. GNF_NO_CUBLAS (also where it has no algorithm), GNF_OUT_OF_MEMORY. */
gnf_status gnf_gemm_create(struct gnf_gemm **gemm, struct gnf_cublaslt *cublaslt,
                           const struct gnf_gemm_shape *shape);
void gnf_gemm_destroy(struct gnf_gemm *gemm);
int gnf_gemm_candidates(const struct gnf_gemm *gemm); /* 1 to GNF_GEMM_CANDIDATES */
void gnf_gemm_take(struct gnf_gemm *gemm, int candidate);
/* Takes an algorithm that an earlier process took, of this version and device, if it can do this product. */
bool gnf_gemm_take_recorded(struct gnf_gemm *gemm, const unsigned char algorithm[GNF_GEMM_ALGORITHM]);
void gnf_gemm_taken(const struct gnf_gemm *gemm, unsigned char algorithm[GNF_GEMM_ALGORITHM]);
/* Bytes for whichever of its algorithms is taken; aligned to GNF_GEMM_WORKSPACE_ALIGNMENT. */
size_t gnf_gemm_workspace(const struct gnf_gemm *gemm);
/* Enqueues it; may be captured. GNF_DRIVER_ERROR, GNF_OUT_OF_MEMORY. */
gnf_status gnf_gemm_run(const struct gnf_gemm *gemm, const void *x, const void *weight, float *result,
                        void *workspace, CUstream stream);

#endif
