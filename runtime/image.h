/* A kernel's image: out of the cache, else compiled into it. Without a driver or a CUDA context, so that a
 * process that compiles ahead fills the cache with exactly what plans look for. */
#ifndef GNF_IMAGE_H
#define GNF_IMAGE_H

#include "target.h"

/* One attempt to get an image. */
struct gnf_image_job {
    struct gnf_cache *cache;
    struct gnf_compiler *compiler;
    const struct gnf_log *log;
    const char *entry, *source;
    const struct gnf_target *target;
    bool jit;          /* may compile */
    int number, total; /* for "compiling NAME for sm_90 (2 of 3)" */
    bool built;        /* out: not out of the cache */
    bool outdated;     /* out: the target is not the loaded NVRTC's, so nothing was built; find it anew */
};

/* All that the image depends on, as the cache's key; the caller frees it. */
gnf_status gnf_image_key(const struct gnf_target *target, const char *source, char **key);
/* *image is the caller's to free. GNF_NOT_COMPILED where it is in no cache and may not be compiled, or where
 * the job is outdated; else as gnf_cache_fetch() and gnf_compiler_build(). */
gnf_status gnf_image_fetch(struct gnf_image_job *job, const char *key, void **image, size_t *size);

#endif
