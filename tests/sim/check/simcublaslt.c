/* What each call of the stand-in for cuBLASLt returns. Status 0 when all is as it should be.
 *
 *     simcublaslt                 all tests; the last line is "N failed"
 *     simcublaslt absent          a product whose D is too short: "result R, after A"
 *     simcublaslt race            the host writes to A, and no lock comes between a product and that
 *     simcublaslt clock N ALGO    N products between two events each: "product I: T us", then "result R" */
#define _POSIX_C_SOURCE 200809L
#include "product.h"
#include <pthread.h>
#include <time.h>

static void test_names(void)
{
    CHECK(lt.GetVersion() == 130100);
    setenv("CUDASIM_CUBLASLT", "120901", 1);
    CHECK(lt.GetVersion() == 120901);
    unsetenv("CUDASIM_CUBLASLT");
    CHECK(!strcmp(lt.GetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED"));
    CHECK(lt.GetStatusString(CUBLAS_STATUS_INVALID_VALUE) && lt.GetStatusName((cublasStatus_t)99));
    WANT(lt.Create(&handle), CUBLAS_STATUS_NOT_INITIALIZED); /* no context */
    WANT(lt.Destroy(NULL), CUBLAS_STATUS_NOT_INITIALIZED);
}
static void test_attributes(void)
{
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t l;
    cublasLtMatmulPreference_t pref;
    int32_t v = CUBLAS_OP_T;
    uint64_t big = 7;
    size_t size = 0;
    WANT(lt.MatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_16F), NO_SUPPORT);
    WANT(lt.MatmulDescCreate(&desc, (cublasComputeType_t)70, CUDA_R_32F), NO_SUPPORT);
    WANT(lt.MatmulDescCreate(NULL, CUBLAS_COMPUTE_32F, CUDA_R_32F), INVALID);
    OK(lt.MatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
#define SET(which, value) lt.MatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_##which, &value, sizeof value)
    OK(SET(TRANSA, v));
    v = 0;
    OK(lt.MatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &v, sizeof v, NULL));
    CHECK(v == CUBLAS_OP_T);
    OK(lt.MatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, NULL, 0, &size));
    CHECK(size == 4);
    WANT(lt.MatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, NULL, 0, NULL), INVALID);
    WANT(SET(TRANSA, big), INVALID); /* of another size */
    WANT(lt.MatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, NULL, 4), INVALID);
    v = 9;
    WANT(SET(TRANSB, v), INVALID);
    v = 4;
    WANT(SET(EPILOGUE, v), NO_SUPPORT);
    v = 1;
    OK(SET(EPILOGUE, v));
    WANT(SET(POINTER_MODE, v), NO_SUPPORT);
    WANT(lt.MatmulDescSetAttribute(desc, (cublasLtMatmulDescAttributes_t)31, &v, 4), NO_SUPPORT);
    v = 3;
    OK(lt.MatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &v, sizeof v, &size));
    CHECK(v == 0 && size == 4); /* what was refused has changed nothing */
    OK(lt.MatmulDescDestroy(desc));
    WANT(lt.MatmulDescDestroy(desc), INVALID);
    WANT(SET(TRANSA, v), INVALID);
#undef SET
    WANT(lt.MatrixLayoutCreate(&l, (cudaDataType)1, 4, 4, 4), NO_SUPPORT); /* double */
    OK(lt.MatrixLayoutCreate(&l, CUDA_R_16F, 4, 5, 6));
    v = 1;
    WANT(lt.MatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER, &v, 4), NO_SUPPORT);
    v = 0;
    WANT(lt.MatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &v, 4), INVALID);
    OK(lt.MatrixLayoutGetAttribute(l, CUBLASLT_MATRIX_LAYOUT_COLS, &big, sizeof big, NULL));
    CHECK(big == 5);
    OK(lt.MatrixLayoutDestroy(l));
    OK(lt.MatmulPreferenceCreate(&pref));
    big = 4096;
    OK(lt.MatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &big, 8));
    WANT(lt.MatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &big, 4), INVALID);
    v = 24;
    WANT(lt.MatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &v, 4), INVALID);
    OK(lt.MatmulPreferenceGetAttribute(pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &v, 4, NULL));
    CHECK(v == 256);
    OK(lt.MatmulPreferenceDestroy(pref));
}
static void test_heuristics(void)
{
    cublasLtMatmulHeuristicResult_t r[8], checked;
    enter();
    struct product p = product_make(CUDA_R_16F, 0, 1, 0, 64, 32, 128, 1, 0);
    struct product odd = product_make(CUDA_R_16F, 0, 1, 0, 64, 32, 128, 1, 1);
    struct product small = product_make(CUDA_R_16F, 0, 1, 0, 64, 32, 8, 1, 0);
    struct product wide = product_make(CUDA_R_32F, 0, 1, 0, 64, 32, 128, 1, 0);
    WANT(heuristics(&p, 8, r), 3);
    CHECK(memcmp(&r[0].algo, &r[1].algo, 64) && memcmp(&r[1].algo, &r[2].algo, 64) &&
          memcmp(&r[0].algo, &r[2].algo, 64));
    CHECK(r[0].workspaceSize == 0 && r[1].workspaceSize == 64 * 32 * 4 && r[2].workspaceSize == 0);
    CHECK(!r[0].state && r[0].wavesCount > 0);
#define ALGO_CHECK(product, algorithm)                                                                       \
    lt.MatmulAlgoCheck(handle, product.desc, product.a.layout, product.b.layout, product.d.layout,           \
                       product.d.layout, algorithm, &checked)
    for (int i = 0; i < 3; i++) {
        OK(ALGO_CHECK(p, &r[i].algo));
        CHECK(checked.workspaceSize == r[i].workspaceSize && !checked.state);
        WANT(ALGO_CHECK(wide, &r[i].algo), INVALID); /* of other types */
    }
    WANT(ALGO_CHECK(odd, &r[0].algo), NO_SUPPORT); /* columns at odd distances */
    WANT(ALGO_CHECK(small, &r[1].algo), NO_SUPPORT);
    OK(ALGO_CHECK(odd, &r[2].algo));
    WANT(ALGO_CHECK(p, NULL), INVALID);
    r[0].algo.data[7] ^= 1;
    WANT(ALGO_CHECK(p, &r[0].algo), INVALID);
    WANT(heuristics(&p, 2, r), 2);
    WANT(heuristics(&p, 0, r), -INVALID);
    WANT(heuristics(&odd, 8, r), 2);
    int64_t stride = 3; /* of one matrix it says nothing, of two the second is aligned to 2 bytes */
    for (int32_t batch = 1; batch <= 2; batch++) {
        struct matrix *all[] = {&p.a, &p.b, &p.d};
        for (int i = 0; i < 3; i++)
            OK(lt.MatrixLayoutSetAttribute(all[i]->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, 4));
        OK(lt.MatrixLayoutSetAttribute(p.d.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                       &(int64_t){64 * 32}, 8));
        OK(lt.MatrixLayoutSetAttribute(p.a.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, 8));
        WANT(heuristics(&p, 8, r), batch == 1 ? 3 : 2);
        for (int i = 0; i < 3; i++)
            OK(lt.MatrixLayoutSetAttribute(all[i]->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &(int32_t){1},
                                           4));
    }
    WANT(heuristics(&small, 8, r), 2);
#define LIMITED(field, value, want)                                                                          \
    limits.field = value;                                                                                    \
    WANT(heuristics(&p, 8, r), want)
    LIMITED(workspace, 64 * 32 * 4, 3);
    LIMITED(workspace, 64 * 32 * 4 - 1, 2);
    LIMITED(a, 8, 1);
    LIMITED(a, 1, -NO_SUPPORT);
    LIMITED(a, 16, 2);
    LIMITED(d, 4, 1);
    LIMITED(d, 256, 2);
    LIMITED(workspace, 1 << 30, 3);
    LIMITED(reductions, 1, 2);
    LIMITED(reductions, 7, 3);
    WANT(lt.MatmulAlgoGetHeuristic(NULL, p.desc, p.a.layout, p.b.layout, p.d.layout, p.d.layout, NULL, 1, r,
                                   &(int){0}),
         CUBLAS_STATUS_NOT_INITIALIZED);
    product_free(&p);
    product_free(&odd);
    product_free(&small);
    product_free(&wide);
    leave(0);
}
static void test_arguments(void)
{
    cublasLtMatmulHeuristicResult_t r[8];
    CUdeviceptr workspace;
    enter();
    struct product p = product_make(CUDA_R_32F, 0, 0, 0, 64, 32, 128, 1, 0), other;
    OK(sim.cuMemAlloc(&workspace, 1 << 16));
    WANT(heuristics(&p, 8, r), 3);
    OK(product_run(&p, &r[1].algo, workspace, r[1].workspaceSize, NULL));
    WANT(product_run(&p, &r[1].algo, workspace, r[1].workspaceSize - 1, NULL), INVALID);
    WANT(product_run(&p, &r[1].algo, 0, r[1].workspaceSize, NULL), INVALID);
    WANT(product_run(&p, &r[1].algo, workspace + 16, r[1].workspaceSize, NULL), INVALID);
    WANT(product_run(&p, NULL, 0, 0, (CUstream)p.desc), CUBLAS_STATUS_EXECUTION_FAILED);
#define OTHER(field, value, algorithm, want)                                                                 \
    other = p;                                                                                               \
    other.field = value;                                                                                     \
    WANT(product_run(&other, algorithm, 0, 0, NULL), want)
    OTHER(a.device, p.a.device + 4, &r[0].algo, NO_SUPPORT);
    OTHER(d.device, p.d.device + 2, NULL, NO_SUPPORT);
    OTHER(a.device, 0, NULL, INVALID);
    OTHER(a.layout, p.b.layout, NULL, INVALID); /* 128 x 32 */
    OTHER(d.layout, p.a.layout, NULL, INVALID);
    OTHER(b.layout, NULL, NULL, INVALID);
    OTHER(desc, NULL, NULL, INVALID);
#define LAYOUT(matrix, which, type, value, want)                                                             \
    do {                                                                                                     \
        type new_ = value, old_;                                                                             \
        OK(lt.MatrixLayoutGetAttribute(p.matrix.layout, CUBLASLT_MATRIX_LAYOUT_##which, &old_, sizeof old_,  \
                                       NULL));                                                               \
        OK(lt.MatrixLayoutSetAttribute(p.matrix.layout, CUBLASLT_MATRIX_LAYOUT_##which, &new_,               \
                                       sizeof new_));                                                        \
        WANT(product_run(&p, NULL, 0, 0, NULL), want);                                                       \
        OK(lt.MatrixLayoutSetAttribute(p.matrix.layout, CUBLASLT_MATRIX_LAYOUT_##which, &old_,               \
                                       sizeof old_));                                                        \
    } while (0)
    LAYOUT(a, LD, int64_t, 63, INVALID);
    LAYOUT(a, ROWS, uint64_t, 63, INVALID);
    LAYOUT(b, COLS, uint64_t, 0, INVALID);
    LAYOUT(b, BATCH_COUNT, int32_t, 2, INVALID);
    LAYOUT(a, TYPE, uint32_t, CUDA_R_16F, NO_SUPPORT); /* and b is not */
    LAYOUT(d, TYPE, uint32_t, CUDA_R_16F, NO_SUPPORT);
    WANT(lt.Matmul(handle, p.desc, NULL, (void *)p.a.device, p.a.layout, (void *)p.b.device, p.b.layout,
                   &p.beta, (void *)p.d.device, p.d.layout, (void *)p.d.device, p.d.layout, NULL, NULL, 0,
                   NULL),
         INVALID);
    WANT(lt.Matmul(handle, p.desc, &p.alpha, (void *)p.a.device, p.a.layout, (void *)p.b.device, p.b.layout,
                   &p.beta, (void *)p.b.device, p.d.layout, (void *)p.d.device, p.d.layout, NULL, NULL, 0,
                   NULL),
         NO_SUPPORT); /* C is not D */
    int32_t tf32 = CUBLAS_COMPUTE_32F_FAST_TF32;
    struct product half = product_make(CUDA_R_16F, 0, 0, 0, 8, 8, 8, 2, 0);
    OK(product_run(&half, NULL, 0, 0, NULL));
    OK(lt.MatmulDescSetAttribute(half.desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &tf32, sizeof tf32));
    WANT(product_run(&half, NULL, 0, 0, NULL), NO_SUPPORT);
    int64_t stride = 63; /* the second D would begin inside the first */
    OK(lt.MatmulDescSetAttribute(half.desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &(int32_t){CUBLAS_COMPUTE_32F},
                                 4));
    OK(lt.MatrixLayoutSetAttribute(half.d.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, 8));
    WANT(product_run(&half, NULL, 0, 0, NULL), INVALID);
    product_free(&half);
    product_free(&p);
    OK(sim.cuMemFree(workspace));
    leave(0);
    CHECK(sim.live() == 0);
}
static float first(CUdeviceptr p)
{
    float v = -1;
    OK(sim.cuMemcpyDtoH(&v, p, 4));
    return v;
}
static void test_streams(void)
{
    CUstream s;
    CUgraph graph;
    CUgraphExec exec;
    cublasLtHandle_t never, other;
    CUstreamCaptureStatus status;
    enter();
    struct product p = product_make(CUDA_R_32F, 0, 0, 0, 1, 1, 1, 1, 0);
    OK(sim.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(sim.cuMemsetD32Async(p.a.device, 0x40000000, 1, s)); /* 2 */
    OK(sim.cuMemsetD32Async(p.b.device, 0x40400000, 1, s)); /* 3 */
    OK(sim.cuMemsetD32Async(p.d.device, 0, 1, s));
    OK(sim.cuStreamSynchronize(s));
    OK(product_run(&p, NULL, 0, 0, s));
    p.alpha = 100;                 /* was read at the call */
    CHECK(first(p.d.device) == 0); /* nobody has synchronised with s */
    OK(sim.cuStreamSynchronize(s));
    CHECK(first(p.d.device) == 6);

    OK(sim.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(sim.cuMemsetD32Async(p.a.device, 0x40800000, 1, s)); /* 4 */
    OK(product_run(&p, NULL, 0, 0, s));
    OK(sim.cuStreamEndCapture(s, &graph));
    OK(sim.cuGraphInstantiate(&exec, graph, 0));
    OK(sim.cuCtxSynchronize());
    CHECK(first(p.d.device) == 6);
    OK(sim.cuGraphLaunch(exec, s));
    OK(sim.cuStreamSynchronize(s));
    CHECK(first(p.d.device) == 1200);
    OK(sim.cuGraphExecDestroy(exec));
    OK(sim.cuGraphDestroy(graph));

    OK(lt.Create(&other));
#define FORBIDDEN(call, want)                                                                                \
    OK(sim.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));                                          \
    WANT(call, want);                                                                                        \
    OK(sim.cuStreamIsCapturing(s, &status));                                                                 \
    CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);                                                   \
    WANT(product_run(&p, NULL, 0, 0, s), CUBLAS_STATUS_EXECUTION_FAILED);                                    \
    WANT(sim.cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
    FORBIDDEN(lt.Create(&never), CUBLAS_STATUS_ALLOC_FAILED);
    FORBIDDEN(lt.Destroy(other), CUBLAS_STATUS_EXECUTION_FAILED);
    OK(sim.cuStreamDestroy(s));
    product_free(&p);
    leave(0);
    CHECK(sim.live() == 0);
}
static void test_injection(void)
{
    enter();
    struct product p = product_make(CUDA_R_32F, 0, 0, 0, 8, 8, 8, 1, 0);
    sim.fail("cublasLtMatmul:2=13,cublasLtMatmulAlgoGetHeuristic:1=15,cublasLtCreate:1=3");
    cublasLtMatmulHeuristicResult_t r[8];
    cublasLtHandle_t never;
    OK(product_run(&p, NULL, 0, 0, NULL));
    WANT(product_run(&p, NULL, 0, 0, NULL), CUBLAS_STATUS_EXECUTION_FAILED);
    OK(product_run(&p, NULL, 0, 0, NULL));
    CHECK(sim.calls("cublasLtMatmul") == 3);
    WANT(heuristics(&p, 8, r), -NO_SUPPORT);
    WANT(lt.Create(&never), CUBLAS_STATUS_ALLOC_FAILED);
    OK(sim.cuCtxSynchronize());
    sim.fail("kernel:2=719*");
    OK(product_run(&p, NULL, 0, 0, NULL));
    OK(product_run(&p, NULL, 0, 0, NULL));
    WANT(sim.cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    WANT(product_run(&p, NULL, 0, 0, NULL), CUBLAS_STATUS_EXECUTION_FAILED);
    sim.fail("");
    leave(CUBLAS_STATUS_EXECUTION_FAILED);
    enter();
    sim.fail("cublasLtMatmul:1=13*");
    WANT(product_run(&p, NULL, 0, 0, NULL), CUBLAS_STATUS_EXECUTION_FAILED);
    WANT(sim.cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    sim.fail("");
    leave(CUBLAS_STATUS_EXECUTION_FAILED);
}

/* ---- by themselves */
static int absent(void)
{
    enter();
    struct product p = product_make(CUDA_R_32F, 0, 0, 0, 8, 8, 8, 1, 0);
    OK(sim.cuMemFree(p.d.device));
    OK(sim.cuMemAlloc(&p.d.device, 8 * 8 * 4 - 4));
    OK(product_run(&p, NULL, 0, 0, NULL)); /* a launch does not look */
    CUresult result = sim.cuCtxSynchronize(), after = sim.cuMemFree(p.d.device);
    printf("result %d, after %d, %d failed\n", result, after, failures);
    return failures;
}
/* Two threads that no lock orders: a sanitizer must see that one reads A and the other writes to it. */
static volatile int turn;
static CUdeviceptr raced;
static void *intruder(void *argument)
{
    struct timespec pause = {0, 1000000};
    while (turn == 0)
        nanosleep(&pause, NULL);
    volatile size_t bytes = 256; /* not known to the compiler: a call, which the sanitizer sees */
    memset((void *)raced, 0, bytes);
    turn = 2;
    return argument;
}
static int race(void)
{
    pthread_t thread;
    struct timespec pause = {0, 1000000};
    enter();
    struct product p = product_make(CUDA_R_32F, 0, 0, 0, 8, 8, 8, 1, 0);
    raced = p.a.device;
    pthread_create(&thread, NULL, intruder, NULL);
    OK(product_run(&p, NULL, 0, 0, NULL));
    OK(sim.cuCtxSynchronize());
    turn = 1;
    while (turn == 1)
        nanosleep(&pause, NULL);
    pthread_join(thread, NULL);
    product_free(&p);
    leave(0);
    return failures;
}
static int clocked(int n, int algorithm)
{
    cublasLtMatmulHeuristicResult_t r[8];
    CUevent event[2];
    CUresult result = 0;
    enter();
    struct product p = product_make(CUDA_R_32F, 0, 0, 0, 64, 64, 64, 1, 0);
    CUdeviceptr workspace;
    OK(sim.cuMemAlloc(&workspace, 1 << 16));
    OK(sim.cuEventCreate(&event[0], 0));
    OK(sim.cuEventCreate(&event[1], 0));
    WANT(heuristics(&p, 8, r), 3);
    for (int i = 0; i < n && !result; i++) {
        float ms = 0;
        OK(sim.cuEventRecord(event[0], NULL));
        OK(product_run(&p, &r[algorithm].algo, workspace, 1 << 16, NULL));
        OK(sim.cuEventRecord(event[1], NULL));
        result = sim.cuCtxSynchronize();
        if (!result && !sim.cuEventElapsedTime(&ms, event[0], event[1]))
            printf("product %d: %.4f us\n", i, (double)ms * 1e3);
    }
    printf("result %d, %d failed\n", result, failures);
    return failures;
}
int main(int argc, char **argv)
{
    static void (*const tests[])(void) = {
        test_names, test_attributes, test_heuristics, test_arguments, test_streams, test_injection,
    };
    const char *what = argc > 1 ? argv[1] : "";
    product_start();
    OK(sim.cuInit(0));
    if (!strcmp(what, "absent"))
        return absent();
    if (!strcmp(what, "race"))
        return race();
    if (!strcmp(what, "clock") && argc == 4)
        return clocked(atoi(argv[2]), atoi(argv[3]));
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tests[i]();
    printf("%d failed\n", failures);
    return failures != 0;
}
