/* Sizes and launches of a product and its tail; what cuBLASLt does of it is in linear_gemms.c. */
#include "linear.h"
#include "gemm.h"
#include "range.h"

enum { PADDING = 128, SECTION = 256 /* bytes that what stands in the workspace is aligned to */ };
enum { TILE_ROWS = 128, TILE_DEPTH = 64 }; /* templates/lib/tiles.cuh */
/* Columns that the product kernel repairs together, and of how few it makes no stretch of their own. */
enum { STRETCH = 128, NO_STRETCH = 16 };

/* ---- sizes ---- */

/* Evenly dealt, so that the last slab does not leave most of the device idle. */
static int64_t conv_rows(const struct gnf_problem *problem, int64_t samples)
{
    int64_t most = GNF_CONV_SLAB / (int64_t)sizeof(float) / problem->spatial / problem->channels;
    most = most > 1 ? most : 1;
    int64_t slabs = (samples - 1) / most + 1;
    return (samples - 1) / slabs + 1;
}

int64_t gnf_slab_rows(const struct gnf_variant *variant, const struct gnf_problem *problem, int64_t samples)
{
    const struct gnf_product *product = &variant->product;
    if (product->method == GNF_METHOD_NONE || samples == 0)
        return samples;
    if (problem->conv.kernel)
        return product->sums ? conv_rows(problem, samples) : samples;
    return samples > GNF_SLAB + GNF_SLAB / 4 ? GNF_SLAB : samples;
}

int gnf_linear_gemms(enum gnf_method method)
{
    switch (method) {
    case GNF_METHOD_DIRECT:
    case GNF_METHOD_TF32:
    case GNF_METHOD_FP16X1:
        return 1;
    case GNF_METHOD_FP16X3:
        return 2;
    case GNF_METHOD_NONE:
    case GNF_METHOD_OWN:
    case GNF_METHOD_WGMMA:
        break;
    }
    return 0;
}

static int64_t round_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by * by;
}

/* Puts count * size bytes at the end, which becomes -1 where it leaves 63 bits. */
static size_t put(int64_t *end, int64_t count, int64_t size)
{
    int64_t at = *end, bytes;
    if (at < 0 || __builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(at, bytes, end) ||
        __builtin_add_overflow(*end, SECTION - 1, end))
        *end = -1;
    else
        *end -= *end % SECTION;
    return (size_t)at;
}

/* Of operands split for a matrix product. False where a split row does not fit 63 bits. */
static bool put_split(struct gnf_linear *linear, const struct gnf_product *product,
                      const struct gnf_problem *problem, int64_t *end, int64_t *weights)
{
    int64_t stretches = (problem->channels > NO_STRETCH ? problem->channels - NO_STRETCH : 0) / STRETCH + 1;
    bool tiled = product->method == GNF_METHOD_WGMMA;
    int64_t row; /* in bytes */
    linear->padded = round_up(problem->inputs, tiled ? TILE_DEPTH : PADDING);
    if (__builtin_mul_overflow(linear->padded, tiled || product->method == GNF_METHOD_FP16X3 ? 4 : 2, &row))
        return false;
    linear->row_scale = put(end, linear->rows, sizeof(float));
    linear->row_norm = put(end, linear->rows, sizeof(float));
    linear->repaired = put(end, linear->rows, stretches);
    linear->split_x = put(end, round_up(linear->rows, tiled ? TILE_ROWS : 1), row);
    linear->column_scale = put(weights, problem->channels, sizeof(float));
    linear->column_norm = put(weights, problem->channels, sizeof(float));
    linear->split_weight = put(weights, round_up(problem->channels, tiled ? TILE_ROWS : 1), row);
    return true;
}

/* Where everything stands. False where the workspace does not fit 63 bits. */
static bool lay_out(struct gnf_choice *choice, const struct gnf_problem *problem)
{
    const struct gnf_product *product = &choice->variant->product;
    struct gnf_linear *linear = &choice->linear;
    int64_t end = 0, prepared = 0, sums, row;
    int64_t *weights = product->weights == GNF_WEIGHTS_PREPARED ? &prepared : &end;
    if (__builtin_mul_overflow(problem->channels * problem->spatial, sizeof(float), &row) ||
        __builtin_mul_overflow(linear->rows, product->sums, &sums))
        return false;
    linear->product = put(&end, sums, row);
    if (gnf_is_split(product->method)) {
        if (!put_split(linear, product, problem, &end, weights))
            return false;
    } else if (product->weights == GNF_WEIGHTS_EACH) {
        linear->row_scale = put(&end, linear->rows, sizeof(float));
        linear->column_scale = put(&end, problem->channels, sizeof(float));
        linear->split_weight = put(&end, product->weight_bytes, 1);
    }
    linear->chunks = put(&end, 1, (int64_t)choice->workspace_size);
    linear->cublaslt = (size_t)end;
    if (gnf_linear_gemms(product->method))
        put(&end, 1, GNF_GEMM_WORKSPACE + GNF_GEMM_SLACK);
    linear->prepared = (size_t)prepared;
    choice->workspace_size = (size_t)end;
    return end >= 0 && prepared >= 0;
}

gnf_status gnf_linear_size(struct gnf_choice *choice, const struct gnf_problem *problem)
{
    struct gnf_linear *linear = &choice->linear;
    struct gnf_launch last[GNF_MAX_KERNELS];
    int64_t blocks;
    linear->rows = gnf_slab_rows(choice->variant, problem, problem->samples);
    if (!linear->rows) {
        choice->workspace_size = 0;
        return GNF_OK;
    }
    linear->slabs = (problem->samples - 1) / linear->rows + 1;
    linear->last_rows = problem->samples - (linear->slabs - 1) * linear->rows;
    GNF_TRY(gnf_choice_launches(choice->variant, problem, linear->last_rows, last, &blocks));
    for (int i = 0; i < choice->variant->kernel_count; i++)
        linear->last_grid[i] = last[i].grid;
    if (!lay_out(choice, problem))
        return gnf_fail(GNF_TOO_LARGE, "variant '%s': the bytes of the workspace do not fit 63 bits",
                        choice->variant->name);
    return GNF_OK;
}

/* ---- launches ---- */

static void *at(const void *base, size_t offset)
{
    return (void *)((uintptr_t)base + offset);
}

/* The workspace itself is aligned to less. */
static void *align(void *pointer)
{
    uintptr_t address = (uintptr_t)pointer + GNF_GEMM_SLACK;
    return (void *)(address - address % GNF_GEMM_WORKSPACE_ALIGNMENT);
}

static void take_weights(const struct gnf_choice *choice, struct gnf_kernel_args *args, const void *base)
{
    args->column_scale = at(base, choice->linear.column_scale);
    args->split_weight = at(base, choice->linear.split_weight);
    if (!gnf_is_split(choice->variant->product.method))
        return;
    args->padded = choice->linear.padded;
    args->column_norm = at(base, choice->linear.column_norm);
}

static void take_workspace(const struct gnf_choice *choice, struct gnf_kernel_args *args, uint64_t prepared)
{
    const struct gnf_linear *linear = &choice->linear;
    const struct gnf_product *product = &choice->variant->product;
    const void *workspace = args->workspace;
    args->product = at(workspace, linear->product);
    args->workspace = at(workspace, linear->chunks);
    args->chunks = choice->chunks;
    if (product->weights == GNF_WEIGHTS_GIVEN)
        return;
    args->row_scale = at(workspace, linear->row_scale);
    take_weights(choice, args, linear->prepared ? (const void *)(uintptr_t)prepared : workspace);
    if (!gnf_is_split(product->method))
        return;
    args->row_norm = at(workspace, linear->row_norm);
    args->repaired = at(workspace, linear->repaired);
    args->split_x = at(workspace, linear->split_x);
}

/* One slab at work. */
struct slab {
    const struct gnf_plan *plan;
    const struct gnf_choice *choice;
    struct gnf_kernel_args *args;
    void *cublaslt; /* its workspace */
    CUstream stream;
    bool first, last;
    bool dependent; /* kernels may start before what is in front of them has ended: not the very first launch
                     */
};

/* A kernel waits for what it needs itself, if it was compiled for a capability that can; a capture knows of
 * it from CUDA 12.3 on. */
static bool can_overlap(const struct gnf_device *device, const struct gnf_launch *launch)
{
    return launch->capability >= 90 && device->driver_version >= 12030;
}

static gnf_status launch_role(struct slab *slab, enum gnf_role role)
{
    const struct gnf_choice *choice = slab->choice;
    for (int i = 0; i < choice->variant->kernel_count; i++) {
        if (choice->variant->kernel[i].role != role)
            continue;
        bool overlap = slab->dependent && can_overlap(&slab->plan->context->device, &choice->launch[i]);
        unsigned grid = slab->last ? choice->linear.last_grid[i] : choice->launch[i].grid;
        GNF_TRY(gnf_choice_launch(slab->plan, choice, i, grid, overlap, slab->args, slab->stream));
        slab->dependent = true;
    }
    return GNF_OK;
}

static gnf_status run_slab(struct slab *slab)
{
    const struct gnf_product *product = &slab->choice->variant->product;
    if (slab->first && product->weights == GNF_WEIGHTS_EACH)
        GNF_TRY(launch_role(slab, GNF_ROLE_WEIGHTS));
    GNF_TRY(launch_role(slab, GNF_ROLE_INPUTS));
    for (int i = 0; i < gnf_linear_gemms(product->method); i++) {
        GNF_TRY(gnf_linear_multiply(slab->choice, slab->args, i, slab->cublaslt, slab->stream));
        slab->dependent = true;
    }
    GNF_TRY(launch_role(slab, GNF_ROLE_PRODUCT));
    return launch_role(slab, GNF_ROLE_TAIL);
}

/* To the rows behind this slab's. */
static void advance(const struct gnf_plan *plan, struct gnf_kernel_args *args)
{
    const struct gnf_problem *problem = &plan->problem;
    size_t size = gnf_dtype_size(problem->dtype), rows = (size_t)args->samples;
    size_t pixel = rows * (size_t)problem->channels * size; /* an element of each channel */
    args->x = at(args->x, rows * (size_t)(problem->inputs * problem->x_spatial) * size);
    args->y = at(args->y, rows * (size_t)(problem->y_channels * problem->y_spatial) * size);
    for (int i = 0; i < problem->operand_count; i++)
        if (problem->operand[i].broadcast == GNF_FULL)
            args->operand[i] = at(args->operand[i], pixel * (size_t)problem->operand[i].spatial);
}

gnf_status gnf_linear_execute(const struct gnf_plan *plan, const struct gnf_choice *choice,
                              struct gnf_kernel_args *args, uint64_t prepared, CUstream stream)
{
    const struct gnf_linear *linear = &choice->linear;
    struct slab slab = {
        .plan = plan,
        .choice = choice,
        .args = args,
        .cublaslt = align(at(args->workspace, linear->cublaslt)),
        .stream = stream,
    };
    take_workspace(choice, args, prepared);
    for (int64_t i = 0; i < linear->slabs; i++) {
        slab.first = i == 0;
        slab.last = i == linear->slabs - 1;
        args->samples = slab.last ? linear->last_rows : linear->rows;
        GNF_TRY(run_slab(&slab));
        advance(plan, args);
    }
    return GNF_OK;
}

static gnf_status check_prepared(const struct gnf_plan *plan, uint64_t weight, uint64_t prepared,
                                 size_t prepared_size)
{
    const struct gnf_linear *linear = &plan->choice.linear;
    uint64_t element = gnf_dtype_size(plan->problem.dtype);
    const struct gnf_range given = {
        "weight", weight, (uint64_t)plan->problem.inputs * (uint64_t)plan->problem.channels * element};
    const struct gnf_range filled = {"prepared", prepared, linear->prepared};
    if (prepared_size < linear->prepared)
        return gnf_fail(GNF_INVALID_ARGUMENT, "prepared_size = %zu: allowed are %zu bytes and more",
                        prepared_size, linear->prepared);
    GNF_TRY(gnf_range_check(&given, element));
    GNF_TRY(gnf_range_check(&filled, GNF_WORKSPACE_ALIGNMENT));
    return gnf_range_apart(&filled, &given, false);
}

gnf_status gnf_prepare_weight(const gnf_plan *plan, uint64_t weight, uint64_t prepared, size_t prepared_size,
                              gnf_stream stream)
{
    CUcontext before;
    if (!plan)
        return gnf_fail(GNF_INVALID_ARGUMENT, "plan is null");
    if (plan->empty)
        return GNF_OK;
    if (!plan->choice.linear.prepared)
        return !prepared_size
                   ? GNF_OK
                   : gnf_fail(GNF_INVALID_ARGUMENT,
                              "prepared_size = %zu: allowed is 0, since this plan (variant '%s') takes the "
                              "weight as it is%s",
                              prepared_size, plan->choice.variant->name,
                              plan->problem.conv.kernel
                                  ? ", as every plan with conv2d does"
                                  : "; prepare with a plan whose prepared_size is not 0");
    GNF_TRY(check_prepared(plan, weight, prepared, prepared_size));
    struct gnf_kernel_args args = plan->args;
    args.weight = (const void *)(uintptr_t)weight;
    take_weights(&plan->choice, &args, (const void *)(uintptr_t)prepared);
    struct slab slab = {.plan = plan, .choice = &plan->choice, .args = &args, .stream = stream};
    GNF_TRY(gnf_current_enter(&plan->context->driver, plan->context->cuda, &before));
    gnf_status status = launch_role(&slab, GNF_ROLE_WEIGHTS);
    if (before != plan->context->cuda)
        gnf_current_leave(&plan->context->driver, before);
    return status;
}
