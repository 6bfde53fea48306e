#include "bench.h"

#include "../monotonic.h"
#include "../plan.h"
#include "rotation.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 40 };

/* The same launches without the library: what is left of gnf_execute's time is its own. */
static gnf_status bare_launches(const struct rotation_run *run, struct gnf_kernel_args *args, CUstream stream)
{
    const struct gnf_choice *choice = &run->plan->choice;
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
        GNF_TRY(GNF_CU(&run->rotation->session->context->driver, cuLaunchKernelEx,
                       (&config, launch->function, parameters, NULL)));
    }
    return GNF_OK;
}

static struct gnf_kernel_args kernel_args(const struct rotation_run *run)
{
    const gnf_arguments *from = &run->rotation->arguments[0];
    struct gnf_kernel_args args = run->plan->args;
    args.x = (const void *)(uintptr_t)from->x;
    args.y = (void *)(uintptr_t)from->y;
    args.gamma = (const void *)(uintptr_t)from->gamma;
    args.beta = (const void *)(uintptr_t)from->beta;
    args.workspace = (void *)(uintptr_t)from->workspace;
    for (int i = 0; i < GNF_MAX_OPERANDS; i++)
        args.operand[i] = (const void *)(uintptr_t)from->operand[i];
    args.chunks = run->plan->choice.chunks;
    return args;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What stands beside the library's launches: the same ones bare, or nothing where they are more than a kernel
 * after the other. */
static gnf_status launch_bare(const struct rotation_run *run, struct gnf_kernel_args *args, CUstream stream)
{
    return run->plan->problem.inputs > 0 ? GNF_OK : bare_launches(run, args, stream);
}

/* Bursts short enough for the queue, taken in turns, so that a busy host troubles both alike. */
static gnf_status host_time(struct rotation_run *run, double time_us, double *extra_us)
{
    enum { BURSTS = 20, MOST = 100, FEW = 10 };
    const int count = run->plan->problem.inputs > 0 && time_us > 200 ? FEW : MOST; /* or it takes seconds */
    struct session *session = run->rotation->session;
    struct gnf_kernel_args args = kernel_args(run);
    double library[BURSTS], bare[BURSTS];
    for (int burst = -1; burst < BURSTS; burst++) { /* one to warm up */
        double start = 1e6 * gnf_now();
        for (int i = 0; i < count; i++)
            GNF_TRY(rotation_launch(run, 0, session->stream));
        double middle = 1e6 * gnf_now();
        GNF_TRY(session_wait(session));
        double again = 1e6 * gnf_now();
        for (int i = 0; i < count; i++)
            GNF_TRY(launch_bare(run, &args, session->stream));
        double end = 1e6 * gnf_now();
        GNF_TRY(session_wait(session));
        if (burst < 0)
            continue;
        library[burst] = (middle - start) / count;
        bare[burst] = (end - again) / count;
    }
    qsort(library, BURSTS, sizeof *library, by_value);
    qsort(bare, BURSTS, sizeof *bare, by_value);
    *extra_us = library[BURSTS / 2] - bare[BURSTS / 2];
    return GNF_OK;
}

static gnf_status measure(struct bench_result *result, struct rotation_run *run, struct copy *copy)
{
    struct session *session = run->rotation->session;
    struct timing_job jobs[2] = {{.launch = rotation_launch, .user = run, .sets = run->rotation->sets}};
    int count = 1;
    if (copy != NULL) {
        GNF_TRY(copy_choose(copy));
        jobs[count++] = copy_job(copy);
    }
    GNF_TRY(timing_run(session, jobs, count, SAMPLES));
    result->time_us = jobs[0].median_us;
    result->spread_us = jobs[0].spread_us;
    result->samples = jobs[0].samples;
    result->batch = jobs[0].batch;
    result->sets = run->rotation->sets;
    result->cold = run->rotation->bytes > session->context->device.l2_bytes;
    result->weight_hot =
        run->rotation->weight_bytes > 0 && run->rotation->weight_bytes < session->context->device.l2_bytes;
    result->copy_us = copy != NULL ? jobs[1].median_us : 0;
    result->copy_fraction = copy != NULL ? result->copy_us / result->time_us : 0;
    if (session->simulated)
        return GNF_OK;
    return host_time(run, result->time_us, &result->execute_us);
}

gnf_status bench_run(struct bench_result *result, struct session *session, const struct tensors *tensors,
                     const gnf_plan *plan)
{
    struct rotation rotation;
    struct rotation_run run = {&rotation, plan, 0};
    struct copy copy;
    bool moved;
    memset(result, 0, sizeof *result);
    result->bytes = tensors_bytes(tensors, false);
    result->flop = tensors_flop(tensors->problem, tensors->samples);
    result->execute_whole = tensors->problem->inputs > 0;
    GNF_TRY(rotation_create(&rotation, session, tensors));
    bool has_copy = !session->simulated && copy_create(&copy, session, result->bytes) == GNF_OK;
    if (!has_copy) /* a time without a roofline is still a time */
        snprintf(result->copy_missing, sizeof result->copy_missing, "%s",
                 session->simulated ? "the simulator has none" : gnf_error_message());
    gnf_status status = rotation_fit(&rotation, &run, &moved);
    if (status == GNF_OK)
        status = measure(result, &run, has_copy ? &copy : NULL);
    if (has_copy)
        copy_destroy(&copy);
    rotation_free(&rotation);
    return status;
}
