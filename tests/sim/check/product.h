/* A matrix product through the stand-in for cuBLASLt, and all that belongs to it. Built against the
 * simulator's declarations, and once more against the toolkit's own where it has them. */
#ifndef PRODUCT_H
#define PRODUCT_H

#include "sim.h"
#ifdef TOOLKIT
#include <cublasLt.h>
#else
#include "../driver/cublaslt.h"
#endif
#include <math.h>
#include <stdint.h>

#define LT_FUNCTIONS(X)                                                                                      \
    X(GetVersion)                                                                                            \
    X(GetStatusName)                                                                                         \
    X(GetStatusString)                                                                                       \
    X(Create)                                                                                                \
    X(Destroy)                                                                                               \
    X(MatmulDescCreate)                                                                                      \
    X(MatmulDescDestroy)                                                                                     \
    X(MatmulDescSetAttribute)                                                                                \
    X(MatmulDescGetAttribute)                                                                                \
    X(MatrixLayoutCreate)                                                                                    \
    X(MatrixLayoutDestroy)                                                                                   \
    X(MatrixLayoutSetAttribute)                                                                              \
    X(MatrixLayoutGetAttribute)                                                                              \
    X(MatmulPreferenceCreate)                                                                                \
    X(MatmulPreferenceDestroy)                                                                               \
    X(MatmulPreferenceSetAttribute)                                                                          \
    X(MatmulPreferenceGetAttribute)                                                                          \
    X(MatmulAlgoGetHeuristic)                                                                                \
    X(MatmulAlgoCheck)                                                                                       \
    X(Matmul)

static struct sim sim;
static struct {
#define LT_FIELD(name) __typeof__(&cublasLt##name) name;
    LT_FUNCTIONS(LT_FIELD)
#undef LT_FIELD
} lt;
static int failures;

#define WANT(call, want)                                                                                     \
    do {                                                                                                     \
        int got_ = (int)(call);                                                                              \
        if (got_ != (int)(want)) {                                                                           \
            failures++;                                                                                      \
            printf("FAILED line %d: %s gave %d, not %d\n", __LINE__, #call, got_, (int)(want));              \
        }                                                                                                    \
    } while (0)
#define OK(call)         WANT(call, 0)
#define CHECK(condition) WANT(!(condition), 0)
#define INVALID          CUBLAS_STATUS_INVALID_VALUE
#define NO_SUPPORT       CUBLAS_STATUS_NOT_SUPPORTED

static inline size_t size_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}
static uint64_t random_state = 88172645463325252u;
static inline uint32_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 20);
}
static inline void fill(cudaDataType type, void *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t r = random_bits();
        if (type == CUDA_R_16F) /* all exponents but infinity's */
            ((uint16_t *)p)[i] = (uint16_t)(r % 0x7c00 | (r >> 16 & 0x8000));
        else if (type == CUDA_R_16BF)
            ((uint16_t *)p)[i] = (uint16_t)((0x3800 + r % 0x1000) | (r >> 16 & 0x8000));
        else
            ((float *)p)[i] = ldexpf((float)(int32_t)r, (int)(random_bits() % 40) - 50);
    }
}

struct matrix {
    cudaDataType type;
    int transposed;
    int64_t rows, cols, ld, stride;
    void *host;
    size_t bytes;
    CUdeviceptr device;
    cublasLtMatrixLayout_t layout;
};
struct product {
    int64_t m, n, k;
    int batch;
    float alpha, beta;
    struct matrix a, b, d;
    cublasLtMatmulDesc_t desc;
};
static cublasLtHandle_t handle;
static const int more = 3; /* elements between columns, and between matrices */

static inline CUcontext enter(void)
{
    CUcontext context;
    OK(sim.cuDevicePrimaryCtxRetain(&context, 0));
    OK(sim.cuCtxSetCurrent(context));
    OK(lt.Create(&handle));
    return context;
}
/* `want`: what taking the handle away returns. */
static inline void leave(cublasStatus_t want)
{
    WANT(lt.Destroy(handle), want);
    OK(sim.cuCtxSetCurrent(NULL));
    OK(sim.cuDevicePrimaryCtxRelease(0));
}
static inline void matrix_make(struct matrix *x, int64_t rows, int64_t cols, int64_t ld, int batch)
{
    x->rows = rows;
    x->cols = cols;
    x->ld = ld;
    x->stride = batch > 1 ? ld * cols + more : 0;
    x->bytes = (size_t)((batch - 1) * x->stride + (cols - 1) * ld + rows) * size_of(x->type);
    x->host = malloc(x->bytes);
    fill(x->type, x->host, x->bytes / size_of(x->type));
    OK(sim.cuMemAlloc(&x->device, x->bytes));
    OK(sim.cuMemcpyHtoD(x->device, x->host, x->bytes));
    OK(lt.MatrixLayoutCreate(&x->layout, x->type, (uint64_t)rows, (uint64_t)cols, ld));
    OK(lt.MatrixLayoutSetAttribute(x->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    OK(lt.MatrixLayoutSetAttribute(x->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x->stride, 8));
}
static inline void matrix_free(struct matrix *x)
{
    free(x->host);
    OK(sim.cuMemFree(x->device));
    OK(lt.MatrixLayoutDestroy(x->layout));
}
/* `gap`: elements between columns. */
static inline struct product product_make(cudaDataType type, int tf32, int ta, int tb, int64_t m, int64_t n,
                                          int64_t k, int batch, int gap)
{
    struct product p = {.m = m, .n = n, .k = k, .batch = batch, .alpha = 1};
    int32_t t = CUBLAS_OP_T;
    p.a.type = p.b.type = type;
    p.a.transposed = ta;
    p.b.transposed = tb;
    p.d.type = CUDA_R_32F;
    matrix_make(&p.a, ta ? k : m, ta ? m : k, (ta ? k : m) + gap, batch);
    matrix_make(&p.b, tb ? n : k, tb ? k : n, (tb ? n : k) + gap, batch);
    matrix_make(&p.d, m, n, m + gap, batch);
    OK(lt.MatmulDescCreate(&p.desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    if (ta)
        OK(lt.MatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t));
    if (tb)
        OK(lt.MatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSB, &t, sizeof t));
    return p;
}
static inline void product_free(struct product *p)
{
    OK(sim.cuCtxSynchronize());
    matrix_free(&p->a);
    matrix_free(&p->b);
    matrix_free(&p->d);
    OK(lt.MatmulDescDestroy(p->desc));
}
static inline cublasStatus_t product_run(const struct product *p, const cublasLtMatmulAlgo_t *algo,
                                         CUdeviceptr workspace, size_t size, CUstream stream)
{
    return lt.Matmul(handle, p->desc, &p->alpha, (void *)p->a.device, p->a.layout, (void *)p->b.device,
                     p->b.layout, &p->beta, (void *)p->d.device, p->d.layout, (void *)p->d.device,
                     p->d.layout, algo, (void *)workspace, size, stream);
}
static struct {
    uint64_t workspace;
    uint32_t a, b, d, reductions;
} limits = {1 << 30, 256, 256, 256, 7};
static inline int heuristics(const struct product *p, int wanted, cublasLtMatmulHeuristicResult_t *results)
{
    int n = -1;
    cublasLtMatmulPreference_t pref;
    OK(lt.MatmulPreferenceCreate(&pref));
#define LIMIT(which, field)                                                                                  \
    OK(lt.MatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_##which, &limits.field,                    \
                                       sizeof limits.field))
    LIMIT(MAX_WORKSPACE_BYTES, workspace);
    LIMIT(MIN_ALIGNMENT_A_BYTES, a);
    LIMIT(MIN_ALIGNMENT_B_BYTES, b);
    LIMIT(MIN_ALIGNMENT_C_BYTES, d);
    LIMIT(MIN_ALIGNMENT_D_BYTES, d);
    LIMIT(REDUCTION_SCHEME_MASK, reductions);
#undef LIMIT
    cublasStatus_t status = lt.MatmulAlgoGetHeuristic(handle, p->desc, p->a.layout, p->b.layout, p->d.layout,
                                                      p->d.layout, pref, wanted, results, &n);
    OK(lt.MatmulPreferenceDestroy(pref));
    return status ? -(int)status : n;
}
/* Opens the simulator; ends the program where it cannot. */
static inline void product_start(void)
{
    sim_open(&sim);
#define LT_RESOLVE(name) sim_symbol(&sim, "cublasLt" #name, &lt.name);
    LT_FUNCTIONS(LT_RESOLVE)
#undef LT_RESOLVE
}

#endif
