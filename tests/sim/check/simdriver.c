/* The simulator's driver API by itself: what each call returns in the situations that tests of the product
 * rely on. Status 0 when all is as it should be, 77 without the kernels' library. */
#define _POSIX_C_SOURCE 200809L
#include "sim.h"
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

static struct sim sim;
static int failures;

/* The call must return `want`. */
#define WANT(call, want)                                                                                     \
    do {                                                                                                     \
        int got_ = (int)(sim.call);                                                                          \
        if (got_ != (want)) {                                                                                \
            failures++;                                                                                      \
            printf("FAILED line %d: %s gave %d, not %d\n", __LINE__, #call, got_, (int)(want));              \
        }                                                                                                    \
    } while (0)
#define OK(call) WANT(call, CUDA_SUCCESS)
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            failures++;                                                                                      \
            printf("FAILED line %d: %s\n", __LINE__, #condition);                                            \
        }                                                                                                    \
    } while (0)

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static CUcontext enter(CUdevice device)
{
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    return context;
}
static void leave(CUdevice device)
{
    OK(cuCtxSetCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(device));
}
static CUfunction kernel(const char *name, CUmodule *module)
{
    CUfunction f = NULL;
    OK(cuModuleLoadData(module, sim_ptx(name, "sm_80")));
    OK(cuModuleGetFunction(&f, *module, name));
    return f;
}
static CUdeviceptr array(unsigned n)
{
    CUdeviceptr p = 0;
    float *data = malloc(n * 4);
    for (unsigned i = 0; i < n; i++)
        data[i] = 1;
    OK(cuMemAlloc(&p, n * 4));
    OK(cuMemcpyHtoD(p, data, n * 4));
    free(data);
    return p;
}
static float first(CUdeviceptr p)
{
    float v = -1;
    OK(cuMemcpyDtoH(&v, p, 4));
    return v;
}

static void test_start(void)
{
    int n;
    CUdeviceptr p;
    WANT(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    OK(cuDriverGetVersion(&n));
    CHECK(n == 13000);
    OK(cuInit(0));
    OK(cuDeviceGetCount(&n));
    CHECK(n == 7);
    WANT(cuDeviceGet(&n, 7), CUDA_ERROR_INVALID_DEVICE);
    WANT(cuMemAlloc(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
}
static void test_devices(void)
{
    static const struct {
        int major, minor, sms, shared, cluster;
    } want[] = {{9, 0, 132, 227, 1},  {8, 0, 16, 163, 0},  {8, 6, 132, 99, 0}, {8, 9, 132, 99, 0},
                {10, 0, 132, 227, 1}, {12, 0, 132, 99, 1}, {7, 5, 132, 64, 0}};
    char name[64];
    size_t bytes;
    for (int i = 0; i < 7; i++) {
        int v;
#define ATTRIBUTE(a, value)                                                                                  \
    OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_##a, i));                                                \
    CHECK(v == (value))
        ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR, want[i].major);
        ATTRIBUTE(COMPUTE_CAPABILITY_MINOR, want[i].minor);
        ATTRIBUTE(MULTIPROCESSOR_COUNT, want[i].sms);
        ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, want[i].shared << 10);
        ATTRIBUTE(CLUSTER_LAUNCH, want[i].cluster);
#undef ATTRIBUTE
    }
    OK(cuDeviceGetName(name, sizeof name, 1));
    CHECK(!strcmp(name, "Slice"));
    OK(cuDeviceTotalMem(&bytes, 1));
    CHECK(bytes == 64u << 20);
}
static void test_no_context(void)
{
    CUmodule m;
    CUdeviceptr p;
    CUstream s;
    CUevent e;
    CUdevice d;
    CUcontext c = (CUcontext)1;
    CUlaunchConfig config;
    memset(&config, 0, sizeof config);
    OK(cuCtxSetCurrent(NULL));
    OK(cuCtxGetCurrent(&c));
    CHECK(c == NULL);
    WANT(cuCtxGetDevice(&d), CUDA_ERROR_INVALID_CONTEXT);
    WANT(cuMemAlloc(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    WANT(cuMemFree(4096), CUDA_ERROR_INVALID_CONTEXT);
    WANT(cuModuleLoadData(&m, sim_ptx("valid", "sm_80")), CUDA_ERROR_INVALID_CONTEXT);
    WANT(cuStreamCreate(&s, 0), CUDA_ERROR_INVALID_CONTEXT);
    WANT(cuStreamSynchronize(NULL), CUDA_ERROR_INVALID_CONTEXT);
    WANT(cuEventCreate(&e, 0), CUDA_ERROR_INVALID_CONTEXT);
    WANT(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    WANT(cuLaunchKernelEx(&config, NULL, NULL, NULL), CUDA_ERROR_INVALID_CONTEXT);
}
static void test_contexts(void)
{
    CUcontext mine, a = enter(0), now;
    CUmodule m;
    CUfunction f = kernel("valid", &m), g;
    CUstream s;
    CUdeviceptr p;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuCtxCreate(&mine, NULL, 0, 1));
    OK(cuCtxGetCurrent(&now));
    CHECK(now == mine && mine != a);
    WANT(cuModuleGetFunction(&g, m, "valid"), CUDA_ERROR_INVALID_HANDLE);
    WANT(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    WANT(cuMemAlloc(&p, 65u << 20), CUDA_ERROR_OUT_OF_MEMORY); /* device 1 has 64 MiB */
    WANT(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&p, 40u << 20));
    WANT(cuMemAlloc(&p, 40u << 20), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuCtxDestroy(mine));
    OK(cuCtxGetCurrent(&now));
    CHECK(now == a);
    OK(cuStreamDestroy(s));
    WANT(cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
    OK(cuModuleUnload(m));
    WANT(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    WANT(cuFuncGetAttribute(&(int){0}, CU_FUNC_ATTRIBUTE_NUM_REGS, f), CUDA_ERROR_INVALID_HANDLE);
    leave(0);
    CHECK(sim.live() == 0);
    OK(cuCtxSetCurrent(a));
    WANT(cuMemAlloc(&p, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxSetCurrent(NULL));
}
static void test_modules(void)
{
    CUmodule m;
    CUfunction f;
    int v;
    enter(1); /* sm_80 */
    WANT(cuModuleLoadData(&m, "neither ELF nor PTX"), CUDA_ERROR_INVALID_IMAGE);
    WANT(cuModuleLoadData(
             &m, "\177ELF"
                 "\2\1\1 and then nothing that makes sense, for at least as long as a header is, 64 bytes"),
         CUDA_ERROR_INVALID_IMAGE);
    WANT(cuModuleLoadData(&m, "// PTX\n.target nothing\n"), CUDA_ERROR_INVALID_PTX);
    WANT(cuModuleLoadData(&m, sim_ptx("valid", "sm_90")), CUDA_ERROR_INVALID_PTX);
    WANT(cuModuleLoadData(&m, "// PTX\n.version 9.9\n.target sm_80\n"), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    WANT(cuModuleLoadData(&m, "//\n.version 8.0\n.target sm_80\n.visible .entry valid(.param .u64 a) {}"),
         CUDA_ERROR_INVALID_IMAGE); /* other parameters than the host's kernel */
    f = kernel("valid", &m);
    WANT(cuModuleGetFunction(&f, m, "other"), CUDA_ERROR_NOT_FOUND);
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    CHECK(v == 256);
    WANT(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 164 << 10),
         CUDA_ERROR_INVALID_VALUE);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 256, 0));
    CHECK(v == 8);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 256, 80 << 10));
    CHECK(v == 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 256, 164 << 10));
    CHECK(v == 0); /* a block may have 163 KiB */
    leave(1);
}
static void test_clusters(void)
{
    static const struct {
        unsigned size, shared;
        int clusters;
    } cases[] = {{1, 0, 132 * 8},           {2, 0, 66 * 8},     {2, 200 << 10, 66},
                 {3, 200 << 10, 8 * 5 + 1}, {8, 200 << 10, 16}, {8, 228 << 10, 0}};
    CUmodule m;
    enter(0);
    CUfunction f = kernel("valid", &m);
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {1, 1, 1}};
    CUlaunchConfig c = {.gridDimX = 16,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = 256,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .attrs = &a,
                        .numAttrs = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = -1;
        a.value.clusterDim.x = cases[i].size;
        c.sharedMemBytes = cases[i].shared;
        OK(cuOccupancyMaxActiveClusters(&n, f, &c));
        CHECK(n == cases[i].clusters);
    }
    a.value.clusterDim.x = 16;
    WANT(cuOccupancyMaxActiveClusters(&(int){0}, f, &c), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    OK(cuOccupancyMaxActiveClusters(&(int){0}, f, &c));
    leave(0);
}
static void test_launch_checks(void)
{
    enter(0);
    CUmodule m;
    CUfunction f = kernel("valid", &m);
    CUdeviceptr p = array(1024), q = array(1024);
    struct sim_launch l = {1, 256, 64, 1, 0, NULL};
#define LAUNCH(field, value, want)                                                                           \
    do {                                                                                                     \
        struct sim_launch bad = l;                                                                           \
        bad.field = (value);                                                                                 \
        int got_ = (int)sim_run(&sim, f, bad, 0, p, 1024, q);                                                \
        if (got_ != (want)) {                                                                                \
            failures++;                                                                                      \
            printf("FAILED line %d: " #field " " #value " gave %d\n", __LINE__, got_);                       \
        }                                                                                                    \
    } while (0)
    LAUNCH(grid, 0, CUDA_ERROR_INVALID_VALUE);
    LAUNCH(grid, 0x80000000u, CUDA_ERROR_INVALID_VALUE);
    LAUNCH(block, 257, CUDA_ERROR_INVALID_VALUE); /* more than its launch bounds */
    LAUNCH(shared, 49 << 10, CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10));
    LAUNCH(shared, 227 << 10, CUDA_SUCCESS);
    LAUNCH(cluster, 2, CUDA_ERROR_INVALID_CLUSTER_SIZE); /* the grid is no multiple */
    LAUNCH(stream, (CUstream)f, CUDA_ERROR_INVALID_HANDLE);
#undef LAUNCH
    OK(cuCtxSynchronize());
    CHECK(first(q) == 1024);
    leave(0);
}
static void test_work_waits(void)
{
    enter(0);
    CUmodule m;
    CUfunction f = kernel("valid", &m);
    CUdeviceptr p = array(1024), q;
    CUstream s;
    CUevent start, end;
    float ms;
    OK(cuMemAlloc(&q, 1024));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    struct sim_launch l = {1, 256, 64, 1, 0, s};
    OK(cuEventRecord(start, s));
    CHECK(!sim_run(&sim, f, l, 0, p, 1024, q));
    OK(cuEventRecord(end, s));
    CHECK(isnan(first(q))); /* nobody has synchronised with s */
    WANT(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
    OK(cuEventSynchronize(end));
    CHECK(first(q) == 1024);
    OK(cuEventElapsedTime(&ms, start, end));
    CHECK(ms > 0);
    OK(cuEventDestroy(start));
    OK(cuEventDestroy(end));
    WANT(cuEventDestroy(end), CUDA_ERROR_INVALID_HANDLE);
    leave(0);
}
static void test_capture(void)
{
    enter(0);
    CUmodule m, no;
    CUfunction f = kernel("valid", &m);
    CUdeviceptr p = array(1024), q, never;
    CUstream s, blocking;
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    OK(cuMemAlloc(&q, 1024));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, 0));
    struct sim_launch l = {1, 256, 64, 1, 0, s}, legacy = {1, 256, 64, 1, 0, NULL};

    WANT(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(!sim_run(&sim, f, l, 0, p, 1024, q));
    OK(cuStreamIsCapturing(s, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuCtxSynchronize());
    CHECK(isnan(first(q))); /* a captured launch has done nothing */
    OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
    CHECK(first(q) == 1024);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    WANT(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);

    /* what a capture forbids, and that it ends it */
#define FORBIDDEN(stream, mode, call, want)                                                                  \
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_##mode));                                         \
    WANT(call, want);                                                                                        \
    OK(cuStreamIsCapturing(stream, &status));                                                                \
    CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);                                                   \
    WANT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
    FORBIDDEN(s, GLOBAL, cuMemAlloc(&never, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FORBIDDEN(s, THREAD_LOCAL, cuMemFree(p), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FORBIDDEN(s, GLOBAL, cuModuleLoadData(&no, sim_ptx("valid", "sm_80")),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FORBIDDEN(s, GLOBAL, cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FORBIDDEN(s, RELAXED, cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FORBIDDEN(s, GLOBAL, cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    FORBIDDEN(blocking, GLOBAL, cuMemsetD8Async(q, 0, 4, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
#undef FORBIDDEN
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAlloc(&never, 4));
    CHECK(!sim_run(&sim, f, legacy, 0, p, 1024, q)); /* s does not wait for the null stream */
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    WANT(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(cuStreamEndCapture(blocking, &graph)); /* only asking does no harm */
    OK(cuGraphDestroy(graph));
    WANT(cuStreamEndCapture(s, &graph), CUDA_ERROR_ILLEGAL_STATE);
    leave(0);
}
/* A thread must wait for the kernel before in each programmatic launch anew. */
static void test_programmatic(void)
{
    enum { SUM = 0, SUM_AFTER_WAIT = 5 };
    CUmodule m;
    CUfunction f = NULL;
    enter(0);
    OK(cuModuleLoadData(&m, sim_ptx("valid", "sm_90")));
    OK(cuModuleGetFunction(&f, m, "valid"));
    CUdeviceptr p = array(1024), q = array(256);
    struct sim_launch l = {1, 256, 64, 1, SIM_PROGRAMMATIC, NULL};
    CHECK(!sim_run(&sim, f, l, SUM_AFTER_WAIT, p, 1024, q));
    OK(cuCtxSynchronize());
    CHECK(first(q) == 1024);
    CHECK(!sim_run(&sim, f, l, SUM, p, 1024, q));
    WANT(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    leave(0);
}
static void test_injection(void)
{
    CUdeviceptr p;
    CUcontext a = enter(0), b;
    const char *name = NULL;
    sim.fail("cuMemAlloc:2=2,cuMemFree:1=700*");
    OK(cuMemAlloc(&p, 4));
    WANT(cuMemAlloc(&p, 4), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p, 4));
    CHECK(sim.calls("cuMemAlloc") == 3);
    WANT(cuMemFree(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    WANT(cuMemAlloc(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS); /* the context is broken for good */
    OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
    CHECK(name && !strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    sim.fail("");
    leave(0);
    b = enter(0);
    CHECK(a != b);
    OK(cuMemAlloc(&p, 4));
    sim.fail("cuMemAlloc:*=2");
    for (int i = 0; i < 3; i++)
        WANT(cuMemAlloc(&p, 4), CUDA_ERROR_OUT_OF_MEMORY);
    sim.fail("");
    leave(0);
}
static void test_many_blocks(void)
{
    enter(0);
    CUmodule m;
    CUfunction f = kernel("valid", &m);
    CUdeviceptr q = array(256);
    unsigned count;
    struct sim_launch l = {70000, 32, 0, 1, 0, NULL};
    OK(cuMemsetD32Async(q, 0, 1, NULL));
    double t = seconds();
    CHECK(!sim_run(&sim, f, l, 4, q, 0, q));
    OK(cuCtxSynchronize());
    t = seconds() - t;
    printf("70000 blocks of 32 threads: %.2f s\n", t);
    OK(cuMemcpyDtoH(&count, q, 4));
    CHECK(count == 70000);
    leave(0);
}
static void test_large_memory(void)
{
    enter(0); /* 20 GiB */
    size_t bytes = (size_t)9 << 30;
    CUdeviceptr p, q;
    double t = seconds();
    OK(cuMemAlloc(&p, bytes));
    OK(cuMemAlloc(&q, bytes));
    CHECK(isnan(first(p + bytes - 4)) && isnan(first(q + (bytes >> 1))));
    OK(cuMemsetD8Async(p + bytes - 100, 0, 100, NULL));
    CHECK(first(p + bytes - 4) == 0 && isnan(first(q + bytes - 4)));
    WANT(cuMemsetD8Async(p + bytes - 100, 0, 101, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    OK(cuMemFree(q));
    WANT(cuMemFree(q), CUDA_ERROR_INVALID_VALUE);
    printf("two allocations of 9 GiB: %.2f s\n", seconds() - t);
    leave(0);
}

struct job {
    CUcontext context;
    CUfunction f;
    CUdeviceptr p;
    int good;
};
static void *work(void *argument)
{
    struct job *job = argument;
    CUstream s;
    CUdeviceptr q;
    float v[512];
    int good = !sim.cuCtxSetCurrent(job->context) && !sim.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) &&
               !sim.cuMemAlloc(&q, sizeof v);
    for (int i = 0; i < 20 && good; i++) {
        struct sim_launch l = {2, 256, 64, 1, 0, s};
        good = !sim.cuMemsetD8Async(q, 0, sizeof v, s) && !sim_run(&sim, job->f, l, 0, job->p, 1024, q) &&
               !sim.cuStreamSynchronize(s) && !sim.cuMemcpyDtoH(v, q, sizeof v) && v[0] == 1024 &&
               v[511] == 1024;
    }
    job->good = good && !sim.cuMemFree(q) && !sim.cuStreamDestroy(s);
    return NULL;
}
static void test_threads(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    struct job job[THREADS];
    CUmodule m;
    CUcontext context = enter(0);
    CUfunction f = kernel("valid", &m);
    CUdeviceptr p = array(1024);
    for (int i = 0; i < THREADS; i++) {
        job[i] = (struct job){context, f, p, 0};
        pthread_create(&thread[i], NULL, work, &job[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        CHECK(job[i].good);
    }
    leave(0);
}

int main(void)
{
    static void (*const tests[])(void) = {
        test_start,     test_devices,       test_no_context,   test_contexts, test_modules,
        test_clusters,  test_launch_checks, test_work_waits,   test_capture,  test_programmatic,
        test_injection, test_many_blocks,   test_large_memory, test_threads,
    };
    setenv("CUDASIM_DEVICES",
           "cc=9.0,memory=20g|cc=8.0,sms=16,name=Slice,memory=64m|cc=8.6|cc=8.9|cc=10.0|cc=12.0|cc=7.5", 1);
    unsetenv("CUDASIM_FAIL");
    if (!getenv("CUDASIM_KERNELS"))
        return 77;
    sim_open(&sim);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tests[i]();
    printf("%d failed\n", failures);
    return failures != 0;
}
