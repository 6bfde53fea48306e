/* Every environment variable the library reads, in one table, read once per context; an option set by call
 * wins. */
#ifndef GNF_OPTIONS_H
#define GNF_OPTIONS_H

#include "log.h"
#include "status.h"
#include <stdbool.h>

struct gnf_options {
    char *driver;        /* path, or NULL for libcuda.so.1 */
    char *nvrtc;         /* path, or NULL for the search by version */
    char *cublaslt;      /* the same */
    char *cache_dir;     /* resolved folder, or NULL where no folder can be named */
    char *pack_path;     /* colon-separated, or NULL */
    char *db;            /* the user's tuning database, or NULL where none can be named */
    char *program;       /* the gnfuse program that tunes, or NULL for gnfuse on PATH */
    int64_t cache_limit; /* bytes */
    bool jit;
    struct gnf_log log;
};

enum gnf_option {
    GNF_OPTION_CUDA_DRIVER,
    GNF_OPTION_NVRTC,
    GNF_OPTION_CUBLASLT,
    GNF_OPTION_CACHE_DIR,
    GNF_OPTION_CACHE_LIMIT,
    GNF_OPTION_PACK_PATH,
    GNF_OPTION_DB,
    GNF_OPTION_JIT,
    GNF_OPTION_LOG,
    GNF_OPTION_PROGRAM,
    GNF_OPTION_XDG_CACHE_HOME,
    GNF_OPTION_XDG_CONFIG_HOME,
    GNF_OPTION_HOME,
    GNF_OPTION_CUDA_HOME,
    GNF_OPTION_CUDA_PATH,
    GNF_OPTION_TMPDIR,
    GNF_OPTION_COUNT
};

struct gnf_option_row {
    const char *variable; /* environment variable */
    const char *meaning;  /* one line for `gnfuse info` */
};
/* Indexed by enum gnf_option. Ends with a row whose variable is NULL. */
extern const struct gnf_option_row gnf_option_rows[];

/* The variable's value; NULL where it is unset or empty, and in programs that run with raised privileges. */
const char *gnf_option_environment(enum gnf_option option);

/* Fills *out from the call's options, then the environment, then defaults. GNF_INVALID_ARGUMENT names a bad
 * value. The caller frees it with gnf_options_free(); after a failure there is nothing to free. */
gnf_status gnf_options_resolve(const gnf_context_options *given, struct gnf_options *out);
void gnf_options_free(struct gnf_options *options);

/* Copies a caller's struct that starts with its size into ours of `known` bytes; fields the caller does not
 * have are zero. NULL is all zeros. An older caller's shorter struct is fine; a newer caller's longer one is
 * fine as long as what we do not know is zero. `what` names the argument: "options". The size field of *out
 * is `known`. */
gnf_status gnf_struct_read(const void *given, void *out, size_t known, const char *what);
/* The other way: fills in a caller's struct, whose size field says how much of it there is, from ours. Fields
 * that we do not have become zero. `what` and `type` are for messages: "info", "gnf_plan_info". */
gnf_status gnf_struct_write(void *out, const void *from, size_t known, const char *what, const char *type);

#endif
