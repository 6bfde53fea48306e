/* Which variant, and how large its launches are. */
#include "plan.h"
#include <inttypes.h>
#include <string.h>

enum { MOST_BLOCKS = 2147483647 }; /* on grid.x; kernels loop over what does not fit */

/* Rounds up; value may be 0. */
static int64_t divide(int64_t value, int64_t by)
{
    return value / by + (value % by != 0);
}

static int64_t span_elements(enum gnf_span span, const struct gnf_problem *problem)
{
    switch (span) {
    case GNF_SPAN_GROUP:
        return problem->channels / problem->groups * problem->spatial;
    case GNF_SPAN_SPATIAL:
        return problem->spatial;
    case GNF_SPAN_SAMPLE:
        return problem->channels * problem->spatial;
    case GNF_SPAN_NONE:
        break;
    }
    return 1;
}

static gnf_status too_large(const struct gnf_choice *choice, const char *what)
{
    return gnf_fail(GNF_TOO_LARGE, "variant '%s': %s do not fit 63 bits", choice->variant->name, what);
}

gnf_status gnf_choice_size(struct gnf_choice *choice, const struct gnf_problem *problem)
{
    const struct gnf_variant *variant = choice->variant;
    int64_t groups, positions, workspace;
    if (__builtin_mul_overflow(problem->samples, problem->groups, &groups))
        return too_large(choice, "the groups");
    if (__builtin_mul_overflow(problem->samples, problem->spatial, &positions))
        return too_large(choice, "the spatial positions");
    for (int i = 0; i < variant->kernel_count; i++) {
        const struct gnf_kernel *kernel = &variant->kernel[i];
        int64_t units = kernel->unit == GNF_UNIT_GROUP      ? groups
                        : kernel->unit == GNF_UNIT_POSITION ? positions
                                                            : problem->samples;
        int64_t blocks;
        int64_t tiles = divide(span_elements(kernel->span, problem), kernel->tile);
        tiles = tiles < kernel->cap ? tiles : kernel->cap;
        if (__builtin_mul_overflow(divide(units, kernel->units_per_block), tiles, &blocks))
            return too_large(choice, "the blocks");
        choice->blocks = blocks; /* in the end the last kernel's: the one that writes y */
        choice->launch[i].grid = (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
        choice->launch[i].block = kernel->block;
        choice->launch[i].shared_bytes = (unsigned)kernel->shared_bytes;
        choice->launch[i].tiles = tiles;
    }
    choice->chunks = variant->workspace ? choice->launch[0].tiles : 0;
    if (__builtin_mul_overflow(groups, choice->chunks, &workspace) ||
        __builtin_mul_overflow(workspace, variant->workspace, &workspace))
        return too_large(choice, "the bytes of the workspace");
    choice->workspace_size = (size_t)workspace;
    return GNF_OK;
}

gnf_status gnf_choice_check(const struct gnf_choice *choice, const struct gnf_problem *problem,
                            unsigned alignment, const struct gnf_device *device)
{
    const struct gnf_variant *variant = choice->variant;
    int64_t group = span_elements(GNF_SPAN_GROUP, problem);
    if (alignment % variant->alignment)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "variant '%s' needs pointers aligned to %u bytes: the plan's alignment is %u",
                        variant->name, variant->alignment, alignment);
    if (device->capability < variant->capability)
        return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' needs capability %d: %s has %d", variant->name,
                        variant->capability, device->name, device->capability);
    if (variant->group_max && group > variant->group_max)
        return gnf_fail(GNF_NOT_SUPPORTED,
                        "variant '%s' takes groups of up to %" PRId64 " elements: here they have %" PRId64,
                        variant->name, variant->group_max, group);
    for (int i = 0; i < variant->kernel_count; i++)
        if (variant->kernel[i].shared_bytes > device->shared_block)
            return gnf_fail(GNF_NOT_SUPPORTED,
                            "variant '%s' needs %d bytes of shared memory a block: %s has %d", variant->name,
                            variant->kernel[i].shared_bytes, device->name, device->shared_block);
    return GNF_OK;
}

/* Blocks for half of the multiprocessors; or for a third where each has little to do, which splitting would
 * not make faster. Measured: plan.h. */
static bool fills(const struct gnf_choice *choice, const struct gnf_problem *problem,
                  const struct gnf_device *device)
{
    enum { LITTLE = 48 * 1024 }; /* bytes of x */
    double bytes = (double)problem->samples * (double)problem->channels * (double)problem->spatial *
                   (double)gnf_dtype_size(problem->dtype);
    return choice->blocks >= divide(device->multiprocessors, 2) ||
           (choice->blocks >= divide(device->multiprocessors, 3) && bytes <= (double)choice->blocks * LITTLE);
}

gnf_status gnf_choice_default(struct gnf_choice *choice, const struct gnf_pack *pack,
                              const struct gnf_variant *variants, int count,
                              const struct gnf_problem *problem, unsigned alignment,
                              const struct gnf_device *device)
{
    gnf_status status = GNF_NOT_SUPPORTED;
    struct gnf_choice best = {.blocks = -1};
    for (int i = 0; i < count; i++) {
        struct gnf_choice next = {.pack = pack, .variant = &variants[i]};
        gnf_status legal = gnf_choice_check(&next, problem, alignment, device);
        if (legal == GNF_OK)
            legal = gnf_choice_size(&next, problem);
        if (legal == GNF_TOO_LARGE)
            status = GNF_TOO_LARGE;
        if (legal != GNF_OK)
            continue;
        if (fills(&next, problem, device)) {
            *choice = next;
            return GNF_OK;
        }
        if (next.blocks > best.blocks)
            best = next;
    }
    if (best.blocks < 0)
        return status;
    *choice = best;
    return GNF_OK;
}
