#include "linear.h"
#include "range.h"

/* A tensor that kernels read, against those that they write. `same`: y may be this very tensor. */
static gnf_status check_read(const struct gnf_range *tensor, const struct gnf_range *y,
                             const struct gnf_range *workspace, bool same)
{
    GNF_TRY(gnf_range_apart(y, tensor, same));
    return workspace->size ? gnf_range_apart(workspace, tensor, false) : GNF_OK;
}

/* One that may be null; the caller knows how its address counts. */
static gnf_status check_optional(const struct gnf_range *tensor, uint64_t element, const struct gnf_range *y,
                                 const struct gnf_range *workspace)
{
    if (!tensor->at)
        return GNF_OK;
    GNF_TRY(gnf_range_check(tensor, element));
    return check_read(tensor, y, workspace, false);
}

static gnf_status check_workspace(const struct gnf_plan *plan, const gnf_arguments *arguments,
                                  struct gnf_range *workspace)
{
    *workspace = (struct gnf_range){"workspace", arguments->workspace, plan->workspace_size};
    if (!plan->workspace_size)
        return GNF_OK;
    if (arguments->workspace_size < plan->workspace_size)
        return gnf_fail(GNF_INVALID_ARGUMENT, "workspace_size = %zu: allowed are %zu bytes and more",
                        arguments->workspace_size, plan->workspace_size);
    return gnf_range_check(workspace, GNF_WORKSPACE_ALIGNMENT);
}

static gnf_status check_operands(const struct gnf_plan *plan, const gnf_arguments *arguments,
                                 const struct gnf_range *y, const struct gnf_range *workspace,
                                 struct gnf_kernel_args *args, uint64_t *bits)
{
    const struct gnf_problem *problem = &plan->problem;
    uint64_t element = gnf_dtype_size(problem->dtype), channel = (uint64_t)problem->channels * element;
    for (int i = 0; i < problem->operand_count; i++) {
        enum gnf_broadcast broadcast = problem->operand[i].broadcast;
        struct gnf_range operand = {problem->operand[i].name, arguments->operand[i], element};
        operand.size = broadcast == GNF_SCALAR ? element : channel;
        if (broadcast == GNF_FULL)
            operand.size *= (uint64_t)(problem->samples * problem->operand[i].spatial);
        GNF_TRY(gnf_range_check(&operand, element));
        GNF_TRY(check_read(&operand, y, workspace, gnf_problem_in_place(problem, i)));
        *bits |= operand.at;
        args->operand[i] = (const void *)(uintptr_t)operand.at;
    }
    return GNF_OK;
}

/* Of linear or conv2d. */
static gnf_status check_weight(const struct gnf_plan *plan, const gnf_arguments *arguments,
                               const struct gnf_range *y, const struct gnf_range *workspace,
                               struct gnf_kernel_args *args, uint64_t *bits)
{
    const struct gnf_problem *problem = &plan->problem;
    uint64_t element = gnf_dtype_size(problem->dtype), channel = (uint64_t)problem->channels * element;
    uint64_t side = problem->conv.kernel ? (uint64_t)problem->conv.kernel : 1;
    const struct gnf_range weight = {"weight", arguments->weight,
                                     (uint64_t)problem->inputs * side * side * channel};
    const struct gnf_range bias = {"bias", arguments->bias, channel};
    const struct gnf_range prepared = {"prepared", arguments->prepared, plan->choice.linear.prepared};
    if (!problem->inputs)
        return GNF_OK;
    GNF_TRY(gnf_range_check(&weight, element));
    GNF_TRY(check_read(&weight, y, workspace, false));
    GNF_TRY(check_optional(&bias, element, y, workspace));
    if (prepared.size) {
        GNF_TRY(gnf_range_check(&prepared, GNF_WORKSPACE_ALIGNMENT));
        GNF_TRY(check_read(&prepared, y, workspace, false));
    }
    *bits |= weight.at | bias.at;
    args->weight = (const void *)(uintptr_t)weight.at;
    args->bias = (const void *)(uintptr_t)bias.at;
    return GNF_OK;
}

/* Checks every pointer and puts it into the kernel's arguments; `bits` becomes the union of the addresses'
 * bits. */
static gnf_status take_pointers(const struct gnf_plan *plan, const gnf_arguments *arguments,
                                struct gnf_kernel_args *args, uint64_t *bits)
{
    uint64_t element = gnf_dtype_size(plan->problem.dtype);
    uint64_t channel = (uint64_t)plan->problem.channels * element;
    const struct gnf_range x = {"x", arguments->x, (uint64_t)plan->x_elements * element},
                           y = {"y", arguments->y, (uint64_t)plan->y_elements * element};
    const struct gnf_range gamma = {"gamma", arguments->gamma, channel},
                           beta = {"beta", arguments->beta, channel};
    struct gnf_range workspace;

    GNF_TRY(gnf_range_check(&x, element));
    GNF_TRY(gnf_range_check(&y, element));
    GNF_TRY(check_workspace(plan, arguments, &workspace));
    if (workspace.size)
        GNF_TRY(gnf_range_apart(&workspace, &y, false));
    GNF_TRY(check_read(&x, &y, &workspace, gnf_problem_in_place(&plan->problem, -1)));
    GNF_TRY(check_optional(&gamma, element, &y, &workspace));
    GNF_TRY(check_optional(&beta, element, &y, &workspace));
    *bits = x.at | y.at | gamma.at | beta.at;
    GNF_TRY(check_operands(plan, arguments, &y, &workspace, args, bits));
    GNF_TRY(check_weight(plan, arguments, &y, &workspace, args, bits));
    args->x = (const void *)(uintptr_t)x.at;
    args->y = (void *)(uintptr_t)y.at;
    args->gamma = (const void *)(uintptr_t)gamma.at;
    args->beta = (const void *)(uintptr_t)beta.at;
    args->workspace = (void *)(uintptr_t)workspace.at;
    return GNF_OK;
}

/* Blocks of a cluster wait for each other, so only whole ones; of a kernel that loops, more than find room at
 * once would only come later. One cluster does: gnf_choice_check(). */
static unsigned whole_clusters(const struct gnf_kernel *kernel, unsigned grid, int multiprocessors)
{
    unsigned cluster = (unsigned)kernel->cluster, most = (unsigned)multiprocessors;
    if (!cluster)
        return grid;
    grid += (cluster - grid % cluster) % cluster;
    most -= most % cluster;
    return grid < most ? grid : most;
}

gnf_status gnf_choice_launch(const struct gnf_plan *plan, const struct gnf_choice *choice, int i,
                             unsigned grid, bool overlap, struct gnf_kernel_args *args, CUstream stream)
{
    const struct gnf_driver *driver = &plan->context->driver;
    const struct gnf_launch *row = &choice->launch[i];
    const struct gnf_kernel *kernel = &choice->variant->kernel[i];
    void *parameters[] = {args};
    grid = whole_clusters(kernel, grid, plan->context->device.multiprocessors);
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value = {.programmaticStreamSerializationAllowed = 1}};
    const CUlaunchConfig config = {
        .gridDimX = grid,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = row->block,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = row->shared_bytes,
        .hStream = stream,
        .attrs = overlap ? &attribute : NULL,
        .numAttrs = overlap,
    };
    args->tiles = row->tiles;
    CUresult result = driver->cuLaunchKernelEx(&config, row->function, parameters, NULL);
    if (result == CUDA_SUCCESS)
        return GNF_OK;
    gnf_status status = gnf_driver_check(driver, result, "cuLaunchKernelEx");
    return gnf_fail_more(status, " (kernel %s, grid %u, block %u, %u bytes shared)", kernel->entry, grid,
                         row->block, row->shared_bytes);
}

static gnf_status launch(const struct gnf_plan *plan, const struct gnf_choice *choice,
                         struct gnf_kernel_args *args, uint64_t prepared, CUstream stream)
{
    if (plan->problem.inputs)
        return gnf_linear_execute(plan, choice, args, prepared, stream);
    args->chunks = choice->chunks;
    for (int i = 0; i < choice->variant->kernel_count; i++)
        GNF_TRY(gnf_choice_launch(plan, choice, i, choice->launch[i].grid, false, args, stream));
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
    bool aligned = !(bits & (plan->choice.alignment - 1));
    GNF_TRY(gnf_current_enter(&plan->context->driver, plan->context->cuda, &before));
    gnf_status status =
        launch(plan, aligned ? &plan->choice : &plan->fallback, &args, arguments.prepared, stream);
    if (before != plan->context->cuda)
        gnf_current_leave(&plan->context->driver, before);
    return status;
}
