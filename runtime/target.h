/* What kernels of a context are compiled for and with, known without loading NVRTC where that was done
 * before. */
#ifndef GNF_TARGET_H
#define GNF_TARGET_H

#include "cache.h"
#include "compile.h"

struct gnf_target {
    char name[24]; /* "sm_90", "compute_80" */
    int nvrtc;     /* version, 13000 */
};

/* 90 for "sm_90". */
int gnf_target_capability(const struct gnf_target *target);
/* What NVRTC is searched by, as one line: a record made by another search does not count. The caller frees
 * it. */
gnf_status gnf_target_request(const char *nvrtc, char **request);
/* `load` false (GNFUSE_JIT=off): whatever is recorded, else GNF_NOT_COMPILED. Without NVRTC too the record
 * counts, so that cached images still run; without a record GNF_NO_COMPILER. `outdated`: the version of a
 * record that turned out to be another NVRTC's than the one that is loaded, 0 for none. */
gnf_status gnf_target_find(struct gnf_target *target, struct gnf_cache *cache, struct gnf_compiler *compiler,
                           const char *request, int capability, bool load, int outdated);

#endif
