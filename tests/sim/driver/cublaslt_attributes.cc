// cuBLASLt's descriptors: their attributes, and what a value may be.
#include "cublaslt_objects.h"
#include <cstring>

using namespace sim;

namespace
{
struct Field {
    int which;
    void *at;
    size_t size;
};
typedef std::vector<Field> Fields;
#define FIELD(which, member)                                                                                 \
    Field                                                                                                    \
    {                                                                                                        \
        which, &o.member, sizeof o.member                                                                    \
    }
Fields fields(sim_matmul_desc &o)
{
    return {FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute),
            FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale),
            FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, pointer_mode),
            FIELD(CUBLASLT_MATMUL_DESC_TRANSA, transa),
            FIELD(CUBLASLT_MATMUL_DESC_TRANSB, transb),
            FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)};
}
Fields fields(sim_matrix_layout &o)
{
    return {FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, type),
            FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, order),
            FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, rows),
            FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, cols),
            FIELD(CUBLASLT_MATRIX_LAYOUT_LD, ld),
            FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch),
            FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride)};
}
Fields fields(sim_matmul_preference &o)
{
    return {FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, search),
            FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace),
            FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions),
            FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c),
            FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d),
            FIELD(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, waves),
            FIELD(CUBLASLT_MATMUL_PREF_IMPL_MASK, implementations)};
}
#undef FIELD
bool one_of(int64_t v, std::initializer_list<int64_t> allowed)
{
    for (int64_t a : allowed)
        if (a == v)
            return true;
    return false;
}
cublasStatus_t check(const sim_matmul_desc &o)
{
    for (int32_t t : {o.transa, o.transb})
        REQUIRE(one_of(t, {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}), CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(one_of(o.compute, {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) && o.scale == CUDA_R_32F &&
                o.pointer_mode == CUBLASLT_POINTER_MODE_HOST && o.epilogue == CUBLASLT_EPILOGUE_DEFAULT,
            CUBLAS_STATUS_NOT_SUPPORTED);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t check(const sim_matrix_layout &o)
{
    REQUIRE(o.batch >= 1, CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(one_of(o.type, {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF}) && o.order == CUBLASLT_ORDER_COL,
            CUBLAS_STATUS_NOT_SUPPORTED);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t check(const sim_matmul_preference &o)
{
    for (uint32_t alignment : {o.a, o.b, o.c, o.d})
        REQUIRE(alignment && !(alignment & (alignment - 1)), CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(!o.search, CUBLAS_STATUS_NOT_SUPPORTED);
    return CUBLAS_STATUS_SUCCESS;
}
template <class T> cublasStatus_t set(T *object, int which, const void *value, size_t size)
{
    REQUIRE(live<T>(object), CUBLAS_STATUS_INVALID_VALUE);
    T changed = *object;
    for (const Field &f : fields(changed)) {
        if (f.which != which)
            continue;
        REQUIRE(value && size == f.size, CUBLAS_STATUS_INVALID_VALUE);
        memcpy(f.at, value, size);
        PASS(check(changed));
        *object = changed;
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
template <class T> cublasStatus_t get(T *object, int which, void *value, size_t size, size_t *written)
{
    REQUIRE(live<T>(object), CUBLAS_STATUS_INVALID_VALUE);
    for (const Field &f : fields(*object)) {
        if (f.which != which)
            continue;
        REQUIRE(size ? value && size == f.size : written != nullptr, CUBLAS_STATUS_INVALID_VALUE);
        if (size)
            memcpy(value, f.at, size);
        if (written)
            *written = f.size;
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
template <class T> cublasStatus_t create(T **object, const T &value)
{
    REQUIRE(object, CUBLAS_STATUS_INVALID_VALUE);
    PASS(check(value));
    *object = new T(value);
    enlist(*object);
    return CUBLAS_STATUS_SUCCESS;
}
template <class T> cublasStatus_t destroy(T *object)
{
    if (!object)
        return CUBLAS_STATUS_SUCCESS;
    REQUIRE(live<T>(object), CUBLAS_STATUS_INVALID_VALUE);
    driver().handles.erase(object);
    delete object;
    return CUBLAS_STATUS_SUCCESS;
}
} // namespace

extern "C" {
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType scale)
{
    ENTER_LT(cublasLtMatmulDescCreate, NEEDS_NOTHING);
    sim_matmul_desc value;
    value.compute = compute;
    value.scale = scale;
    return create(desc, value);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    ENTER_LT(cublasLtMatmulDescDestroy, NEEDS_NOTHING);
    return destroy(desc);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t size)
{
    ENTER_LT(cublasLtMatmulDescSetAttribute, NEEDS_NOTHING);
    return set(desc, which, value, size);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which,
                                              void *value, size_t size, size_t *written)
{
    ENTER_LT(cublasLtMatmulDescGetAttribute, NEEDS_NOTHING);
    return get(desc, which, value, size, written);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    ENTER_LT(cublasLtMatrixLayoutCreate, NEEDS_NOTHING);
    sim_matrix_layout value;
    value.type = type;
    value.rows = rows;
    value.cols = cols;
    value.ld = ld;
    return create(layout, value);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    ENTER_LT(cublasLtMatrixLayoutDestroy, NEEDS_NOTHING);
    return destroy(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which, const void *value,
                                                size_t size)
{
    ENTER_LT(cublasLtMatrixLayoutSetAttribute, NEEDS_NOTHING);
    return set(layout, which, value, size);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which, void *value,
                                                size_t size, size_t *written)
{
    ENTER_LT(cublasLtMatrixLayoutGetAttribute, NEEDS_NOTHING);
    return get(layout, which, value, size, written);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    ENTER_LT(cublasLtMatmulPreferenceCreate, NEEDS_NOTHING);
    return create(preference, sim_matmul_preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    ENTER_LT(cublasLtMatmulPreferenceDestroy, NEEDS_NOTHING);
    return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *value, size_t size)
{
    ENTER_LT(cublasLtMatmulPreferenceSetAttribute, NEEDS_NOTHING);
    return set(preference, which, value, size);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which, void *value,
                                                    size_t size, size_t *written)
{
    ENTER_LT(cublasLtMatmulPreferenceGetAttribute, NEEDS_NOTHING);
    return get(preference, which, value, size, written);
}
}
