/* Loading NVRTC costs tens of milliseconds, and a warm cache needs only its version for the keys. So the
 * cache keeps a record beside the images: the library file's path, size and time with the version and target
 * it gave. Where that file is unchanged, or where there is no NVRTC to ask, the record answers; else NVRTC is
 * loaded and asked. Another file may be found all the same when a kernel has to be compiled: module.c sees
 * that and asks again. */
#define _POSIX_C_SOURCE 200809L /* strdup, st_mtim */
#include "target.h"
#include "number.h"
#include "options.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RECORD_BYTES = 8192, FIELDS = 6 };
enum field { REQUEST, PATH, SIZE, TIME, VERSION, TARGET };

struct record {
    char text[RECORD_BYTES];
    char *field[FIELDS];
    struct gnf_target target;
};

struct question {
    struct gnf_compiler *compiler;
    const char *request;
    int capability;
};

int gnf_target_capability(const struct gnf_target *target)
{
    const char *digit = strchr(target->name, '_');
    int capability = 0;
    while (digit && *++digit >= '0' && *digit <= '9')
        capability = capability * 10 + (*digit - '0');
    return capability;
}

gnf_status gnf_target_request(const char *nvrtc, char **request)
{
    const char *home = gnf_option_environment(GNF_OPTION_CUDA_HOME);
    const char *path = gnf_option_environment(GNF_OPTION_CUDA_PATH);
    char text[2048];
    snprintf(text, sizeof text, "%s;%s;%s", nvrtc ? nvrtc : "", home ? home : "", path ? path : "");
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    *request = strdup(text);
    return *request ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "context: no host memory");
}

static void identity(const char *path, int64_t *size, int64_t *time)
{
    struct stat info;
    *size = *time = -1;
    if (stat(path, &info) == 0) {
        *size = info.st_size;
        *time = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    }
}

/* A gnf_cache_build: loads NVRTC and writes what it says. */
static gnf_status ask(void *user, void **image, size_t *size)
{
    const struct question *question = user;
    struct gnf_target target;
    const char *path;
    int64_t bytes, time;
    GNF_TRY(gnf_compiler_version(question->compiler, &target.nvrtc, &path));
    GNF_TRY(gnf_compiler_target(question->compiler, question->capability, target.name));
    char *text = malloc(RECORD_BYTES);
    if (!text)
        return gnf_fail(GNF_OUT_OF_MEMORY, "context: no host memory");
    identity(path, &bytes, &time);
    *size = (size_t)snprintf(text, RECORD_BYTES, "%s\n%s\n%" PRId64 "\n%" PRId64 "\n%d\n%s\n",
                             question->request, path, bytes, time, target.nvrtc, target.name);
    *image = text;
    if (*size < RECORD_BYTES)
        return GNF_OK;
    free(text);
    return gnf_fail(GNF_NO_COMPILER, "the path of NVRTC is too long: %.200s...", path);
}

static bool parse(struct record *record, const void *image, size_t size)
{
    char *line = record->text;
    int64_t version;
    if (size >= sizeof record->text)
        return false;
    memcpy(record->text, image, size);
    record->text[size] = '\0';
    for (int i = 0; i < FIELDS; i++) {
        char *end = strchr(line, '\n');
        if (!end)
            return false;
        *end = '\0';
        record->field[i] = line;
        line = end + 1;
    }
    const char *text = record->field[VERSION], *name = record->field[TARGET];
    if (gnf_number_whole(text, strlen(text), &version) != GNF_NUMBER_OK || version < 0 || version > 1000000 ||
        strlen(name) >= sizeof record->target.name)
        return false;
    record->target.nvrtc = (int)version;
    memcpy(record->target.name, name, strlen(name) + 1);
    return true;
}

static gnf_status fetch(struct record *record, struct gnf_cache *cache, const char *key,
                        gnf_cache_build build, struct question *question)
{
    void *image;
    size_t size;
    GNF_TRY(gnf_cache_fetch(cache, key, "the compiler's version", build, question, &image, &size));
    bool good = parse(record, image, size);
    free(image);
    return good ? GNF_OK : gnf_fail(GNF_NOT_COMPILED, "the cache's record of the compiler is not readable");
}

static bool is_current(const struct record *record, const char *request, int outdated)
{
    int64_t size, time, recorded_size, recorded_time;
    identity(record->field[PATH], &size, &time);
    return record->target.nvrtc != outdated && !strcmp(record->field[REQUEST], request) && size >= 0 &&
           gnf_number_whole(record->field[SIZE], strlen(record->field[SIZE]), &recorded_size) ==
               GNF_NUMBER_OK &&
           gnf_number_whole(record->field[TIME], strlen(record->field[TIME]), &recorded_time) ==
               GNF_NUMBER_OK &&
           size == recorded_size && time == recorded_time;
}

gnf_status gnf_target_find(struct gnf_target *target, struct gnf_cache *cache, struct gnf_compiler *compiler,
                           const char *request, int capability, bool load, int outdated)
{
    struct question question = {compiler, request, capability};
    struct record record;
    char key[128];
    int version;
    snprintf(key, sizeof key, "gnfuse %d.%d.%d: NVRTC's version and target for capability %d\n",
             GNF_VERSION_MAJOR, GNF_VERSION_MINOR, GNF_VERSION_PATCH, capability);
    gnf_status status = fetch(&record, cache, key, NULL, &question);
    bool recorded = status == GNF_OK;
    if (load && (!recorded || !is_current(&record, request, outdated))) {
        status = gnf_compiler_version(compiler, &version, NULL);
        if (status == GNF_OK) {
            /* The record is for the next start: here a cache that cannot be written might give the old one.
             */
            if (recorded)
                gnf_cache_drop(cache, key);
            fetch(&record, cache, key, ask, &question);
            target->nvrtc = version;
            return gnf_compiler_target(compiler, capability, target->name);
        }
        if (recorded)
            status = GNF_OK;
    }
    if (status == GNF_OK)
        *target = record.target;
    return status;
}
