/* Packs and host-compiled kernels made on demand, and kept in the cache's folder "packs". */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "../problem.h"
#include "files.h"
#include <stdbool.h>

/* Path of a pack that has the problem's key, or its chain where no strategy specialises for the sizes: the
 * kept one, else gnfuse-gen is run, which is said on standard error. Callers in several processes at once:
 * one makes it, the others wait. The name holds a hash of the key and of the generator's sources, so a
 * changed template is not missed. Where the cache cannot be used `temporary` becomes a folder that the caller
 * removes with what is in it. The reason of a failure is one clause. */
gnf_status generate_pack(const char *cache_dir, const struct gnf_problem *problem, bool quiet,
                         char temporary[FILES_PATH_SIZE], char path[FILES_PATH_SIZE]);

/* Only whether such a pack is kept, and where; touches nothing. */
bool generate_kept_pack(const char *cache_dir, const struct gnf_problem *problem, char path[FILES_PATH_SIZE]);

/* Where a made file of that name is, or is to go: <cache>/packs, or where that cannot be written or is
 * another user's the temporary folder. */
gnf_status generate_place(const char *cache_dir, const char *name, char temporary[FILES_PATH_SIZE],
                          char path[FILES_PATH_SIZE]);

/* Makes `path` with the program at `program` unless it is there: arguments as for programs_run, in which
 * GENERATE_OUTPUT stands for the file to write; it is renamed to `path` when the program ended well. `good`
 * (may be NULL) says whether a file found is what is wanted. One process at a time; the lock ends with its
 * process. */
#define GENERATE_OUTPUT "{output}"
gnf_status generate_file(const char *path, const char *program, const char *const arguments[],
                         const char *announce, bool (*good)(const char *path, const void *user),
                         const void *user);

#endif
