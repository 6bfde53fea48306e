/* Which variant, and how large its launches are. */
#include "linear.h"
#include <inttypes.h>

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
    case GNF_SPAN_CHANNELS:
        return problem->channels;
    case GNF_SPAN_NONE:
        break;
    }
    return 1;
}

/* False where they do not fit 63 bits. */
static bool count_units(enum gnf_unit unit, const struct gnf_problem *problem, int64_t samples,
                        int64_t *units)
{
    switch (unit) {
    case GNF_UNIT_GROUP:
        return !__builtin_mul_overflow(samples, problem->groups, units);
    case GNF_UNIT_POSITION:
        return !__builtin_mul_overflow(samples, problem->spatial, units);
    case GNF_UNIT_OUTPUT:
        return !__builtin_mul_overflow(samples, problem->y_spatial, units);
    case GNF_UNIT_CHANNEL:
        *units = problem->channels;
        return true;
    case GNF_UNIT_SAMPLE:
        break;
    }
    *units = samples;
    return true;
}

static gnf_status too_large(const struct gnf_variant *variant, const char *what)
{
    return gnf_fail(GNF_TOO_LARGE, "variant '%s': %s do not fit 63 bits", variant->name, what);
}

gnf_status gnf_choice_launches(const struct gnf_variant *variant, const struct gnf_problem *problem,
                               int64_t samples, struct gnf_launch launch[GNF_MAX_KERNELS], int64_t *blocks)
{
    for (int i = 0; i < variant->kernel_count; i++) {
        const struct gnf_kernel *kernel = &variant->kernel[i];
        int64_t units, tiles = divide(span_elements(kernel->span, problem), kernel->tile);
        tiles = tiles < kernel->cap ? tiles : kernel->cap;
        if (!count_units(kernel->unit, problem, samples, &units) ||
            __builtin_mul_overflow(divide(units, kernel->units_per_block), tiles, blocks))
            return too_large(variant, "the blocks");
        launch[i].grid = (unsigned)(*blocks < MOST_BLOCKS ? *blocks : MOST_BLOCKS);
        launch[i].block = kernel->block;
        launch[i].shared_bytes = (unsigned)kernel->shared_bytes;
        launch[i].tiles = tiles;
    }
    return GNF_OK;
}

/* The first kernel of the tail, which without a product is the first of all. */
static int first_of_tail(const struct gnf_variant *variant)
{
    int i = 0;
    while (i + 1 < variant->kernel_count && variant->kernel[i].role != GNF_ROLE_TAIL)
        i++;
    return i;
}

gnf_status gnf_choice_size(struct gnf_choice *choice, const struct gnf_problem *problem)
{
    const struct gnf_variant *variant = choice->variant;
    int64_t rows = gnf_slab_rows(variant, problem, problem->samples), bytes;
    /* `blocks` becomes the last kernel's: the one that writes y. */
    GNF_TRY(gnf_choice_launches(variant, problem, rows, choice->launch, &choice->blocks));
    choice->chunks = variant->workspace ? choice->launch[first_of_tail(variant)].tiles : 0;
    if (__builtin_mul_overflow(rows, problem->groups, &bytes) ||
        __builtin_mul_overflow(bytes, choice->chunks, &bytes) ||
        __builtin_mul_overflow(bytes, variant->workspace, &bytes))
        return too_large(variant, "the bytes of the workspace");
    choice->workspace_size = (size_t)bytes;
    return variant->product.method == GNF_METHOD_NONE ? GNF_OK : gnf_linear_size(choice, problem);
}

unsigned gnf_variant_launches(const struct gnf_variant *variant)
{
    unsigned count = (unsigned)gnf_linear_gemms(variant->product.method);
    for (int i = 0; i < variant->kernel_count; i++)
        count +=
            variant->kernel[i].role != GNF_ROLE_WEIGHTS || variant->product.weights != GNF_WEIGHTS_PREPARED;
    return count;
}

/* A product for linear, for conv2d, or none. */
static bool is_for(const struct gnf_product *product, const struct gnf_problem *problem)
{
    bool own = product->method == GNF_METHOD_OWN;
    if (problem->conv.kernel)
        return own;
    if (problem->inputs)
        return product->method != GNF_METHOD_NONE && !(own && product->weights == GNF_WEIGHTS_EACH);
    return product->method == GNF_METHOD_NONE;
}

static gnf_status check_product(const struct gnf_variant *variant, const struct gnf_problem *problem,
                                const struct gnf_terms *terms, const struct gnf_device *device)
{
    const struct gnf_product *product = &variant->product;
    if (!is_for(product, problem))
        return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' is for another chain than one that starts with %s",
                        variant->name, problem->stage[0].op->name);
    if (product->samples_max && problem->samples > product->samples_max)
        return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' takes N up to %" PRId64 ": here it is %" PRId64,
                        variant->name, product->samples_max, problem->samples);
    if (product->inputs_max && problem->inputs > product->inputs_max)
        return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' takes C of x up to %" PRId64 ": here it is %" PRId64,
                        variant->name, product->inputs_max, problem->inputs);
    if (product->method == GNF_METHOD_TF32 && !problem->tf32)
        return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' is for linear(..., tf32)", variant->name);
    if (product->weights == GNF_WEIGHTS_PREPARED && !terms->prepared)
        return gnf_fail(
            GNF_INVALID_ARGUMENT,
            "variant '%s' needs a prepared weight: allowed are gnf_plan_options.prepared = 1, and gnfuse "
            "without --each-weight",
            variant->name);
    /* A prepared weight is for every plan of its problem: on one device they must not want it in two forms.
     */
    if (product->yields && !terms->named && device->capability == GNF_WGMMA_CAPABILITY && !terms->no_exact)
        return gnf_fail(GNF_NOT_SUPPORTED,
                        "variant '%s': on %s a prepared weight has the form of the wgmma variants",
                        variant->name, device->name);
    if (gnf_linear_gemms(product->method) && terms->no_cublaslt)
        return gnf_fail(GNF_NO_CUBLAS, "variant '%s' needs cuBLASLt, which cannot be loaded", variant->name);
    return GNF_OK;
}

static gnf_status check_kernels(const struct gnf_variant *variant, const struct gnf_device *device)
{
    for (int i = 0; i < variant->kernel_count; i++) {
        const struct gnf_kernel *kernel = &variant->kernel[i];
        if (kernel->shared_bytes > device->shared_block)
            return gnf_fail(GNF_NOT_SUPPORTED,
                            "variant '%s' needs %d bytes of shared memory a block: %s has %d", variant->name,
                            kernel->shared_bytes, device->name, device->shared_block);
        if (kernel->cluster > device->multiprocessors)
            return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' needs %d multiprocessors: %s has %d",
                            variant->name, kernel->cluster, device->name, device->multiprocessors);
    }
    return GNF_OK;
}

gnf_status gnf_choice_check(const struct gnf_choice *choice, const struct gnf_problem *problem,
                            const struct gnf_terms *terms, const struct gnf_device *device)
{
    const struct gnf_variant *variant = choice->variant;
    int64_t group = span_elements(GNF_SPAN_GROUP, problem);
    if (terms->alignment % variant->alignment)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "variant '%s' needs pointers aligned to %u bytes: the plan's alignment is %u",
                        variant->name, variant->alignment, terms->alignment);
    if (device->capability < variant->capability)
        return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' needs capability %d: %s has %d", variant->name,
                        variant->capability, device->name, device->capability);
    if (variant->exact && device->capability != variant->capability)
        return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' is for capability %d alone: %s has %d",
                        variant->name, variant->capability, device->name, device->capability);
    if (variant->exact && terms->no_exact)
        return gnf_fail(GNF_NOT_SUPPORTED, "variant '%s' cannot be compiled here", variant->name);
    if (variant->group_max && group > variant->group_max)
        return gnf_fail(GNF_NOT_SUPPORTED,
                        "variant '%s' takes groups of up to %" PRId64 " elements: here they have %" PRId64,
                        variant->name, variant->group_max, group);
    GNF_TRY(check_kernels(variant, device));
    return check_product(variant, problem, terms, device);
}

/* Blocks for half of the multiprocessors; or for a third where each has little to do, which splitting would
 * not make faster. Measured: plan.h. */
static bool fills(const struct gnf_choice *choice, const struct gnf_problem *problem,
                  const struct gnf_device *device)
{
    enum { LITTLE = 48 * 1024 }; /* bytes of what groupnorm sees */
    double bytes = (double)gnf_slab_rows(choice->variant, problem, problem->samples) *
                   (double)problem->channels * (double)problem->spatial *
                   (double)gnf_dtype_size(problem->dtype);
    return choice->blocks >= divide(device->multiprocessors, 2) ||
           (choice->blocks >= divide(device->multiprocessors, 3) && bytes <= (double)choice->blocks * LITTLE);
}

bool gnf_same_product(const struct gnf_product *a, const struct gnf_product *b)
{
    return a->method == b->method && a->weights == b->weights && a->chunks == b->chunks &&
           a->sums == b->sums && a->least == b->least && a->most == b->most &&
           a->samples_max == b->samples_max;
}

static bool is_meant_for(const struct gnf_product *product, int64_t samples)
{
    return samples >= product->least && (product->most == 0 || samples <= product->most);
}

/* Whether the last kernel's blocks may decide between the best so far and another. They say nothing of a
 * product in kernels of its own: linear's products are not compared by them, nor conv2d's strategies that
 * convolve themselves with tails of the fp32 product. The former come first in the pack, since they convolve
 * on tensor cores. */
static bool is_comparable(const struct gnf_product *best, const struct gnf_product *product,
                          const struct gnf_problem *problem)
{
    return problem->conv.kernel ? best->weights == product->weights : gnf_same_product(best, product);
}

/* Whether the rule looks at a variant, with what it has so far. `any`: whatever N it is meant for. */
static bool is_in_question(const struct gnf_choice *best, const struct gnf_product *product,
                           const struct gnf_problem *problem, bool any)
{
    if (best->variant && !is_comparable(&best->variant->product, product, problem))
        return false;
    return any || is_meant_for(product, problem->samples);
}

/* *best.variant stays NULL where none is legal. */
static gnf_status choose_among(struct gnf_choice *best, const struct gnf_pack *pack,
                               const struct gnf_variant *variants, int count,
                               const struct gnf_problem *problem, const struct gnf_terms *terms,
                               const struct gnf_device *device, bool any)
{
    gnf_status status = GNF_NOT_SUPPORTED;
    for (int i = 0; i < count; i++) {
        struct gnf_choice next = {.pack = pack, .variant = &variants[i]};
        if (!is_in_question(best, &variants[i].product, problem, any))
            continue;
        gnf_status legal = gnf_choice_check(&next, problem, terms, device);
        if (legal == GNF_OK)
            legal = gnf_choice_size(&next, problem);
        if (legal == GNF_TOO_LARGE)
            status = GNF_TOO_LARGE;
        if (legal != GNF_OK)
            continue;
        bool enough = fills(&next, problem, device);
        if (enough || !best->variant || next.blocks > best->blocks)
            *best = next;
        if (enough)
            break;
    }
    return status;
}

gnf_status gnf_choice_default(struct gnf_choice *choice, const struct gnf_pack *pack,
                              const struct gnf_variant *variants, int count,
                              const struct gnf_problem *problem, const struct gnf_terms *terms,
                              const struct gnf_device *device)
{
    gnf_status status = GNF_NOT_SUPPORTED;
    struct gnf_choice best = {.variant = NULL};
    for (int any = 0; any < 2 && !best.variant; any++)
        status = choose_among(&best, pack, variants, count, problem, terms, device, any);
    if (!best.variant)
        return status;
    *choice = best;
    return GNF_OK;
}
