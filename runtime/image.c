#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "image.h"
#include "monotonic.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A gnf_cache_build. */
static gnf_status build(void *user, void **image, size_t *size)
{
    struct gnf_image_job *job = user;
    const char *target = job->target->name;
    int64_t begin = gnf_now_ms();
    int version;
    GNF_TRY(gnf_compiler_version(job->compiler, &version, NULL));
    job->outdated = version != job->target->nvrtc;
    if (job->outdated)
        return gnf_fail(GNF_NOT_COMPILED, "kernel %s: NVRTC changed under way: it was version %d, and is %d",
                        job->entry, job->target->nvrtc, version);
    job->built = true;
    gnf_log_line(job->log, GNF_LOG_INFO, "compiling %s for %s (%d of %d)", job->entry, target, job->number,
                 job->total);
    GNF_TRY(gnf_compiler_build(job->compiler, job->source, job->entry, target, image, size));
    gnf_log_line(job->log, GNF_LOG_INFO, "compiled %s for %s: %lld ms, %zu bytes", job->entry, target,
                 (long long)(gnf_now_ms() - begin), *size);
    return GNF_OK;
}

gnf_status gnf_image_key(const struct gnf_target *target, const char *source, char **key)
{
    static const char *const format = "gnfuse %d.%d.%d\ntarget %s\nNVRTC %d\noptions %s\nsource\n%s";
    const int major = GNF_VERSION_MAJOR, minor = GNF_VERSION_MINOR, patch = GNF_VERSION_PATCH;
    const char *options = gnf_compiler_options();
    size_t size = strlen(source) + strlen(options) + 256;
    if (!(*key = malloc(size)))
        return gnf_fail(GNF_OUT_OF_MEMORY, "context: no host memory");
    snprintf(*key, size, format, major, minor, patch, target->name, target->nvrtc, options, source);
    return GNF_OK;
}

gnf_status gnf_image_fetch(struct gnf_image_job *job, const char *key, void **image, size_t *size)
{
    job->built = job->outdated = false;
    return gnf_cache_fetch(job->cache, key, job->entry, job->jit ? build : NULL, job, image, size);
}
