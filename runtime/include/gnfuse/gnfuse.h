/* gnfuse: fused GroupNorm kernels, planned once and executed many times.
 *
 *     gnf_context *context = NULL;
 *     gnf_plan *plan = NULL;
 *     gnf_context_create(&context, NULL);
 *     gnf_plan_create(&plan, context, "f32[1024,8192] | groupnorm(16) | hardtanh(-2, 2)", NULL);
 *     gnf_arguments arguments = {.size = sizeof arguments, .x = x, .y = y};
 *     gnf_execute(plan, &arguments, stream);
 *     gnf_plan_destroy(&plan);
 *     gnf_context_destroy(&context);
 *
 * Device pointers are device addresses as integers (CUdeviceptr). A stream is a CUstream (cudaStream_t is the
 * same type); NULL is the default stream. Nothing is printed unless GNFUSE_LOG is set or a log callback is
 * given. No function changes the locale, the signal handlers or the calling thread's current CUDA context (it
 * is restored before return).
 */
#ifndef GNFUSE_H
#define GNFUSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GNF_API __attribute__((visibility("default")))
#else
#define GNF_API
#endif

#define GNF_VERSION_MAJOR 0
#define GNF_VERSION_MINOR 1
#define GNF_VERSION_PATCH 0

/* Values are stable: a status keeps its number in later versions. */
typedef enum gnf_status {
    GNF_OK = 0,
    GNF_INVALID_ARGUMENT = 1, /* a null or unusable argument; the message names it */
    GNF_INVALID_PROBLEM = 2,  /* the problem text is wrong; the message points at the character */
    GNF_NOT_SUPPORTED = 3,    /* legal, but not with this variant or on this device */
    GNF_NO_DRIVER = 4,        /* libcuda.so.1 cannot be loaded */
    GNF_NO_DEVICE = 5,        /* the driver has no such device */
    GNF_NO_COMPILER = 6,      /* a kernel must be compiled and NVRTC cannot be loaded */
    GNF_COMPILE_FAILED = 7,   /* NVRTC refused a source; the message holds its log */
    GNF_NOT_COMPILED = 8,     /* GNFUSE_JIT=off and the kernel is in no cache; the message names it */
    GNF_NOT_PREPARED = 9,     /* would have to compile or load during a capture; nothing was touched */
    GNF_NO_KERNEL = 10,       /* no loaded pack has this chain; the message says how to make one */
    GNF_BAD_PACK = 11,        /* a pack is damaged, newer than this library, or not a pack */
    GNF_OUT_OF_MEMORY = 12,   /* host or device memory */
    GNF_DRIVER_ERROR = 13,    /* the driver reported an error; the message names call and code */
    GNF_TOO_LARGE = 14,       /* a product of sizes does not fit 63 bits or the device */
    GNF_IO = 15,              /* a file could not be read or written */
    GNF_NO_CUBLAS = 16        /* the variant asked for needs cuBLASLt, which cannot be loaded */
} gnf_status;

typedef enum gnf_log_level {
    GNF_LOG_ERROR = 1,
    GNF_LOG_WARNING = 2,
    GNF_LOG_INFO = 3,
    GNF_LOG_DEBUG = 4
} gnf_log_level;

/* Called with one line without a newline. May be called from any thread that calls into the library, and must
 * not call into it. */
typedef void (*gnf_log_callback)(void *user, gnf_log_level level, const char *line);

/* Thread-safety: safe. One per CUcontext; create it once and share it. */
typedef struct gnf_context gnf_context;
/* Thread-safety: safe. Immutable after creation; may be executed from many threads on many streams at once,
 * as long as calls that may overlap in time do not share a workspace. Must not outlive its context. */
typedef struct gnf_plan gnf_plan;

typedef struct CUctx_st *gnf_cuda_context; /* CUcontext */
typedef struct CUstream_st *gnf_stream;    /* CUstream, cudaStream_t */

/* Zero means the default in every field but size. A set field wins over its environment variable. */
typedef struct gnf_context_options {
    size_t size;                   /* sizeof(gnf_context_options) */
    gnf_cuda_context cuda_context; /* NULL: the thread's current one, else the primary context of `device` */
    int device;                    /* ordinal, used only where cuda_context is NULL and none is current */
    const char *driver;            /* path of the driver library; GNFUSE_CUDA_DRIVER; default libcuda.so.1 */
    const char *nvrtc;     /* path of NVRTC; GNFUSE_NVRTC; default: by version, then the toolkit's folder */
    const char *cache_dir; /* GNFUSE_CACHE_DIR; default $XDG_CACHE_HOME/gnfuse, else ~/.cache/gnfuse */
    const char *pack_path; /* colon-separated packs; GNFUSE_PACK_PATH; before the embedded one */
    const char *jit;       /* "on" or "off" (never compile); GNFUSE_JIT; default "on" */
    gnf_log_callback log;  /* NULL: standard error, if GNFUSE_LOG is set */
    void *log_user;
    gnf_log_level log_level; /* GNFUSE_LOG=error|warning|info|debug; default warning when log is given */
    const char *db;          /* tuning database; GNFUSE_DB; default $XDG_CONFIG_HOME/gnfuse/tuned.jsonl */
    const char *cublaslt;    /* path of cuBLASLt; GNFUSE_CUBLASLT; default: searched as NVRTC is */
} gnf_context_options;

/* Zero means the default in every field but size. */
typedef struct gnf_plan_options {
    size_t size;         /* sizeof(gnf_plan_options) */
    int64_t samples;     /* N where the problem text says *; must be 0 or equal to the text's N otherwise */
    const char *variant; /* name of a variant, "block.t256.v4.i4" for instance; NULL: the best one known */
    unsigned alignment;  /* bytes that every pointer passed to gnf_execute will be a multiple of; 0: 16 */
    gnf_stream stream;   /* where it will run; only asked whether it is being captured; NULL: do not ask */
    int tune; /* 1: where no exact record is known and the stream does not capture, gnf_tune() first (seconds,
                 in a child process), once a context for a problem and N; a failure is a warning in the log */
    double tune_budget; /* seconds for that; 0: as long as it takes */
    int prepared; /* 1: executions of a problem with linear bring a weight from gnf_prepare_weight(), which
                     allows faster variants; 0: they bring the weight alone. Ignored with conv2d */
} gnf_plan_options;

enum { GNF_MAX_OPERANDS = 6 };

/* Device addresses for one execution; the caller owns all of them. Tensors are dense in the layout that the
 * problem names, in its dtype (gamma, beta, weight, bias and operands too). x has the sizes of the problem
 * text. C and spatial below are those that groupnorm sees: of x, or of the output of the linear [N, OUT] or
 * conv2d [N, OUT, height, width] in front. Shapes: y [N, C, spatial...]; after maxpool2d with the sizes of
 * its output, after a reduction over channels with C = 1, after mean(all) one element a sample; gamma and
 * beta [C], 0 for all ones and all zeros; operand[i] is the i-th distinct tensor name in the problem text:
 * [N, C, spatial...] (full; used behind maxpool2d with the sizes of its output), [C] (channel) or one element
 * (scalar). Without a reduction y may equal a full operand of its own sizes and, without linear, conv2d and
 * maxpool2d, x (same bits as out of place); other overlap is refused. */
typedef struct gnf_arguments {
    size_t size; /* sizeof(gnf_arguments) */
    uint64_t x, y;
    uint64_t gamma, beta;
    uint64_t operand[GNF_MAX_OPERANDS];
    uint64_t workspace; /* gnf_plan_workspace_size() bytes, aligned to 16; 0 where that is 0 */
    size_t workspace_size;
    uint64_t weight, bias; /* of linear: [OUT, IN]; of conv2d: [OUT, IN, K, K], contiguous in this order
                              whatever the layout; bias [OUT], 0 for all zeros */
    uint64_t prepared;     /* what gnf_prepare_weight() filled; 0 where the plan's prepared_size is 0 */
} gnf_arguments;

/* What a plan chose. Strings live as long as the plan. */
typedef struct gnf_plan_info {
    size_t size;           /* in: sizeof(gnf_plan_info) */
    const char *problem;   /* canonical text, N filled in */
    const char *variant;   /* the variant taken */
    const char *fallback;  /* the one that execute takes for pointers below the plan's alignment */
    const char *match;     /* why: "exact", "older source", "other batch", "other gpu" (records of the tuning
                              databases, best first), "default" (the default rule), "generic", or "named" */
    size_t workspace_size; /* bytes */
    int64_t x_elements;    /* elements of x */
    int64_t y_elements;    /* elements of y */
    unsigned kernels;      /* launches of one execution */
    int registers;         /* a thread, largest over the kernels */
    int shared_bytes;      /* dynamic shared memory a block, largest over the kernels */
    double recorded_us;    /* time of the record it rests on; 0 without one */
    size_t prepared_size;  /* bytes that gnf_prepare_weight() fills; 0: this plan takes the weight as it is,
                              though one of the problem at another N may not; always 0 with conv2d */
} gnf_plan_info;

/* One variant that the loaded packs have for a problem. Strings live as long as the context. */
typedef struct gnf_variant_info {
    size_t size;            /* in: sizeof(gnf_variant_info) */
    const char *name;       /* for gnf_plan_options.variant */
    const char *strategy;   /* "block" */
    const char *parameters; /* "threads 256, vector 4, items 4" */
    unsigned alignment;     /* bytes every pointer must be a multiple of */
    int capability;         /* the least compute capability, 80 for 8.0 */
    unsigned kernels;       /* launches of one execution */
    int shared_bytes;       /* dynamic shared memory a block, largest over the kernels */
} gnf_variant_info;

typedef struct gnf_tune_progress {
    size_t size;         /* sizeof(gnf_tune_progress) of the library */
    const char *variant; /* being compiled or measured; "" for none */
    int done, total;     /* variants */
    const char *best;    /* fastest so far; "" for none */
    double best_us, elapsed_s;
} gnf_tune_progress;
/* Called on the thread that called gnf_tune(), at each step and twice a second at least. Another return value
 * than 0 ends the tuning (within two seconds, and it is not called again); what was measured is kept. Must
 * not call into the library. Strings live until it returns. */
typedef int (*gnf_tune_callback)(void *user, const gnf_tune_progress *progress);

/* Zero means the default in every field but size. */
typedef struct gnf_tune_options {
    size_t size;     /* sizeof(gnf_tune_options) */
    int64_t samples; /* N where the problem text says * */
    double budget;   /* seconds, 0 for as long as it takes, else up to 1e6; exceeded by one variant at most */
    int again;       /* 1: also what is known already */
    const char *program; /* gnfuse, whose child measures; GNFUSE_PROGRAM; default: the one on PATH */
    gnf_tune_callback progress;
    void *progress_user;
} gnf_tune_options;

typedef struct gnf_tune_report {
    size_t size;                /* in: sizeof(gnf_tune_report) */
    char variant[128];          /* the one that plans (with linear: for a prepared weight) take from now on */
    char default_variant[128];  /* the default rule's */
    double time_us, default_us; /* 0: not known */
    int measured, known, failed; /* variants: measured now, known before, wrong or impossible */
    int complete;                /* 0: cut by budget or callback */
} gnf_tune_report;

/* MAJOR * 10000 + MINOR * 100 + PATCH of the library loaded. Needs no driver. */
GNF_API int gnf_version(void);
/* "GNF_INVALID_PROBLEM" for instance; never NULL. */
GNF_API const char *gnf_status_name(gnf_status status);
/* Message of this thread's last call, where that did not return GNF_OK. Never NULL. Valid until the thread's
 * next call into the library. */
GNF_API const char *gnf_error_message(void);

/* Opens the driver and a context. *context is NULL on failure. Loads no compiler and reads no cache yet.
 * Returns GNF_NO_DRIVER, GNF_NO_DEVICE, GNF_DRIVER_ERROR, GNF_BAD_PACK, GNF_IO, GNF_INVALID_ARGUMENT,
 * GNF_OUT_OF_MEMORY. */
GNF_API gnf_status gnf_context_create(gnf_context **context, const gnf_context_options *options);
/* Unloads modules and sets *context to NULL. All its plans must be destroyed before, and work that they
 * enqueued must have ended. NULL is fine. */
GNF_API void gnf_context_destroy(gnf_context **context);
/* Adds a pack, searched before those loaded earlier. The library keeps its own copy. Returns GNF_BAD_PACK,
 * GNF_IO, GNF_INVALID_ARGUMENT, GNF_OUT_OF_MEMORY. */
GNF_API gnf_status gnf_context_load_pack(gnf_context *context, const char *path);
GNF_API gnf_status gnf_context_load_pack_memory(gnf_context *context, const void *data, size_t size);

/* Parses the problem, chooses a variant, compiles what no cache holds, loads it: all that a graph capture
 * forbids. A variant that a tuning record names and that cannot be compiled gives way to the default rule's,
 * with a warning in the log. If options->stream is being captured and something would have to be compiled or
 * loaded, returns GNF_NOT_PREPARED, touches nothing, and the capture stays valid. *plan is NULL on failure.
 * Returns GNF_INVALID_ARGUMENT, GNF_INVALID_PROBLEM, GNF_TOO_LARGE, GNF_NOT_SUPPORTED, GNF_NO_KERNEL,
 * GNF_NOT_PREPARED, GNF_NOT_COMPILED, GNF_NO_COMPILER, GNF_COMPILE_FAILED, GNF_DRIVER_ERROR,
 * GNF_OUT_OF_MEMORY; GNF_NO_CUBLAS for a named variant only: others give way to kernels of our own, with a
 * warning in the log. */
GNF_API gnf_status gnf_plan_create(gnf_plan **plan, gnf_context *context, const char *problem,
                                   const gnf_plan_options *options);
GNF_API void gnf_plan_destroy(gnf_plan **plan);
GNF_API size_t gnf_plan_workspace_size(const gnf_plan *plan);
GNF_API gnf_status gnf_plan_get_info(const gnf_plan *plan, gnf_plan_info *info);

/* Enqueues the plan's kernels on the stream and returns: no allocation, no synchronisation, no compile; may
 * be captured in a graph. For N = 0 (or where the chain may have it, no spatial element) it succeeds and
 * launches nothing. Returns GNF_INVALID_ARGUMENT, GNF_DRIVER_ERROR, GNF_OUT_OF_MEMORY (the driver's). */
GNF_API gnf_status gnf_execute(const gnf_plan *plan, const gnf_arguments *arguments, gnf_stream stream);

/* Enqueues what the plan's variant wants done once for a weight: `weight` is [OUT, IN] as in gnf_arguments,
 * `prepared` is gnf_plan_info.prepared_size bytes of the caller's, aligned to 16, for use as
 * gnf_arguments.prepared by any plan of the same problem at any N, on this context, until the weight changes
 * (a plan of a variant asked for by name may want it in another form: prepare with such a plan for itself).
 * The weight itself is still needed by each execution. Nothing to do (and GNF_OK) where prepared_size is 0,
 * as with conv2d, and for small N: prepare with a plan of the largest N. Returns GNF_INVALID_ARGUMENT,
 * GNF_DRIVER_ERROR. Thread-safety: safe; may be captured. */
GNF_API gnf_status gnf_prepare_weight(const gnf_plan *plan, uint64_t weight, uint64_t prepared,
                                      size_t prepared_size, gnf_stream stream);

/* The i-th variant for the problem, in the packs' order, each name once; GNF_INVALID_ARGUMENT past the last
 * one. Returns also GNF_INVALID_PROBLEM, GNF_TOO_LARGE, GNF_NO_KERNEL. Thread-safety: safe. */
GNF_API gnf_status gnf_get_variant(gnf_context *context, const char *problem, int i, gnf_variant_info *info);

/* Measures the problem's variants on the context's device, checks each against a float64 reference, and
 * appends the results to the tuning database, which this context's later plans use. All of it happens in a
 * child process on buffers of its own: no tensor and no CUDA context of the caller is touched. Variants that
 * have a record are not measured again. `report` may be NULL; after a failure it is all zeros. Blocks for
 * seconds to minutes. Thread-safety: safe; two at once share the GPU and so disturb each other's times. The
 * child gets the context's driver, compiler, packs (those from memory as files in TMPDIR meanwhile), cache
 * and database, and the rest of the environment. Returns GNF_INVALID_ARGUMENT, GNF_INVALID_PROBLEM,
 * GNF_NOT_SUPPORTED, GNF_TOO_LARGE, GNF_NO_KERNEL, GNF_IO (the program cannot be started or died, the
 * database cannot be written), GNF_OUT_OF_MEMORY, and what the child met: GNF_NO_DEVICE, GNF_NO_COMPILER,
 * GNF_DRIVER_ERROR... */
GNF_API gnf_status gnf_tune(gnf_context *context, const char *problem, const gnf_tune_options *options,
                            gnf_tune_report *report);

#ifdef __cplusplus
}
#endif
#endif
