#define _GNU_SOURCE 1 /* RTLD_NODELETE, strdup */
#include "compile.h"
#include "library.h"
#include "options.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVRTC's interface as far as it is used here, so that building needs no nvrtc.h. */
typedef int nvrtc_result; /* 0 is success */
typedef struct nvrtc_program_state *nvrtc_program;

/* X(function, parameters, needed): supported targets are known from 11.2 on. */
#define NVRTC_FUNCTIONS(X)                                                                                   \
    X(nvrtcVersion, (int *major, int *minor), true)                                                          \
    X(nvrtcGetNumSupportedArchs, (int *count), false)                                                        \
    X(nvrtcGetSupportedArchs, (int *archs), false)                                                           \
    X(nvrtcCreateProgram,                                                                                    \
      (nvrtc_program * program, const char *source, const char *name, int header_count,                      \
       const char *const *headers, const char *const *include_names),                                        \
      true)                                                                                                  \
    X(nvrtcDestroyProgram, (nvrtc_program * program), true)                                                  \
    X(nvrtcCompileProgram, (nvrtc_program program, int count, const char *const *options), true)             \
    X(nvrtcGetCUBINSize, (nvrtc_program program, size_t * size), true)                                       \
    X(nvrtcGetCUBIN, (nvrtc_program program, char *image), true)                                             \
    X(nvrtcGetPTXSize, (nvrtc_program program, size_t * size), true)                                         \
    X(nvrtcGetPTX, (nvrtc_program program, char *image), true)                                               \
    X(nvrtcGetProgramLogSize, (nvrtc_program program, size_t * size), true)                                  \
    X(nvrtcGetProgramLog, (nvrtc_program program, char *log), true)

struct nvrtc {
    void *library;
    const char *path; /* of the loaded library; as long as it is loaded */
    int version;      /* 13000 */
    int *archs;       /* known capabilities; NULL where this NVRTC cannot say */
    int arch_count;
#define FIELD(name, parameters, needed) nvrtc_result(*name) parameters;
    NVRTC_FUNCTIONS(FIELD)
#undef FIELD
    const char *(*nvrtcGetErrorString)(nvrtc_result result);
};

struct gnf_compiler {
    char *path;           /* NULL: search */
    char *toolkit[2];     /* CUDA_HOME, CUDA_PATH; NULL where unset */
    pthread_mutex_t lock; /* loading; NVRTC itself is safe, so never held during a compile */
    struct nvrtc nvrtc;   /* loaded once nvrtc.library is set, and constant from then on */
};

/* No include path: every source is self-contained. No --use_fast_math: results are compared with a float64
 * reference. */
#define COMPILE_OPTIONS(X) X("--std=c++17") X("-default-device")

static const char *const fixed_options[] = {
#define ITEM(text) text,
    COMPILE_OPTIONS(ITEM)
#undef ITEM
};

const char *gnf_compiler_options(void)
{
#define WORD(text) " " text
    return &COMPILE_OPTIONS(WORD)[1];
#undef WORD
}

static gnf_status copy_text(char **out, const char *text)
{
    if (text && !(*out = strdup(text)))
        return gnf_fail(GNF_OUT_OF_MEMORY, "compiler: no host memory");
    return GNF_OK;
}

gnf_status gnf_compiler_create(struct gnf_compiler **compiler, const char *path)
{
    struct gnf_compiler *self = calloc(1, sizeof *self);
    gnf_status status = GNF_OK;

    *compiler = NULL;
    if (!self)
        return gnf_fail(GNF_OUT_OF_MEMORY, "compiler: no host memory");
    pthread_mutex_init(&self->lock, NULL);
    status = copy_text(&self->path, path);
    if (status == GNF_OK)
        status = copy_text(&self->toolkit[0], gnf_option_environment(GNF_OPTION_CUDA_HOME));
    if (status == GNF_OK)
        status = copy_text(&self->toolkit[1], gnf_option_environment(GNF_OPTION_CUDA_PATH));
    if (status != GNF_OK) {
        gnf_compiler_destroy(self);
        return status;
    }
    *compiler = self;
    return GNF_OK;
}

void gnf_compiler_destroy(struct gnf_compiler *compiler)
{
    if (!compiler)
        return;
    if (compiler->nvrtc.library)
        dlclose(compiler->nvrtc.library);
    pthread_mutex_destroy(&compiler->lock);
    free(compiler->nvrtc.archs);
    free(compiler->path);
    free(compiler->toolkit[0]);
    free(compiler->toolkit[1]);
    free(compiler);
}

static bool resolve_functions(struct nvrtc *nvrtc, const char **missing)
{
    *missing = NULL;
    /* The cast through an object pointer is POSIX's own way round ISO C. */
#define RESOLVE(name, parameters, needed)                                                                    \
    *(void **)&nvrtc->name = dlsym(nvrtc->library, #name);                                                   \
    if ((needed) && !nvrtc->name)                                                                            \
        *missing = "not NVRTC 11.1 or newer: no " #name;
    NVRTC_FUNCTIONS(RESOLVE)
#undef RESOLVE
    *(void **)&nvrtc->nvrtcGetErrorString = dlsym(nvrtc->library, "nvrtcGetErrorString");
    return !*missing;
}

/* Fills version and known targets; `why` says what is wrong where it returns false. */
static bool query(struct nvrtc *nvrtc, const char **why)
{
    int major = 0, minor = 0, count = 0;

    *why = "it does not tell its version";
    if (nvrtc->nvrtcVersion(&major, &minor) != 0)
        return false;
    nvrtc->version = major * 1000 + minor * 10;
    if (!nvrtc->nvrtcGetNumSupportedArchs || !nvrtc->nvrtcGetSupportedArchs)
        return true;
    *why = "it does not tell its targets";
    if (nvrtc->nvrtcGetNumSupportedArchs(&count) != 0 || count < 1)
        return false;
    nvrtc->archs = calloc((size_t)count, sizeof *nvrtc->archs);
    if (!nvrtc->archs || nvrtc->nvrtcGetSupportedArchs(nvrtc->archs) != 0)
        return false;
    nvrtc->arch_count = count;
    return true;
}

static bool try_library(void *user, const char *path, struct gnf_tried *tried)
{
    struct nvrtc *nvrtc = user;
    const char *why = NULL;

    /* Never unmapped: it keeps state per thread, and threads may end after us. */
    nvrtc->library = gnf_library_open(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE, &nvrtc->path, tried);
    if (!nvrtc->library)
        return false;
    if (resolve_functions(nvrtc, &why) && query(nvrtc, &why))
        return true;
    gnf_tried_note(tried, path, why);
    free(nvrtc->archs);
    dlclose(nvrtc->library);
    memset(nvrtc, 0, sizeof *nvrtc);
    return false;
}

static gnf_status load_locked(struct gnf_compiler *compiler)
{
    /* The versions whose options and images we know, then whatever the machine calls its NVRTC. */
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    struct nvrtc found = {0};
    struct gnf_tried tried = {.length = 0};

    if (compiler->nvrtc.library)
        return GNF_OK;
    if (compiler->path ? try_library(&found, compiler->path, &tried)
                       : gnf_library_search(names, compiler->toolkit, try_library, &found, &tried)) {
        compiler->nvrtc = found;
        return GNF_OK;
    }
    return gnf_fail(
        GNF_NO_COMPILER,
        "NVRTC is needed to compile a kernel and cannot be loaded; tried: %s (GNFUSE_NVRTC names another)",
        tried.text);
}

static gnf_status load(struct gnf_compiler *compiler)
{
    gnf_status status;

    pthread_mutex_lock(&compiler->lock);
    status = load_locked(compiler);
    pthread_mutex_unlock(&compiler->lock);
    return status;
}

gnf_status gnf_compiler_version(struct gnf_compiler *compiler, int *version, const char **path)
{
    GNF_TRY(load(compiler));
    *version = compiler->nvrtc.version;
    if (path)
        *path = compiler->nvrtc.path;
    return GNF_OK;
}

static gnf_status spell_target(char target[24], const char *kind, int capability)
{
    snprintf(target, 24, "%s_%d", kind, capability);
    return GNF_OK;
}

gnf_status gnf_compiler_target(struct gnf_compiler *compiler, int capability, char target[24])
{
    const struct nvrtc *nvrtc = &compiler->nvrtc;
    int highest = 0, lowest = 0, below = 0;

    GNF_TRY(load(compiler));
    if (!nvrtc->archs)
        return spell_target(target, "sm", capability);
    for (int i = 0; i < nvrtc->arch_count; i++) {
        int arch = nvrtc->archs[i];
        if (arch == capability)
            return spell_target(target, "sm", capability);
        if (arch < capability && arch > below)
            below = arch;
        if (arch > highest)
            highest = arch;
        if (lowest == 0 || arch < lowest)
            lowest = arch;
    }
    if (below)
        return spell_target(target, "compute", below);
    return gnf_fail(GNF_NO_COMPILER,
                    "the device's compute capability is %d.%d; NVRTC %d.%d (%s) compiles for %d.%d to %d.%d",
                    capability / 10, capability % 10, nvrtc->version / 1000, nvrtc->version % 1000 / 10,
                    nvrtc->path, lowest / 10, lowest % 10, highest / 10, highest % 10);
}

gnf_status gnf_compiler_exact_target(char target[24], const char *name)
{
    size_t length = strlen(target);
    if (strncmp(target, "sm_", 3) != 0)
        return gnf_fail(GNF_COMPILE_FAILED,
                        "%s is for one architecture alone, which NVRTC does not know: it has %s", name,
                        target);
    if (target[length - 1] != 'a' && length + 2 <= 24)
        memcpy(target + length, "a", 2);
    return GNF_OK;
}

static const char *error_text(const struct nvrtc *nvrtc, nvrtc_result result)
{
    const char *text = nvrtc->nvrtcGetErrorString ? nvrtc->nvrtcGetErrorString(result) : NULL;

    return text ? text : "error";
}

static gnf_status refused(const struct nvrtc *nvrtc, nvrtc_program program, nvrtc_result result,
                          const char *name, const char *target)
{
    size_t size = 0;
    char *log = NULL;

    if (nvrtc->nvrtcGetProgramLogSize(program, &size) == 0 && size > 1)
        log = calloc(1, size + 1);
    if (log && nvrtc->nvrtcGetProgramLog(program, log) != 0)
        log[0] = '\0';
    gnf_fail(GNF_COMPILE_FAILED, "%s for %s: NVRTC %d.%d says %s (%d)%s%s", name, target,
             nvrtc->version / 1000, nvrtc->version % 1000 / 10, error_text(nvrtc, result), result,
             log && *log ? ":\n" : "", log ? log : "");
    free(log);
    return result == 1 ? GNF_OUT_OF_MEMORY : GNF_COMPILE_FAILED;
}

static gnf_status take_image(const struct nvrtc *nvrtc, nvrtc_program program, const char *name,
                             const char *target, void **image, size_t *size)
{
    bool cubin = strncmp(target, "sm_", 3) == 0;
    nvrtc_result result;

    result = cubin ? nvrtc->nvrtcGetCUBINSize(program, size) : nvrtc->nvrtcGetPTXSize(program, size);
    if (result != 0 || *size == 0)
        return gnf_fail(GNF_COMPILE_FAILED, "%s for %s: NVRTC gave no %s: %s (%d)", name, target,
                        cubin ? "cubin" : "PTX", error_text(nvrtc, result), result);
    *image = malloc(*size);
    if (!*image)
        return gnf_fail(GNF_OUT_OF_MEMORY, "%s for %s: no host memory for %zu bytes", name, target, *size);
    result = cubin ? nvrtc->nvrtcGetCUBIN(program, *image) : nvrtc->nvrtcGetPTX(program, *image);
    if (result == 0)
        return GNF_OK;
    free(*image);
    *image = NULL;
    return gnf_fail(GNF_COMPILE_FAILED, "%s for %s: NVRTC gave no image: %s (%d)", name, target,
                    error_text(nvrtc, result), result);
}

/* NVRTC looks for its builtins by name alone, so that one outside the loader's path, as in a toolkit that was
 * only unpacked, would not find those beside it; by name is also how the loader finds what is loaded already.
 */
static void load_builtins(const struct nvrtc *nvrtc)
{
    const char *slash = strrchr(nvrtc->path, '/');
    char path[4096];

    if (!slash)
        return;
    int length = snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - nvrtc->path),
                          nvrtc->path, nvrtc->version / 1000, nvrtc->version % 1000 / 10);
    if (length > 0 && (size_t)length < sizeof path)
        dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

gnf_status gnf_compiler_build(struct gnf_compiler *compiler, const char *source, const char *name,
                              const char *target, void **image, size_t *size)
{
    enum { FIXED = sizeof fixed_options / sizeof *fixed_options };
    const struct nvrtc *nvrtc = &compiler->nvrtc;
    nvrtc_program program = NULL;
    const char *options[FIXED + 2];
    char architecture[64];
    nvrtc_result result;
    gnf_status status;
    int count = FIXED;

    *image = NULL;
    *size = 0;
    GNF_TRY(load(compiler));
    memcpy(options, fixed_options, sizeof fixed_options);
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", target);
    options[count++] = architecture;
    /* From 12.9 on NVRTC keeps a cache of its own through the driver: a second place in the user's home for
     * what ours holds already. It does not change the image, so it is no part of the key. */
    if (nvrtc->version >= 12090)
        options[count++] = "--no-cache";
    load_builtins(nvrtc);
    result = nvrtc->nvrtcCreateProgram(&program, source, name, 0, NULL, NULL);
    if (result != 0)
        return gnf_fail(result == 1 ? GNF_OUT_OF_MEMORY : GNF_COMPILE_FAILED,
                        "%s for %s: NVRTC took no source: %s (%d)", name, target, error_text(nvrtc, result),
                        result);
    result = nvrtc->nvrtcCompileProgram(program, count, options);
    if (result != 0)
        status = refused(nvrtc, program, result, name, target);
    else
        status = take_image(nvrtc, program, name, target, image, size);
    nvrtc->nvrtcDestroyProgram(&program);
    return status;
}
