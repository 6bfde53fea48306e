/* A plan: the parsed problem, the variant chosen for it, a second one for pointers of any alignment, both
 * ready. */
#ifndef GNF_PLAN_H
#define GNF_PLAN_H

#include "args.h"
#include "context.h"
#include "problem.h"

/* One kernel launch; grid is in x only. */
struct gnf_launch {
    CUfunction function;
    unsigned grid, block;
    unsigned shared_bytes;
    int capability; /* that the function was compiled for */
    int64_t tiles;  /* blocks a unit */
};
struct gnf_gemms; /* cuBLASLt's side of a product */
/* How a variant with a product works through N; all zeros without one. Offsets are bytes from the workspace,
 * or from the prepared weight. A row is a sample. */
struct gnf_linear {
    int64_t rows;                        /* of a slab; the last one may have fewer: */
    int64_t slabs, last_rows;            /* 0 and 0 where N is 0 */
    unsigned last_grid[GNF_MAX_KERNELS]; /* in place of launch[].grid */
    int64_t padded;                      /* IN rounded up, elements of a split row */
    size_t product, row_scale, row_norm, repaired, split_x;
    size_t column_scale, column_norm, split_weight;
    size_t chunks, cublaslt;
    size_t prepared;         /* size of a prepared weight, 0 where the variant takes none */
    struct gnf_gemms *gemms; /* NULL: none, or not ready; a plan's two choices may share it */
};
/* A variant with its launches for the plan's N, or for a slab of it. */
struct gnf_choice {
    const struct gnf_pack *pack;
    const struct gnf_variant *variant;
    unsigned alignment; /* bytes that every pointer must be a multiple of */
    int64_t blocks;     /* of the last kernel, the one that writes y */
    int64_t chunks;     /* statistics chunks a group, 0 without a workspace */
    size_t workspace_size;
    int registers;
    struct gnf_launch launch[GNF_MAX_KERNELS];
    struct gnf_linear linear;
    char gemm[GNF_RECORD_GEMM_SIZE]; /* algorithms that were recorded for it, "" for none */
    const char *match;               /* why this one: gnf_plan_info.match */
    double recorded_us;              /* of the tuning record it rests on, 0 without one */
};
struct gnf_plan {
    gnf_context *context;
    struct gnf_problem problem; /* N filled in */
    struct gnf_choice choice;
    struct gnf_choice fallback; /* legal for pointers aligned to one element; may be the same variant */
    bool empty;                 /* nothing to launch */
    size_t workspace_size;
    int64_t x_elements, y_elements;
    struct gnf_kernel_args args; /* sizes and scalars; pointers, chunks and tiles are set by each execution */
};

/* What executions bring and the machine has. */
struct gnf_terms {
    unsigned alignment; /* of all pointers, bytes */
    bool prepared;      /* the weight is prepared */
    bool no_cublaslt;   /* it cannot be loaded */
    bool no_exact;      /* what is for the device's own architecture alone cannot be compiled */
    bool named;         /* the variant was asked for by its name */
};

/* Grids of the variant's kernels for so many samples. GNF_TOO_LARGE. */
gnf_status gnf_choice_launches(const struct gnf_variant *variant, const struct gnf_problem *problem,
                               int64_t samples, struct gnf_launch launch[GNF_MAX_KERNELS], int64_t *blocks);
/* Grid and workspace of a variant for the problem's N on this device. Of cuBLASLt's own workspace it is the
 * most that there could be. GNF_TOO_LARGE. */
gnf_status gnf_choice_size(struct gnf_choice *choice, const struct gnf_problem *problem);
/* GNF_OK if the terms and the device allow the variant for the problem; else GNF_NOT_SUPPORTED,
 * GNF_NO_CUBLAS, or GNF_INVALID_ARGUMENT for alignment and preparation, and the message says what it needs.
 */
gnf_status gnf_choice_check(const struct gnf_choice *choice, const struct gnf_problem *problem,
                            const struct gnf_terms *terms, const struct gnf_device *device);
/* The default rule, on the `count` variants of one entry in the pack's order: of those that are legal, the
 * first whose last kernel has blocks to give half of the multiprocessors one, or a third of them where a
 * block takes at most 48 KiB of x; else the one with the most blocks. With linear, the product is that of the
 * first legal variant that is meant for N (gnf_product), and only its variants count. With conv2d those of
 * strategies that convolve themselves, which come first, count where one is legal, whatever their blocks;
 * else those of the product. On an H200 (2026-11-29, `gnfuse compare` on the 16 shipped problems) that is
 * within 10 % of the best in 15, and 13 without the second clause; README has the figures. GNF_NOT_SUPPORTED
 * if none is legal, with the last one's message. */
gnf_status gnf_choice_default(struct gnf_choice *choice, const struct gnf_pack *pack,
                              const struct gnf_variant *variants, int count,
                              const struct gnf_problem *problem, const struct gnf_terms *terms,
                              const struct gnf_device *device);
bool gnf_same_product(const struct gnf_product *a, const struct gnf_product *b);
/* Launches of one execution that is one slab, cuBLASLt's included. */
unsigned gnf_variant_launches(const struct gnf_variant *variant);

/* Enqueues kernel number `i` of a choice, one with clusters in whole ones that find room. `overlap`: it may
 * start before what is in front of it has ended. */
gnf_status gnf_choice_launch(const struct gnf_plan *plan, const struct gnf_choice *choice, int i,
                             unsigned grid, bool overlap, struct gnf_kernel_args *args, CUstream stream);

/* Where a walk through the packs stands: the variants of one key or chain. Start from all zeros. */
struct gnf_entry {
    const struct gnf_pack *pack;
    const struct gnf_variant *variants;
    int count;
    int key, next_pack;
};
/* Steps to the next entry for the problem: exact keys in all packs before chains, the last pack loaded first.
 * False past the last. */
bool gnf_entry_next(gnf_context *context, const struct gnf_problem *problem, struct gnf_entry *entry);
/* GNF_NO_KERNEL, saying how to make one. */
gnf_status gnf_entry_none(const struct gnf_problem *problem);

struct gnf_choice_request {
    gnf_context *context;
    const struct gnf_problem *problem; /* N filled in */
    const char *variant;               /* this one; NULL: what the tuning databases or the default rule say */
    unsigned alignment;                /* of all pointers, bytes */
    bool prepared;                     /* the weight will be prepared */
    bool no_cublaslt;                  /* also where the context's was found */
    bool no_exact;                     /* as in struct gnf_terms */
    CUstream stream;                   /* asked whether it is being captured; NULL: do not ask */
    /* As in struct gnf_tuned_query; may be NULL. */
    void (*explain)(void *user, const struct gnf_tuned_line *line, const char *why);
    void *explain_user;
};
/* The variant that a plan takes, with its sizes; no kernel is loaded. GNF_NO_KERNEL, GNF_INVALID_ARGUMENT for
 * a name that no variant has, GNF_NOT_SUPPORTED, GNF_TOO_LARGE, GNF_OUT_OF_MEMORY. Thread-safety: safe. */
gnf_status gnf_choice_make(const struct gnf_choice_request *request, struct gnf_choice *choice);
/* The default rule's, whatever is known: on the first entry with a legal variant. */
gnf_status gnf_choice_by_rule(const struct gnf_choice_request *request, struct gnf_choice *choice);

#endif
