/* A stand-in for the CUDA driver, for test_driver: no device code, only what opening and asking need.
 * STUB_CUDA names a fault: "init=CODE", "missing=FUNCTION". STUB_OLD builds a driver from before
 * cuGetProcAddress_v2. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef cuDeviceTotalMem
#undef cuGetProcAddress

#define STUB __attribute__((visibility("default")))

STUB CUresult cuDriverGetVersion(int *version)
{
#ifdef STUB_OLD
    *version = 11080;
#else
    *version = 12040;
#endif
    return CUDA_SUCCESS;
}

#ifndef STUB_OLD
static const char *fault(const char *kind)
{
    const char *text = getenv("STUB_CUDA");
    size_t length = strlen(kind);

    return text && strncmp(text, kind, length) == 0 ? text + length : NULL;
}

static _Thread_local CUcontext current;
static int set_calls;

static CUresult init(unsigned flags)
{
    const char *code = fault("init=");

    return flags == 0 ? code ? (CUresult)atoi(code) : CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult device_count(int *count)
{
    *count = 2;
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    *device = ordinal + 40;
    return CUDA_SUCCESS;
}

static CUresult device_name(char *name, int size, CUdevice device)
{
    snprintf(name, (size_t)size, "Stub %d", device - 40);
    return CUDA_SUCCESS;
}

static CUresult device_memory(size_t *bytes, CUdevice device)
{
    *bytes = (size_t)80 << 30;
    return device >= 40 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 12;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 1;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 132;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = 232448;
        break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 50 << 20;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return device >= 40 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult context_get(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

static CUresult context_set(CUcontext context)
{
    current = context;
    set_calls++;
    return CUDA_SUCCESS;
}

/* Called by the test through the table, to ask how often the context was set. */
static CUresult context_synchronize(void)
{
    return (CUresult)set_calls;
}

static CUresult error_name(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == CUDA_ERROR_NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
                                               : NULL;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult error_text(CUresult result, const char **text)
{
    *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : NULL;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult unused(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* As the real one: a name that is not there is success with a null function; names with a version in them are
 * not there; and cuGraphInstantiate is an older function than cuda.h's. */
STUB CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *found)
{
    static const struct {
        const char *name;
        void *function;
    } table[] = {
        {"cuInit", (void *)init},
        {"cuDriverGetVersion", (void *)cuDriverGetVersion},
        {"cuDeviceGetCount", (void *)device_count},
        {"cuDeviceGet", (void *)device_get},
        {"cuDeviceGetName", (void *)device_name},
        {"cuDeviceTotalMem", (void *)device_memory},
        {"cuDeviceGetAttribute", (void *)device_attribute},
        {"cuCtxGetCurrent", (void *)context_get},
        {"cuCtxSetCurrent", (void *)context_set},
        {"cuCtxSynchronize", (void *)context_synchronize},
        {"cuGetErrorName", (void *)error_name},
        {"cuGetErrorString", (void *)error_text},
    };
    const char *missing = fault("missing=");

    *function = NULL;
    *found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (version != 12000 || flags != CU_GET_PROC_ADDRESS_DEFAULT)
        return CUDA_ERROR_INVALID_VALUE;
    if (strstr(symbol, "_v") || strstr(symbol, "_pt") || strcmp(symbol, "cuGraphInstantiate") == 0 ||
        (missing && strcmp(symbol, missing) == 0))
        return CUDA_SUCCESS;
    *found = CU_GET_PROC_ADDRESS_SUCCESS;
    *function = (void *)unused;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(symbol, table[i].name) == 0)
            *function = table[i].function;
    }
    return CUDA_SUCCESS;
}
#endif
