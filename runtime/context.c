#define _POSIX_C_SOURCE 200809L /* strdup */
#include "context.h"
#include "tune.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gnf_status add_pack(gnf_context *context, struct gnf_pack *pack)
{
    pthread_mutex_lock(&context->lock);
    struct gnf_pack **larger = realloc(context->pack, ((size_t)context->pack_count + 1) * sizeof *larger);
    if (larger) {
        context->pack = larger;
        context->pack[context->pack_count++] = pack;
    }
    pthread_mutex_unlock(&context->lock);
    if (larger)
        return GNF_OK;
    gnf_pack_free(pack);
    return gnf_fail(GNF_OUT_OF_MEMORY, "context: no host memory");
}

const struct gnf_pack *gnf_context_pack(gnf_context *context, int i)
{
    pthread_mutex_lock(&context->lock);
    const struct gnf_pack *pack = i < context->pack_count ? context->pack[context->pack_count - 1 - i] : NULL;
    pthread_mutex_unlock(&context->lock);
    return pack;
}

gnf_status gnf_context_load_pack(gnf_context *context, const char *path)
{
    struct gnf_pack *pack;
    if (!context)
        return gnf_fail(GNF_INVALID_ARGUMENT, "context is null");
    if (!path || !*path)
        return gnf_fail(GNF_INVALID_ARGUMENT, "path is %s: allowed is the name of a pack file",
                        path ? "empty" : "null");
    GNF_TRY(gnf_pack_load(&pack, path));
    return add_pack(context, pack);
}

gnf_status gnf_context_load_pack_memory(gnf_context *context, const void *data, size_t size)
{
    struct gnf_pack *pack;
    if (!context)
        return gnf_fail(GNF_INVALID_ARGUMENT, "context is null");
    if (!data)
        return gnf_fail(GNF_INVALID_ARGUMENT, "data is null: allowed is the content of a pack file");
    GNF_TRY(gnf_pack_read(&pack, data, size, "in memory"));
    return add_pack(context, pack);
}

/* The path's first pack is searched first, so it is loaded last. */
static gnf_status load_packs(gnf_context *context)
{
    if (gnf_embedded_pack_size) {
        struct gnf_pack *pack;
        GNF_TRY(gnf_pack_read(&pack, gnf_embedded_pack, gnf_embedded_pack_size, "embedded in the library"));
        GNF_TRY(add_pack(context, pack));
    }
    if (!context->options.pack_path)
        return GNF_OK;
    char *path = strdup(context->options.pack_path);
    if (!path)
        return gnf_fail(GNF_OUT_OF_MEMORY, "context: no host memory");
    gnf_status status = GNF_OK;
    for (char *last = path; last && status == GNF_OK;) {
        last = strrchr(path, ':');
        const char *name = last ? last + 1 : path;
        if (*name)
            status = gnf_context_load_pack(context, name);
        if (last)
            *last = '\0';
    }
    free(path);
    return status;
}

struct gnf_tuned *gnf_context_tuned(gnf_context *context)
{
    pthread_mutex_lock(&context->tuned_lock);
    struct gnf_tuned *tuned = gnf_tuned_share(context->tuned);
    pthread_mutex_unlock(&context->tuned_lock);
    return tuned;
}

gnf_status gnf_context_reload_tuned(gnf_context *context)
{
    struct gnf_tuned *tuned, *old = NULL;
    pthread_mutex_lock(&context->reload_lock);
    gnf_status status = gnf_tuned_load(&tuned, context->options.db, &context->options.log);
    if (status == GNF_OK) {
        pthread_mutex_lock(&context->tuned_lock);
        old = context->tuned;
        context->tuned = tuned;
        pthread_mutex_unlock(&context->tuned_lock);
    }
    pthread_mutex_unlock(&context->reload_lock);
    gnf_tuned_free(old);
    return status;
}

/* The device of a context that is current. */
static gnf_status query_current(gnf_context *context)
{
    const struct gnf_driver *driver = &context->driver;
    CUdevice wanted, handle;
    int count = 0, ordinal = 0;
    GNF_TRY(GNF_CU(driver, cuCtxGetDevice, (&wanted)));
    GNF_TRY(GNF_CU(driver, cuDeviceGetCount, (&count)));
    for (; ordinal < count; ordinal++) {
        GNF_TRY(GNF_CU(driver, cuDeviceGet, (&handle, ordinal)));
        if (handle == wanted)
            break;
    }
    return gnf_device_query(driver, ordinal, &context->device);
}

/* The caller's context, else the thread's current one, else the primary one of the device. */
static gnf_status take_cuda_context(gnf_context *context, const gnf_context_options *options)
{
    const struct gnf_driver *driver = &context->driver;
    CUcontext before;
    CUdevice handle;
    context->cuda = options->cuda_context;
    if (!context->cuda)
        GNF_TRY(GNF_CU(driver, cuCtxGetCurrent, (&context->cuda)));
    if (!context->cuda) {
        GNF_TRY(gnf_device_query(driver, options->device, &context->device));
        GNF_TRY(GNF_CU(driver, cuDeviceGet, (&handle, options->device)));
        GNF_TRY(GNF_CU(driver, cuDevicePrimaryCtxRetain, (&context->cuda, handle)));
        context->owns_primary = true;
        return GNF_OK;
    }
    gnf_status status = gnf_current_enter(driver, context->cuda, &before);
    if (status != GNF_OK) {
        context->cuda = NULL; /* not one that could be left */
        return options->cuda_context ? gnf_fail_more(status, " (options: cuda_context)") : status;
    }
    status = query_current(context);
    gnf_current_leave(driver, before);
    return status;
}

static gnf_status create(gnf_context *context, const gnf_context_options *options)
{
    const struct gnf_options *own = &context->options;
    GNF_TRY(gnf_options_resolve(options, &context->options));
    GNF_TRY(gnf_driver_open(&context->driver, own->driver));
    GNF_TRY(take_cuda_context(context, options));
    GNF_TRY(gnf_compiler_create(&context->compiler, own->nvrtc));
    GNF_TRY(gnf_cublaslt_create(&context->cublaslt, own->cublaslt,
                                context->driver.simulated ? context->driver.path : NULL));
    GNF_TRY(gnf_target_request(own->nvrtc, &context->target_request));
    GNF_TRY(gnf_cache_create(&context->cache, own->cache_dir, own->cache_limit, &own->log));
    GNF_TRY(load_packs(context));
    GNF_TRY(gnf_context_reload_tuned(context));
    gnf_log_line(&own->log, GNF_LOG_DEBUG, "device %d: %s, capability %d, %d multiprocessors; cache %s",
                 context->device.ordinal, context->device.name, context->device.capability,
                 context->device.multiprocessors, own->cache_dir ? own->cache_dir : "none");
    return GNF_OK;
}

gnf_status gnf_context_create(gnf_context **out, const gnf_context_options *options)
{
    gnf_context_options known;
    if (!out)
        return gnf_fail(GNF_INVALID_ARGUMENT, "context is null: allowed is the address of a gnf_context *");
    *out = NULL;
    GNF_TRY(gnf_struct_read(options, &known, sizeof known, "options"));
    gnf_context *context = calloc(1, sizeof *context);
    if (!context)
        return gnf_fail(GNF_OUT_OF_MEMORY, "context: no host memory");
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_init(&context->target_lock, NULL);
    pthread_mutex_init(&context->reload_lock, NULL);
    pthread_mutex_init(&context->tuned_lock, NULL);
    pthread_mutex_init(&context->tune_lock, NULL);
    pthread_cond_init(&context->changed, NULL);
    gnf_status status = create(context, &known);
    if (status != GNF_OK) {
        gnf_context_destroy(&context);
        return status;
    }
    *out = context;
    return GNF_OK;
}

static void release_cuda_context(gnf_context *context)
{
    const struct gnf_driver *driver = &context->driver;
    CUcontext before;
    CUdevice handle;
    bool current = gnf_current_enter(driver, context->cuda, &before) == GNF_OK;
    gnf_context_unload(context, current);
    gnf_cublaslt_destroy(context->cublaslt, current);
    context->cublaslt = NULL;
    if (current)
        gnf_current_leave(driver, before);
    if (context->owns_primary && driver->cuDeviceGet(&handle, context->device.ordinal) == CUDA_SUCCESS)
        driver->cuDevicePrimaryCtxRelease(handle);
}

void gnf_context_destroy(gnf_context **address)
{
    if (!address || !*address)
        return;
    gnf_context *context = *address;
    *address = NULL;
    if (context->cuda)
        release_cuda_context(context);
    for (int i = 0; i < context->pack_count; i++)
        gnf_pack_free(context->pack[i]);
    free(context->pack);
    gnf_tune_forget(context);
    free(context->target_request);
    gnf_tuned_free(context->tuned);
    gnf_cache_destroy(context->cache);
    gnf_compiler_destroy(context->compiler);
    gnf_cublaslt_destroy(context->cublaslt, false);
    gnf_driver_close(&context->driver);
    gnf_options_free(&context->options);
    pthread_cond_destroy(&context->changed);
    pthread_mutex_destroy(&context->tune_lock);
    pthread_mutex_destroy(&context->tuned_lock);
    pthread_mutex_destroy(&context->reload_lock);
    pthread_mutex_destroy(&context->target_lock);
    pthread_mutex_destroy(&context->lock);
    free(context);
}
