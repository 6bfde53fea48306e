#include "rotation.h"

#include "../plan.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 };

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Where a tensor goes: takes its bytes from the slab or from the small memory, and uploads it. */
static gnf_status place(struct session *session, const struct tensors *tensors, const struct tensor *tensor,
                        CUdeviceptr *next, const void *values, uint64_t *address)
{
    size_t bytes = (size_t)tensor->elements * gnf_dtype_size(tensors->problem->dtype);
    *address = *next;
    *next += rounded(bytes);
    return bytes > 0 ? GNF_CU(&session->context->driver, cuMemcpyHtoD, (*address, values, bytes)) : GNF_OK;
}

static uint64_t *address_of(const struct tensors *tensors, gnf_arguments *arguments, int which)
{
    if (tensors->weight >= 0 && which >= tensors->weight)
        return which == tensors->weight ? &arguments->weight : &arguments->bias;
    switch (which) {
    case TENSOR_X:
        return &arguments->x;
    case TENSOR_GAMMA:
        return &arguments->gamma;
    case TENSOR_BETA:
        return &arguments->beta;
    default:
        return &arguments->operand[which - TENSOR_OPERAND];
    }
}

static gnf_status fill(struct rotation *rotation, const struct tensors *tensors, size_t y_bytes)
{
    CUdeviceptr next = rotation->slab, next_small = rotation->small;
    gnf_status status = GNF_OK;
    size_t scratch_bytes = tensors_scratch_bytes(tensors);
    void *scratch = scratch_bytes > 0 ? malloc(scratch_bytes) : NULL;
    if (scratch == NULL && scratch_bytes > 0)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for a copy of %zu bytes", scratch_bytes);
    for (int i = 0; i < tensors->count && status == GNF_OK; i++) {
        const struct tensor *tensor = &tensors->at[i];
        bool full = tensor->broadcast == GNF_FULL;
        if (tensor->data == NULL)
            continue;
        const void *values = tensors_to_memory(tensors, i, scratch);
        for (int set = 0; set < rotation->sets && status == GNF_OK; set++) {
            uint64_t *address = address_of(tensors, &rotation->arguments[set], i);
            if (full || set == 0)
                status =
                    place(rotation->session, tensors, tensor, full ? &next : &next_small, values, address);
            else
                *address = *address_of(tensors, &rotation->arguments[0], i);
        }
    }
    free(scratch);
    for (int set = 0; set < rotation->sets; set++) {
        rotation->arguments[set].size = sizeof(gnf_arguments);
        rotation->arguments[set].y = next;
        next += rounded(y_bytes);
    }
    return status;
}

gnf_status rotation_create(struct rotation *rotation, struct session *session, const struct tensors *tensors)
{
    const struct gnf_driver *cuda = &session->context->driver;
    size_t element = gnf_dtype_size(tensors->problem->dtype);
    size_t y_bytes = (size_t)tensors->y_elements * element, set_bytes = rounded(y_bytes), small_bytes = 0;
    for (int i = 0; i < tensors->count; i++) {
        if (tensors->at[i].data == NULL)
            continue;
        *(tensors->at[i].broadcast == GNF_FULL ? &set_bytes : &small_bytes) +=
            rounded((size_t)tensors->at[i].elements * element);
    }
    *rotation = (struct rotation){.session = session};
    rotation->sets = timing_sets(session, (int64_t)set_bytes, (int64_t)(session->context->device.memory / 4));
    rotation->bytes = (int64_t)(set_bytes * (size_t)rotation->sets + small_bytes);
    if (tensors->weight >= 0)
        rotation->weight_bytes = tensors->at[tensors->weight].elements * (int64_t)element;
    rotation->arguments = calloc((size_t)rotation->sets, sizeof *rotation->arguments);
    gnf_status status = rotation->arguments != NULL
                            ? GNF_OK
                            : gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for %d sets", rotation->sets);
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuMemAlloc, (&rotation->slab, (size_t)rotation->sets * set_bytes + ALIGNMENT));
    if (status == GNF_OUT_OF_MEMORY && rotation->arguments != NULL)
        gnf_fail_more(status, " (to time with: %d times %zu bytes)", rotation->sets, set_bytes);
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuMemAlloc, (&rotation->small, small_bytes + ALIGNMENT));
    if (status == GNF_OK)
        status = fill(rotation, tensors, y_bytes);
    if (status != GNF_OK)
        rotation_free(rotation);
    return status;
}

void rotation_free(struct rotation *rotation)
{
    if (rotation->session == NULL)
        return;
    const struct gnf_driver *cuda = &rotation->session->context->driver;
    const CUdeviceptr memory[] = {rotation->slab, rotation->small, rotation->workspace};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        if (memory[i] != 0)
            cuda->cuMemFree(memory[i]);
    for (int i = 0; i < rotation->weight_count; i++)
        cuda->cuMemFree(rotation->weight[i].data);
    free(rotation->arguments);
    memset(rotation, 0, sizeof *rotation);
}

static gnf_status fit_workspace(struct rotation *rotation, const gnf_plan *plan, bool *moved)
{
    const struct gnf_driver *cuda = &rotation->session->context->driver;
    size_t wanted = gnf_plan_workspace_size(plan);
    *moved = wanted > rotation->workspace_size;
    if (!*moved)
        return GNF_OK;
    if (rotation->workspace != 0)
        cuda->cuMemFree(rotation->workspace);
    rotation->workspace = 0;
    rotation->workspace_size = 0;
    GNF_TRY(GNF_CU(cuda, cuMemAlloc, (&rotation->workspace, wanted)));
    rotation->workspace_size = wanted;
    for (int set = 0; set < rotation->sets; set++) {
        rotation->arguments[set].workspace = rotation->workspace;
        rotation->arguments[set].workspace_size = wanted;
    }
    return GNF_OK;
}

static gnf_status prepare_weight(struct rotation *rotation, const gnf_plan *plan, size_t bytes,
                                 CUdeviceptr *prepared)
{
    struct session *session = rotation->session;
    const struct gnf_driver *cuda = &session->context->driver;
    struct rotation_weight one = {plan->choice.variant->product.method, bytes, 0};
    for (int i = 0; i < rotation->weight_count; i++)
        if (rotation->weight[i].method == one.method && rotation->weight[i].bytes == bytes) {
            *prepared = rotation->weight[i].data;
            return GNF_OK;
        }
    if (rotation->weight_count == ROTATION_WEIGHTS)
        return gnf_fail(GNF_INVALID_ARGUMENT, "more than %d kinds of prepared weights", ROTATION_WEIGHTS);
    GNF_TRY(GNF_CU(cuda, cuMemAlloc, (&one.data, bytes)));
    rotation->weight[rotation->weight_count++] = one;
    *prepared = one.data;
    GNF_TRY(gnf_prepare_weight(plan, rotation->arguments[0].weight, one.data, bytes, session->stream));
    return session_wait(session);
}

gnf_status rotation_fit(struct rotation *rotation, struct rotation_run *run, bool *moved)
{
    gnf_plan_info info = {.size = sizeof info};
    GNF_TRY(fit_workspace(rotation, run->plan, moved));
    GNF_TRY(gnf_plan_get_info(run->plan, &info));
    run->prepared = 0;
    return info.prepared_size > 0 ? prepare_weight(rotation, run->plan, info.prepared_size, &run->prepared)
                                  : GNF_OK;
}

gnf_status rotation_launch(void *user, int set, CUstream stream)
{
    const struct rotation_run *run = user;
    gnf_arguments arguments = run->rotation->arguments[set];
    arguments.prepared = run->prepared;
    return gnf_execute(run->plan, &arguments, stream);
}
