#include "bindings.h"

#include "compare.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const struct bindings *bindings, int64_t elements)
{
    return (size_t)elements * gnf_dtype_size(bindings->tensors->problem->dtype);
}

static gnf_status upload(struct bindings *bindings, int which)
{
    return buffer_upload(bindings->session, &bindings->input[which],
                         tensors_to_memory(bindings->tensors, which, bindings->scratch));
}

static gnf_status create_buffers(struct bindings *bindings)
{
    const struct tensors *tensors = bindings->tensors;
    size_t element = bindings->misaligned ? gnf_dtype_size(tensors->problem->dtype) : 0;
    for (int i = 0; i < tensors->count; i++) {
        if (tensors->at[i].data == NULL)
            continue;
        GNF_TRY(buffer_create(bindings->session, &bindings->input[i],
                              bytes_of(bindings, tensors->at[i].elements),
                              element * (i == TENSOR_X          ? 1
                                         : i == tensors->weight ? 3
                                                                : 2)));
        GNF_TRY(upload(bindings, i));
    }
    if (bindings->shared < 0)
        GNF_TRY(buffer_create(bindings->session, &bindings->y, bytes_of(bindings, tensors->y_elements),
                              3 * element));
    return GNF_OK;
}

gnf_status bindings_create(struct bindings *bindings, struct session *session, const struct tensors *tensors,
                           bool misaligned, int shared)
{
    memset(bindings, 0, sizeof *bindings);
    bindings->session = session;
    bindings->tensors = tensors;
    bindings->misaligned = misaligned;
    bindings->shared = shared;
    size_t scratch = tensors_scratch_bytes(tensors);
    if (scratch > 0) {
        bindings->scratch = malloc(scratch);
        if (bindings->scratch == NULL)
            return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for %zu bytes", scratch);
    }
    gnf_status status = create_buffers(bindings);
    if (status != GNF_OK) {
        bindings_free(bindings);
        return status;
    }
    gnf_arguments *arguments = &bindings->arguments;
    arguments->size = sizeof *arguments;
    arguments->x = bindings->input[TENSOR_X].data;
    arguments->gamma = bindings->input[TENSOR_GAMMA].data;
    arguments->beta = bindings->input[TENSOR_BETA].data;
    for (int i = 0; i < tensors->problem->operand_count; i++)
        arguments->operand[i] = bindings->input[TENSOR_OPERAND + i].data;
    if (tensors->weight >= 0) {
        arguments->weight = bindings->input[tensors->weight].data;
        arguments->bias = bindings->input[tensors->weight + 1].data;
    }
    arguments->y = shared >= 0 ? bindings->input[shared].data : bindings->y.data;
    return GNF_OK;
}

void bindings_free(struct bindings *bindings)
{
    if (bindings->session == NULL)
        return;
    for (int i = 0; i < TENSORS_MAX; i++)
        buffer_free(bindings->session, &bindings->input[i]);
    buffer_free(bindings->session, &bindings->y);
    buffer_free(bindings->session, &bindings->workspace);
    buffer_free(bindings->session, &bindings->prepared);
    free(bindings->scratch);
    memset(bindings, 0, sizeof *bindings);
}

/* Exactly as large as the plan asks, so that its guard stands right behind it. */
static gnf_status fit_workspace(struct bindings *bindings, const gnf_plan *plan)
{
    size_t wanted = gnf_plan_workspace_size(plan);
    if (wanted != bindings->workspace.bytes) {
        buffer_free(bindings->session, &bindings->workspace);
        if (wanted > 0)
            GNF_TRY(buffer_create(bindings->session, &bindings->workspace, wanted, 0));
    } else if (wanted > 0) {
        GNF_TRY(buffer_poison(bindings->session, &bindings->workspace));
    }
    bindings->arguments.workspace = bindings->workspace.data;
    bindings->arguments.workspace_size = wanted;
    return GNF_OK;
}

/* Once a plan, as a program would: its executions must leave alone what was prepared. */
static gnf_status fit_prepared(struct bindings *bindings, const gnf_plan *plan)
{
    gnf_plan_info info = {.size = sizeof info};
    if (bindings->prepared_plan == plan)
        return GNF_OK;
    bindings->prepared_plan = NULL;
    buffer_free(bindings->session, &bindings->prepared);
    GNF_TRY(gnf_plan_get_info(plan, &info));
    if (info.prepared_size > 0) {
        GNF_TRY(buffer_create(bindings->session, &bindings->prepared, info.prepared_size, 0));
        GNF_TRY(gnf_prepare_weight(plan, bindings->arguments.weight, bindings->prepared.data,
                                   info.prepared_size, bindings->session->stream));
    }
    bindings->arguments.prepared = bindings->prepared.data;
    bindings->prepared_plan = plan;
    return GNF_OK;
}

gnf_status bindings_run(struct bindings *bindings, const gnf_plan *plan)
{
    GNF_TRY(fit_workspace(bindings, plan));
    GNF_TRY(fit_prepared(bindings, plan));
    if (bindings->shared < 0)
        GNF_TRY(buffer_poison(bindings->session, &bindings->y));
    else
        GNF_TRY(upload(bindings, bindings->shared)); /* the run before wrote over it */
    GNF_TRY(gnf_execute(plan, &bindings->arguments, bindings->session->stream));
    return session_wait(bindings->session);
}

gnf_status bindings_result(struct bindings *bindings, void *y)
{
    return buffer_download(bindings->session,
                           bindings->shared >= 0 ? &bindings->input[bindings->shared] : &bindings->y, y);
}

static gnf_status inspect_buffer(struct bindings *bindings, const struct buffer *buffer, const char *name,
                                 char *fault, size_t size)
{
    int place = 0;
    if (buffer->base == 0 || fault[0] != '\0')
        return GNF_OK;
    GNF_TRY(buffer_check_guards(bindings->session, buffer, &place));
    if (place != 0)
        snprintf(fault, size, "wrote outside %s: byte %d %s", name, place < 0 ? -place : place,
                 place < 0 ? "before its start" : "past its end");
    return GNF_OK;
}

gnf_status bindings_inspect(struct bindings *bindings, bool inputs, char *fault, size_t size)
{
    const struct tensors *tensors = bindings->tensors;
    fault[0] = '\0';
    GNF_TRY(inspect_buffer(bindings, &bindings->y, "y", fault, size));
    GNF_TRY(inspect_buffer(bindings, &bindings->workspace, "its workspace", fault, size));
    GNF_TRY(inspect_buffer(bindings, &bindings->prepared, "the prepared weight", fault, size));
    for (int i = 0; i < tensors->count; i++)
        GNF_TRY(inspect_buffer(bindings, &bindings->input[i], tensors->at[i].name, fault, size));
    for (int i = 0; i < tensors->count && inputs && fault[0] == '\0'; i++) {
        const struct tensor *tensor = &tensors->at[i];
        if (tensor->data == NULL || i == bindings->shared)
            continue;
        size_t bytes = bindings->input[i].bytes;
        void *now = malloc(bytes > 0 ? bytes : 1);
        if (now == NULL)
            return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for %zu bytes", bytes);
        gnf_status status = buffer_download(bindings->session, &bindings->input[i], now);
        if (status == GNF_OK && memcmp(now, tensors_to_memory(tensors, i, bindings->scratch), bytes) != 0)
            snprintf(fault, size, "changed %s, an input", tensor->name);
        free(now);
        GNF_TRY(status);
    }
    return GNF_OK;
}
