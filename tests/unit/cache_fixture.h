/* For the tests of the cubin cache: a cache, what it logged, and a builder that counts. */
#ifndef GNF_TEST_CACHE_FIXTURE_H
#define GNF_TEST_CACHE_FIXTURE_H

#include "cache.h"
#include "scratch.h"
#include <stdbool.h>

enum { MIB = 1 << 20 };

/* A cache on a folder, what it logged, and a builder that counts. */
struct fixture {
    struct gnf_cache *cache;
    struct scratch_log seen;
    int builds;
    size_t size;       /* of the images built */
    gnf_status status; /* what the builder returns */
    void (*meanwhile)(void);
};

static inline gnf_status build(void *user, void **image, size_t *size)
{
    struct fixture *f = user;

    f->builds++;
    if (f->meanwhile)
        f->meanwhile();
    if (f->status != GNF_OK)
        return gnf_fail(f->status, "the builder's own words");
    *image = malloc(f->size);
    *size = f->size;
    for (size_t i = 0; i < f->size; i++)
        ((unsigned char *)*image)[i] = (unsigned char)(i * 7 + i / 256);
    return GNF_OK;
}

static inline void open_cache(struct fixture *f, const char *folder, int64_t limit)
{
    struct gnf_log log = {.callback = scratch_log_line, .user = &f->seen, .level = GNF_LOG_DEBUG};

    memset(f, 0, sizeof *f);
    f->size = 3000;
    assert_int_equal(gnf_cache_create(&f->cache, folder, limit, &log), GNF_OK);
}

static inline void close_cache(struct fixture *f)
{
    gnf_cache_destroy(f->cache);
}

/* Whether the image that comes is the right one. */
static inline bool fetch_is_right(struct fixture *f, const char *key)
{
    struct fixture expected = {.size = f->size};
    void *image, *right;
    size_t size, right_size;
    bool same;

    build(&expected, &right, &right_size);
    if (gnf_cache_fetch(f->cache, key, "kernel", build, f, &image, &size) != GNF_OK)
        return false;
    same = size == right_size && memcmp(image, right, size) == 0;
    free(image);
    free(right);
    return same;
}

static inline bool is_stored(struct fixture *f, const char *key)
{
    void *image;
    size_t size;
    gnf_status status = gnf_cache_fetch(f->cache, key, "kernel", NULL, NULL, &image, &size);

    free(image);
    return status == GNF_OK;
}

static inline void fill(const char *folder, const char *key)
{
    struct fixture f;

    open_cache(&f, folder, MIB);
    assert_true(fetch_is_right(&f, key));
    assert_int_equal(f.builds, 1);
    assert_int_equal(f.seen.count[GNF_LOG_WARNING], 0);
    close_cache(&f);
}

/* The path of the only entry in the folder. */
static inline const char *only_entry(const char *folder)
{
    static char path[600];
    DIR *listing = opendir(folder);
    struct dirent *item;

    assert_non_null(listing);
    path[0] = '\0';
    while ((item = readdir(listing))) {
        if (strstr(item->d_name, ".cubin"))
            snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
    }
    closedir(listing);
    assert_true(path[0] != '\0');
    return path;
}

static inline const char *folder(void)
{
    static char path[300];

    snprintf(path, sizeof path, "%s/new/parents/cache", scratch_folder);
    return path;
}

#endif
