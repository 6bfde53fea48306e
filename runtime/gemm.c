#define _GNU_SOURCE 1 /* RTLD_NODELETE, strdup */
#include "gemm.h"
#include "library.h"
#include "options.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* cuBLASLt's interface as far as it is used here, so that building needs no cublasLt.h. */
typedef int lt_status; /* 0 is success */
enum { LT_ALLOC_FAILED = 3 };
typedef struct lt_handle_state *lt_handle;
typedef struct lt_operation_state *lt_operation;
typedef struct lt_layout_state *lt_layout;
typedef struct lt_preference_state *lt_preference;
struct lt_algorithm {
    uint64_t data[GNF_GEMM_ALGORITHM / 8];
};
struct lt_heuristic {
    struct lt_algorithm algorithm;
    size_t workspace;
    lt_status state;
    float waves;
    int reserved[4];
};
enum { LT_R_32F = 0, LT_R_16F = 2, LT_R_16BF = 14 };      /* cudaDataType */
enum { LT_COMPUTE_32F = 68, LT_COMPUTE_FAST_TF32 = 77 };  /* cublasComputeType_t */
enum { LT_TRANSPOSE = 1 };                                /* cublasOperation_t */
enum { LT_DESC_TRANSA = 3 };                              /* cublasLtMatmulDescAttributes_t */
enum { LT_LAYOUT_BATCH_COUNT = 5, LT_LAYOUT_STRIDE = 6 }; /* cublasLtMatrixLayoutAttribute_t */
enum {
    LT_PREFER_WORKSPACE = 1,
    LT_PREFER_ALIGNMENT = 5
}; /* cublasLtMatmulPreferenceAttributes_t; of A, B, C, D */

#define LT_FUNCTIONS(X)                                                                                      \
    X(size_t, cublasLtGetVersion, (void))                                                                    \
    X(lt_status, cublasLtCreate, (lt_handle * handle))                                                       \
    X(lt_status, cublasLtDestroy, (lt_handle handle))                                                        \
    X(const char *, cublasLtGetStatusString, (lt_status status))                                             \
    X(lt_status, cublasLtMatmulDescCreate, (lt_operation * operation, int compute, int scale))               \
    X(lt_status, cublasLtMatmulDescDestroy, (lt_operation operation))                                        \
    X(lt_status, cublasLtMatmulDescSetAttribute,                                                             \
      (lt_operation operation, int attribute, const void *value, size_t size))                               \
    X(lt_status, cublasLtMatrixLayoutCreate,                                                                 \
      (lt_layout * layout, int type, uint64_t rows, uint64_t columns, int64_t pitch))                        \
    X(lt_status, cublasLtMatrixLayoutDestroy, (lt_layout layout))                                            \
    X(lt_status, cublasLtMatrixLayoutSetAttribute,                                                           \
      (lt_layout layout, int attribute, const void *value, size_t size))                                     \
    X(lt_status, cublasLtMatmulPreferenceCreate, (lt_preference * preference))                               \
    X(lt_status, cublasLtMatmulPreferenceDestroy, (lt_preference preference))                                \
    X(lt_status, cublasLtMatmulPreferenceSetAttribute,                                                       \
      (lt_preference preference, int attribute, const void *value, size_t size))                             \
    X(lt_status, cublasLtMatmulAlgoGetHeuristic,                                                             \
      (lt_handle handle, lt_operation operation, lt_layout a, lt_layout b, lt_layout c, lt_layout d,         \
       lt_preference preference, int count, struct lt_heuristic *results, int *found))                       \
    X(lt_status, cublasLtMatmulAlgoCheck,                                                                    \
      (lt_handle handle, lt_operation operation, lt_layout a, lt_layout b, lt_layout c, lt_layout d,         \
       const struct lt_algorithm *algorithm, struct lt_heuristic *result))                                   \
    X(lt_status, cublasLtMatmul,                                                                             \
      (lt_handle handle, lt_operation operation, const void *alpha, const void *a, lt_layout a_layout,       \
       const void *b, lt_layout b_layout, const void *beta, const void *c, lt_layout c_layout, void *d,      \
       lt_layout d_layout, const struct lt_algorithm *algorithm, void *workspace, size_t workspace_size,     \
       CUstream stream))

struct library {
    void *handle;
    const char *path; /* of the loaded file; as long as it is loaded */
#define FIELD(type, name, parameters) type(*name) parameters;
    LT_FUNCTIONS(FIELD)
#undef FIELD
};
struct gnf_cublaslt {
    char *path;           /* NULL: search */
    bool simulated;       /* the path is the simulator's */
    char *toolkit[2];     /* CUDA_HOME, CUDA_PATH; NULL where unset */
    pthread_mutex_t lock; /* the rest, until it is there */
    struct library library;
    char *missing;    /* why there is none */
    lt_handle handle; /* constant once set */
};

/* ---- the library ---- */

static gnf_status copy_text(char **out, const char *text)
{
    if (text && !(*out = strdup(text)))
        return gnf_fail(GNF_OUT_OF_MEMORY, "cuBLASLt: no host memory");
    return GNF_OK;
}

gnf_status gnf_cublaslt_create(struct gnf_cublaslt **out, const char *path, const char *simulated)
{
    struct gnf_cublaslt *self = calloc(1, sizeof *self);
    *out = NULL;
    if (!self)
        return gnf_fail(GNF_OUT_OF_MEMORY, "cuBLASLt: no host memory");
    pthread_mutex_init(&self->lock, NULL);
    self->simulated = !path && simulated;
    gnf_status status = copy_text(&self->path, path ? path : simulated);
    if (status == GNF_OK)
        status = copy_text(&self->toolkit[0], gnf_option_environment(GNF_OPTION_CUDA_HOME));
    if (status == GNF_OK)
        status = copy_text(&self->toolkit[1], gnf_option_environment(GNF_OPTION_CUDA_PATH));
    if (status != GNF_OK) {
        gnf_cublaslt_destroy(self, false);
        return status;
    }
    *out = self;
    return GNF_OK;
}

void gnf_cublaslt_destroy(struct gnf_cublaslt *cublaslt, bool current)
{
    if (!cublaslt)
        return;
    if (cublaslt->handle && current)
        cublaslt->library.cublasLtDestroy(cublaslt->handle);
    if (cublaslt->library.handle)
        dlclose(cublaslt->library.handle);
    pthread_mutex_destroy(&cublaslt->lock);
    free(cublaslt->path);
    free(cublaslt->toolkit[0]);
    free(cublaslt->toolkit[1]);
    free(cublaslt->missing);
    free(cublaslt);
}

/* `user` is a struct gnf_cublaslt: the library is in there where true is returned. */
static bool try_library(void *user, const char *path, struct gnf_tried *tried)
{
    struct gnf_cublaslt *cublaslt = user;
    struct library found = {0};
    const char *missing = NULL;
    /* Never unmapped: its kernels are registered with the driver. The simulator's file must be, to start
     * afresh when it is opened again. */
    found.handle = gnf_library_open(path, RTLD_NOW | RTLD_LOCAL | (cublaslt->simulated ? 0 : RTLD_NODELETE),
                                    &found.path, tried);
    if (!found.handle)
        return false;
        /* The cast through an object pointer is POSIX's own way round ISO C. */
#define RESOLVE(type, name, parameters)                                                                      \
    *(void **)&found.name = dlsym(found.handle, #name);                                                      \
    if (!found.name)                                                                                         \
        missing = "not cuBLASLt 12 or newer: no " #name;
    LT_FUNCTIONS(RESOLVE)
#undef RESOLVE
    if (!missing) {
        cublaslt->library = found;
        return true;
    }
    gnf_tried_note(tried, path, missing);
    dlclose(found.handle);
    return false;
}

static gnf_status load_library(struct gnf_cublaslt *cublaslt)
{
    /* The versions whose interface we know, then whatever the machine calls its own. */
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
    struct gnf_tried tried = {.length = 0};
    if (cublaslt->library.handle)
        return GNF_OK;
    if (cublaslt->missing)
        return gnf_fail(GNF_NO_CUBLAS, "%s", cublaslt->missing);
    if (cublaslt->path ? try_library(cublaslt, cublaslt->path, &tried)
                       : gnf_library_search(names, cublaslt->toolkit, try_library, cublaslt, &tried))
        return GNF_OK;
    gnf_fail(GNF_NO_CUBLAS, "cuBLASLt cannot be loaded; tried: %s (GNFUSE_CUBLASLT names another)",
             tried.text);
    cublaslt->missing = strdup(gnf_error_message());
    return GNF_NO_CUBLAS;
}

static gnf_status failed(const struct library *library, lt_status result, gnf_status status, const char *call)
{
    const char *text = library->cublasLtGetStatusString(result);
    return gnf_fail(result == LT_ALLOC_FAILED ? GNF_OUT_OF_MEMORY : status, "%s: %s (%d)", call,
                    text ? text : "an error it has no name for", result);
}

gnf_status gnf_cublaslt_load(struct gnf_cublaslt *cublaslt)
{
    pthread_mutex_lock(&cublaslt->lock);
    gnf_status status = load_library(cublaslt);
    if (status == GNF_OK && !cublaslt->handle) {
        lt_handle handle = NULL;
        lt_status result = cublaslt->library.cublasLtCreate(&handle);
        if (result == 0)
            cublaslt->handle = handle;
        else
            status = failed(&cublaslt->library, result, GNF_NO_CUBLAS, "cublasLtCreate");
    }
    pthread_mutex_unlock(&cublaslt->lock);
    return status;
}

bool gnf_cublaslt_is_loaded(struct gnf_cublaslt *cublaslt)
{
    pthread_mutex_lock(&cublaslt->lock);
    bool loaded = cublaslt->handle != NULL;
    pthread_mutex_unlock(&cublaslt->lock);
    return loaded;
}

bool gnf_cublaslt_is_missing(struct gnf_cublaslt *cublaslt)
{
    pthread_mutex_lock(&cublaslt->lock);
    bool missing = cublaslt->missing != NULL;
    pthread_mutex_unlock(&cublaslt->lock);
    return missing;
}

gnf_status gnf_cublaslt_version(struct gnf_cublaslt *cublaslt, int *version, const char **path)
{
    pthread_mutex_lock(&cublaslt->lock);
    gnf_status status = load_library(cublaslt);
    pthread_mutex_unlock(&cublaslt->lock);
    GNF_TRY(status);
    *version = (int)cublaslt->library.cublasLtGetVersion();
    if (path)
        *path = cublaslt->library.path;
    return GNF_OK;
}

/* ---- one product ---- */

struct gnf_gemm {
    const struct gnf_cublaslt *cublaslt;
    lt_operation operation;
    lt_layout weight, x, result; /* to cuBLASLt, which is column-major: A, B, and both C and D */
    struct lt_heuristic candidate[GNF_GEMM_CANDIDATES];
    int count;
    struct lt_heuristic taken;
};

/* Rows of ours are columns of cuBLASLt's. */
static lt_status make_layout(const struct library *library, lt_layout *layout, int type, int64_t row,
                             int64_t rows, int64_t pitch, int32_t batch, int64_t stride)
{
    lt_status result =
        library->cublasLtMatrixLayoutCreate(layout, type, (uint64_t)row, (uint64_t)rows, pitch);
    if (result == 0)
        result =
            library->cublasLtMatrixLayoutSetAttribute(*layout, LT_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (result == 0)
        result = library->cublasLtMatrixLayoutSetAttribute(*layout, LT_LAYOUT_STRIDE, &stride, sizeof stride);
    return result;
}

static gnf_status describe(struct gnf_gemm *gemm, const struct library *library,
                           const struct gnf_gemm_shape *shape)
{
    const int32_t transpose = LT_TRANSPOSE;
    int compute = shape->type == GNF_GEMM_TF32 ? LT_COMPUTE_FAST_TF32 : LT_COMPUTE_32F;
    int type = shape->type == GNF_GEMM_F16 ? LT_R_16F : shape->type == GNF_GEMM_BF16 ? LT_R_16BF : LT_R_32F;
    lt_status result = library->cublasLtMatmulDescCreate(&gemm->operation, compute, LT_R_32F);
    if (result == 0)
        result = library->cublasLtMatmulDescSetAttribute(gemm->operation, LT_DESC_TRANSA, &transpose,
                                                         sizeof transpose);
    if (result != 0)
        return failed(library, result, GNF_NO_CUBLAS, "cublasLtMatmulDescCreate");
    result = make_layout(library, &gemm->weight, type, shape->depth, shape->columns, shape->weight_pitch,
                         shape->batch, shape->weight_stride);
    if (result == 0)
        result = make_layout(library, &gemm->x, type, shape->depth, shape->rows, shape->x_pitch, shape->batch,
                             shape->x_stride);
    if (result == 0)
        result = make_layout(library, &gemm->result, LT_R_32F, shape->columns, shape->rows, shape->columns,
                             shape->batch, shape->rows * shape->columns);
    return result == 0 ? GNF_OK : failed(library, result, GNF_NO_CUBLAS, "cublasLtMatrixLayoutCreate");
}

static lt_status set_preference(const struct library *library, lt_preference preference, unsigned alignment)
{
    const uint64_t workspace = GNF_GEMM_WORKSPACE;
    const uint32_t operands = alignment < GNF_GEMM_ALIGNMENT ? alignment : GNF_GEMM_ALIGNMENT;
    const uint32_t align[4] = {operands, operands, GNF_GEMM_ALIGNMENT, GNF_GEMM_ALIGNMENT};
    lt_status result = library->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREFER_WORKSPACE,
                                                                     &workspace, sizeof workspace);
    for (int i = 0; i < 4 && result == 0; i++)
        result = library->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREFER_ALIGNMENT + i, &align[i],
                                                               sizeof align[i]);
    return result;
}

static gnf_status find_candidates(struct gnf_gemm *gemm, const struct library *library,
                                  const struct gnf_gemm_shape *shape)
{
    struct lt_heuristic found[GNF_GEMM_CANDIDATES];
    lt_preference preference = NULL;
    int count = 0;
    lt_status result = library->cublasLtMatmulPreferenceCreate(&preference);
    if (result == 0)
        result = set_preference(library, preference, shape->alignment);
    if (result == 0)
        result = library->cublasLtMatmulAlgoGetHeuristic(gemm->cublaslt->handle, gemm->operation,
                                                         gemm->weight, gemm->x, gemm->result, gemm->result,
                                                         preference, GNF_GEMM_CANDIDATES, found, &count);
    if (preference)
        library->cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; i < count && result == 0; i++)
        if (found[i].state == 0 && found[i].workspace <= GNF_GEMM_WORKSPACE)
            gemm->candidate[gemm->count++] = found[i];
    if (gemm->count)
        return GNF_OK;
    gnf_status status = result ? failed(library, result, GNF_NO_CUBLAS, "cublasLtMatmulAlgoGetHeuristic")
                               : gnf_fail(GNF_NO_CUBLAS, "cuBLASLt has no algorithm");
    return gnf_fail_more(status, " (for [%lld, %lld] of [%lld, %lld] aligned to %u bytes)",
                         (long long)shape->rows, (long long)shape->columns, (long long)shape->rows,
                         (long long)shape->depth, shape->alignment);
}

gnf_status gnf_gemm_create(struct gnf_gemm **out, struct gnf_cublaslt *cublaslt,
                           const struct gnf_gemm_shape *shape)
{
    *out = NULL;
    GNF_TRY(gnf_cublaslt_load(cublaslt));
    struct gnf_gemm *gemm = calloc(1, sizeof *gemm);
    if (!gemm)
        return gnf_fail(GNF_OUT_OF_MEMORY, "cuBLASLt: no host memory");
    gemm->cublaslt = cublaslt;
    gnf_status status = describe(gemm, &cublaslt->library, shape);
    if (status == GNF_OK)
        status = find_candidates(gemm, &cublaslt->library, shape);
    if (status != GNF_OK) {
        gnf_gemm_destroy(gemm);
        return status;
    }
    gemm->taken = gemm->candidate[0];
    *out = gemm;
    return GNF_OK;
}

void gnf_gemm_destroy(struct gnf_gemm *gemm)
{
    if (!gemm)
        return;
    const struct library *library = &gemm->cublaslt->library;
    if (gemm->operation)
        library->cublasLtMatmulDescDestroy(gemm->operation);
    if (gemm->weight)
        library->cublasLtMatrixLayoutDestroy(gemm->weight);
    if (gemm->x)
        library->cublasLtMatrixLayoutDestroy(gemm->x);
    if (gemm->result)
        library->cublasLtMatrixLayoutDestroy(gemm->result);
    free(gemm);
}

int gnf_gemm_candidates(const struct gnf_gemm *gemm)
{
    return gemm->count;
}

void gnf_gemm_take(struct gnf_gemm *gemm, int candidate)
{
    gemm->taken = gemm->candidate[candidate];
}

bool gnf_gemm_take_recorded(struct gnf_gemm *gemm, const unsigned char algorithm[GNF_GEMM_ALGORITHM])
{
    struct lt_heuristic result = {.state = -1};
    struct lt_algorithm recorded;
    memcpy(&recorded, algorithm, sizeof recorded);
    lt_status status = gemm->cublaslt->library.cublasLtMatmulAlgoCheck(
        gemm->cublaslt->handle, gemm->operation, gemm->weight, gemm->x, gemm->result, gemm->result, &recorded,
        &result);
    if (status != 0 || result.workspace > GNF_GEMM_WORKSPACE)
        return false;
    gemm->taken = (struct lt_heuristic){.algorithm = recorded, .workspace = result.workspace};
    return true;
}

void gnf_gemm_taken(const struct gnf_gemm *gemm, unsigned char algorithm[GNF_GEMM_ALGORITHM])
{
    memcpy(algorithm, &gemm->taken.algorithm, GNF_GEMM_ALGORITHM);
}

size_t gnf_gemm_workspace(const struct gnf_gemm *gemm)
{
    size_t most = gemm->taken.workspace;
    for (int i = 0; i < gemm->count; i++)
        most = gemm->candidate[i].workspace > most ? gemm->candidate[i].workspace : most;
    return most;
}

gnf_status gnf_gemm_run(const struct gnf_gemm *gemm, const void *x, const void *weight, float *result,
                        void *workspace, CUstream stream)
{
    static const float one = 1, zero = 0;
    const struct library *library = &gemm->cublaslt->library;
    lt_status status = library->cublasLtMatmul(
        gemm->cublaslt->handle, gemm->operation, &one, weight, gemm->weight, x, gemm->x, &zero, result,
        gemm->result, result, gemm->result, &gemm->taken.algorithm, gemm->taken.workspace ? workspace : NULL,
        gemm->taken.workspace, stream);
    return status == 0 ? GNF_OK : failed(library, status, GNF_DRIVER_ERROR, "cublasLtMatmul");
}
