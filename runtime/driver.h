/* The CUDA driver as one table of function pointers. Nothing else knows that it is loaded by dlopen. */
#ifndef GNF_DRIVER_H
#define GNF_DRIVER_H

#include "status.h"
#include <cuda.h>
#include <stdbool.h>

/* X(name): every driver function that the library and the command line use. cuda.h defines some of these
 * names as macros (cuMemAlloc is cuMemAlloc_v2): the field is called what the macro says, so
 * `driver->cuMemAlloc` is right in source, and #name gives the plain name that cuGetProcAddress wants.
 * cuGraphInstantiate is the one name where the two disagree (the driver answers with an older form of five
 * arguments), so it is asked for by its full name. */
#define GNF_DRIVER_FUNCTIONS(X)                                                                              \
    X(cuInit)                                                                                                \
    X(cuDriverGetVersion)                                                                                    \
    X(cuDeviceGetCount)                                                                                      \
    X(cuDeviceGet)                                                                                           \
    X(cuDeviceGetName)                                                                                       \
    X(cuDeviceTotalMem)                                                                                      \
    X(cuDeviceGetAttribute)                                                                                  \
    X(cuDevicePrimaryCtxRetain)                                                                              \
    X(cuDevicePrimaryCtxRelease)                                                                             \
    X(cuCtxGetCurrent)                                                                                       \
    X(cuCtxSetCurrent)                                                                                       \
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
    X(cuGraphInstantiateWithFlags)                                                                           \
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

struct gnf_driver {
    void *library;
    const char *path; /* what was opened; lives until gnf_driver_close() */
    bool simulated;   /* the simulator: its times mean nothing, or what a test says */
#define GNF_DRIVER_FIELD(name) __typeof__(&name) name;
    GNF_DRIVER_FUNCTIONS(GNF_DRIVER_FIELD)
#undef GNF_DRIVER_FIELD
};
struct gnf_device {
    int ordinal;
    char name[128];
    int capability; /* 90 for 9.0 */
    int multiprocessors;
    int shared_block; /* bytes a block may opt in to */
    int l2_bytes;
    size_t memory;      /* bytes */
    int driver_version; /* 13000 */
};

/* Opens `path` (NULL: libcuda.so.1), resolves every function through cuGetProcAddress and calls cuInit.
 * GNF_NO_DRIVER, GNF_NO_DEVICE or GNF_DRIVER_ERROR. */
gnf_status gnf_driver_open(struct gnf_driver *driver, const char *path);
void gnf_driver_close(struct gnf_driver *driver);
gnf_status gnf_device_query(const struct gnf_driver *driver, int ordinal, struct gnf_device *device);
/* GNF_OK for CUDA_SUCCESS, else a message "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): ...": the driver's own
 * words. */
gnf_status gnf_driver_check(const struct gnf_driver *driver, CUresult result, const char *call);

/* GNF_CU(driver, cuMemAlloc, (&p, n)) is a gnf_status. */
#define GNF_CU(driver, name, arguments) gnf_driver_check((driver), (driver)->name arguments, #name)

/* Makes `context` current on this thread and remembers what was ("none" included); leave restores it. */
gnf_status gnf_current_enter(const struct gnf_driver *driver, CUcontext context, CUcontext *before);
void gnf_current_leave(const struct gnf_driver *driver, CUcontext before);

#endif
