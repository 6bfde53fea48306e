/* Source -> image with NVRTC, loaded when first needed. */
#ifndef GNF_COMPILE_H
#define GNF_COMPILE_H

#include "status.h"
#include <pthread.h>

struct gnf_compiler; /* Thread-safety: safe. */

/* Remembers the path (NULL: search) and loads nothing yet. */
gnf_status gnf_compiler_create(struct gnf_compiler **compiler, const char *path);
void gnf_compiler_destroy(struct gnf_compiler *compiler);
/* Loads NVRTC now. GNF_NO_COMPILER names every place that was tried. Version is major * 1000 + minor * 10. */
gnf_status gnf_compiler_version(struct gnf_compiler *compiler, int *version, const char **path);
/* The NVRTC target for a device of this capability (90): "sm_90", or where NVRTC does not know it the highest
 * virtual one at or below, "compute_80"; else GNF_NO_COMPILER naming capability, NVRTC's version and its
 * highest target. */
gnf_status gnf_compiler_target(struct gnf_compiler *compiler, int capability, char target[24]);
/* "sm_90a" for the target "sm_90": with what only that architecture has. GNF_COMPILE_FAILED, naming the
 * kernel, for a virtual one: then NVRTC does not know the device. */
gnf_status gnf_compiler_exact_target(char target[24], const char *name);
/* Compiles for exactly `target`; *image (cubin for sm_*, PTX with its closing zero byte for compute_*) is the
 * caller's to free. GNF_COMPILE_FAILED with NVRTC's log in the message. No lock is held during a compile. */
gnf_status gnf_compiler_build(struct gnf_compiler *compiler, const char *source, const char *name,
                              const char *target, void **image, size_t *size);
/* The options every compile uses, for keys. One string. */
const char *gnf_compiler_options(void);

#endif
