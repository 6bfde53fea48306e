/* A stand-in for cuBLASLt, for test_gemm and test_linear: it multiplies nothing, remembers what it was asked,
 * counts what is alive, and fails where it is told to. STUB_OLD builds one that lacks a function. */
#include "stub_cublaslt.h"
#include <stdlib.h>
#include <string.h>

#define STUB __attribute__((visibility("default")))

STUB struct stub_cublaslt stub_cublaslt;
#define SELF stub_cublaslt

enum { SUCCESS = 0, INVALID = 7, NOT_SUPPORTED = 15 };

struct operation {
    int compute, scale, transpose[5];
};

STUB size_t cublasLtGetVersion(void)
{
    return 130101;
}

STUB const char *cublasLtGetStatusString(int status)
{
    return status == NOT_SUPPORTED ? "stub: not supported" : NULL;
}

static int make(void **object, size_t size)
{
    *object = calloc(1, size);
    SELF.alive++;
    return SUCCESS;
}

static int unmake(void *object)
{
    free(object);
    SELF.alive--;
    return SUCCESS;
}

STUB int cublasLtCreate(void **handle)
{
    if (SELF.fail_create)
        return SELF.fail_create;
    SELF.created++;
    return make(handle, 1);
}

STUB int cublasLtDestroy(void *handle)
{
    return unmake(handle);
}

STUB int cublasLtMatmulDescCreate(struct operation **operation, int compute, int scale)
{
    make((void **)operation, sizeof **operation);
    (*operation)->compute = compute;
    (*operation)->scale = scale;
    return SUCCESS;
}

STUB int cublasLtMatmulDescDestroy(void *operation)
{
    return unmake(operation);
}

STUB int cublasLtMatmulDescSetAttribute(struct operation *operation, int attribute, const void *value,
                                        size_t size)
{
    if (attribute < 3 || attribute > 4 || size != sizeof(int))
        return INVALID;
    memcpy(&operation->transpose[attribute], value, size);
    return SUCCESS;
}

STUB int cublasLtMatrixLayoutCreate(struct stub_layout **layout, int type, uint64_t rows, uint64_t columns,
                                    int64_t pitch)
{
    if (SELF.fail_layout && --SELF.fail_layout == 0)
        return INVALID;
    make((void **)layout, sizeof **layout);
    **layout = (struct stub_layout){
        .type = type, .rows = (int64_t)rows, .columns = (int64_t)columns, .pitch = pitch, .batch = 1};
    return SUCCESS;
}

STUB int cublasLtMatrixLayoutDestroy(void *layout)
{
    return unmake(layout);
}

STUB int cublasLtMatrixLayoutSetAttribute(struct stub_layout *layout, int attribute, const void *value,
                                          size_t size)
{
    if (attribute == 5 && size == sizeof layout->batch)
        memcpy(&layout->batch, value, size);
    else if (attribute == 6 && size == sizeof layout->stride)
        memcpy(&layout->stride, value, size);
    else
        return INVALID;
    return SUCCESS;
}

STUB int cublasLtMatmulPreferenceCreate(struct stub_preference **preference)
{
    return make((void **)preference, sizeof **preference);
}

STUB int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return unmake(preference);
}

STUB int cublasLtMatmulPreferenceSetAttribute(struct stub_preference *preference, int attribute,
                                              const void *value, size_t size)
{
    if (attribute == 1 && size == sizeof preference->workspace)
        memcpy(&preference->workspace, value, size);
    else if (attribute >= 5 && attribute <= 8 && size == sizeof(uint32_t))
        memcpy(&preference->alignment[attribute - 5], value, size);
    else
        return INVALID;
    return SUCCESS;
}

STUB int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, struct stub_layout *a,
                                        struct stub_layout *b, struct stub_layout *c, struct stub_layout *d,
                                        const struct stub_preference *preference, int count,
                                        struct stub_heuristic *results, int *found)
{
    *found = 0;
    SELF.preference = *preference;
    if (!handle || !operation || !a || !b || c != d || count != 8)
        return INVALID;
    if (preference->alignment[0] < SELF.least_alignment)
        return NOT_SUPPORTED;
    for (int i = 0; i < SELF.algorithms; i++) {
        results[i] = (struct stub_heuristic){.workspace = (size_t)SELF.workspace * (size_t)i,
                                             .state = i == SELF.broken ? NOT_SUPPORTED : SUCCESS};
        results[i].algorithm[0] = (unsigned char)(i + 1);
        results[i].algorithm[63] = (unsigned char)preference->alignment[0];
        *found = i + 1;
    }
    return SUCCESS;
}

/* Takes what begins with 1 to 9. */
STUB int cublasLtMatmulAlgoCheck(void *handle, void *operation, void *a, void *b, void *c, void *d,
                                 const unsigned char *algorithm, struct stub_heuristic *result)
{
    if (!handle || !operation || !a || !b || c != d)
        return INVALID;
    if (!algorithm[0] || algorithm[0] > 9)
        return NOT_SUPPORTED;
    result->workspace = algorithm[0] == 9 ? SELF.large_workspace : 0;
    result->state = SUCCESS;
    return SUCCESS;
}

#ifndef STUB_OLD
STUB int cublasLtMatmul(void *handle, const struct operation *operation, const float *alpha, const void *a,
                        const struct stub_layout *a_layout, const void *b, const struct stub_layout *b_layout,
                        const float *beta, const void *c, const void *c_layout, void *d,
                        const struct stub_layout *d_layout, const unsigned char *algorithm, void *workspace,
                        size_t workspace_size, void *stream)
{
    struct stub_matmul *call = &SELF.matmul[SELF.count];
    if (SELF.fail_matmul)
        return SELF.fail_matmul;
    if (!handle || *alpha != 1 || *beta != 0 || c != d || c_layout != d_layout || operation->scale != 0)
        return INVALID;
    *call = (struct stub_matmul){
        .compute = operation->compute,
        .transposed = operation->transpose[3] == 1 && operation->transpose[4] == 0,
        .layout = {*a_layout, *b_layout, *d_layout},
        .pointer = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)d},
        .workspace = (uintptr_t)workspace,
        .workspace_size = workspace_size,
        .stream = (uintptr_t)stream,
        .launches = SELF.launches ? *SELF.launches : 0,
    };
    memcpy(call->algorithm, algorithm, sizeof call->algorithm);
    SELF.count += SELF.count + 1 < STUB_MATMULS;
    return SUCCESS;
}
#endif
