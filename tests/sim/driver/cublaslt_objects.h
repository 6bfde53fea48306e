// What the handles of cuBLASLt stand for, and how its calls begin.
#pragma once
#include "cublaslt.h"
#include "state.h"

struct cublasLtContext {
    sim::Context *context;
};
struct sim_matmul_desc {
    int32_t compute, scale;
    int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST, transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
};
struct sim_matrix_layout {
    uint32_t type;
    uint64_t rows, cols;
    int64_t ld, stride = 0;
    int32_t order = CUBLASLT_ORDER_COL, batch = 1;
};
struct sim_matmul_preference {
    uint64_t workspace = 0, implementations = ~0ull;
    uint32_t search = 0, reductions = 7, a = 256, b = 256, c = 256, d = 256;
    float waves = 0;
};

namespace sim
{
cublasStatus_t status_of(CUresult result);
} // namespace sim

#define ENTER_LT(function, need)                                                                             \
    std::lock_guard<std::recursive_mutex> guard_(driver().lock);                                             \
    if (int injected_ = injected(#function, current))                                                        \
        return (cublasStatus_t)injected_;                                                                    \
    if (CUresult entered_ = usable(need))                                                                    \
    return status_of(entered_)
#define PASS(call)                                                                                           \
    do {                                                                                                     \
        if (cublasStatus_t status_ = (call))                                                                 \
            return status_;                                                                                  \
    } while (0)
