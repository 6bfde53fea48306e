#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gnf_status io_failed(const char *path, const char *what)
{
    return gnf_fail(GNF_IO, "%s: %s: %s", path, what, strerror(errno));
}

gnf_status files_join(char *out, const char *folder, const char *name)
{
    int length = snprintf(out, FILES_PATH_SIZE, "%s/%s", folder, name);
    if (length < 0 || length >= FILES_PATH_SIZE)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s/%s: the path is longer than %d bytes", folder, name,
                        FILES_PATH_SIZE - 1);
    return GNF_OK;
}

gnf_status output_open(struct output_file *file, const char *path)
{
    file->descriptor = -1;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return io_failed(path, "cannot be written");
    }
    /* A device or a pipe (/dev/stdout) is written in place: a rename would replace it by a file. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        file->temporary[0] = '\0';
        snprintf(file->path, sizeof file->path, "%s", path);
        file->descriptor = open(path, O_WRONLY | O_CLOEXEC);
        return file->descriptor < 0 ? io_failed(path, "cannot be written") : GNF_OK;
    }
    int length = snprintf(file->path, sizeof file->path, "%s", path);
    int longer = snprintf(file->temporary, sizeof file->temporary, "%s.XXXXXX", path);
    if (length < 0 || longer < 0 || longer >= FILES_PATH_SIZE)
        return gnf_fail(GNF_INVALID_ARGUMENT, "the path is longer than %d bytes", FILES_PATH_SIZE - 8);
    file->descriptor = mkostemp(file->temporary, O_CLOEXEC);
    if (file->descriptor < 0)
        return io_failed(path, "cannot be written");
    return GNF_OK;
}

gnf_status output_write(struct output_file *file, const void *data, size_t size)
{
    const char *from = data;
    while (size > 0) {
        ssize_t written = write(file->descriptor, from, size < (1u << 30) ? size : 1u << 30);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return io_failed(file->path, "cannot be written");
        from += written;
        size -= (size_t)written;
    }
    return GNF_OK;
}

gnf_status output_finish(struct output_file *file)
{
    if (file->temporary[0] == '\0') {
        int closed = close(file->descriptor);
        file->descriptor = -1;
        return closed != 0 ? io_failed(file->path, "cannot be written") : GNF_OK;
    }
    mode_t mask = umask(0);
    umask(mask);
    /* mkstemp's 0600 is for secrets; this is the user's own result. */
    fchmod(file->descriptor, 0666 & ~mask);
    gnf_status status = GNF_OK;
    if (fsync(file->descriptor) != 0)
        status = io_failed(file->path, "cannot be written");
    if (close(file->descriptor) != 0 && status == GNF_OK)
        status = io_failed(file->path, "cannot be written");
    file->descriptor = -1;
    if (status == GNF_OK && rename(file->temporary, file->path) != 0)
        status = io_failed(file->path, "cannot be written");
    if (status != GNF_OK)
        unlink(file->temporary);
    return status;
}

void output_abandon(struct output_file *file)
{
    if (file->descriptor < 0)
        return;
    close(file->descriptor);
    file->descriptor = -1;
    if (file->temporary[0] != '\0')
        unlink(file->temporary);
}

gnf_status files_check_writable(const char *path)
{
    struct output_file file;
    struct stat info;
    /* Opening and closing a pipe would be its reader's end of file. */
    if (stat(path, &info) == 0 && S_ISFIFO(info.st_mode))
        return access(path, W_OK) == 0 ? GNF_OK : io_failed(path, "cannot be written");
    GNF_TRY(output_open(&file, path));
    output_abandon(&file);
    return GNF_OK;
}

gnf_status files_write(const char *path, const void *data, size_t size)
{
    struct output_file file;
    GNF_TRY(output_open(&file, path));
    gnf_status status = output_write(&file, data, size);
    if (status == GNF_OK)
        return output_finish(&file);
    output_abandon(&file);
    return status;
}

gnf_status files_read(const char *path, void **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return io_failed(path, "cannot be read");
    size_t room = 1 << 16, length = 0;
    char *text = malloc(room + 1);
    while (text != NULL) {
        length += fread(text + length, 1, room - length, file);
        if (length < room)
            break;
        char *larger = realloc(text, 2 * room + 1);
        if (larger == NULL)
            free(text);
        text = larger;
        room *= 2;
    }
    gnf_status status = GNF_OK;
    if (text == NULL)
        status = gnf_fail(GNF_OUT_OF_MEMORY, "%s: no memory for the file", path);
    else if (ferror(file))
        status = io_failed(path, "cannot be read");
    fclose(file);
    if (status != GNF_OK) {
        free(text);
        return status;
    }
    text[length] = '\0';
    *data = text;
    *size = length;
    return GNF_OK;
}

gnf_status files_make_folder(const char *path)
{
    char partial[FILES_PATH_SIZE];
    size_t length = strlen(path);
    if (length >= sizeof partial)
        return gnf_fail(GNF_INVALID_ARGUMENT, "the path is longer than %d bytes", FILES_PATH_SIZE - 1);
    memcpy(partial, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (partial[i] != '/' && partial[i] != '\0')
            continue;
        char kept = partial[i];
        partial[i] = '\0';
        if (mkdir(partial, 0700) != 0 && errno != EEXIST)
            return io_failed(path, "cannot be made");
        partial[i] = kept;
    }
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return io_failed(path, "cannot be used");
    }
    return GNF_OK;
}

void files_remove_folder(const char *path)
{
    DIR *stream = opendir(path);
    const struct dirent *entry;
    char name[FILES_PATH_SIZE];
    while (stream != NULL && (entry = readdir(stream)) != NULL)
        if (files_join(name, path, entry->d_name) == GNF_OK)
            unlink(name); /* refuses . and .. */
    if (stream != NULL)
        closedir(stream);
    rmdir(path);
}
