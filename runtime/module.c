/* Kernels of a context: source -> image (cache, NVRTC) -> module -> function. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "context.h"
#include "image.h"
#include <stdlib.h>
#include <string.h>

enum { SHARED_WITHOUT_ASKING = 48 * 1024 }; /* bytes a block gets without opting in */
enum state { FAILED, BUSY, READY };

struct gnf_module {
    const struct gnf_pack *pack;
    const struct gnf_kernel *kernel;
    enum state state;
    CUmodule module;
    struct gnf_loaded loaded;
    gnf_status status; /* of the last attempt, with its message */
    char *message;
    struct gnf_module *next;
};

/* `outdated` as for gnf_target_find(). */
static gnf_status find_target(gnf_context *context, const struct gnf_kernel *kernel, int outdated,
                              struct gnf_target *target)
{
    gnf_status status = GNF_OK;
    pthread_mutex_lock(&context->target_lock);
    if (!context->target_known || context->target.nvrtc == outdated)
        status = gnf_target_find(&context->target, context->cache, context->compiler, context->target_request,
                                 context->device.capability, context->options.jit, outdated);
    if (status == GNF_OK) {
        context->target_known = true;
        *target = context->target;
    }
    pthread_mutex_unlock(&context->target_lock);
    if (status == GNF_NOT_COMPILED)
        return gnf_fail(
            status, "kernel %s is not compiled for capability %d: no cache holds it and GNFUSE_JIT is off",
            kernel->entry, context->device.capability);
    return status == GNF_OK && kernel->exact ? gnf_compiler_exact_target(target->name, kernel->entry)
                                             : status;
}

gnf_status gnf_context_capturing(gnf_context *context, CUstream stream, bool *capturing)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext before;
    *capturing = false;
    if (!stream)
        return GNF_OK;
    GNF_TRY(gnf_current_enter(&context->driver, context->cuda, &before));
    gnf_status status = GNF_CU(&context->driver, cuStreamIsCapturing, (stream, &capture));
    gnf_current_leave(&context->driver, before);
    *capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
    return status;
}

int gnf_context_nvrtc(gnf_context *context, CUstream stream)
{
    struct gnf_target target = {.nvrtc = 0};
    bool capturing;
    bool load =
        gnf_context_capturing(context, stream, &capturing) == GNF_OK && !capturing && context->options.jit;
    pthread_mutex_lock(&context->target_lock);
    if (context->target_known) {
        target = context->target;
    } else if (gnf_target_find(&target, context->cache, context->compiler, context->target_request,
                               context->device.capability, load, 0) == GNF_OK) {
        /* What was only recorded may be another NVRTC's by now. */
        context->target_known = load;
        context->target = target;
    } else {
        target.nvrtc = 0;
    }
    pthread_mutex_unlock(&context->target_lock);
    return target.nvrtc;
}

/* The driver's answer; with the function if it took the image. */
static CUresult load_image(const gnf_context *context, const void *image, struct gnf_module *module,
                           const char **call)
{
    const struct gnf_driver *driver = &context->driver;
    *call = "cuModuleLoadData";
    CUresult result = driver->cuModuleLoadData(&module->module, image);
    if (result != CUDA_SUCCESS)
        return result;
    *call = "cuModuleGetFunction";
    result = driver->cuModuleGetFunction(&module->loaded.function, module->module, module->kernel->entry);
    if (result == CUDA_SUCCESS && module->kernel->shared_bytes > SHARED_WITHOUT_ASKING) {
        *call = "cuFuncSetAttribute";
        result = driver->cuFuncSetAttribute(module->loaded.function,
                                            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                            module->kernel->shared_bytes);
    }
    if (result == CUDA_SUCCESS) {
        /* also makes a driver that loads lazily load the kernel now, and not at its first launch in a capture
         */
        *call = "cuFuncGetAttribute";
        result = driver->cuFuncGetAttribute(&module->loaded.registers, CU_FUNC_ATTRIBUTE_NUM_REGS,
                                            module->loaded.function);
    }
    if (result != CUDA_SUCCESS) {
        driver->cuModuleUnload(module->module);
        module->module = NULL;
    }
    return result;
}

/* The image is at fault, not the device or the call. */
static bool is_refusal(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NOT_FOUND:
        return true;
    default:
        return false;
    }
}

static gnf_status load_with_key(gnf_context *context, struct gnf_image_job *job, const char *key,
                                struct gnf_module *module)
{
    const char *call;
    CUresult result;
    for (bool again = false;; again = true) {
        void *image;
        size_t size;
        GNF_TRY(gnf_image_fetch(job, key, &image, &size));
        result = load_image(context, image, module, &call);
        free(image);
        if (!is_refusal(result) || job->built || again || !job->jit)
            break;
        gnf_log_line(job->log, GNF_LOG_WARNING,
                     "the driver refuses the cached image of %s for %s (%s: error %d); compiling it again",
                     job->entry, job->target->name, call, (int)result);
        gnf_cache_drop(job->cache, key);
    }
    gnf_status status = gnf_driver_check(&context->driver, result, call);
    if (status != GNF_OK)
        gnf_fail_more(status, " (kernel %s for %s)", job->entry, job->target->name);
    return status;
}

static gnf_status fetch_and_load(gnf_context *context, struct gnf_image_job *job, struct gnf_module *module)
{
    const struct gnf_driver *driver = &context->driver;
    char *key;
    CUcontext before;
    GNF_TRY(gnf_image_key(job->target, job->source, &key));
    gnf_status status = gnf_current_enter(driver, context->cuda, &before);
    if (status == GNF_OK) {
        status = load_with_key(context, job, key, module);
        gnf_current_leave(driver, before);
    }
    free(key);
    return status;
}

static gnf_status prepare(gnf_context *context, const struct gnf_kernel_request *request,
                          struct gnf_module *module)
{
    struct gnf_target target;
    struct gnf_image_job job = {
        .cache = context->cache,
        .compiler = context->compiler,
        .log = &context->options.log,
        .entry = request->kernel->entry,
        .target = &target,
        .jit = context->options.jit,
        .number = request->number,
        .total = request->total,
    };
    char *source = NULL;
    GNF_TRY(find_target(context, request->kernel, 0, &target));
    GNF_TRY(gnf_pack_source(request->pack, request->kernel, &source));
    job.source = source;
    gnf_status status = fetch_and_load(context, &job, module);
    if (job.outdated) {
        status = find_target(context, request->kernel, target.nvrtc, &target);
        if (status == GNF_OK)
            status = fetch_and_load(context, &job, module);
    }
    free(source);
    module->loaded.capability = gnf_target_capability(&target);
    return status;
}

static gnf_status refuse_capture(gnf_context *context, const struct gnf_kernel_request *request)
{
    bool capturing;
    GNF_TRY(gnf_context_capturing(context, request->stream, &capturing));
    if (capturing)
        return gnf_fail(
            GNF_NOT_PREPARED,
            "kernel %s is not loaded yet and the stream is capturing: create the plan before the capture",
            request->kernel->entry);
    return GNF_OK;
}

/* Variants share kernels, the second pass of a split for instance: then their rows have one entry and one
 * source. */
static bool is_same(const struct gnf_kernel *a, const struct gnf_kernel *b)
{
    return a == b || (a->part_count == b->part_count && a->shared_bytes == b->shared_bytes &&
                      !strcmp(a->entry, b->entry) &&
                      !memcmp(a->part, b->part, (size_t)a->part_count * sizeof *a->part));
}

static struct gnf_module *find(const gnf_context *context, const struct gnf_kernel_request *request)
{
    struct gnf_module *module = context->modules;
    while (module && !(module->pack == request->pack && is_same(module->kernel, request->kernel)))
        module = module->next;
    return module;
}

static struct gnf_module *find_or_add(gnf_context *context, const struct gnf_kernel_request *request)
{
    struct gnf_module *module = find(context, request);
    if (module || !(module = calloc(1, sizeof *module)))
        return module;
    module->pack = request->pack;
    module->kernel = request->kernel;
    module->next = context->modules;
    context->modules = module;
    return module;
}

/* With the lock held, and again when it returns: prepares the kernel, or waits for the thread that does. */
static gnf_status prepare_or_wait(gnf_context *context, const struct gnf_kernel_request *request,
                                  struct gnf_module *module)
{
    if (module->state == BUSY) {
        while (module->state == BUSY)
            pthread_cond_wait(&context->changed, &context->lock);
        return module->status == GNF_OK
                   ? GNF_OK
                   : gnf_fail(module->status, "%s", module->message ? module->message : "");
    }
    module->state = BUSY;
    pthread_mutex_unlock(&context->lock);
    gnf_status status = prepare(context, request, module);
    char *message = status == GNF_OK ? NULL : strdup(gnf_error_message());
    pthread_mutex_lock(&context->lock);
    free(module->message);
    module->message = message;
    module->status = status;
    module->state = status == GNF_OK ? READY : FAILED;
    pthread_cond_broadcast(&context->changed);
    return status;
}

gnf_status gnf_context_kernel(gnf_context *context, const struct gnf_kernel_request *request,
                              struct gnf_loaded *loaded)
{
    gnf_status status = GNF_OK;
    pthread_mutex_lock(&context->lock);
    struct gnf_module *module = find(context, request);
    if (!module || module->state != READY) {
        pthread_mutex_unlock(&context->lock);
        GNF_TRY(refuse_capture(context, request));
        pthread_mutex_lock(&context->lock);
        module = find_or_add(context, request);
        if (!module)
            status = gnf_fail(GNF_OUT_OF_MEMORY, "context: no host memory");
        else if (module->state != READY)
            status = prepare_or_wait(context, request, module);
    }
    if (status == GNF_OK)
        *loaded = module->loaded;
    pthread_mutex_unlock(&context->lock);
    return status;
}

void gnf_context_unload(gnf_context *context, bool current)
{
    while (context->modules) {
        struct gnf_module *module = context->modules;
        context->modules = module->next;
        if (module->module && current)
            context->driver.cuModuleUnload(module->module);
        free(module->message);
        free(module);
    }
}
