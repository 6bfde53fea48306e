/* Finding a CUDA library that is opened at run time: by version, then in the toolkit's folders. */
#ifndef GNF_LIBRARY_H
#define GNF_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* What was tried, for the message: "a, b (why), c". Cut where it is full. */
struct gnf_tried {
    char text[4096];
    size_t length;
};
void gnf_tried_note(struct gnf_tried *tried, const char *path, const char *why);

/* dlopen with these flags; NULL, and noted, where it fails. *opened: the file's own path, which lives as long
 * as it is loaded, or `path` where there is none. */
void *gnf_library_open(const char *path, int flags, const char **opened, struct gnf_tried *tried);

/* Whether one of the names (ends with NULL) is taken, as they are or in lib64 of a toolkit: those given, NULL
 * where unset, then /usr/local/cuda. `take` notes why it does not. */
bool gnf_library_search(const char *const *names, char *const toolkit[2],
                        bool (*take)(void *user, const char *path, struct gnf_tried *tried), void *user,
                        struct gnf_tried *tried);

#endif
