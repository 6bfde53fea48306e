/* The simulator, loaded as the product loads a driver. For the simulator's own tests. */
#ifndef SIM_H
#define SIM_H

#include "../cudasim.h"
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIM_FUNCTIONS(X)                                                                                     \
    X(cuInit)                                                                                                \
    X(cuDriverGetVersion)                                                                                    \
    X(cuDeviceGetCount)                                                                                      \
    X(cuDeviceGet)                                                                                           \
    X(cuDeviceGetName)                                                                                       \
    X(cuDeviceTotalMem)                                                                                      \
    X(cuDeviceGetAttribute)                                                                                  \
    X(cuDevicePrimaryCtxRetain)                                                                              \
    X(cuDevicePrimaryCtxRelease)                                                                             \
    X(cuCtxCreate)                                                                                           \
    X(cuCtxDestroy)                                                                                          \
    X(cuCtxSetCurrent)                                                                                       \
    X(cuCtxGetCurrent)                                                                                       \
    X(cuCtxGetDevice)                                                                                        \
    X(cuCtxSynchronize)                                                                                      \
    X(cuMemAlloc)                                                                                            \
    X(cuMemFree)                                                                                             \
    X(cuMemcpyHtoD)                                                                                          \
    X(cuMemcpyDtoH)                                                                                          \
    X(cuMemsetD8Async)                                                                                       \
    X(cuMemsetD32Async)                                                                                      \
    X(cuStreamCreate)                                                                                        \
    X(cuStreamDestroy)                                                                                       \
    X(cuStreamSynchronize)                                                                                   \
    X(cuStreamIsCapturing)                                                                                   \
    X(cuStreamBeginCapture)                                                                                  \
    X(cuStreamEndCapture)                                                                                    \
    X(cuStreamWaitEvent)                                                                                     \
    X(cuGraphInstantiate)                                                                                    \
    X(cuGraphLaunch)                                                                                         \
    X(cuGraphExecDestroy)                                                                                    \
    X(cuGraphDestroy)                                                                                        \
    X(cuEventCreate)                                                                                         \
    X(cuEventDestroy)                                                                                        \
    X(cuEventRecord)                                                                                         \
    X(cuEventSynchronize)                                                                                    \
    X(cuEventElapsedTime)                                                                                    \
    X(cuModuleLoadData)                                                                                      \
    X(cuModuleUnload)                                                                                        \
    X(cuModuleGetFunction)                                                                                   \
    X(cuFuncGetAttribute)                                                                                    \
    X(cuFuncSetAttribute)                                                                                    \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                           \
    X(cuOccupancyMaxActiveClusters)                                                                          \
    X(cuLaunchKernelEx)                                                                                      \
    X(cuGetErrorName)                                                                                        \
    X(cuGetErrorString)

struct sim {
    void *library;
#define SIM_FIELD(name) __typeof__(&name) name;
    SIM_FUNCTIONS(SIM_FIELD)
#undef SIM_FIELD
    __typeof__(&cudasim_seed) seed;
    __typeof__(&cudasim_fail) fail;
    __typeof__(&cudasim_calls) calls;
    __typeof__(&cudasim_live) live;
};

static inline void sim_symbol(const struct sim *sim, const char *name, void *to)
{
    void *p = dlsym(sim->library, name);
    if (!p) {
        fprintf(stderr, "no %s: %s\n", name, dlerror());
        exit(3);
    }
    memcpy(to, &p, sizeof p);
}
/* Opens $GNFUSE_CUDA_DRIVER, or ends the program with status 3. */
static inline void sim_open(struct sim *sim)
{
    const char *path = getenv("GNFUSE_CUDA_DRIVER");
    sim->library = dlopen(path ? path : "libgnfuse_cudasim.so", RTLD_NOW | RTLD_LOCAL);
    if (!sim->library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    sim_symbol(sim, "cuGetProcAddress_v2", &get);
#define SIM_RESOLVE(name)                                                                                    \
    if (get(#name, (void **)&sim->name, CUDA_VERSION, 0, NULL)) {                                            \
        fprintf(stderr, "no %s in the simulator\n", #name);                                                  \
        exit(3);                                                                                             \
    }
    SIM_FUNCTIONS(SIM_RESOLVE)
#undef SIM_RESOLVE
    sim_symbol(sim, "cudasim_seed", &sim->seed);
    sim_symbol(sim, "cudasim_fail", &sim->fail);
    sim_symbol(sim, "cudasim_calls", &sim->calls);
    sim_symbol(sim, "cudasim_live", &sim->live);
}

/* PTX with one kernel and no code: enough to find the host-compiled kernel, whose parameters all test kernels
 * share. */
static inline const char *sim_ptx(const char *entry, const char *target)
{
    static char text[1000];
    snprintf(
        text, sizeof text,
        "//\n.version 8.0\n.target %s\n.address_size 64\n\n.visible .entry %s(\n\t.param .u32 %s_param_0,\n"
        "\t.param .u64 %s_param_1,\n\t.param .u32 %s_param_2,\n\t.param .u64 %s_param_3\n)\n"
        ".maxntid 256, 1, 1\n{\n\tret;\n}\n",
        target, entry, entry, entry, entry, entry);
    return text;
}

enum { SIM_COOPERATIVE = 1, SIM_PROGRAMMATIC = 2 };
struct sim_launch {
    unsigned grid, block, shared, cluster;
    int how;
    CUstream stream;
};
/* Launches a test kernel: (int kind, float *p, int n, float *q). */
static inline CUresult sim_run(const struct sim *sim, CUfunction f, struct sim_launch l, int kind,
                               CUdeviceptr p, int n, CUdeviceptr q)
{
    CUlaunchAttribute attributes[3];
    CUlaunchConfig config;
    void *arguments[] = {&kind, &p, &n, &q};
    memset(attributes, 0, sizeof attributes);
    memset(&config, 0, sizeof config);
    config.gridDimX = l.grid;
    config.blockDimX = l.block;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = l.shared;
    config.hStream = l.stream;
    config.attrs = attributes;
    if (l.cluster > 1) {
        CUlaunchAttribute *a = &attributes[config.numAttrs++];
        a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        a->value.clusterDim.x = l.cluster;
        a->value.clusterDim.y = a->value.clusterDim.z = 1;
    }
    if (l.how & SIM_COOPERATIVE) {
        CUlaunchAttribute *a = &attributes[config.numAttrs++];
        a->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        a->value.cooperative = 1;
    }
    if (l.how & SIM_PROGRAMMATIC) {
        CUlaunchAttribute *a = &attributes[config.numAttrs++];
        a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        a->value.programmaticStreamSerializationAllowed = 1;
    }
    return sim->cuLaunchKernelEx(&config, f, arguments, NULL);
}

#endif
