/* What the embedding tests share: tensors between guards, a float64 reference, a log that counts, a folder.
 */
#ifndef EMBEDDING_FIXTURE_H
#define EMBEDDING_FIXTURE_H

#include "cuda_calls.h"
#include <gnfuse/gnfuse.h>
#include <pthread.h>
#include <stdbool.h>

/* cmocka.h wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern struct cuda_calls cuda;
extern CUcontext device_context; /* the primary context of device 0, current on the main thread */
extern char scratch[256];        /* a folder that is removed at the end */

/* As cmocka's group setup (opens the driver and makes the folder) and teardown. */
int group_setup(void **state);
int group_teardown(void **state);
/* 77 where the machine has no device, before any test. */
int check_device(void);

/* ---- contexts and their logs ---- */
struct log {
    pthread_mutex_t lock;
    int lines, warnings;
    int compiles;    /* kernels that began to compile */
    char last[2048]; /* line */
};
#define LOG_INIT                                                                                             \
    {                                                                                                        \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                                    \
    }
void log_line(void *user, gnf_log_level level, const char *line);

/* scratch/NAME, in static memory. */
const char *scratch_path(const char *name);
/* A context over `cuda_context` with the cache scratch/CACHE and the log (NULL: none). */
gnf_context *open_context(CUcontext cuda_context, const char *cache, struct log *log);
gnf_plan *make_plan(gnf_context *context, const char *problem, int64_t samples, const char *variant);
gnf_plan_info plan_info(const gnf_plan *plan);
/* The variants of a problem, as the message for an unknown one lists them; returns their number. */
int list_variants(gnf_context *context, const char *problem, int64_t samples, char names[][64], int room);

/* ---- tensors ---- */
enum { GUARD = 256 };
struct tensor {
    CUdeviceptr at;
    size_t bytes, offset; /* of `at` from an aligned address */
};
/* Device memory full of NaN, `offset` bytes off an aligned address, between guards. */
struct tensor tensor_new(size_t bytes, size_t offset);
struct tensor tensor_of(const void *data, size_t bytes, size_t offset);
void tensor_read(const struct tensor *tensor, void *data);
void tensor_write(const struct tensor *tensor, const void *data);
/* Fails the test where a guard is not what it was. */
void tensor_check_guards(const struct tensor *tensor);
/* Checks the guards first. Fine for all zeros. */
void tensor_free(struct tensor *tensor);

/* ---- numbers ---- */
/* Uniform in [-2, 2), the same for the same seed. */
void fill_random(float *data, size_t count, unsigned seed);
/* GroupNorm of x [samples, channels, spatial] in float64, eps 1e-5. */
void reference(const float *x, double *y, int samples, int channels, int spatial, int groups);
/* Fails the test where an element is off by more than 1e-4 * max(1, |want|). */
void check_close(const float *got, const double *want, size_t count);

/* ---- executing ---- */
#define assert_ok(call) assert_status((call), GNF_OK, __FILE__, __LINE__)
void assert_status(gnf_status got, gnf_status want, const char *file, int line);
/* The status, and that its message has `part`. */
#define assert_refused(call, status, part) check_refused((call), (status), (part), __FILE__, __LINE__)
void check_refused(gnf_status got, gnf_status want, const char *part, const char *file, int line);
void synchronise(void);

/* ---- whole layers ---- */
/* What an execution is given; all zeros where there is none. */
struct layer {
    struct tensor x, y, operand, weight, bias, work, prepared;
};
/* Arguments for the plan, with a workspace of its own and room for a prepared weight where it takes one; both
 * stay until the next call. layer_bind() prepares the weight too. */
gnf_arguments layer_arguments(struct layer *layer, const gnf_plan *plan);
gnf_arguments layer_bind(struct layer *layer, const gnf_plan *plan);
void layer_free(struct layer *layer);

/* ---- graphs ---- */
CUgraphExec end_capture(CUstream stream);
struct replays {
    int count, every; /* one in so many, and the last, is compared */
    bool run_before;  /* or the captured execution is the first */
    /* Puts another x on the device and returns what y has to be, or NULL: numbers. */
    const double *(*next)(unsigned i);
};
/* A plan captured once and replayed with another x each time: right, equal to eager bit for bit in the first
 * `elements` of y, and no memory grows. */
void check_replays(struct layer *layer, const gnf_plan *plan, size_t elements, const struct replays *replays);

#endif
