#include "bench.h"

#include "../plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 40, ALIGNMENT = 256 };

/* Device memory for `sets` executions: full tensors once a set, the small ones once. */
struct rotation {
    struct session *session;
    const gnf_plan *plan;
    int sets;
    CUdeviceptr slab, small;
    gnf_arguments *arguments; /* one a set */
};

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

static uint64_t *address_of(gnf_arguments *arguments, int which)
{
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
    const struct gnf_problem *problem = tensors->problem;
    CUdeviceptr next = rotation->slab, next_small = rotation->small;
    uint64_t workspace = next_small;
    next_small += rounded(gnf_plan_workspace_size(rotation->plan));
    void *scratch = malloc((size_t)tensors->at[TENSOR_X].elements * gnf_dtype_size(problem->dtype) + 1);
    gnf_status status =
        scratch != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for a copy of x");
    for (int i = 0; i < tensors->count && status == GNF_OK; i++) {
        const struct tensor *tensor = &tensors->at[i];
        bool full = tensor->broadcast == GNF_FULL;
        if (tensor->data == NULL)
            continue;
        if (full)
            tensors_to_memory(problem, tensors->samples, problem->channels, tensor->data, scratch);
        for (int set = 0; set < rotation->sets && status == GNF_OK; set++) {
            uint64_t *address = address_of(&rotation->arguments[set], i);
            if (full || set == 0)
                status = place(rotation->session, tensors, tensor, full ? &next : &next_small,
                               full ? scratch : tensor->data, address);
            else
                *address = *address_of(&rotation->arguments[0], i);
        }
    }
    free(scratch);
    for (int set = 0; set < rotation->sets; set++) {
        rotation->arguments[set].size = sizeof(gnf_arguments);
        rotation->arguments[set].y = next;
        rotation->arguments[set].workspace = workspace;
        rotation->arguments[set].workspace_size = gnf_plan_workspace_size(rotation->plan);
        next += rounded(y_bytes);
    }
    return status;
}

static void rotation_destroy(struct rotation *rotation)
{
    const struct gnf_driver *cuda = &rotation->session->context->driver;
    if (rotation->slab != 0)
        cuda->cuMemFree(rotation->slab);
    if (rotation->small != 0)
        cuda->cuMemFree(rotation->small);
    free(rotation->arguments);
}

static gnf_status rotation_create(struct rotation *rotation, struct session *session,
                                  const struct tensors *tensors, const gnf_plan *plan)
{
    const struct gnf_driver *cuda = &session->context->driver;
    size_t element = gnf_dtype_size(tensors->problem->dtype);
    size_t y_bytes = (size_t)tensors->y_elements * element, set_bytes = rounded(y_bytes);
    size_t small_bytes = rounded(gnf_plan_workspace_size(plan));
    for (int i = 0; i < tensors->count; i++) {
        if (tensors->at[i].data == NULL)
            continue;
        *(tensors->at[i].broadcast == GNF_FULL ? &set_bytes : &small_bytes) +=
            rounded((size_t)tensors->at[i].elements * element);
    }
    *rotation = (struct rotation){.session = session, .plan = plan};
    rotation->sets = timing_sets(session, (int64_t)set_bytes, (int64_t)(session->context->device.memory / 4));
    rotation->arguments = calloc((size_t)rotation->sets, sizeof *rotation->arguments);
    gnf_status status = rotation->arguments != NULL
                            ? GNF_OK
                            : gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for %d sets", rotation->sets);
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuMemAlloc, (&rotation->slab, (size_t)rotation->sets * set_bytes));
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuMemAlloc, (&rotation->small, small_bytes + ALIGNMENT));
    if (status == GNF_OK)
        status = fill(rotation, tensors, y_bytes);
    if (status != GNF_OK)
        rotation_destroy(rotation);
    return status;
}

static gnf_status execute(void *user, int set, CUstream stream)
{
    const struct rotation *rotation = user;
    return gnf_execute(rotation->plan, &rotation->arguments[set], stream);
}

/* The same launches without the library: what is left of gnf_execute's time is its own. */
static gnf_status bare_launches(const struct rotation *rotation, struct gnf_kernel_args *args,
                                CUstream stream)
{
    const struct gnf_choice *choice = &rotation->plan->choice;
    void *parameters[] = {args};
    for (int i = 0; i < choice->variant->kernel_count; i++) {
        const struct gnf_launch *launch = &choice->launch[i];
        CUlaunchConfig config = {
            .gridDimX = launch->grid,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = launch->block,
            .blockDimY = 1,
            .blockDimZ = 1,
            .sharedMemBytes = launch->shared_bytes,
            .hStream = stream,
        };
        args->tiles = launch->tiles;
        GNF_TRY(GNF_CU(&rotation->session->context->driver, cuLaunchKernelEx,
                       (&config, launch->function, parameters, NULL)));
    }
    return GNF_OK;
}

static struct gnf_kernel_args kernel_args(const struct rotation *rotation)
{
    const gnf_arguments *from = &rotation->arguments[0];
    struct gnf_kernel_args args = rotation->plan->args;
    args.x = (const void *)(uintptr_t)from->x;
    args.y = (void *)(uintptr_t)from->y;
    args.gamma = (const void *)(uintptr_t)from->gamma;
    args.beta = (const void *)(uintptr_t)from->beta;
    args.workspace = (void *)(uintptr_t)from->workspace;
    for (int i = 0; i < GNF_MAX_OPERANDS; i++)
        args.operand[i] = (const void *)(uintptr_t)from->operand[i];
    args.chunks = rotation->plan->choice.chunks;
    return args;
}

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Bursts short enough for the queue, taken in turns, so that a busy host troubles both alike. */
static gnf_status host_time(struct rotation *rotation, double *extra_us)
{
    enum { BURSTS = 20, BURST = 100 };
    struct session *session = rotation->session;
    struct gnf_kernel_args args = kernel_args(rotation);
    double library[BURSTS], bare[BURSTS];
    for (int burst = -1; burst < BURSTS; burst++) { /* one to warm up */
        double start = now_us();
        for (int i = 0; i < BURST; i++)
            GNF_TRY(gnf_execute(rotation->plan, &rotation->arguments[0], session->stream));
        double middle = now_us();
        GNF_TRY(session_wait(session));
        double again = now_us();
        for (int i = 0; i < BURST; i++)
            GNF_TRY(bare_launches(rotation, &args, session->stream));
        double end = now_us();
        GNF_TRY(session_wait(session));
        if (burst < 0)
            continue;
        library[burst] = (middle - start) / BURST;
        bare[burst] = (end - again) / BURST;
    }
    qsort(library, BURSTS, sizeof *library, by_value);
    qsort(bare, BURSTS, sizeof *bare, by_value);
    *extra_us = library[BURSTS / 2] - bare[BURSTS / 2];
    return GNF_OK;
}

static gnf_status measure(struct bench_result *result, struct rotation *rotation, struct copy *copy)
{
    struct timing_job jobs[2] = {{.launch = execute, .user = rotation, .sets = rotation->sets}};
    int count = 1;
    if (copy != NULL) {
        GNF_TRY(copy_choose(copy));
        jobs[count++] = copy_job(copy);
    }
    GNF_TRY(timing_run(rotation->session, jobs, count, SAMPLES));
    result->time_us = jobs[0].median_us;
    result->spread_us = jobs[0].spread_us;
    result->samples = jobs[0].samples;
    result->batch = jobs[0].batch;
    result->sets = rotation->sets;
    result->cold = result->bytes * jobs[0].sets > rotation->session->context->device.l2_bytes;
    result->copy_us = copy != NULL ? jobs[1].median_us : 0;
    result->copy_fraction = copy != NULL ? result->copy_us / result->time_us : 0;
    return host_time(rotation, &result->execute_us);
}

gnf_status bench_run(struct bench_result *result, struct session *session, const struct tensors *tensors,
                     const gnf_plan *plan)
{
    struct rotation rotation;
    struct copy copy;
    memset(result, 0, sizeof *result);
    result->bytes = tensors_bytes(tensors);
    GNF_TRY(rotation_create(&rotation, session, tensors, plan));
    bool has_copy = copy_create(&copy, session, result->bytes) == GNF_OK;
    if (!has_copy) /* a time without a roofline is still a time */
        snprintf(result->copy_missing, sizeof result->copy_missing, "%s", gnf_error_message());
    gnf_status status = measure(result, &rotation, has_copy ? &copy : NULL);
    if (has_copy)
        copy_destroy(&copy);
    rotation_destroy(&rotation);
    return status;
}
