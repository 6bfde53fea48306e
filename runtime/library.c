#define _GNU_SOURCE 1 /* dlinfo */
#include "library.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void gnf_tried_note(struct gnf_tried *tried, const char *path, const char *why)
{
    size_t room = sizeof tried->text - tried->length;
    int length = snprintf(tried->text + tried->length, room, "%s%s%s%s%s", tried->length ? ", " : "", path,
                          why ? " (" : "", why ? why : "", why ? ")" : "");
    if (length > 0)
        tried->length += (size_t)length < room ? (size_t)length : room - 1;
}

void *gnf_library_open(const char *path, int flags, const char **opened, struct gnf_tried *tried)
{
    struct link_map *map = NULL;
    void *library = dlopen(path, flags);
    if (!library) {
        const char *error = dlerror();
        /* Of a file that is not there, the name says it all. */
        gnf_tried_note(tried, path, strchr(path, '/') && access(path, F_OK) == 0 ? error : NULL);
        return NULL;
    }
    *opened = path;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
        *opened = map->l_name;
    return library;
}

bool gnf_library_search(const char *const *names, char *const toolkit[2],
                        bool (*take)(void *user, const char *path, struct gnf_tried *tried), void *user,
                        struct gnf_tried *tried)
{
    const char *const folders[] = {toolkit[0], toolkit[1], "/usr/local/cuda"};
    char path[4096];
    for (int i = 0; names[i]; i++)
        if (take(user, names[i], tried))
            return true;
    for (int j = 0; j < 3; j++)
        for (int i = 0; folders[j] && names[i]; i++) {
            int length = snprintf(path, sizeof path, "%s/lib64/%s", folders[j], names[i]);
            if (length > 0 && (size_t)length < sizeof path && take(user, path, tried))
                return true;
        }
    return false;
}
