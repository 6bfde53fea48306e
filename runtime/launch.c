#include "plan.h"
#include <inttypes.h>

enum { WORKSPACE_ALIGNMENT = 16 };

/* A tensor of one execution; sizes in bytes. */
struct range {
    const char *name;
    uint64_t at;
    uint64_t size;
};

static bool overlap(const struct range *a, const struct range *b)
{
    return a->at < b->at + b->size && b->at < a->at + a->size;
}

static gnf_status refuse_overlap(const struct range *written, const struct range *other, const char *allowed)
{
    return gnf_fail(GNF_INVALID_ARGUMENT,
                    "%s = 0x%" PRIx64 " (%" PRIu64 " bytes) overlaps %s = 0x%" PRIx64 " (%" PRIu64
                    " bytes): %s",
                    written->name, written->at, written->size, other->name, other->at, other->size, allowed);
}

/* A tensor that kernels read, against those that they write. `same`: y may be this very tensor. */
static gnf_status check_read(const struct range *tensor, const struct range *y, const struct range *workspace,
                             bool same)
{
    if (overlap(tensor, y) && !(same && tensor->at == y->at))
        return refuse_overlap(y, tensor,
                              same ? "allowed are the same address or none of its bytes"
                                   : "allowed is none of its bytes");
    if (workspace->size && overlap(tensor, workspace))
        return refuse_overlap(workspace, tensor, "allowed is none of its bytes");
    return GNF_OK;
}

static gnf_status check_address(const struct range *tensor, uint64_t element)
{
    if (!tensor->at)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s is null: allowed is a device address of %" PRIu64 " bytes",
                        tensor->name, tensor->size);
    if (tensor->at % element)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "%s = 0x%" PRIx64 ": allowed are multiples of %" PRIu64 " bytes", tensor->name,
                        tensor->at, element);
    if (tensor->size > UINT64_MAX - tensor->at)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "%s = 0x%" PRIx64 ": its %" PRIu64 " bytes end past the last address", tensor->name,
                        tensor->at, tensor->size);
    return GNF_OK;
}

static gnf_status check_workspace(const struct gnf_plan *plan, const gnf_arguments *arguments,
                                  struct range *workspace)
{
    *workspace = (struct range){"workspace", arguments->workspace, plan->workspace_size};
    if (!plan->workspace_size)
        return GNF_OK;
    if (arguments->workspace_size < plan->workspace_size)
        return gnf_fail(GNF_INVALID_ARGUMENT, "workspace_size = %zu: allowed are %zu bytes and more",
                        arguments->workspace_size, plan->workspace_size);
    return check_address(workspace, WORKSPACE_ALIGNMENT);
}

/* Checks every pointer and puts it into the kernel's arguments; `bits` becomes the union of the addresses'
 * bits. */
static gnf_status take_pointers(const struct gnf_plan *plan, const gnf_arguments *arguments,
                                struct gnf_kernel_args *args, uint64_t *bits)
{
    const struct gnf_problem *problem = &plan->problem;
    uint64_t element = gnf_dtype_size(problem->dtype), channel = (uint64_t)problem->channels * element;
    uint64_t full = (uint64_t)plan->x_elements * element;
    const struct range x = {"x", arguments->x, full},
                       y = {"y", arguments->y, (uint64_t)plan->y_elements * element};
    const struct range gamma = {"gamma", arguments->gamma, channel},
                       beta = {"beta", arguments->beta, channel};
    struct range workspace;

    GNF_TRY(check_address(&x, element));
    GNF_TRY(check_address(&y, element));
    GNF_TRY(check_workspace(plan, arguments, &workspace));
    if (workspace.size && overlap(&workspace, &y))
        return refuse_overlap(&workspace, &y, "allowed is none of its bytes");
    GNF_TRY(check_read(&x, &y, &workspace, plan->in_place));
    if (gamma.at) {
        GNF_TRY(check_address(&gamma, element));
        GNF_TRY(check_read(&gamma, &y, &workspace, false));
    }
    if (beta.at) {
        GNF_TRY(check_address(&beta, element));
        GNF_TRY(check_read(&beta, &y, &workspace, false));
    }
    *bits = x.at | y.at | gamma.at | beta.at;
    for (int i = 0; i < problem->operand_count; i++) {
        enum gnf_broadcast broadcast = problem->operand[i].broadcast;
        struct range operand = {problem->operand[i].name, arguments->operand[i], element};
        operand.size = broadcast == GNF_FULL ? full : broadcast == GNF_CHANNEL ? channel : element;
        GNF_TRY(check_address(&operand, element));
        GNF_TRY(check_read(&operand, &y, &workspace, plan->in_place && broadcast == GNF_FULL));
        *bits |= operand.at;
        args->operand[i] = (const void *)(uintptr_t)operand.at;
    }
    args->x = (const void *)(uintptr_t)x.at;
    args->y = (void *)(uintptr_t)y.at;
    args->gamma = (const void *)(uintptr_t)gamma.at;
    args->beta = (const void *)(uintptr_t)beta.at;
    args->workspace = (void *)(uintptr_t)workspace.at;
    return GNF_OK;
}

static gnf_status launch(const struct gnf_plan *plan, const struct gnf_choice *choice,
                         struct gnf_kernel_args *args, CUstream stream)
{
    const struct gnf_driver *driver = &plan->context->driver;
    void *parameters[] = {args};
    args->chunks = choice->chunks;
    for (int i = 0; i < choice->variant->kernel_count; i++) {
        const struct gnf_launch *row = &choice->launch[i];
        const CUlaunchConfig config = {
            .gridDimX = row->grid,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = row->block,
            .blockDimY = 1,
            .blockDimZ = 1,
            .sharedMemBytes = row->shared_bytes,
            .hStream = stream,
        };
        args->tiles = row->tiles;
        CUresult result = driver->cuLaunchKernelEx(&config, row->function, parameters, NULL);
        if (result != CUDA_SUCCESS) {
            gnf_status status = gnf_driver_check(driver, result, "cuLaunchKernelEx");
            return gnf_fail_more(status, " (kernel %s, grid %u, block %u, %u bytes shared)",
                                 choice->variant->kernel[i].entry, row->grid, row->block, row->shared_bytes);
        }
    }
    return GNF_OK;
}

gnf_status gnf_execute(const gnf_plan *plan, const gnf_arguments *given, gnf_stream stream)
{
    gnf_arguments arguments;
    CUcontext before;
    uint64_t bits = 0;
    if (!plan)
        return gnf_fail(GNF_INVALID_ARGUMENT, "plan is null");
    if (!given)
        return gnf_fail(GNF_INVALID_ARGUMENT, "arguments is null");
    GNF_TRY(gnf_struct_read(given, &arguments, sizeof arguments, "arguments"));
    if (plan->empty)
        return GNF_OK;
    struct gnf_kernel_args args = plan->args;
    GNF_TRY(take_pointers(plan, &arguments, &args, &bits));
    bool aligned = !(bits & (plan->choice.variant->alignment - 1));
    GNF_TRY(gnf_current_enter(&plan->context->driver, plan->context->cuda, &before));
    gnf_status status = launch(plan, aligned ? &plan->choice : &plan->fallback, &args, stream);
    if (before != plan->context->cuda)
        gnf_current_leave(&plan->context->driver, before);
    return status;
}
