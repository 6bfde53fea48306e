/* For the unit tests: a folder that is removed again, files, and a log that counts. */
#ifndef GNF_TEST_SCRATCH_H
#define GNF_TEST_SCRATCH_H

#include "log.h"
#include <dirent.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* cmocka.h wants these before it, and no others of its own accord. */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char scratch_folder[256];

static inline int scratch_remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

/* As cmocka's setup and teardown. The folder may be entered by every user. */
static inline int scratch_setup(void **state)
{
    const char *parent = getenv("TMPDIR");

    (void)state;
    snprintf(scratch_folder, sizeof scratch_folder, "%s/gnfuse-test-XXXXXX", parent ? parent : "/tmp");
    return mkdtemp(scratch_folder) && chmod(scratch_folder, 0755) == 0 ? 0 : -1;
}

static inline int scratch_teardown(void **state)
{
    (void)state;
    return nftw(scratch_folder, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A path in the folder; four may be in use at once. */
static inline const char *scratch_path(const char *name)
{
    static char path[4][600];
    static int next;
    char *out = path[next++ % 4];

    snprintf(out, sizeof path[0], "%s/%s", scratch_folder, name);
    return out;
}

static inline void scratch_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* The number of bytes read, at most `room`. */
static inline size_t scratch_read(const char *path, void *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    size_t size;

    assert_non_null(file);
    size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

/* How many names in `folder` end with `ending` ("" for all); -1 where there is no such folder. */
static inline int scratch_count(const char *folder, const char *ending)
{
    DIR *listing = opendir(folder);
    struct dirent *item;
    int count = 0;

    if (!listing)
        return -1;
    while ((item = readdir(listing))) {
        size_t length = strlen(item->d_name), tail = strlen(ending);
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0 && length >= tail &&
            strcmp(item->d_name + length - tail, ending) == 0)
            count++;
    }
    closedir(listing);
    return count;
}

struct scratch_log {
    int count[GNF_LOG_DEBUG + 1];
    char last[GNF_LOG_DEBUG + 1][2048];
};

static inline void scratch_log_line(void *user, gnf_log_level level, const char *line)
{
    struct scratch_log *log = user;

    log->count[level]++;
    snprintf(log->last[level], sizeof log->last[level], "%s", line);
}

static inline void scratch_assert_contains(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" does not contain \"%s\"", text ? text : "", part);
}

#endif
