#include "clock.h"

#include <dlfcn.h>
#include <stdio.h>

/* NVML's names for these, without its header, which a toolkit need not have. */
enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1 };

struct nvml {
    int (*init)(void);
    int (*device)(const char *bus_id, void **device);
    int (*clock)(void *device, int type, unsigned *mhz);
};

/* The driver API cannot tell a clock, so this is the one further library that is loaded, and only by those
 * who measure. It is part of every NVIDIA driver; it stays loaded. */
static bool load(struct nvml *nvml)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL)
        return false;
    *(void **)&nvml->init = dlsym(library, "nvmlInit_v2");
    *(void **)&nvml->device = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml->clock = dlsym(library, "nvmlDeviceGetClockInfo");
    return nvml->init != NULL && nvml->device != NULL && nvml->clock != NULL;
}

/* By its place on the bus: NVML's numbers know nothing of CUDA_VISIBLE_DEVICES. */
static bool bus_id(const struct gnf_driver *driver, int ordinal, char id[32])
{
    int domain, bus, slot;
    CUdevice device;
    if (driver->cuDeviceGet(&device, ordinal) != CUDA_SUCCESS ||
        driver->cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device) != CUDA_SUCCESS ||
        driver->cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device) != CUDA_SUCCESS ||
        driver->cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device) != CUDA_SUCCESS)
        return false;
    return snprintf(id, 32, "%08X:%02X:%02X.0", (unsigned)domain, (unsigned)bus, (unsigned)slot) < 32;
}

int clock_mhz(const struct gnf_driver *driver, int ordinal)
{
    struct nvml nvml;
    void *device;
    char id[32];
    unsigned mhz = 0;
    if (!bus_id(driver, ordinal, id) || !load(&nvml) || nvml.init() != NVML_SUCCESS ||
        nvml.device(id, &device) != NVML_SUCCESS || nvml.clock(device, NVML_CLOCK_SM, &mhz) != NVML_SUCCESS)
        return 0;
    return (int)mhz;
}
