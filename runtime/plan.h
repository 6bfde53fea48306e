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
    int64_t tiles; /* blocks a unit */
};
/* A variant with its launches for the plan's N. */
struct gnf_choice {
    const struct gnf_pack *pack;
    const struct gnf_variant *variant;
    int64_t blocks; /* of the last kernel, the one that writes y */
    int64_t chunks; /* statistics chunks a group, 0 without a workspace */
    size_t workspace_size;
    int registers;
    struct gnf_launch launch[GNF_MAX_KERNELS];
};
struct gnf_plan {
    gnf_context *context;
    struct gnf_problem problem; /* N filled in */
    struct gnf_choice choice;
    struct gnf_choice fallback; /* legal for pointers aligned to one element; may be the same variant */
    const char *match;
    bool empty;    /* nothing to launch */
    bool in_place; /* y may equal x or a full operand */
    size_t workspace_size;
    int64_t x_elements, y_elements;
    struct gnf_kernel_args args; /* sizes and scalars; pointers, chunks and tiles are set by each execution */
};

/* GNF_NOT_SUPPORTED for a stage that parses and that no kernel of this version does; the message points at it
 * in `text`, which the problem was parsed from. */
gnf_status gnf_plan_supported(const struct gnf_problem *problem, const char *text);
/* Grid and workspace of a variant for the problem's N on this device. GNF_TOO_LARGE. */
gnf_status gnf_choice_size(struct gnf_choice *choice, const struct gnf_problem *problem);
/* GNF_OK if pointers of this alignment and the device allow the variant for the problem; else
 * GNF_NOT_SUPPORTED, or GNF_INVALID_ARGUMENT for the alignment, and the message says what it needs. */
gnf_status gnf_choice_check(const struct gnf_choice *choice, const struct gnf_problem *problem,
                            unsigned alignment, const struct gnf_device *device);
/* The default rule, on the `count` variants of one entry in the pack's order: of those that are legal, the
 * first whose last kernel has blocks to give half of the multiprocessors one; else the one with the most
 * blocks. GNF_NOT_SUPPORTED if none is legal, with the last one's message. */
gnf_status gnf_choice_default(struct gnf_choice *choice, const struct gnf_pack *pack,
                              const struct gnf_variant *variants, int count,
                              const struct gnf_problem *problem, unsigned alignment,
                              const struct gnf_device *device);

#endif
