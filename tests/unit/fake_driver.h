/* A driver for tests: a table of functions that count and remember, and no device. */
#ifndef GNF_FAKE_DRIVER_H
#define GNF_FAKE_DRIVER_H

#include "plan.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_LAUNCHES = 64 };

static struct {
    atomic_int calls; /* that a capture forbids: load, unload, attributes */
    atomic_int loads, unloads;
    int refuse; /* this many loads are refused with error 209 */
    int capturing;
    int shared_attribute; /* last value set */
    CUresult launch_result;
    int launch_count;
    CUlaunchConfig launch[FAKE_LAUNCHES];
    bool overlaps[FAKE_LAUNCHES]; /* programmatic stream serialization */
    struct gnf_kernel_args args[FAKE_LAUNCHES];
    char launched[FAKE_LAUNCHES][64]; /* entry names */
    CUcontext launched_in;
} fake;
static _Thread_local CUcontext fake_current;

static CUresult fake_get_current(CUcontext *context)
{
    *context = fake_current;
    return CUDA_SUCCESS;
}
static CUresult fake_set_current(CUcontext context)
{
    fake_current = context;
    return CUDA_SUCCESS;
}
static CUresult fake_is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = fake.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
static CUresult fake_load(CUmodule *module, const void *image)
{
    (void)image;
    fake.calls++;
    if (!fake_current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fake.refuse > 0) {
        fake.refuse--;
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    fake.loads++;
    *module = (CUmodule)calloc(1, 64);
    return CUDA_SUCCESS;
}
static CUresult fake_unload(CUmodule module)
{
    fake.calls++;
    fake.unloads++;
    free(module);
    return CUDA_SUCCESS;
}
/* A function is its module, which holds the name. */
static CUresult fake_get_function(CUfunction *function, CUmodule module, const char *name)
{
    snprintf((char *)module, 64, "%s", name);
    *function = (CUfunction)module;
    return CUDA_SUCCESS;
}
static CUresult fake_set_attribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    (void)function;
    fake.calls++;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        fake.shared_attribute = value;
    return CUDA_SUCCESS;
}
static CUresult fake_get_attribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    (void)attribute;
    (void)function;
    *value = 40;
    return CUDA_SUCCESS;
}
static CUresult fake_launch(const CUlaunchConfig *config, CUfunction function, void **parameters,
                            void **extra)
{
    (void)extra;
    if (fake.launch_result != CUDA_SUCCESS)
        return fake.launch_result;
    if (fake.launch_count < FAKE_LAUNCHES) {
        int i = fake.launch_count++;
        fake.launch[i] = *config;
        fake.overlaps[i] = config->numAttrs == 1 &&
                           config->attrs->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                           config->attrs->value.programmaticStreamSerializationAllowed == 1;
        if (config->numAttrs && !fake.overlaps[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(&fake.args[i], parameters[0], sizeof fake.args[i]);
        snprintf(fake.launched[i], sizeof fake.launched[i], "%s", (const char *)function);
        fake.launched_in = fake_current;
    }
    return CUDA_SUCCESS;
}
static CUresult fake_error_text(CUresult result, const char **text)
{
    (void)result;
    *text = "FAKE_ERROR";
    return CUDA_SUCCESS;
}

static void fake_open(struct gnf_driver *driver)
{
    memset(&fake, 0, sizeof fake);
    memset(driver, 0, sizeof *driver);
    driver->cuCtxGetCurrent = fake_get_current;
    driver->cuCtxSetCurrent = fake_set_current;
    driver->cuStreamIsCapturing = fake_is_capturing;
    driver->cuModuleLoadData = fake_load;
    driver->cuModuleUnload = fake_unload;
    driver->cuModuleGetFunction = fake_get_function;
    driver->cuFuncSetAttribute = fake_set_attribute;
    driver->cuFuncGetAttribute = fake_get_attribute;
    driver->cuLaunchKernelEx = fake_launch;
    driver->cuGetErrorName = fake_error_text;
    driver->cuGetErrorString = fake_error_text;
}

#endif
