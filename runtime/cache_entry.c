#define _GNU_SOURCE 1 /* nftw, futimens, syscall */
#include "cache_entry.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* An entry is header, key text, image, and the XXH3-128 of all of that (canonical byte order). All machines
 * that the runtime is for are little-endian, and so is the header. */
struct header {
    char magic[8];
    uint32_t format;
    uint32_t key_size; /* bytes, no closing zero */
    uint64_t image_size;
};
_Static_assert(sizeof(struct header) == 24, "the header is part of the file format");

enum { FORMAT = 1, TOUCH_SECONDS = 24 * 60 * 60 };

static const char magic[8] = {'g', 'n', 'f', 'c', 'u', 'b', 'i', 'n'};
static const size_t largest_entry = (size_t)1 << 30;

/* The format's number is the seed, so that versions with different formats live side by side. */
void gnf_entry_name(const char *key, size_t size, char name[GNF_ENTRY_DIGITS + 1])
{
    XXH128_canonical_t digest;

    XXH128_canonicalFromHash(&digest, XXH3_128bits_withSeed(key, size, FORMAT));
    for (size_t i = 0; i < sizeof digest.digest; i++)
        snprintf(name + 2 * i, 3, "%02x", digest.digest[i]);
}

static bool read_all(int file, void *buffer, size_t size)
{
    for (char *at = buffer; size > 0;) {
        ssize_t got = read(file, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool write_all(int file, const void *buffer, size_t size)
{
    for (const char *at = buffer; size > 0;) {
        ssize_t put = write(file, at, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

static bool parse(char *bytes, size_t size, struct gnf_entry *entry)
{
    struct header header;
    XXH128_canonical_t sum;
    size_t body;

    if (size < sizeof header + sizeof sum)
        return false;
    memcpy(&header, bytes, sizeof header);
    body = size - sizeof header - sizeof sum;
    if (memcmp(header.magic, magic, sizeof magic) != 0 || header.format != FORMAT || header.key_size > body ||
        header.image_size != body - header.key_size || header.image_size == 0)
        return false;
    XXH128_canonicalFromHash(&sum, XXH3_128bits(bytes, size - sizeof sum));
    if (memcmp(bytes + size - sizeof sum, &sum, sizeof sum) != 0)
        return false;
    entry->bytes = bytes;
    entry->key = bytes + sizeof header;
    entry->key_size = header.key_size;
    entry->image = entry->key + header.key_size;
    entry->image_size = header.image_size;
    return true;
}

static enum gnf_entry_outcome load_file(int file, struct gnf_entry *entry)
{
    struct stat info;
    size_t size;
    char *bytes;

    /* Somebody else's cubin is somebody else's code. */
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
        info.st_size > (off_t)largest_entry)
        return GNF_ENTRY_DAMAGED;
    size = (size_t)info.st_size;
    bytes = malloc(size + 1);
    if (!bytes)
        return GNF_ENTRY_ABSENT;
    if (!read_all(file, bytes, size) || !parse(bytes, size, entry)) {
        free(bytes);
        return GNF_ENTRY_DAMAGED;
    }
    /* Used, so it should leave late; a read-only folder has no order to keep. */
    if (info.st_mtime + TOUCH_SECONDS < time(NULL))
        futimens(file, NULL);
    return GNF_ENTRY_FOUND;
}

enum gnf_entry_outcome gnf_entry_load(const char *path, struct gnf_entry *entry)
{
    enum gnf_entry_outcome outcome;
    int file;

    memset(entry, 0, sizeof *entry);
    /* O_NONBLOCK: not to hang on a pipe that lies there. */
    file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        switch (errno) {
        case ENOENT:
        case ENOTDIR:
        case EACCES:
        case EMFILE:
        case ENFILE:
        case ENOMEM:
            return GNF_ENTRY_ABSENT;
        default:
            return GNF_ENTRY_DAMAGED;
        }
    }
    outcome = load_file(file, entry);
    close(file);
    return outcome;
}

static bool write_entry(int file, const char *key, const void *image, size_t size)
{
    struct header header = {.format = FORMAT, .key_size = (uint32_t)strlen(key), .image_size = size};
    size_t total = sizeof header + header.key_size + size + sizeof(XXH128_canonical_t);
    XXH128_canonical_t sum;
    char *bytes;
    bool done;

    if (total > largest_entry) {
        errno = EFBIG;
        return false;
    }
    bytes = malloc(total);
    if (!bytes)
        return false;
    memcpy(header.magic, magic, sizeof magic);
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, key, header.key_size);
    memcpy(bytes + sizeof header + header.key_size, image, size);
    XXH128_canonicalFromHash(&sum, XXH3_128bits(bytes, total - sizeof sum));
    memcpy(bytes + total - sizeof sum, &sum, sizeof sum);
    done = write_all(file, bytes, total) && fsync(file) == 0;
    free(bytes);
    return done;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

bool gnf_path_remove(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return true;
    return (errno == EISDIR || errno == EPERM) &&
           nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0;
}

/* A private name in the same folder, flushed, then renamed: a reader sees the whole entry or the one before,
 * whenever the writer dies, and of two writers of one key the last wins with what is as good as the other's.
 */
bool gnf_entry_publish(const char *path, const char *key, const void *image, size_t size)
{
    uint64_t random = 0;
    char *private = NULL;
    bool done = false;
    int file, why;

    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = (uint64_t)(uintptr_t)image;
    if (asprintf(&private, "%s.%ld.%ld.%016llx.tmp", path, (long)getpid(), syscall(SYS_gettid),
                 (unsigned long long)random) < 0)
        return false;
    file = open(private, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        why = errno;
        free(private);
        errno = why;
        return false;
    }
    done = write_entry(file, key, image, size);
    why = errno;
    close(file);
    if (done) {
        done = rename(private, path) == 0 ||
               (errno == EISDIR && gnf_path_remove(path) && rename(private, path) == 0);
        why = errno;
        /* The temporary or its folder was cleared away under us: a lost rename, and nothing to complain of.
         */
        if (!done && why == ENOENT)
            done = true;
    }
    if (!done)
        unlink(private);
    free(private);
    errno = why;
    return done;
}
