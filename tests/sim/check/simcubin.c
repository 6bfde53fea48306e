/* Real cubins in the simulator: status 77 where there is no NVRTC ($GNFUSE_NVRTC, else libnvrtc.so of the
 * loader). */
#define _POSIX_C_SOURCE 200809L
#include "sim.h"

typedef struct _nvrtcProgram *program;
static struct {
    int (*create)(program *, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(program, int, const char *const *);
    int (*size)(program, size_t *);
    int (*cubin)(program, char *);
} nvrtc;
static struct sim sim;

static void *open_nvrtc(void)
{
    const char *own = getenv("GNFUSE_NVRTC");
    const char *names[] = {own ? own : "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                           "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (int i = 0; i < 4 && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}
static char *cubin(const char *source, const char *target)
{
    char option[64];
    const char *options[] = {option};
    program p;
    size_t size;
    snprintf(option, sizeof option, "--gpu-architecture=%s", target);
    if (nvrtc.create(&p, source, "valid.cu", 0, NULL, NULL) || nvrtc.compile(p, 1, options) ||
        nvrtc.size(p, &size))
        exit(77); /* an NVRTC that does not know the target */
    char *image = malloc(size);
    return nvrtc.cubin(p, image) ? NULL : image;
}
static int want(const char *what, int got, int expected)
{
    if (got != expected)
        printf("FAILED: %s: %d, not %d\n", what, got, expected);
    return got != expected;
}
int main(void)
{
    static const char same[] =
        "extern \"C\" __global__ void __launch_bounds__(256)\n"
        "valid(int kind, const float *p, int n, float *q) { q[threadIdx.x] = p[n] + kind; }",
                      other[] =
                          "extern \"C\" __global__ void valid(int kind, float *q) { q[threadIdx.x] = kind; }";
    void *library = open_nvrtc();
    if (!library)
        return 77;
    const char *names[] = {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"};
    for (int i = 0; i < 4; i++) {
        void *f = dlsym(library, names[i]);
        memcpy((char *)&nvrtc + (size_t)i * sizeof f, &f, sizeof f);
    }
    setenv("CUDASIM_DEVICES", "cc=8.6|cc=9.0|cc=12.0", 1);
    sim_open(&sim);
    int bad = want("cuInit", sim.cuInit(0), 0);
    static const struct {
        int device;
        const char *target;
        CUresult result;
    } cases[] = {{0, "sm_80", CUDA_SUCCESS}, /* 8.0 runs on 8.6, and not the other way round */
                 {0, "sm_89", CUDA_ERROR_NO_BINARY_FOR_GPU},
                 {0, "sm_90", CUDA_ERROR_NO_BINARY_FOR_GPU},
                 {1, "sm_90", CUDA_SUCCESS},
                 {1, "sm_80", CUDA_ERROR_NO_BINARY_FOR_GPU},
                 {2, "sm_120", CUDA_SUCCESS},
                 {2, "sm_100", CUDA_ERROR_NO_BINARY_FOR_GPU}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CUcontext context;
        CUmodule m;
        CUfunction f;
        int registers = 0, threads = 0, arch = 0;
        bad += want("context", sim.cuDevicePrimaryCtxRetain(&context, cases[i].device), 0);
        bad += want("current", sim.cuCtxSetCurrent(context), 0);
        char *image = cubin(same, cases[i].target);
        CUresult result = sim.cuModuleLoadData(&m, image);
        bad += want(cases[i].target, result, cases[i].result);
        if (!result) {
            bad += want("function", sim.cuModuleGetFunction(&f, m, "valid"), 0);
            sim.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
            sim.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
            sim.cuFuncGetAttribute(&arch, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f);
            bad += want("registers are few", registers > 4 && registers < 64, 1);
            bad += want("threads", threads, 256);
            bad += want("architecture", arch, atoi(cases[i].target + 3));
            free(image);
            image = cubin(other, cases[i].target);
            bad += want("other parameters", sim.cuModuleLoadData(&m, image), CUDA_ERROR_INVALID_IMAGE);
        }
        free(image);
    }
    printf("%d failed\n", bad);
    return bad != 0;
}
