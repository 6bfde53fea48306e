#include "append.h"

#include "../runtime/cli/files.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM_BYTES = 4096 };

struct append {
    pthread_mutex_t lock; /* flock is the process's: threads need one of their own */
    int descriptor;
    char path[FILES_PATH_SIZE];
};

static gnf_status failed(const char *path, const char *what)
{
    return gnf_fail(GNF_IO, "%s: %s: %s", path, what, strerror(errno));
}

static gnf_status make_folder_of(const char *path)
{
    char folder[FILES_PATH_SIZE];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return GNF_OK;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    return access(folder, F_OK) == 0 ? GNF_OK : files_make_folder(folder);
}

gnf_status append_check(const char *path)
{
    char above[FILES_PATH_SIZE];
    struct stat info;
    if (snprintf(above, sizeof above, "%s", path) >= (int)sizeof above)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--db: the path is longer than %d bytes", FILES_PATH_SIZE - 1);
    if (stat(path, &info) == 0) {
        errno = EISDIR;
        return !S_ISDIR(info.st_mode) && access(path, W_OK) == 0 ? GNF_OK : failed(path, "cannot be written");
    }
    /* The first folder above that is there is where the rest would be made. */
    bool found = false;
    while (!found && (errno == ENOENT || errno == ENOTDIR)) {
        char *slash = strrchr(above, '/');
        if (slash == NULL)
            strcpy(above, ".");
        else
            slash[slash == above] = '\0';
        found = stat(above, &info) == 0;
    }
    if (found && !S_ISDIR(info.st_mode))
        errno = ENOTDIR;
    else if (found && access(above, W_OK | X_OK) == 0)
        return GNF_OK;
    return failed(path, "cannot be written");
}

gnf_status append_open(struct append **append, const char *path)
{
    *append = NULL;
    struct stat info;
    size_t length = strlen(path);
    if (length >= FILES_PATH_SIZE)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--db: the path is longer than %d bytes", FILES_PATH_SIZE - 1);
    GNF_TRY(make_folder_of(path));
    /* Readable too: the last byte tells whether the last line is whole. */
    int descriptor = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return failed(path, "cannot be written");
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(descriptor);
        return gnf_fail(GNF_IO, "%s: cannot be written: it is not a file", path);
    }
    /* Room for a few lines: a full disk is told now. File systems that cannot say so tell later. */
    if (fallocate(descriptor, FALLOC_FL_KEEP_SIZE, info.st_size, ROOM_BYTES) != 0 &&
        (errno == ENOSPC || errno == EDQUOT)) {
        gnf_status status = failed(path, "cannot be written");
        close(descriptor);
        return status;
    }
    struct append *self = calloc(1, sizeof *self);
    if (self == NULL) {
        close(descriptor);
        return gnf_fail(GNF_OUT_OF_MEMORY, "%s: no memory to open it", path);
    }
    pthread_mutex_init(&self->lock, NULL);
    self->descriptor = descriptor;
    memcpy(self->path, path, length + 1);
    *append = self;
    return GNF_OK;
}

void append_close(struct append *append)
{
    if (append == NULL)
        return;
    close(append->descriptor);
    pthread_mutex_destroy(&append->lock);
    free(append);
}

void append_finish(struct append *append)
{
    pthread_mutex_lock(&append->lock);
}

/* All of it or, by the truncation, nothing. */
static gnf_status write_whole(const struct append *append, const char *text, size_t size)
{
    const off_t before = lseek(append->descriptor, 0, SEEK_END);
    size_t done = 0;
    while (done < size) {
        ssize_t written = write(append->descriptor, text + done, size - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            gnf_status status = failed(append->path, "cannot be written");
            if (done > 0 && before >= 0 && ftruncate(append->descriptor, before) != 0)
                gnf_fail_more(status, "; its last line is cut");
            return status;
        }
        done += (size_t)written;
    }
    return GNF_OK;
}

static gnf_status write_line(const struct append *append, char *line)
{
    struct stat info;
    char last = '\n';
    if (fstat(append->descriptor, &info) != 0)
        return failed(append->path, "cannot be read");
    if (info.st_size > 0 && pread(append->descriptor, &last, 1, info.st_size - 1) != 1)
        return failed(append->path, "cannot be read");
    size_t length = strlen(line);
    if (last == '\n')
        return write_whole(append, line, length);
    char *longer = malloc(length + 1);
    if (longer == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "%s: no memory for a line", append->path);
    longer[0] = '\n';
    memcpy(longer + 1, line, length);
    gnf_status status = write_whole(append, longer, length + 1);
    free(longer);
    return status;
}

gnf_status append_record(struct append *append, const struct gnf_record *record)
{
    char *line;
    GNF_TRY(gnf_record_write(record, &line));
    pthread_mutex_lock(&append->lock);
    int locked;
    while ((locked = flock(append->descriptor, LOCK_EX)) != 0 && errno == EINTR)
        ;
    /* A file system without locks: one write is one line there too, as long as it is local. */
    gnf_status status = write_line(append, line);
    if (locked == 0)
        flock(append->descriptor, LOCK_UN);
    pthread_mutex_unlock(&append->lock);
    free(line);
    return status;
}
