/* A kernel pack: manifest and sources, read from memory. Format: generator/pack.py. */
#ifndef GNF_PACK_H
#define GNF_PACK_H

#include "status.h"
#include <stdbool.h>

enum { GNF_MAX_KERNELS = 8 };

/* Blocks of a launch = ceil(units / units_per_block) * tiles, where tiles = min(ceil(span / tile), cap) and
 * span is the number of elements named (1 for none). Kernels loop over blocks, so the host may launch fewer.
 */
enum gnf_unit { /* N * G, N, N * spatial, C, N * y's spatial of them */
                GNF_UNIT_GROUP,
                GNF_UNIT_SAMPLE,
                GNF_UNIT_POSITION,
                GNF_UNIT_CHANNEL,
                GNF_UNIT_OUTPUT
};
enum gnf_span { GNF_SPAN_NONE, GNF_SPAN_GROUP, GNF_SPAN_SPATIAL, GNF_SPAN_SAMPLE, GNF_SPAN_CHANNELS };

/* What a kernel of a variant with a product is for; launched in this order, the matrix products of cuBLASLt
 * between inputs and product. */
enum gnf_role {
    GNF_ROLE_WEIGHTS, /* weight -> split_weight, column_scale, column_norm: when a weight is prepared, or each
                         time */
    GNF_ROLE_INPUTS,  /* x -> split_x, row_scale, row_norm */
    GNF_ROLE_PRODUCT, /* computes the product, or of it what the split could not hold or what cancels */
    GNF_ROLE_TAIL /* all the rest: product -> y, or with sums = 0 x -> y; every kernel of a problem without
                     linear and conv2d */
};
/* How the product of linear or conv2d is computed; conv2d's is always "own". */
enum gnf_method {
    GNF_METHOD_NONE,   /* neither */
    GNF_METHOD_OWN,    /* "own": by the variant's product kernel, or in its tail */
    GNF_METHOD_DIRECT, /* "direct": cuBLASLt on x and weight as they are: fp32 sums, f32 operands in full */
    GNF_METHOD_TF32,   /* "tf32": the same, f32 operands rounded to TF32 */
    GNF_METHOD_FP16X1, /* "fp16x1": one product of row-scaled fp16 */
    GNF_METHOD_FP16X3, /* "fp16x3": row-scaled fp16 hi + 2^-11 lo; hi * hi in `chunks` of K, and the cross
                          terms */
    GNF_METHOD_WGMMA   /* "wgmma": row-scaled fp16 hi + lo in tiles; the variant's first product kernel
                          multiplies */
};
/* With row-scaled fp16 of both operands, and a scale a row and a column. */
static inline bool gnf_is_split(enum gnf_method method)
{
    return method == GNF_METHOD_FP16X1 || method == GNF_METHOD_FP16X3 || method == GNF_METHOD_WGMMA;
}
enum { GNF_WGMMA_CAPABILITY = 90 }; /* the one that GNF_METHOD_WGMMA's kernels are for */
enum gnf_weights {
    GNF_WEIGHTS_GIVEN,    /* "given": taken as they are */
    GNF_WEIGHTS_PREPARED, /* "prepared": by gnf_prepare_weight() before */
    GNF_WEIGHTS_EACH      /* "each": split by every execution */
};
struct gnf_product {
    enum gnf_method method;
    enum gnf_weights weights;
    int chunks;          /* partial sums of the main product */
    int sums;            /* partial sums that the tail adds: chunks, and one more for fp16x3's cross terms; of
                            conv2d 1, or 0 where its output is never stored */
    int64_t least, most; /* the default rule takes it for N in [least, most]; most 0: any above */
    int64_t samples_max; /* the largest N it can do, 0 for any */
    int64_t inputs_max;  /* the largest IN that keeps its promise, 0 for any */
    int64_t
        weight_bytes; /* "own" and "each": bytes of split_weight, which the weights kernel fills each time */
    bool yields;      /* another form of prepared weight is the problem's where wgmma's kernels run */
};

struct gnf_kernel {
    const char *entry; /* also the name in caches and in the simulator */
    enum gnf_role role;
    const int *part; /* the source is these parts of the pack, one after another */
    int part_count;
    unsigned block; /* threads */
    int shared_bytes;
    enum gnf_unit unit;
    int64_t units_per_block;
    enum gnf_span span;
    int64_t tile; /* elements a block takes of the span */
    int64_t cap;
    bool exact;  /* compiled for the variant's capability and its own features alone: sm_90a */
    int cluster; /* 0; or the grid is a multiple of it, of blocks that all find room at once */
};
struct gnf_variant {
    const char *name;
    const char *strategy;
    const char *parameters; /* one line for people: "threads 256, vector 4, items 4" */
    unsigned alignment;     /* bytes every pointer must be a multiple of */
    int capability;         /* minimum compute capability, 80 for 8.0 */
    bool exact;             /* a kernel is exact: no other capability does */
    int64_t workspace; /* bytes a chunk: total is samples * groups * chunks * this; chunks is the tiles of the
                          first tail kernel */
    int64_t group_max; /* largest elements a group, 0 for any (generic kernels) */
    bool generic;
    struct gnf_product product;
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
