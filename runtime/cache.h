/* Cubins on disk, shared by processes: a lock per key around the build, private name, flush, rename. */
#ifndef GNF_CACHE_H
#define GNF_CACHE_H

#include "log.h"
#include "status.h"
#include <stdbool.h>

struct gnf_cache; /* Thread-safety: safe. */

struct gnf_cache_stats {
    int64_t entries, bytes;
    int64_t damaged; /* by gnf_cache_verify */
};

/* `folder` NULL: memory only (nothing is kept). Never fails for a folder that cannot be used: that is one
 * warning, when an entry would first be written. `limit` in bytes; oldest entries go first. The folder is
 * made when the first entry is written, and one that belongs to another user is not used at all. */
gnf_status gnf_cache_create(struct gnf_cache **cache, const char *folder, int64_t limit,
                            const struct gnf_log *log);
/* No fetch may be under way. NULL is fine. */
void gnf_cache_destroy(struct gnf_cache *cache);

/* Builds an image into malloc'ed memory. */
typedef gnf_status (*gnf_cache_build)(void *user, void **image, size_t *size);
/* The entry for `key` (the whole key text: its XXH3-128 names the file, and the entry holds it), else calls
 * `build` under the key's lock, stores and returns the result. `build` NULL: GNF_NOT_COMPILED where there is
 * no good entry. Any damage is a rebuild and one warning. *image is the caller's to free. A status of `build`
 * is returned as it is. `name` is for messages. */
gnf_status gnf_cache_fetch(struct gnf_cache *cache, const char *key, const char *name, gnf_cache_build build,
                           void *user, void **image, size_t *size);
/* Removes the entry: for an image that is whole and that the driver refuses all the same. */
void gnf_cache_drop(struct gnf_cache *cache, const char *key);

/* How long to wait for another process's build of the same kernel before building it here too; default 60
 * 000. */
void gnf_cache_set_patience(struct gnf_cache *cache, int milliseconds);

/* For `gnfuse cache`. A folder that is not there is an empty cache. GNF_IO where it cannot be read or
 * changed, or is another user's. Verify reads every entry and removes damaged ones, *stats has those that are
 * left; clear removes all entries, locks and temporaries, *stats has what was there. */
gnf_status gnf_cache_stats(struct gnf_cache *cache, struct gnf_cache_stats *stats);
gnf_status gnf_cache_verify(struct gnf_cache *cache, struct gnf_cache_stats *stats);
gnf_status gnf_cache_clear(struct gnf_cache *cache, struct gnf_cache_stats *stats);
const char *gnf_cache_folder(const struct gnf_cache *cache); /* absolute, or NULL */

#endif
