/* Files written whole or not at all, and folders. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "../status.h"

enum { FILES_PATH_SIZE = 4096 };

struct output_file {
    int descriptor;
    char path[FILES_PATH_SIZE], temporary[FILES_PATH_SIZE];
};
/* Opens a private file beside `path`. Then write, and finish (flush and rename) or abandon (remove it). */
gnf_status output_open(struct output_file *file, const char *path);
gnf_status output_write(struct output_file *file, const void *data, size_t size);
gnf_status output_finish(struct output_file *file);
void output_abandon(struct output_file *file);

/* Can a file be put at `path`? Tries it with a file that it removes again. Asked before long work. */
gnf_status files_check_writable(const char *path);
gnf_status files_write(const char *path, const void *data, size_t size);
/* The whole file, NUL-terminated, malloc'ed. */
gnf_status files_read(const char *path, void **data, size_t *size);
/* The folder and its parents, mode 0700. */
gnf_status files_make_folder(const char *path);
/* The folder and the files in it. */
void files_remove_folder(const char *path);
/* GNF_INVALID_ARGUMENT where the path does not fit FILES_PATH_SIZE. */
gnf_status files_join(char *out, const char *folder, const char *name);

#endif
