/* What one CUcontext's users share: options, driver, device, compiler, cuBLASLt, cache, packs, loaded
 * kernels. */
#ifndef GNF_CONTEXT_H
#define GNF_CONTEXT_H

#include "cache.h"
#include "compile.h"
#include "driver.h"
#include "gemm.h"
#include "options.h"
#include "pack.h"
#include "target.h"
#include "tuned.h"
#include <pthread.h>

struct gnf_module; /* a loaded kernel */
struct gnf_tried;  /* a problem tuned on first use */

struct gnf_context {
    struct gnf_options options;
    struct gnf_driver driver;
    struct gnf_device device;
    CUcontext cuda;
    bool owns_primary;
    struct gnf_compiler *compiler;
    struct gnf_cublaslt *cublaslt;
    struct gnf_cache *cache;
    char *target_request;
    pthread_mutex_t lock; /* packs and modules */
    struct gnf_pack **pack;
    int pack_count; /* searched from the last to the first */
    struct gnf_module *modules;
    pthread_cond_t changed;      /* a module is ready or has failed */
    pthread_mutex_t target_lock; /* the next two */
    bool target_known;
    struct gnf_target target;
    pthread_mutex_t reload_lock; /* held while databases are read, so that what is newest stays */
    pthread_mutex_t tuned_lock;  /* the next one */
    struct gnf_tuned *tuned;     /* NULL: nothing is known */
    pthread_mutex_t tune_lock;   /* held while a plan tunes; the next one */
    struct gnf_tried *tried;
};

struct gnf_kernel_request {
    const struct gnf_pack *pack;
    const struct gnf_kernel *kernel;
    CUstream stream;   /* asked whether it is capturing; NULL: do not ask */
    int number, total; /* for "compiling NAME for sm_90 (2 of 3)" */
};

struct gnf_loaded {
    CUfunction function;
    int registers;  /* a thread */
    int capability; /* that it was compiled for, which the device's may be above */
};

/* The function of a kernel, compiled (through the cache) and loaded at most once per context; waits for a
 * thread that is already at it. If the stream is capturing and something would have to be done:
 * GNF_NOT_PREPARED, and nothing was touched. Any CUDA context or none may be current, and stays so.
 * Thread-safety: safe. */
gnf_status gnf_context_kernel(gnf_context *context, const struct gnf_kernel_request *request,
                              struct gnf_loaded *loaded);
/* Forgets all kernels, which nobody may use any more. `current`: the CUDA context is, so that they are
 * unloaded too. */
void gnf_context_unload(gnf_context *context, bool current);

/* Whether the stream (NULL: no) is being captured. Any CUDA context or none may be current, and stays so. */
gnf_status gnf_context_capturing(gnf_context *context, CUstream stream, bool *capturing);

/* Pack number `i` from the one searched first; NULL past the end. Lives as long as the context. */
const struct gnf_pack *gnf_context_pack(gnf_context *context, int i);

/* The tuning databases as they are now, to be given back by gnf_tuned_free(); NULL for none. */
struct gnf_tuned *gnf_context_tuned(gnf_context *context);
/* Reads them again, for the plans created from now on; those at work go on with the old ones.
 * GNF_OUT_OF_MEMORY: the old ones stay. Thread-safety: safe. */
gnf_status gnf_context_reload_tuned(gnf_context *context);
/* Version of the NVRTC that kernels are compiled with, 0 where it is not known. Where no cache says it, NVRTC
 * is loaded, unless that is forbidden or the stream (NULL: not asked) is being captured. Thread-safety: safe.
 */
int gnf_context_nvrtc(gnf_context *context, CUstream stream);

#endif
