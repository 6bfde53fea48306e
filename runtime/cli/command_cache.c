#include "commands.h"
#include "generate.h"
#include "output.h"
#include "session.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of generated packs and host-compiled kernels, which the library knows nothing of. */
static void walk_packs(const char *cache_dir, bool remove_them, int64_t *files, int64_t *bytes)
{
    char folder[FILES_PATH_SIZE], path[FILES_PATH_SIZE];
    *files = *bytes = 0;
    if (files_join(folder, cache_dir, "packs") != GNF_OK)
        return;
    DIR *stream = opendir(folder);
    const struct dirent *entry;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        struct stat info;
        if (files_join(path, folder, entry->d_name) != GNF_OK || stat(path, &info) != 0 ||
            !S_ISREG(info.st_mode))
            continue;
        const char *dot = strrchr(entry->d_name, '.');
        bool lock = dot != NULL && strcmp(dot, ".lock") == 0;
        *files += !lock;
        *bytes += lock ? 0 : info.st_size;
        if (remove_them)
            unlink(path);
    }
    if (stream != NULL)
        closedir(stream);
}

static gnf_status work(struct gnf_cache *cache, const char *action, const struct args *args, int *exit_status)
{
    struct gnf_cache_stats stats = {0};
    int64_t packs = 0, pack_bytes = 0;
    const char *folder = gnf_cache_folder(cache);
    bool clear = strcmp(action, "clear") == 0, verify = strcmp(action, "verify") == 0;
    GNF_TRY((clear ? gnf_cache_clear : verify ? gnf_cache_verify : gnf_cache_stats)(cache, &stats));
    walk_packs(folder, clear, &packs, &pack_bytes);
    *exit_status = verify && stats.damaged > 0 ? 1 : 0;
    if (args->json)
        return output_json(json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I}", "folder", folder, "action",
                                     action, "ok", *exit_status == 0, "entries", (json_int_t)stats.entries,
                                     "bytes", (json_int_t)stats.bytes, "damaged", (json_int_t)stats.damaged,
                                     "packs", (json_int_t)packs, "pack_bytes", (json_int_t)pack_bytes));
    char size[32], pack_size[32];
    output_bytes(size, sizeof size, (double)stats.bytes);
    output_bytes(pack_size, sizeof pack_size, (double)pack_bytes);
    printf("folder   %s\n", folder);
    printf("kernels  %lld, %s%s\n", (long long)stats.entries, size, clear ? ", removed" : "");
    printf("packs    %lld, %s%s\n", (long long)packs, pack_size, clear ? ", removed" : "");
    if (verify)
        printf("damaged  %lld%s\n", (long long)stats.damaged, stats.damaged ? ", removed" : "");
    return GNF_OK;
}

gnf_status command_cache(const struct args *args, int *exit_status)
{
    static const char *const actions[] = {"stats", "verify", "clear"};
    const char *action = NULL;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(args->operand != NULL ? args->operand : "stats", actions[i]) == 0)
            action = actions[i];
    if (action == NULL)
        return gnf_fail(GNF_INVALID_ARGUMENT, "'%s' is not an action (allowed: stats, verify, clear)",
                        args->operand);
    struct session session;
    GNF_TRY(session_open_packs(&session, args));
    struct gnf_cache *cache = NULL;
    gnf_status status =
        session.options.cache_dir != NULL
            ? gnf_cache_create(&cache, session.options.cache_dir, session.options.cache_limit,
                               &session.options.log)
            : gnf_fail(GNF_IO, "no cache folder can be named (set GNFUSE_CACHE_DIR, or give --cache-dir)");
    if (status == GNF_OK)
        status = work(cache, action, args, exit_status);
    if (cache != NULL)
        gnf_cache_destroy(cache);
    session_close(&session);
    return status;
}
