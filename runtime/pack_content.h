/* What a pack is made of once it is read. For pack.c, and manifest.c which fills it in. */
#ifndef GNF_PACK_CONTENT_H
#define GNF_PACK_CONTENT_H

#include "pack.h"
#include <jansson.h>

enum { GNF_PACK_FORMAT = 1 };

struct gnf_part {
    size_t at, size;
};
struct gnf_pack_entry {
    const char *key;
    bool generic;
    struct gnf_variant *variant;
    int count;
};
struct gnf_pack {
    char *name;
    char *path;       /* absolute, where it came from a file */
    char *content;    /* all that was compressed */
    json_t *manifest; /* owns the strings of entries and variants */
    const char *blob;
    size_t blob_size;
    struct gnf_part *part;
    int part_count;
    struct gnf_pack_entry *entry; /* by key */
    int entry_count;
};

/* Where in the manifest we are, for messages. */
struct gnf_place {
    const char *pack, *key, *variant;
    int kernel; /* -1 outside one */
};
/* GNF_BAD_PACK, naming the place. */
gnf_status gnf_pack_bad(const struct gnf_place *place, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* GNF_OUT_OF_MEMORY */
gnf_status gnf_pack_no_memory(const struct gnf_place *place);
/* For qsort() and bsearch() of entries. */
int gnf_pack_by_key(const void *a, const void *b);
/* Fills in parts and entries from the JSON in pack->manifest. After a failure gnf_pack_free() frees what is
 * there. */
gnf_status gnf_manifest_read(struct gnf_pack *pack, const struct gnf_place *place);

#endif
