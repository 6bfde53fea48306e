// The stand-in for cuBLASLt: three algorithms that differ in what they ask for, and products that wait in
// their stream like kernels.
#include "../engine/fiber.h"
#include "cublaslt_objects.h"
#include "gemm.h"
#include <cstring>

using namespace sim;

namespace sim
{
cublasStatus_t status_of(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return CUBLAS_STATUS_SUCCESS;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return CUBLAS_STATUS_NOT_INITIALIZED;
    default:
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}
} // namespace sim

namespace
{
typedef cublasStatus_t Status;

// ---- what is asked for
bool sizes_ok(const sim_matrix_layout &l)
{
    return l.rows >= 1 && l.cols >= 1 && l.rows <= INT32_MAX && l.cols <= INT32_MAX &&
           l.ld >= (int64_t)l.rows && l.stride >= 0;
}
Matrix matrix_of(const sim_matrix_layout &l, int transposed, bool tf32)
{
    Element e = l.type == CUDA_R_16F ? Element::F16 : l.type == CUDA_R_16BF ? Element::BF16 : Element::F32;
    return {e == Element::F32 && tf32 ? Element::TF32 : e,
            transposed != CUBLAS_OP_N,
            (int64_t)l.rows,
            (int64_t)l.cols,
            l.ld,
            l.stride};
}
Status describe(const sim_matmul_desc *desc, const sim_matrix_layout *a, const sim_matrix_layout *b,
                const sim_matrix_layout *c, const sim_matrix_layout *d, Gemm *g)
{
    REQUIRE(live<sim_matmul_desc>(desc), CUBLAS_STATUS_INVALID_VALUE);
    for (const sim_matrix_layout *l : {a, b, c, d})
        REQUIRE(live<sim_matrix_layout>(l) && sizes_ok(*l), CUBLAS_STATUS_INVALID_VALUE);
    bool tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    *g = {matrix_of(*a, desc->transa, tf32),
          matrix_of(*b, desc->transb, tf32),
          matrix_of(*d, CUBLAS_OP_N, false),
          (int64_t)d->rows,
          (int64_t)d->cols,
          0,
          d->batch,
          0,
          0};
    g->k = g->a.transposed ? g->a.rows : g->a.cols;
    REQUIRE((g->a.transposed ? g->a.cols : g->a.rows) == g->m &&
                (g->b.transposed ? g->b.rows : g->b.cols) == g->n &&
                (g->b.transposed ? g->b.cols : g->b.rows) == g->k,
            CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(a->batch == d->batch && b->batch == d->batch, CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(d->batch == 1 || (size_t)d->stride * 4 >= g->d.bytes(1), CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(c->type == d->type && c->rows == d->rows && c->cols == d->cols && c->ld == d->ld &&
                c->batch == d->batch && c->stride == d->stride,
            CUBLAS_STATUS_NOT_SUPPORTED);
    REQUIRE(a->type == b->type && d->type == CUDA_R_32F && (!tf32 || a->type == CUDA_R_32F),
            CUBLAS_STATUS_NOT_SUPPORTED);
    return CUBLAS_STATUS_SUCCESS;
}

// ---- algorithms
enum { WIDE, SPLIT_K, PLAIN, ALGORITHMS };
enum : uint64_t { MARK = 0x31744c6d6973ull }; // first bytes of what this cuBLASLt fills in
struct Alignments {                           // bytes
    uint64_t a, b, d;
};
uint64_t kinds(const Gemm &g)
{
    return (uint64_t)g.a.element << 8 | (uint64_t)g.b.element;
}
cublasLtMatmulAlgo_t algorithm(int id, const Gemm &g)
{
    return {{MARK, (uint64_t)id, kinds(g)}};
}
// Which one, if it is one of ours for such operands.
Status identify(const cublasLtMatmulAlgo_t *algo, const Gemm &g, int *id)
{
    for (*id = 0; *id < ALGORITHMS; ++*id) {
        cublasLtMatmulAlgo_t want = algorithm(*id, g);
        if (!memcmp(algo, &want, sizeof want))
            return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}
size_t workspace_of(int id, const Gemm &g)
{
    return id == SPLIT_K ? (size_t)g.batch * (size_t)g.m * (size_t)g.n * 4 : 0;
}
// Multiples of `alignment` all through the matrices.
bool aligned(const Matrix &x, int64_t batch, uint64_t pointer, uint64_t alignment)
{
    uint64_t e = x.element_size();
    return pointer % alignment == 0 && (uint64_t)x.ld * e % alignment == 0 &&
           (batch == 1 || (uint64_t)x.stride * e % alignment == 0);
}
bool fits(int id, const Gemm &g, const Alignments &at)
{
    enum { VECTOR = 16, LEAST_K = 64 };
    if (id == SPLIT_K && g.k < LEAST_K)
        return false;
    auto all = [&](const Matrix &x, uint64_t pointer) {
        return aligned(x, g.batch, pointer, id == WIDE ? (uint64_t)VECTOR : x.element_size());
    };
    return all(g.a, at.a) && all(g.b, at.b) && all(g.d, at.d);
}

// ---- execution
struct Call {
    Gemm gemm;
    int id;
    const void *a, *b;
    void *d, *workspace;
};
std::string absent(const char *what, const Matrix &x, const void *p, int64_t batch)
{
    size_t n = x.bytes(batch);
    if (memory_contains(p, n))
        return "";
    const char *bad = (const char *)p + (memory_contains(p, 1) ? n - 1 : 0);
    return std::string(what) + ": illegal address, " + memory_describe(bad) + " (" + std::to_string(x.rows) +
           " x " + std::to_string(x.cols) + ", ld " + std::to_string(x.ld) + ", batch " +
           std::to_string(batch) + ")";
}
template <class F> void each_column(const Matrix &x, const void *p, int64_t batch, F f)
{
    for (int64_t i = 0; i < batch; i++)
        for (int64_t j = 0; j < x.cols; j++)
            f((char *)p + (size_t)(i * x.stride + j * x.ld) * x.element_size(),
              (size_t)x.rows * x.element_size());
}
// The sanitizer of the kernels sees what no compiler has instrumented here.
void show_accesses(const Call &call)
{
    const Gemm &g = call.gemm;
    if (!__tsan_read_range || !__tsan_write_range)
        return;
    each_column(g.a, call.a, g.batch, [](char *p, size_t n) { __tsan_read_range(p, n); });
    each_column(g.b, call.b, g.batch, [](char *p, size_t n) { __tsan_read_range(p, n); });
    each_column(g.d, call.d, g.batch, [](char *p, size_t n) { __tsan_write_range(p, n); });
    if (size_t n = workspace_of(call.id, g))
        __tsan_write_range(call.workspace, n);
}
Outcome run(const Call &call)
{
    enum { NOTHING = 0xff }; // NaN as any float
    const Gemm &g = call.gemm;
    std::string trouble = absent("A", g.a, call.a, g.batch) + absent("B", g.b, call.b, g.batch) +
                          absent("D", g.d, call.d, g.batch);
    size_t room = workspace_of(call.id, g);
    if (trouble.empty() && room && !memory_contains(call.workspace, room))
        trouble = "workspace: illegal address, " + memory_describe((char *)call.workspace + room - 1);
    if (!trouble.empty())
        return {CUDA_ERROR_ILLEGAL_ADDRESS, "cublasLtMatmul: " + trouble};
    show_accesses(call);
    // before anything is read, so that matrices that overlap give NaN
    if (g.beta == 0)
        each_column(g.d, call.d, g.batch, [](char *p, size_t n) { memset(p, NOTHING, n); });
    if (room)
        memset(call.workspace, NOTHING, room);
    gemm(g, call.a, call.b, (float *)call.d);
    return {};
}
// As with kernels: enough for a tuner to have something to order.
double made_up_microseconds(const Call &call)
{
    const Gemm &g = call.gemm;
    const double OPERATIONS = g.a.element == Element::F32 ? 4e5 : 3e6; // a microsecond on a multiprocessor
    double sms = driver().devices[(size_t)current->device].sms,
           all = 2.0 * (double)g.m * (double)g.n * (double)g.k * (double)g.batch;
    return 3 + (1 + 0.25 * call.id) * all / (sms * OPERATIONS);
}

struct Word {
    Status status;
    const char *name;
};
#define WORD(status)                                                                                         \
    {                                                                                                        \
        status, #status                                                                                      \
    }
const Word words[] = {WORD(CUBLAS_STATUS_SUCCESS),          WORD(CUBLAS_STATUS_NOT_INITIALIZED),
                      WORD(CUBLAS_STATUS_ALLOC_FAILED),     WORD(CUBLAS_STATUS_INVALID_VALUE),
                      WORD(CUBLAS_STATUS_ARCH_MISMATCH),    WORD(CUBLAS_STATUS_MAPPING_ERROR),
                      WORD(CUBLAS_STATUS_EXECUTION_FAILED), WORD(CUBLAS_STATUS_INTERNAL_ERROR),
                      WORD(CUBLAS_STATUS_NOT_SUPPORTED),    WORD(CUBLAS_STATUS_LICENSE_ERROR)};
#undef WORD
} // namespace

extern "C" {
size_t cublasLtGetVersion(void)
{
    return (size_t)env_number("CUDASIM_CUBLASLT", 130100);
}
const char *cublasLtGetStatusName(cublasStatus_t status)
{
    for (const Word &w : words)
        if (w.status == status)
            return w.name;
    return "CUBLAS_STATUS_UNKNOWN";
}
const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    ENTER_LT(cublasLtCreate, NEEDS_CONTEXT);
    REQUIRE(handle, CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(!refuse_in_capture(), CUBLAS_STATUS_ALLOC_FAILED); // it allocates on the device
    *handle = new cublasLtContext{current};
    enlist(*handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    ENTER_LT(cublasLtDestroy, NEEDS_NOTHING);
    REQUIRE(live<cublasLtContext>(handle), CUBLAS_STATUS_NOT_INITIALIZED);
    CUresult result = CUDA_SUCCESS;
    if (handle->context->alive) { // it frees, and so waits
        result = refuse_in_capture();
        if (!result)
            result = drain_all(handle->context);
    }
    driver().handles.erase(handle);
    delete handle;
    return status_of(result);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    ENTER_LT(cublasLtMatmulAlgoGetHeuristic, NEEDS_CONTEXT);
    Gemm g;
    REQUIRE(live<cublasLtContext>(handle), CUBLAS_STATUS_NOT_INITIALIZED);
    REQUIRE(live<sim_matmul_preference>(preference) && wanted > 0 && results && count,
            CUBLAS_STATUS_INVALID_VALUE);
    PASS(describe(desc, a, b, c, d, &g));
    *count = 0;
    for (int id = 0; id < ALGORITHMS && *count < wanted; id++) {
        size_t workspace = workspace_of(id, g);
        if (!fits(id, g, {preference->a, preference->b, preference->d}) ||
            workspace > preference->workspace ||
            (id == SPLIT_K && !(preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)))
            continue;
        results[(*count)++] = {algorithm(id, g), workspace, CUBLAS_STATUS_SUCCESS, 1, {0, 0, 0, 0}};
    }
    return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    ENTER_LT(cublasLtMatmulAlgoCheck, NEEDS_CONTEXT);
    Gemm g;
    int id;
    REQUIRE(live<cublasLtContext>(handle), CUBLAS_STATUS_NOT_INITIALIZED);
    REQUIRE(algo && result, CUBLAS_STATUS_INVALID_VALUE);
    PASS(describe(desc, a, b, c, d, &g));
    PASS(identify(algo, g, &id));
    REQUIRE(fits(id, g, {0, 0, 0}), CUBLAS_STATUS_NOT_SUPPORTED); // as if the pointers had any alignment
    result->workspaceSize = workspace_of(id, g);
    result->state = CUBLAS_STATUS_SUCCESS;
    result->wavesCount = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_size,
                              cudaStream_t stream)
{
    ENTER_LT(cublasLtMatmul, NEEDS_CONTEXT);
    Call call{{}, PLAIN, a, b, d, workspace};
    Gemm &g = call.gemm;
    Stream *s;
    REQUIRE(live<cublasLtContext>(handle), CUBLAS_STATUS_NOT_INITIALIZED);
    REQUIRE(handle->context == current && alpha && beta && a && b && c && d, CUBLAS_STATUS_INVALID_VALUE);
    PASS(describe(desc, a_layout, b_layout, c_layout, d_layout, &g));
    memcpy(&g.alpha, alpha, sizeof g.alpha);
    memcpy(&g.beta, beta, sizeof g.beta);
    if (algo)
        PASS(identify(algo, g, &call.id));
    REQUIRE(c == d && fits(call.id, g, {(uintptr_t)a, (uintptr_t)b, (uintptr_t)d}),
            CUBLAS_STATUS_NOT_SUPPORTED);
    REQUIRE((uintptr_t)workspace % 256 == 0 && workspace_of(call.id, g) <= (workspace ? workspace_size : 0),
            CUBLAS_STATUS_INVALID_VALUE);
    REQUIRE(!stream_of(stream, &s), CUBLAS_STATUS_EXECUTION_FAILED);
    Context *context = current;
    double microseconds = made_up_microseconds(call);
    std::string name = "cublasLtMatmul." + std::to_string(call.id),
                grid = std::to_string(g.m) + "," + std::to_string(g.n) + "," + std::to_string(g.k) + "," +
                       std::to_string(g.batch);
    return status_of(submit(s, [call, context, microseconds, name, grid] {
        return execute(context, name, grid, microseconds, [&call] { return run(call); });
    }));
}
}
