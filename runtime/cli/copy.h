/* The roofline: a copy kernel that reads and writes as many bytes as a problem does, in its best of several
 * forms. */
#ifndef CLI_COPY_H
#define CLI_COPY_H

#include "timing.h"

struct copy {
    struct session *session;
    int64_t items; /* of 16 bytes, read once and written once */
    int sets;
    CUdeviceptr memory; /* sets * 2 * items * 16 bytes */
    struct copy_form {
        CUmodule module;
        CUfunction function;
        const struct copy *copy;
        unsigned threads, per_thread;
    } * form;
    int form_count;
    int best; /* after copy_choose */
};

/* `bytes` is what the problem reads and writes together; half of it is copied. Needs NVRTC unless the kernels
 * are in the cache. */
gnf_status copy_create(struct copy *copy, struct session *session, int64_t bytes);
void copy_destroy(struct copy *copy);
/* Times every form and keeps the fastest in copy->best. */
gnf_status copy_choose(struct copy *copy);
/* One launch of the chosen form as a job of timing_run(). */
struct timing_job copy_job(struct copy *copy);

#endif
