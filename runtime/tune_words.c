/* What gnf_tune() starts: the program's arguments and environment, so that the child sees the driver, the
 * compiler, the packs and the folders that the context has, wherever they were named. */
#define _GNU_SOURCE 1 /* mkostemps, environ */
#include "number.h"
#include "tune.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const float shortest_s = 1e-3F; /* less is no time either, and might be 0 as a float */

static gnf_status no_memory(void)
{
    return gnf_fail(GNF_OUT_OF_MEMORY, "tune: no host memory");
}

/* Adds a copy to a list that ends with NULL. */
static gnf_status add(char ***list, const char *text)
{
    size_t count = 0;
    while (*list && (*list)[count])
        count++;
    char **larger = realloc(*list, (count + 2) * sizeof *larger);
    if (!larger)
        return no_memory();
    *list = larger;
    larger[count + 1] = NULL;
    larger[count] = strdup(text);
    return larger[count] ? GNF_OK : no_memory();
}

static gnf_status add_two(char ***list, const char *option, const char *value)
{
    GNF_TRY(add(list, option));
    return add(list, value);
}

static void free_list(char **list)
{
    for (char **one = list; one && *one; one++)
        free(*one);
    free(list);
}

/* ---- packs ---- */

static gnf_status write_all(int fd, const char *path, const char *data, size_t size)
{
    while (size) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return gnf_fail(GNF_IO, "tune: %s: cannot be written: %s", path, strerror(errno));
        data += written;
        size -= (size_t)written;
    }
    return GNF_OK;
}

/* A file that only this user can read, as a pack may be somebody's own work. Its name is last in `temporary`.
 */
static gnf_status write_temporary(struct gnf_tune_words *words, const struct gnf_pack *pack, const char **out)
{
    static const char name[] = "/gnfuse-XXXXXX.gnfpack";
    const char *folder = gnf_option_environment(GNF_OPTION_TMPDIR);
    char path[4096];
    void *data;
    size_t size;
    int length = snprintf(path, sizeof path, "%s%s", folder ? folder : "/tmp", name);
    if (length >= (int)sizeof path)
        return gnf_fail(GNF_IO, "tune: TMPDIR is too long: %d bytes", length);
    GNF_TRY(gnf_pack_write(pack, &data, &size));
    int fd = mkostemps(path, (int)strlen(".gnfpack"), O_CLOEXEC);
    gnf_status status = fd < 0 ? gnf_fail(GNF_IO, "tune: %s: cannot be made: %s", path, strerror(errno))
                               : add(&words->temporary, path);
    if (fd >= 0 && status != GNF_OK)
        unlink(path);
    if (status == GNF_OK)
        status = write_all(fd, path, data, size);
    if (fd >= 0 && close(fd) && status == GNF_OK)
        status = gnf_fail(GNF_IO, "tune: %s: cannot be written: %s", path, strerror(errno));
    free(data);
    *out = NULL;
    for (char **one = words->temporary; one && *one; one++)
        *out = *one;
    return status;
}

/* A pipe cannot be read twice, and a file may be gone since. */
static bool is_readable(const char *path)
{
    struct stat info;
    return path && stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, R_OK) == 0;
}

static gnf_status list_packs(gnf_context *context, struct gnf_pack ***list, int *count)
{
    pthread_mutex_lock(&context->lock);
    *count = context->pack_count;
    *list = malloc((size_t)*count * sizeof **list + 1);
    if (*list && *count)
        memcpy(*list, context->pack, (size_t)*count * sizeof **list);
    pthread_mutex_unlock(&context->lock);
    return *list ? GNF_OK : no_memory();
}

/* In the order in which they were loaded, which the child keeps. The embedded one, the first, it has too. */
static gnf_status add_packs(struct gnf_tune_words *words, gnf_context *context)
{
    struct gnf_pack **list;
    int count;
    GNF_TRY(list_packs(context, &list, &count));
    gnf_status status = GNF_OK;
    for (int i = gnf_embedded_pack_size ? 1 : 0; i < count && status == GNF_OK; i++) {
        const char *path = gnf_pack_path(list[i]);
        if (!is_readable(path))
            status = write_temporary(words, list[i], &path);
        if (status == GNF_OK)
            status = add_two(&words->argument, "--pack", path);
    }
    free(list);
    return status;
}

/* ---- all of it ---- */

static gnf_status add_arguments(struct gnf_tune_words *words, gnf_context *context, const char *text,
                                const char *program, double budget, bool again)
{
    const struct gnf_options *options = &context->options;
    char number[32];
    GNF_TRY(add_two(&words->argument, program, "tune"));
    GNF_TRY(add_two(&words->argument, text, "--events"));
    snprintf(number, sizeof number, "%d", context->device.ordinal);
    GNF_TRY(add_two(&words->argument, "--device", number));
    GNF_TRY(add_two(&words->argument, "--db", options->db));
    if (options->cache_dir)
        GNF_TRY(add_two(&words->argument, "--cache-dir", options->cache_dir));
    if (budget > 0) {
        gnf_number_format(budget < shortest_s ? shortest_s : (float)budget, number);
        GNF_TRY(add_two(&words->argument, "--budget", number));
    }
    if (again)
        GNF_TRY(add(&words->argument, "--again"));
    return add_packs(words, context);
}

/* An option set by call wins over the variable here, and so it must there. What the command line says, or the
 * context does without, is taken out. */
static gnf_status add_environment(struct gnf_tune_words *words, const struct gnf_options *options)
{
    const struct {
        enum gnf_option option;
        const char *value;
    } own[] = {
        {GNF_OPTION_CUDA_DRIVER, options->driver},
        {GNF_OPTION_NVRTC, options->nvrtc},
        {GNF_OPTION_CUBLASLT, options->cublaslt},
        {GNF_OPTION_JIT, options->jit ? "on" : "off"},
        {GNF_OPTION_PACK_PATH, NULL},
        {GNF_OPTION_CACHE_DIR, NULL},
        {GNF_OPTION_DB, NULL},
    };
    enum { OWN = sizeof own / sizeof *own };
    for (char **one = environ; one && *one; one++) {
        bool replaced = false;
        for (int i = 0; i < OWN; i++) {
            const char *name = gnf_option_rows[own[i].option].variable;
            size_t length = strlen(name);
            replaced = replaced || (!strncmp(*one, name, length) && (*one)[length] == '=');
        }
        if (!replaced)
            GNF_TRY(add(&words->environment, *one));
    }
    for (int i = 0; i < OWN; i++) {
        const char *name = gnf_option_rows[own[i].option].variable;
        if (!own[i].value)
            continue;
        size_t size = strlen(name) + strlen(own[i].value) + 2;
        char *text = malloc(size);
        if (!text)
            return no_memory();
        snprintf(text, size, "%s=%s", name, own[i].value);
        gnf_status status = add(&words->environment, text);
        free(text);
        GNF_TRY(status);
    }
    return GNF_OK;
}

gnf_status gnf_tune_words_make(struct gnf_tune_words *words, gnf_context *context, const char *text,
                               const char *program, double budget, bool again)
{
    *words = (struct gnf_tune_words){0};
    gnf_status status = add_arguments(words, context, text, program, budget, again);
    if (status == GNF_OK)
        status = add_environment(words, &context->options);
    if (status != GNF_OK)
        gnf_tune_words_free(words);
    return status;
}

void gnf_tune_words_free(struct gnf_tune_words *words)
{
    for (char **one = words->temporary; one && *one; one++)
        unlink(*one);
    free_list(words->temporary);
    free_list(words->argument);
    free_list(words->environment);
    *words = (struct gnf_tune_words){0};
}
