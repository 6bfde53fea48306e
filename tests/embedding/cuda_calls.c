#include "cuda_calls.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUDA 13 gives cuCtxSynchronize and cuCtxGetDevice a further argument, which cuda.h hides behind no macro;
 * it does so for cuCtxCreate. */
enum { NO_DEVICE = 77, PLAIN_VERSION = 12000 };

typedef CUresult (*find_call)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static int give_up(const char *why)
{
    fprintf(stderr, "skipped: %s\n", why);
    return NO_DEVICE;
}

int cuda_open(struct cuda_calls *cuda)
{
    const char *path = getenv("GNFUSE_CUDA_DRIVER");
    void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    find_call find = NULL;
    int count = 0;

    if (!library)
        return give_up(dlerror());
    *(void **)&find = dlsym(library, "cuGetProcAddress_v2");
    if (!find)
        return give_up("the driver has no cuGetProcAddress_v2");
#define RESOLVE(name)                                                                                        \
    do {                                                                                                     \
        CUdriverProcAddressQueryResult found;                                                                \
        int version = strcmp(#name, "cuCtxCreate") ? PLAIN_VERSION : CUDA_VERSION;                           \
        if (find(#name, (void **)&cuda->name, version, 0, &found) != CUDA_SUCCESS || !cuda->name)            \
            return give_up("the driver has no " #name);                                                      \
    } while (0);
    CUDA_CALLS(RESOLVE)
#undef RESOLVE
    *(void **)&cuda->simulated_calls = dlsym(library, "cudasim_calls");
    if (cuda->cuInit(0) != CUDA_SUCCESS || cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS || count < 1)
        return give_up("no device");
    return 0;
}
