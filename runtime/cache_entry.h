/* One file of the cubin cache: its format, read with every check, written so that nobody sees half of it. */
#ifndef GNF_CACHE_ENTRY_H
#define GNF_CACHE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

enum { GNF_ENTRY_DIGITS = 32 };

/* `bytes` is malloc'ed; the other pointers point into it. */
struct gnf_entry {
    char *bytes;
    const char *key; /* without a closing zero */
    size_t key_size;
    const char *image;
    size_t image_size;
};

enum gnf_entry_outcome { GNF_ENTRY_FOUND, GNF_ENTRY_ABSENT, GNF_ENTRY_DAMAGED };

/* The 32 hexadecimal digits that name the file of a key. */
void gnf_entry_name(const char *key, size_t size, char name[GNF_ENTRY_DIGITS + 1]);

/* Damaged is anything that is there and is not a whole entry written by this user: cut, longer, changed, a
 * folder, a link. The caller frees entry->bytes where it is found. Marks it as used, once a day. */
enum gnf_entry_outcome gnf_entry_load(const char *path, struct gnf_entry *entry);

/* Writes `path` in place of whatever is there; false with errno where that fails, and nothing is left behind.
 */
bool gnf_entry_publish(const char *path, const char *key, const void *image, size_t size);

/* Removes a file, or a folder with all that is in it; true where nothing is left. */
bool gnf_path_remove(const char *path);

#endif
