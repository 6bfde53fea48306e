#define _GNU_SOURCE 1 /* asprintf */
#include "cache.h"
#include "cache_entry.h"
#include "monotonic.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    STALE_SECONDS = 60 * 60 /* a temporary or lock this old belongs to nobody */
};

/* Each kind of trouble is told once per cache object. */
enum warning { WARN_NO_FOLDER = 1, WARN_OWNER = 2, WARN_WRITE = 4, WARN_DAMAGE = 8, WARN_WAIT = 16 };

struct gnf_cache {
    char *folder; /* absolute, or NULL */
    int64_t limit;
    struct gnf_log log;
    int patience_ms;
    atomic_uint warned;
};

/* The paths of one key. */
struct place {
    char entry[PATH_BYTES], lock[PATH_BYTES];
};

#define WARN(cache, kind, ...)                                                                               \
    gnf_log_line(&(cache)->log,                                                                              \
                 atomic_fetch_or(&(cache)->warned, (kind)) & (kind) ? GNF_LOG_DEBUG : GNF_LOG_WARNING,       \
                 __VA_ARGS__)

gnf_status gnf_cache_create(struct gnf_cache **cache, const char *folder, int64_t limit,
                            const struct gnf_log *log)
{
    struct gnf_cache *self = calloc(1, sizeof *self);
    char *here = NULL;
    int length = 0;

    *cache = NULL;
    if (!self)
        return gnf_fail(GNF_OUT_OF_MEMORY, "cache: no host memory");
    self->limit = limit;
    self->patience_ms = 60 * 1000;
    if (log)
        self->log = *log;
    atomic_init(&self->warned, 0);
    /* A relative folder means the one seen now, whatever the host's working directory is later. */
    if (folder && folder[0] != '/')
        here = getcwd(NULL, 0);
    if (folder && (folder[0] == '/' || here)) {
        length = asprintf(&self->folder, "%s%s%s", here ? here : "", here ? "/" : "", folder);
        for (int end = length - 1; end > 0 && self->folder[end] == '/'; end--)
            self->folder[end] = '\0';
    }
    free(here);
    if (length < 0) {
        free(self);
        return gnf_fail(GNF_OUT_OF_MEMORY, "cache: no host memory");
    }
    *cache = self;
    return GNF_OK;
}

void gnf_cache_destroy(struct gnf_cache *cache)
{
    if (cache)
        free(cache->folder);
    free(cache);
}

void gnf_cache_set_patience(struct gnf_cache *cache, int milliseconds)
{
    cache->patience_ms = milliseconds;
}

const char *gnf_cache_folder(const struct gnf_cache *cache)
{
    return cache->folder;
}

static bool join(char path[PATH_BYTES], const char *folder, const char *name)
{
    int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);

    return length > 0 && length < PATH_BYTES;
}

static bool find_place(const struct gnf_cache *cache, const char *key, struct place *place)
{
    char hex[GNF_ENTRY_DIGITS + 1], name[GNF_ENTRY_DIGITS + 16];

    gnf_entry_name(key, strlen(key), hex);
    snprintf(name, sizeof name, "%s.cubin", hex);
    if (!join(place->entry, cache->folder, name))
        return false;
    snprintf(name, sizeof name, "%s.lock", hex);
    return join(place->lock, cache->folder, name);
}

/* Whether what is at the folder's path may be believed: somebody else's cubin is somebody else's code. A path
 * where nothing is yet passes. */
static bool is_ours(const struct gnf_cache *cache)
{
    struct stat link, target;

    if (lstat(cache->folder, &link) != 0 || stat(cache->folder, &target) != 0)
        return true;
    return (link.st_uid == geteuid() || link.st_uid == 0) && target.st_uid == geteuid();
}

static enum gnf_entry_outcome lookup(const struct place *place, const char *key, void **image, size_t *size)
{
    struct gnf_entry entry;
    enum gnf_entry_outcome outcome = gnf_entry_load(place->entry, &entry);

    if (outcome != GNF_ENTRY_FOUND)
        return outcome;
    /* Whole, but of another key: a copy, or the hashes collide. */
    if (entry.key_size != strlen(key) || memcmp(entry.key, key, entry.key_size) != 0) {
        free(entry.bytes);
        return GNF_ENTRY_ABSENT;
    }
    memmove(entry.bytes, entry.image, entry.image_size);
    *image = entry.bytes;
    *size = entry.image_size;
    return GNF_ENTRY_FOUND;
}

/* ---- the folder ---- */

static bool make_folder(const char *folder)
{
    char path[PATH_BYTES];
    struct stat info;
    size_t length = strlen(folder);

    if (stat(folder, &info) == 0) {
        errno = ENOTDIR;
        return S_ISDIR(info.st_mode);
    }
    if (length >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(path, folder, length + 1);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            int why = errno; /* some file systems say so of a folder that is there */
            if (stat(path, &info) != 0) {
                errno = why;
                return false;
            }
        }
        *slash = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

enum kind { OTHER, ENTRY, LOCK, TEMPORARY };

static enum kind kind_of(const char *name)
{
    size_t digits = strspn(name, "0123456789abcdef"), length = strlen(name);

    if (digits != GNF_ENTRY_DIGITS)
        return OTHER;
    if (strcmp(name + digits, ".cubin") == 0)
        return ENTRY;
    if (strcmp(name + digits, ".lock") == 0)
        return LOCK;
    return strncmp(name + digits, ".cubin.", 7) == 0 && strcmp(name + length - 4, ".tmp") == 0 ? TEMPORARY
                                                                                               : OTHER;
}

typedef void (*visitor)(void *user, const char *path, const char *name, enum kind kind,
                        const struct stat *info);

/* Calls `visit` for each file of ours. -1 with errno where the folder cannot be read; one that is not there
 * is empty. */
static int walk_folder(const char *folder, visitor visit, void *user)
{
    DIR *listing = opendir(folder);
    char path[PATH_BYTES];
    struct dirent *item;
    struct stat info;

    if (!listing)
        return errno == ENOENT ? 0 : -1;
    while ((item = readdir(listing))) {
        enum kind kind = kind_of(item->d_name);
        if (kind != OTHER && join(path, folder, item->d_name) && lstat(path, &info) == 0)
            visit(user, path, item->d_name, kind, &info);
    }
    closedir(listing);
    return 0;
}

/* The descriptor, or -1 with errno: EWOULDBLOCK where another has it, anything else where there can be no
 * lock. */
static int try_lock(const char *path)
{
    struct stat info;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    if (file < 0)
        return -1;
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR)
            continue;
        close(file);
        errno = errno == EWOULDBLOCK ? EWOULDBLOCK : ENOLCK;
        return -1;
    }
    /* Its last owner may have removed the file between our open and our lock: then it locks nothing. */
    if (fstat(file, &info) == 0 && info.st_nlink > 0)
        return file;
    close(file);
    errno = EWOULDBLOCK;
    return -1;
}

/* Only the owner of the lock removes its file, so that nobody waits for a file that is no longer there.
 * Unlocked by name, not by close alone: a process forked meanwhile has the same open file. */
static void unlock(int lock, const char *path)
{
    if (lock < 0)
        return;
    unlink(path);
    flock(lock, LOCK_UN);
    close(lock);
}

static void remove_if_stale(const char *path, enum kind kind, const struct stat *info)
{
    if (kind == ENTRY || info->st_mtime + STALE_SECONDS >= time(NULL))
        return;
    if (kind == LOCK)
        unlock(try_lock(path), path);
    else
        unlink(path);
}

struct aged {
    char name[GNF_ENTRY_DIGITS + 8];
    struct timespec time;
    int64_t bytes;
};

struct eviction {
    struct aged *entries;
    size_t count, room;
    int64_t bytes;
};

static void collect(void *user, const char *path, const char *name, enum kind kind, const struct stat *info)
{
    struct eviction *all = user;

    remove_if_stale(path, kind, info);
    if (kind != ENTRY || !S_ISREG(info->st_mode))
        return;
    all->bytes += info->st_size;
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct aged *larger = realloc(all->entries, room * sizeof *larger);
        if (!larger)
            return; /* counted, and cannot be chosen this time */
        all->entries = larger;
        all->room = room;
    }
    snprintf(all->entries[all->count].name, sizeof all->entries->name, "%s", name);
    all->entries[all->count].time = info->st_mtim;
    all->entries[all->count++].bytes = info->st_size;
}

static int older_first(const void *left, const void *right)
{
    const struct timespec *a = &((const struct aged *)left)->time, *b = &((const struct aged *)right)->time;

    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? -1 : 1;
    return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

static void evict(const struct gnf_cache *cache, const char *keep)
{
    struct eviction all = {0};
    char path[PATH_BYTES];

    walk_folder(cache->folder, collect, &all);
    if (all.bytes > cache->limit && all.count > 1)
        qsort(all.entries, all.count, sizeof *all.entries, older_first);
    for (size_t i = 0; i < all.count && all.bytes > cache->limit; i++) {
        if (!join(path, cache->folder, all.entries[i].name) || strcmp(path, keep) == 0 || unlink(path) != 0)
            continue;
        all.bytes -= all.entries[i].bytes;
        gnf_log_line(&cache->log, GNF_LOG_DEBUG, "cache: %s went: the limit is %lld MiB", path,
                     (long long)(cache->limit >> 20));
    }
    free(all.entries);
}

/* ---- fetch ---- */

/* The lock's descriptor, or -1 where there can be none (then two may build the same, which is only wasteful).
 * Asks again and again instead of sleeping in the kernel: a stopped owner, or a file server that forgot it,
 * is waited for only so long. */
static int wait_for_lock(struct gnf_cache *cache, const struct place *place, const char *name)
{
    int64_t deadline = 0;
    long pause_us = 500;

    for (;;) {
        int lock = try_lock(place->lock);
        if (lock >= 0 || errno != EWOULDBLOCK)
            return lock;
        if (deadline == 0) {
            deadline = gnf_now_ms() + cache->patience_ms;
            gnf_log_line(&cache->log, GNF_LOG_INFO, "%s is being compiled elsewhere; waiting for it", name);
        } else if (gnf_now_ms() >= deadline) {
            WARN(cache, WARN_WAIT,
                 "%s: waited %d ms for another process to compile it; compiling it here too", name,
                 cache->patience_ms);
            return -1;
        }
        nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000}, NULL);
        pause_us = pause_us < 16000 ? 2 * pause_us : 16000;
    }
}

static void warn_unwritable(struct gnf_cache *cache, int error)
{
    WARN(cache, WARN_WRITE,
         "the kernel cache %s cannot be written: %s; kernels are compiled in memory each time: set "
         "GNFUSE_CACHE_DIR to a folder that can",
         cache->folder, strerror(error));
}

static gnf_status build_unkept(gnf_cache_build build, void *user, const char *name, void **image,
                               size_t *size)
{
    if (!build)
        return gnf_fail(GNF_NOT_COMPILED, "%s is not compiled, no cache holds it, and GNFUSE_JIT is off",
                        name);
    return build(user, image, size);
}

static gnf_status build_and_store(struct gnf_cache *cache, const struct place *place, const char *key,
                                  const char *name, gnf_cache_build build, void *user, void **image,
                                  size_t *size)
{
    /* Before the lock, which lies in it; that it cannot be made is said when the entry cannot be written. */
    int why = make_folder(cache->folder) ? 0 : errno;
    int lock = why ? -1 : wait_for_lock(cache, place, name);
    enum gnf_entry_outcome outcome = lookup(place, key, image, size);
    gnf_status status = GNF_OK;

    if (outcome != GNF_ENTRY_FOUND) {
        if (outcome == GNF_ENTRY_DAMAGED)
            WARN(cache, WARN_DAMAGE, "the kernel cache's entry %s (%s) is damaged and is made again",
                 place->entry, name);
        status = build(user, image, size);
        if (status == GNF_OK && !why && !gnf_entry_publish(place->entry, key, *image, *size))
            why = errno;
        if (status == GNF_OK && why)
            warn_unwritable(cache, why);
        else if (status == GNF_OK)
            evict(cache, place->entry);
    }
    unlock(lock, place->lock);
    return status;
}

gnf_status gnf_cache_fetch(struct gnf_cache *cache, const char *key, const char *name, gnf_cache_build build,
                           void *user, void **image, size_t *size)
{
    struct place place;
    enum gnf_entry_outcome outcome;

    *image = NULL;
    *size = 0;
    if (!cache->folder) {
        if (build)
            WARN(cache, WARN_NO_FOLDER,
                 "there is no folder for a kernel cache (neither XDG_CACHE_HOME nor HOME names one); kernels "
                 "are compiled in memory each time: set GNFUSE_CACHE_DIR");
        return build_unkept(build, user, name, image, size);
    }
    if (!is_ours(cache)) {
        WARN(cache, WARN_OWNER,
             "the kernel cache %s belongs to another user and is not used; kernels are compiled in memory "
             "each time: set GNFUSE_CACHE_DIR to a folder of your own",
             cache->folder);
        return build_unkept(build, user, name, image, size);
    }
    if (!find_place(cache, key, &place)) {
        if (build)
            warn_unwritable(cache, ENAMETOOLONG);
        return build_unkept(build, user, name, image, size);
    }
    outcome = lookup(&place, key, image, size);
    if (outcome == GNF_ENTRY_FOUND)
        return GNF_OK;
    if (build)
        return build_and_store(cache, &place, key, name, build, user, image, size);
    if (outcome == GNF_ENTRY_DAMAGED)
        WARN(cache, WARN_DAMAGE, "the kernel cache's entry %s (%s) is damaged", place.entry, name);
    return build_unkept(NULL, NULL, name, image, size);
}

void gnf_cache_drop(struct gnf_cache *cache, const char *key)
{
    struct place place;

    if (cache->folder && is_ours(cache) && find_place(cache, key, &place))
        unlink(place.entry);
}

/* ---- for the command line ---- */

struct survey {
    struct gnf_cache_stats *stats;
    int error; /* the first one */
};

static void count(void *user, const char *path, const char *name, enum kind kind, const struct stat *info)
{
    struct survey *survey = user;

    (void)name;
    remove_if_stale(path, kind, info);
    if (kind != ENTRY)
        return;
    survey->stats->entries++;
    survey->stats->bytes += info->st_size;
}

static void verify(void *user, const char *path, const char *name, enum kind kind, const struct stat *info)
{
    struct survey *survey = user;
    char right_name[GNF_ENTRY_DIGITS + 1];
    struct gnf_entry entry;
    enum gnf_entry_outcome outcome;

    count(user, path, name, kind, info);
    if (kind != ENTRY)
        return;
    outcome = gnf_entry_load(path, &entry);
    if (outcome == GNF_ENTRY_FOUND) {
        gnf_entry_name(entry.key, entry.key_size, right_name);
        if (strncmp(name, right_name, GNF_ENTRY_DIGITS) != 0)
            outcome = GNF_ENTRY_DAMAGED;
        free(entry.bytes);
    }
    if (outcome != GNF_ENTRY_DAMAGED) /* absent: gone meanwhile, or cannot be opened now */
        return;
    survey->stats->entries--;
    survey->stats->bytes -= info->st_size;
    survey->stats->damaged++;
    if (!gnf_path_remove(path) && !survey->error)
        survey->error = errno;
}

static void clear(void *user, const char *path, const char *name, enum kind kind, const struct stat *info)
{
    struct survey *survey = user;
    int lock;

    count(user, path, name, kind, info);
    if (kind == LOCK) {
        lock = try_lock(path); /* one that is held is about to be removed by its owner */
        unlock(lock, path);
    } else if (!gnf_path_remove(path) && !survey->error) {
        survey->error = errno;
    }
}

static gnf_status survey_folder(struct gnf_cache *cache, visitor visit, struct gnf_cache_stats *stats)
{
    struct survey survey = {.stats = stats};

    memset(stats, 0, sizeof *stats);
    if (!cache->folder)
        return GNF_OK;
    if (!is_ours(cache))
        return gnf_fail(GNF_IO, "the kernel cache %s belongs to another user", cache->folder);
    if (walk_folder(cache->folder, visit, &survey) != 0)
        return gnf_fail(GNF_IO, "the kernel cache %s cannot be read: %s", cache->folder, strerror(errno));
    if (survey.error)
        return gnf_fail(GNF_IO, "the kernel cache %s cannot be changed: %s", cache->folder,
                        strerror(survey.error));
    return GNF_OK;
}

gnf_status gnf_cache_stats(struct gnf_cache *cache, struct gnf_cache_stats *stats)
{
    return survey_folder(cache, count, stats);
}

gnf_status gnf_cache_verify(struct gnf_cache *cache, struct gnf_cache_stats *stats)
{
    return survey_folder(cache, verify, stats);
}

gnf_status gnf_cache_clear(struct gnf_cache *cache, struct gnf_cache_stats *stats)
{
    return survey_folder(cache, clear, stats);
}
