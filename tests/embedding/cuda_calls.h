/* The driver as a host program has it: the library that the runtime opens too, so both see one state. */
#ifndef EMBEDDING_CUDA_CALLS_H
#define EMBEDDING_CUDA_CALLS_H

#include <cuda.h>

#define CUDA_CALLS(X)                                                                                        \
    X(cuInit)                                                                                                \
    X(cuDeviceGetCount)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                              \
    X(cuDevicePrimaryCtxRelease)                                                                             \
    X(cuCtxCreate)                                                                                           \
    X(cuCtxPopCurrent)                                                                                       \
    X(cuCtxDestroy)                                                                                          \
    X(cuCtxGetCurrent)                                                                                       \
    X(cuCtxSetCurrent)                                                                                       \
    X(cuCtxGetDevice)                                                                                        \
    X(cuCtxSynchronize)                                                                                      \
    X(cuMemAlloc)                                                                                            \
    X(cuMemFree)                                                                                             \
    X(cuMemGetInfo)                                                                                          \
    X(cuMemcpyHtoD)                                                                                          \
    X(cuMemcpyDtoH)                                                                                          \
    X(cuMemcpyHtoDAsync)                                                                                     \
    X(cuMemsetD32)                                                                                           \
    X(cuStreamCreate)                                                                                        \
    X(cuStreamDestroy)                                                                                       \
    X(cuStreamSynchronize)                                                                                   \
    X(cuStreamIsCapturing)                                                                                   \
    X(cuStreamBeginCapture)                                                                                  \
    X(cuStreamEndCapture)                                                                                    \
    X(cuGraphInstantiateWithFlags)                                                                           \
    X(cuGraphLaunch)                                                                                         \
    X(cuGraphExecDestroy)                                                                                    \
    X(cuGraphDestroy)

/* cuda.h makes macros of some names (cuMemAlloc is cuMemAlloc_v2); the fields are called what these say. */
struct cuda_calls {
#define CUDA_CALLS_FIELD(name) __typeof__(&name) name;
    CUDA_CALLS(CUDA_CALLS_FIELD)
#undef CUDA_CALLS_FIELD
    long (*simulated_calls)(const char *function); /* NULL on a GPU */
};

/* Opens $GNFUSE_CUDA_DRIVER, else libcuda.so.1, for the rest of the program. 0, or 77 with a line on standard
 * error where there is no driver or no device. */
int cuda_open(struct cuda_calls *cuda);

#endif
