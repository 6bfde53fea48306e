#define _GNU_SOURCE 1 /* dlinfo */
#include "driver.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "gnfuse runs on 64-bit Linux, x86-64 or Arm"
#endif

/* The development name, libcuda.so, is the toolkit's link stub on many machines. */
static const char library_name[] = "libcuda.so.1";

enum { DRIVER_VERSION = 12000 }; /* the first with cuGetProcAddress_v2, and all that we ask for */

typedef CUresult (*get_proc_address)(const char *symbol, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *found);

static gnf_status open_library(struct gnf_driver *driver, const char *path)
{
    struct link_map *map = NULL;
    /* The real driver's own threads and thread exits may run after us, so it is never unmapped. One named by
     * path (a simulator, a test) is, so that it starts afresh when opened again. */
    int flags = RTLD_NOW | RTLD_LOCAL | (path ? 0 : RTLD_NODELETE);

    driver->library = dlopen(path ? path : library_name, flags);
    if (!driver->library)
        return gnf_fail(GNF_NO_DRIVER, "the CUDA driver cannot be loaded: %s%s", dlerror(),
                        path ? "" : " (set GNFUSE_CUDA_DRIVER to its path if it lies elsewhere)");
    driver->path = path ? path : library_name;
    if (dlinfo(driver->library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
        driver->path = map->l_name;
    driver->simulated = dlsym(driver->library, "cudasim_seed") != NULL;
    return GNF_OK;
}

static gnf_status resolve_functions(struct gnf_driver *driver)
{
    get_proc_address get = NULL;
    CUresult (*driver_version)(int *) = NULL;
    int version = 0;

    /* The casts through an object pointer are POSIX's own way round ISO C. */
    *(void **)&driver_version = dlsym(driver->library, "cuDriverGetVersion");
    *(void **)&get = dlsym(driver->library, "cuGetProcAddress_v2");
    if (!driver_version || driver_version(&version) != CUDA_SUCCESS)
        return gnf_fail(GNF_NO_DRIVER, "%s is not a CUDA driver: no cuDriverGetVersion", driver->path);
    if (!get)
        return gnf_fail(GNF_NO_DRIVER,
                        "%s is for CUDA %d.%d and has no cuGetProcAddress_v2; needed: CUDA %d.%d or newer",
                        driver->path, version / 1000, version % 1000 / 10, DRIVER_VERSION / 1000,
                        DRIVER_VERSION % 1000 / 10);
        /* A name that is not there is CUDA_SUCCESS with a null function. */
#define GNF_RESOLVE(name)                                                                                    \
    do {                                                                                                     \
        CUdriverProcAddressQueryResult found;                                                                \
        void *function = NULL;                                                                               \
        CUresult result = get(#name, &function, DRIVER_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &found);        \
        if (result != CUDA_SUCCESS || !function)                                                             \
            return gnf_fail(GNF_NO_DRIVER,                                                                   \
                            "%s is for CUDA %d.%d and has no %s; needed: CUDA %d.%d or newer", driver->path, \
                            version / 1000, version % 1000 / 10, #name, DRIVER_VERSION / 1000,               \
                            DRIVER_VERSION % 1000 / 10);                                                     \
        *(void **)&driver->name = function;                                                                  \
    } while (0);
    GNF_DRIVER_FUNCTIONS(GNF_RESOLVE)
#undef GNF_RESOLVE
    return GNF_OK;
}

static gnf_status initialise(const struct gnf_driver *driver)
{
    CUresult result = driver->cuInit(0);

    if (result == CUDA_ERROR_STUB_LIBRARY)
        return gnf_fail(GNF_NO_DRIVER,
                        "%s is the toolkit's stub, not the driver: CUDA_ERROR_STUB_LIBRARY (%d)",
                        driver->path, result);
    return gnf_driver_check(driver, result, "cuInit");
}

gnf_status gnf_driver_open(struct gnf_driver *driver, const char *path)
{
    gnf_status status;

    memset(driver, 0, sizeof *driver);
    GNF_TRY(open_library(driver, path));
    status = resolve_functions(driver);
    if (status == GNF_OK)
        status = initialise(driver);
    if (status != GNF_OK)
        gnf_driver_close(driver);
    return status;
}

void gnf_driver_close(struct gnf_driver *driver)
{
    if (driver->library)
        dlclose(driver->library);
    memset(driver, 0, sizeof *driver);
}

static gnf_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return GNF_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return GNF_OUT_OF_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
        return GNF_NO_DEVICE;
    default:
        return GNF_DRIVER_ERROR;
    }
}

gnf_status gnf_driver_check(const struct gnf_driver *driver, CUresult result, const char *call)
{
    const char *name = NULL, *text = NULL;

    if (result == CUDA_SUCCESS)
        return GNF_OK;
    /* A driver older than the code gives a null name. */
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = "an error this driver has no name for";
    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
        return gnf_fail(status_of(result), "%s: %s (%d)", call, name, (int)result);
    return gnf_fail(status_of(result), "%s: %s (%d): %s", call, name, (int)result, text);
}

static gnf_status query_attribute(const struct gnf_driver *driver, CUdevice handle,
                                  CUdevice_attribute attribute, int *value)
{
    return GNF_CU(driver, cuDeviceGetAttribute, (value, attribute, handle));
}

gnf_status gnf_device_query(const struct gnf_driver *driver, int ordinal, struct gnf_device *device)
{
    CUdevice handle;
    int count = 0, major = 0, minor = 0;

    memset(device, 0, sizeof *device);
    GNF_TRY(GNF_CU(driver, cuDeviceGetCount, (&count)));
    if (ordinal < 0 || ordinal >= count)
        return gnf_fail(GNF_NO_DEVICE, "device is %d; the driver has %d device%s, numbered from 0", ordinal,
                        count, count == 1 ? "" : "s");
    device->ordinal = ordinal;
    GNF_TRY(GNF_CU(driver, cuDeviceGet, (&handle, ordinal)));
    GNF_TRY(GNF_CU(driver, cuDeviceGetName, (device->name, (int)sizeof device->name, handle)));
    device->name[sizeof device->name - 1] = '\0';
    GNF_TRY(GNF_CU(driver, cuDeviceTotalMem, (&device->memory, handle)));
    GNF_TRY(GNF_CU(driver, cuDriverGetVersion, (&device->driver_version)));
    GNF_TRY(query_attribute(driver, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    GNF_TRY(query_attribute(driver, handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    device->capability = major * 10 + minor;
    GNF_TRY(
        query_attribute(driver, handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->multiprocessors));
    GNF_TRY(query_attribute(driver, handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                            &device->shared_block));
    return query_attribute(driver, handle, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &device->l2_bytes);
}

gnf_status gnf_current_enter(const struct gnf_driver *driver, CUcontext context, CUcontext *before)
{
    GNF_TRY(GNF_CU(driver, cuCtxGetCurrent, (before)));
    if (*before == context)
        return GNF_OK;
    return GNF_CU(driver, cuCtxSetCurrent, (context));
}

void gnf_current_leave(const struct gnf_driver *driver, CUcontext before)
{
    CUcontext now = NULL;

    /* Asking is much cheaper than setting; a failure here has nobody to be told, and the call's own status
     * matters. */
    if (driver->cuCtxGetCurrent(&now) != CUDA_SUCCESS || now != before)
        driver->cuCtxSetCurrent(before);
}
