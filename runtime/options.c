#define _GNU_SOURCE 1 /* secure_getenv */
#include "options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MIB = 1 << 20, DEFAULT_LIMIT_MIB = 1024, LARGEST_LIMIT_MIB = 1 << 24 };

const struct gnf_option_row gnf_option_rows[] = {
    [GNF_OPTION_CUDA_DRIVER] = {"GNFUSE_CUDA_DRIVER", "path of the driver library; default libcuda.so.1"},
    [GNF_OPTION_NVRTC] = {"GNFUSE_NVRTC", "path of NVRTC; default: searched by version"},
    [GNF_OPTION_CUBLASLT] = {"GNFUSE_CUBLASLT", "path of cuBLASLt; default: searched by version"},
    [GNF_OPTION_CACHE_DIR] = {"GNFUSE_CACHE_DIR",
                              "folder of compiled kernels; default $XDG_CACHE_HOME/gnfuse"},
    [GNF_OPTION_CACHE_LIMIT] = {"GNFUSE_CACHE_LIMIT",
                                "size of that folder in MiB, oldest out first; default 1024"},
    [GNF_OPTION_PACK_PATH] = {"GNFUSE_PACK_PATH", "kernel packs to load, colon-separated"},
    [GNF_OPTION_DB] = {"GNFUSE_DB",
                       "the user's tuning database; default $XDG_CONFIG_HOME/gnfuse/tuned.jsonl"},
    [GNF_OPTION_JIT] = {"GNFUSE_JIT", "on, or off to never compile; default on"},
    [GNF_OPTION_LOG] = {"GNFUSE_LOG", "error, warning, info or debug: log to standard error"},
    [GNF_OPTION_PROGRAM] = {"GNFUSE_PROGRAM", "the program that gnf_tune() starts; default gnfuse on PATH"},
    [GNF_OPTION_XDG_CACHE_HOME] = {"XDG_CACHE_HOME", "where caches are kept; default $HOME/.cache"},
    [GNF_OPTION_XDG_CONFIG_HOME] = {"XDG_CONFIG_HOME", "where settings are kept; default $HOME/.config"},
    [GNF_OPTION_HOME] = {"HOME", "the user's folder, for the defaults of the last two"},
    [GNF_OPTION_CUDA_HOME] = {"CUDA_HOME", "a CUDA toolkit, searched for NVRTC and cuBLASLt"},
    [GNF_OPTION_CUDA_PATH] = {"CUDA_PATH", "a CUDA toolkit, searched after CUDA_HOME"},
    [GNF_OPTION_TMPDIR] = {"TMPDIR", "where gnf_tune() puts packs that came from memory; default /tmp"},
    [GNF_OPTION_COUNT] = {NULL, NULL},
};

const char *gnf_option_environment(enum gnf_option option)
{
    const char *value = secure_getenv(gnf_option_rows[option].variable);

    return value && *value ? value : NULL;
}

gnf_status gnf_struct_read(const void *given, void *out, size_t known, const char *what)
{
    enum { LARGEST = 4096 }; /* beyond this the field was never set */
    const unsigned char *bytes = given;
    size_t size = known;

    memset(out, 0, known);
    if (given) {
        memcpy(&size, given, sizeof size);
        if (size < sizeof size || size > LARGEST || size % _Alignof(size_t))
            return gnf_fail(GNF_INVALID_ARGUMENT,
                            "%s: size is %zu; set it to the sizeof of its type, %zu here", what, size, known);
        for (size_t i = known; i < size; i++) {
            if (bytes[i])
                return gnf_fail(
                    GNF_INVALID_ARGUMENT,
                    "%s: size is %zu, this library knows the first %zu bytes, and byte %zu is not zero: "
                    "a field of a newer version is set",
                    what, size, known, i);
        }
        memcpy(out, given, size < known ? size : known);
    }
    memcpy(out, &known, sizeof known);
    return GNF_OK;
}

gnf_status gnf_struct_write(void *out, const void *from, size_t known, const char *what, const char *type)
{
    enum { LARGEST = 4096 };
    size_t size;

    if (!out)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s is null", what);
    memcpy(&size, out, sizeof size);
    if (size < sizeof size || size > LARGEST)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s.size = %zu: allowed is sizeof(%s), %zu here", what, size,
                        type, known);
    memset(out, 0, size);
    memcpy(out, from, size < known ? size : known);
    memcpy(out, &size, sizeof size);
    return GNF_OK;
}

static gnf_status copy_text(char **out, const char *text)
{
    if (!text)
        return GNF_OK;
    *out = strdup(text);
    return *out ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "options: no host memory");
}

static gnf_status join(char **out, const char *folder, const char *rest)
{
    size_t size = strlen(folder) + strlen(rest) + 1;

    *out = malloc(size);
    if (!*out)
        return gnf_fail(GNF_OUT_OF_MEMORY, "options: no host memory");
    snprintf(*out, size, "%s%s", folder, rest);
    return GNF_OK;
}

/* What lies in one of the user's base folders: named by call or by its own variable, else `in_base` below the
 * base folder's variable, else `in_home` below HOME. A relative base folder is to be ignored (its
 * specification says so), and so is a HOME that is relative or not there: nothing may be written into the
 * working directory, and a home is not ours to make. */
struct place {
    enum gnf_option own, base;
    const char *in_base, *in_home;
};

static gnf_status resolve_place(const char *given, const struct place *place, char **out)
{
    const char *path = given && *given ? given : gnf_option_environment(place->own);
    struct stat info;

    if (path)
        return copy_text(out, path);
    path = gnf_option_environment(place->base);
    if (path && path[0] == '/')
        return join(out, path, place->in_base);
    path = gnf_option_environment(GNF_OPTION_HOME);
    if (path && path[0] == '/' && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return join(out, path, place->in_home);
    return GNF_OK;
}

static const struct place cache_dir = {GNF_OPTION_CACHE_DIR, GNF_OPTION_XDG_CACHE_HOME, "/gnfuse",
                                       "/.cache/gnfuse"};
static const struct place database = {GNF_OPTION_DB, GNF_OPTION_XDG_CONFIG_HOME, "/gnfuse/tuned.jsonl",
                                      "/.config/gnfuse/tuned.jsonl"};

static gnf_status resolve_limit(const char *text, int64_t *bytes)
{
    int64_t mib = 0;

    if (!text) {
        *bytes = (int64_t)DEFAULT_LIMIT_MIB * MIB;
        return GNF_OK;
    }
    for (const char *digit = text; *digit; digit++) {
        mib = *digit >= '0' && *digit <= '9' ? mib * 10 + (*digit - '0') : 0;
        if (mib < 1 || mib > LARGEST_LIMIT_MIB)
            return gnf_fail(GNF_INVALID_ARGUMENT,
                            "GNFUSE_CACHE_LIMIT is \"%s\"; allowed: whole MiB from 1 to %d", text,
                            LARGEST_LIMIT_MIB);
    }
    *bytes = mib * MIB;
    return GNF_OK;
}

static gnf_status resolve_jit(const char *given, bool *jit)
{
    const char *source = given ? "options: jit" : "GNFUSE_JIT";
    const char *text = given ? given : gnf_option_environment(GNF_OPTION_JIT);

    *jit = !text || strcmp(text, "on") == 0;
    if (!*jit && strcmp(text, "off") != 0)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s is \"%s\"; allowed: on, off", source, text);
    return GNF_OK;
}

static gnf_status resolve_log(const gnf_context_options *given, struct gnf_log *log)
{
    const char *text = gnf_option_environment(GNF_OPTION_LOG);
    gnf_log_level level = 0;

    if (given->log_level != 0 && (given->log_level < GNF_LOG_ERROR || given->log_level > GNF_LOG_DEBUG))
        return gnf_fail(GNF_INVALID_ARGUMENT, "options: log_level is %d; allowed: 0 (default) to %d",
                        (int)given->log_level, GNF_LOG_DEBUG);
    if (text && !(level = gnf_log_level_named(text)))
        return gnf_fail(GNF_INVALID_ARGUMENT, "GNFUSE_LOG is \"%s\"; allowed: error, warning, info, debug",
                        text);
    if (given->log_level)
        level = given->log_level;
    log->level = level ? level : GNF_LOG_WARNING;
    log->callback = given->log ? given->log : text ? gnf_log_stderr : NULL;
    log->user = given->log ? given->log_user : NULL;
    return GNF_OK;
}

static const char *either(const char *given, enum gnf_option option)
{
    return given && *given ? given : gnf_option_environment(option);
}

static gnf_status resolve(const gnf_context_options *given, struct gnf_options *out)
{
    GNF_TRY(resolve_jit(given->jit, &out->jit));
    GNF_TRY(resolve_log(given, &out->log));
    GNF_TRY(resolve_limit(gnf_option_environment(GNF_OPTION_CACHE_LIMIT), &out->cache_limit));
    GNF_TRY(copy_text(&out->driver, either(given->driver, GNF_OPTION_CUDA_DRIVER)));
    GNF_TRY(copy_text(&out->nvrtc, either(given->nvrtc, GNF_OPTION_NVRTC)));
    GNF_TRY(copy_text(&out->cublaslt, either(given->cublaslt, GNF_OPTION_CUBLASLT)));
    GNF_TRY(copy_text(&out->pack_path, either(given->pack_path, GNF_OPTION_PACK_PATH)));
    GNF_TRY(copy_text(&out->program, gnf_option_environment(GNF_OPTION_PROGRAM)));
    GNF_TRY(resolve_place(given->db, &database, &out->db));
    return resolve_place(given->cache_dir, &cache_dir, &out->cache_dir);
}

gnf_status gnf_options_resolve(const gnf_context_options *given, struct gnf_options *out)
{
    gnf_context_options known;
    gnf_status status;

    memset(out, 0, sizeof *out);
    GNF_TRY(gnf_struct_read(given, &known, sizeof known, "options"));
    status = resolve(&known, out);
    if (status != GNF_OK)
        gnf_options_free(out);
    return status;
}

void gnf_options_free(struct gnf_options *options)
{
    free(options->driver);
    free(options->nvrtc);
    free(options->cublaslt);
    free(options->cache_dir);
    free(options->pack_path);
    free(options->db);
    free(options->program);
    memset(options, 0, sizeof *options);
}
