#include "generate.h"

#include "../pack.h"
#include "interrupt.h"
#include "programs.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the build has the generator, from the executable's folder or absolute; meson.build says where. */
#ifndef GNF_GENERATOR
#define GNF_GENERATOR "gnfuse-gen"
#endif

static bool usable_folder(const char *folder)
{
    return files_make_folder(folder) == GNF_OK && access(folder, W_OK) == 0;
}

/* What is kept here is run later, and somebody else's kernels are somebody else's code. A path where nothing
 * is yet passes. */
static bool is_ours(const char *path)
{
    struct stat info;
    return stat(path, &info) != 0 || info.st_uid == geteuid();
}

static gnf_status make_temporary(char temporary[FILES_PATH_SIZE])
{
    const char *parent = getenv("TMPDIR");
    if (temporary[0] != '\0')
        return GNF_OK;
    char folder[FILES_PATH_SIZE];
    GNF_TRY(files_join(folder, parent != NULL && *parent == '/' ? parent : "/tmp", "gnfuse-XXXXXX"));
    if (mkdtemp(folder) == NULL)
        return gnf_fail(GNF_IO, "%s: cannot be made: %s", folder, strerror(errno));
    snprintf(temporary, FILES_PATH_SIZE, "%s", folder);
    return GNF_OK;
}

gnf_status generate_place(const char *cache_dir, const char *name, char temporary[FILES_PATH_SIZE],
                          char path[FILES_PATH_SIZE])
{
    char folder[FILES_PATH_SIZE];
    if (cache_dir != NULL && files_join(folder, cache_dir, "packs") == GNF_OK &&
        files_join(path, folder, name) == GNF_OK && is_ours(cache_dir) && is_ours(folder) && is_ours(path) &&
        (access(path, R_OK) == 0 || usable_folder(folder)))
        return GNF_OK;
    GNF_TRY(make_temporary(temporary));
    return files_join(path, temporary, name);
}

static gnf_status lock_file(const char *path, int *lock)
{
    char name[FILES_PATH_SIZE + 8];
    snprintf(name, sizeof name, "%s.lock", path);
    *lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*lock < 0)
        return gnf_fail(GNF_IO, "%s: cannot be written: %s", name, strerror(errno));
    while (flock(*lock, LOCK_EX) != 0)
        if (errno != EINTR) {
            close(*lock);
            return gnf_fail(GNF_IO, "%s: cannot be locked: %s", name, strerror(errno));
        }
    return GNF_OK;
}

static gnf_status run_into(const char *path, const char *program, const char *const arguments[])
{
    enum { MOST = PROGRAMS_MAX_WORDS };
    char temporary[FILES_PATH_SIZE + 16];
    const char *words[MOST + 1];
    int count = 0, exit_code;
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    for (; arguments[count] != NULL && count < MOST; count++)
        words[count] = strcmp(arguments[count], GENERATE_OUTPUT) == 0 ? temporary : arguments[count];
    words[count] = NULL;
    gnf_status status = programs_run(program, words, &exit_code);
    if (status == GNF_OK && exit_code != 0)
        status = gnf_fail(GNF_NO_KERNEL, "%s ended with status %d", program, exit_code);
    if (status == GNF_OK && rename(temporary, path) != 0)
        status = gnf_fail(GNF_IO, "%s: cannot be written: %s", path, strerror(errno));
    if (status != GNF_OK)
        unlink(temporary);
    return status;
}

gnf_status generate_file(const char *path, const char *program, const char *const arguments[],
                         const char *announce, bool (*good)(const char *path, const void *user),
                         const void *user)
{
    if (access(path, R_OK) == 0 && (good == NULL || good(path, user)))
        return GNF_OK;
    int lock;
    GNF_TRY(lock_file(path, &lock));
    gnf_status status = GNF_OK;
    /* Another process may have made it while this one waited. */
    if (access(path, R_OK) != 0 || (good != NULL && !good(path, user))) {
        if (announce != NULL)
            fprintf(stderr, "gnfuse: %s\n", announce);
        interrupt_hold(); /* a program that ends well just before Ctrl-C leaves its file to us */
        status = run_into(path, program, arguments);
        interrupt_release();
    }
    close(lock); /* the lock file stays: removing it would let two in */
    return status;
}

/* The generator's sources are in the folder above gnfuse-gen's own, or, installed, in share/gnfuse there. */
static void identify_generator(XXH3_state_t *hash, const char *program)
{
    static const char *const parts[] = {"../generator", "../templates", "../share/gnfuse/generator",
                                        "../share/gnfuse/templates"};
    char real[PATH_MAX], folder[FILES_PATH_SIZE];
    programs_identify_file(hash, program);
    if (realpath(program, real) == NULL)
        return;
    *strrchr(real, '/') = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (files_join(folder, real, parts[i]) == GNF_OK)
            programs_identify_folder(hash, folder);
}

/* Sizes that no strategy specialises for (no spatial element) leave the chain alone. */
static bool pack_has_problem(const char *path, const void *user)
{
    const struct gnf_problem *problem = user;
    struct gnf_pack *pack = NULL;
    int count = 0;
    bool good = gnf_pack_load(&pack, path) == GNF_OK && (gnf_pack_find(pack, problem->key, &count) != NULL ||
                                                         gnf_pack_find(pack, problem->chain, &count) != NULL);
    gnf_pack_free(pack);
    return good;
}

/* The generator, and the pack's name: of the key and of the generator's sources. */
static gnf_status name_pack(const struct gnf_problem *problem, char program[FILES_PATH_SIZE], char name[64])
{
    if (!programs_find(program, "GNFUSE_GEN", GNF_GENERATOR, "gnfuse-gen"))
        return gnf_fail(GNF_NO_KERNEL, "gnfuse-gen is not found");
    XXH3_state_t *hash = XXH3_createState();
    if (hash == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for a hash");
    XXH3_128bits_reset(hash);
    XXH3_128bits_update(hash, problem->key, strlen(problem->key));
    identify_generator(hash, program);
    XXH128_hash_t digest = XXH3_128bits_digest(hash);
    XXH3_freeState(hash);
    snprintf(name, 64, "%016" PRIx64 "%016" PRIx64 ".gnfpack", (uint64_t)digest.high64,
             (uint64_t)digest.low64);
    return GNF_OK;
}

bool generate_kept_pack(const char *cache_dir, const struct gnf_problem *problem, char path[FILES_PATH_SIZE])
{
    char program[FILES_PATH_SIZE], folder[FILES_PATH_SIZE], name[64];
    return cache_dir != NULL && name_pack(problem, program, name) == GNF_OK &&
           files_join(folder, cache_dir, "packs") == GNF_OK && files_join(path, folder, name) == GNF_OK &&
           is_ours(cache_dir) && is_ours(folder) && is_ours(path) && pack_has_problem(path, problem);
}

gnf_status generate_pack(const char *cache_dir, const struct gnf_problem *problem, bool quiet,
                         char temporary[FILES_PATH_SIZE], char path[FILES_PATH_SIZE])
{
    char program[FILES_PATH_SIZE], name[64], announce[GNF_KEY_SIZE + 64];
    GNF_TRY(name_pack(problem, program, name));
    GNF_TRY(generate_place(cache_dir, name, temporary, path));

    snprintf(announce, sizeof announce, "generating kernels for %s", problem->key);
    const char *const arguments[] = {"gnfuse-gen", problem->text, "-o", GENERATE_OUTPUT, NULL};
    GNF_TRY(generate_file(path, program, arguments, quiet ? NULL : announce, pack_has_problem, problem));
    if (!pack_has_problem(path, problem))
        return gnf_fail(GNF_NO_KERNEL, "%s made a pack without it", program);
    return GNF_OK;
}
