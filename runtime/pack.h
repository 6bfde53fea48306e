/* A kernel pack: manifest and sources, read from memory. Format: generator/pack.py. */
#ifndef GNF_PACK_H
#define GNF_PACK_H

#include "status.h"
#include <stdbool.h>

enum { GNF_MAX_KERNELS = 3 };

/* Blocks of a launch = ceil(units / units_per_block) * tiles, where tiles = min(ceil(span / tile), cap) and
 * span is the number of elements named (1 for none). Kernels loop over blocks, so the host may launch fewer.
 */
enum gnf_unit { GNF_UNIT_GROUP, GNF_UNIT_SAMPLE, GNF_UNIT_POSITION }; /* N * G, N, N * spatial of them */
enum gnf_span { GNF_SPAN_NONE, GNF_SPAN_GROUP, GNF_SPAN_SPATIAL, GNF_SPAN_SAMPLE };

struct gnf_kernel {
    const char *entry; /* also the name in caches and in the simulator */
    const int *part;   /* the source is these parts of the pack, one after another */
    int part_count;
    unsigned block; /* threads */
    int shared_bytes;
    enum gnf_unit unit;
    int64_t units_per_block;
    enum gnf_span span;
    int64_t tile; /* elements a block takes of the span */
    int64_t cap;
};
struct gnf_variant {
    const char *name;
    const char *strategy;
    const char *parameters; /* one line for people: "threads 256, vector 4, items 4" */
    unsigned alignment;     /* bytes every pointer must be a multiple of */
    int capability;         /* minimum compute capability, 80 for 8.0 */
    int64_t
        workspace; /* bytes a chunk: total is samples * groups * chunks * this; chunks is kernel[0]'s tiles */
    int64_t group_max; /* largest elements a group, 0 for any (generic kernels) */
    bool generic;
    int kernel_count;
    struct gnf_kernel kernel[GNF_MAX_KERNELS];
};
struct gnf_pack;

/* Copies what it needs. `name` is for messages. */
gnf_status gnf_pack_read(struct gnf_pack **pack, const void *data, size_t size, const char *name);
gnf_status gnf_pack_load(struct gnf_pack **pack, const char *path);
/* The bytes of a pack with the same content, as gnf_pack_read() takes them; the caller frees them. */
gnf_status gnf_pack_write(const struct gnf_pack *pack, void **data, size_t *size);
void gnf_pack_free(struct gnf_pack *pack);
const char *gnf_pack_name(const struct gnf_pack *pack);
/* Of the file it was loaded from; NULL where it came from memory. */
const char *gnf_pack_path(const struct gnf_pack *pack);

/* Variants of a problem key or of a chain (struct gnf_problem), in the generator's order of preference; NULL
 * and 0 if the pack has none. They live as long as the pack. */
const struct gnf_variant *gnf_pack_find(const struct gnf_pack *pack, const char *key, int *count);
/* The i-th key or chain with its variants, for listings and for packing; NULL past the end. */
const char *gnf_pack_entry(const struct gnf_pack *pack, int i, const struct gnf_variant **variants,
                           int *count);
/* The kernel's whole source, NUL-terminated; the caller frees it. */
gnf_status gnf_pack_source(const struct gnf_pack *pack, const struct gnf_kernel *kernel, char **source);

/* XXH3-128 of the sources of all its kernels, each after its length, as 32 hexadecimal digits: what a tuning
 * record is about. */
gnf_status gnf_pack_source_hash(const struct gnf_pack *pack, const struct gnf_variant *variant,
                                char hash[33]);

/* The pack of the shipped problems, embedded at build time. */
extern const unsigned char gnf_embedded_pack[];
extern const size_t gnf_embedded_pack_size;

#endif
