#include "tuner.h"
#include "../runtime/monotonic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tuner_create(struct tuner *tuner)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&tuner->lock, NULL);
    pthread_cond_init(&tuner->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static gnf_status create_measurer(struct tuner_device *device)
{
    const struct args *args = device->tuner->args;
    const struct measurer_options options = {.args = args, .device = device->ordinal, .hang_s = args->hang};
    return measurer_create(&device->measurer, &options);
}

static gnf_status open_device(struct tuner *tuner, int ordinal)
{
    struct tuner_device *device = &tuner->device[tuner->device_count];
    *device = (struct tuner_device){.tuner = tuner, .ordinal = ordinal};
    GNF_TRY(create_measurer(device));
    tuner->device_count++;
    struct tuner_kind *kind = &tuner->kind[tuner->kind_count];
    GNF_TRY(measurer_device(device->measurer, &kind->device, &kind->nvrtc));
    GNF_TRY(measurer_facts(device->measurer, &kind->facts, NULL));
    for (int i = 0; i < tuner->kind_count && device->kind == NULL; i++)
        if (gnf_record_same_device(&tuner->kind[i].device, &kind->device))
            device->kind = &tuner->kind[i];
    if (device->kind == NULL) {
        device->kind = kind;
        kind->devices = 0;
        kind->compiling = NULL;
        tuner->kind_count++;
    }
    device->kind->devices++;
    return GNF_OK;
}

/* --devices all: the first one tells how many there are. */
static gnf_status open_the_others(struct tuner *tuner)
{
    int count;
    struct gnf_device facts;
    GNF_TRY(measurer_facts(tuner->device[0].measurer, &facts, &count));
    for (int i = 1; i < count && i < TUNER_MAX_DEVICES; i++)
        GNF_TRY(open_device(tuner, i));
    return GNF_OK;
}

gnf_status tuner_open_devices(struct tuner *tuner, const int *ordinals, int count)
{
    for (int i = 0; i < count; i++)
        GNF_TRY(open_device(tuner, ordinals[i]));
    if (count > 0)
        return GNF_OK;
    GNF_TRY(open_device(tuner, 0));
    return open_the_others(tuner);
}

gnf_status tuner_restart_devices(struct tuner *tuner)
{
    for (int i = 0; i < tuner->device_count; i++) {
        measurer_destroy(tuner->device[i].measurer);
        tuner->device[i].measurer = NULL;
        GNF_TRY(create_measurer(&tuner->device[i]));
    }
    return GNF_OK;
}

/* It is large, so only a problem with linear has it loaded. */
static gnf_status find_cublaslt(struct tuner *tuner)
{
    bool wanted = false, there = true;
    for (int p = 0; p < tuner->problem_count; p++)
        wanted |= tuner->problems[p].inputs > 0 && tuner->problems[p].conv.kernel == 0;
    for (int i = 0; i < tuner->device_count && wanted; i++) {
        GNF_TRY(measurer_cublaslt(tuner->device[i].measurer, &there));
        tuner->device[i].kind->no_cublaslt = !there;
    }
    return GNF_OK;
}

gnf_status tuner_prepare(struct tuner *tuner)
{
    struct gnf_tuned *tuned;
    GNF_TRY(find_cublaslt(tuner));
    tuner->jobs = calloc((size_t)(tuner->kind_count * tuner->problem_count), sizeof *tuner->jobs);
    if (tuner->jobs == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d problems", tuner->problem_count);
    GNF_TRY(gnf_tuned_load(&tuned, tuner->path, &tuner->session->options.log));
    gnf_status status = GNF_OK;
    for (int k = 0; k < tuner->kind_count; k++)
        for (int p = 0; p < tuner->problem_count && status == GNF_OK; p++) {
            struct tuner_job *job = &tuner->jobs[tuner->job_count++];
            status = tuner_job_create(job, tuner, &tuner->kind[k], &tuner->problems[p]);
            if (status == GNF_OK)
                tuner_job_recall(job, tuned, tuner->args->again);
            tuner->kind[k].jobs_left++;
        }
    gnf_tuned_free(tuned);
    return status;
}

/* In the order of need: problem after problem, in each the default first. */
static gnf_status start_compiling(struct tuner *tuner, struct tuner_kind *kind)
{
    GNF_TRY(compiling_create(&kind->compiling, tuner->args, kind->facts.capability, tuner->args->jobs,
                             TUNER_COMPILE_SECONDS));
    for (int j = 0; j < tuner->job_count; j++) {
        const struct tuner_job *job = &tuner->jobs[j];
        if (job->kind != kind)
            continue;
        for (int i = -1; i < job->count; i++) {
            int at = i < 0 ? job->default_index : i;
            if (at < 0 || (i >= 0 && at == job->default_index) || !job->variants[at].running)
                continue;
            GNF_TRY(compiling_add(kind->compiling, job->problem->text, job->variants[at].variant->name));
        }
    }
    return GNF_OK;
}

/* The next job of the device's kind; NULL where none is left. */
static struct tuner_job *take_job(struct tuner *tuner, struct tuner_device *device)
{
    struct tuner_job *taken = NULL;
    pthread_mutex_lock(&tuner->lock);
    for (int i = 0; i < tuner->job_count && taken == NULL && !tuner->stopping; i++)
        if (tuner->jobs[i].kind == device->kind && tuner->jobs[i].state == TUNER_WAITING)
            taken = &tuner->jobs[i];
    if (taken != NULL) {
        /* The time that is left, shared evenly among the jobs that are left. */
        double now = gnf_now(), left = tuner->deadline - now;
        int turns = (device->kind->jobs_left + device->kind->devices - 1) / device->kind->devices;
        taken->deadline = tuner->deadline > 0 ? now + left / (turns > 0 ? turns : 1) : 0;
        taken->begun = tuner->deadline == 0 || left > 0;
        taken->state = TUNER_AT_WORK;
        device->kind->jobs_left--;
    }
    pthread_mutex_unlock(&tuner->lock);
    return taken;
}

/* Another process may have measured it meanwhile. */
static gnf_status run_job(struct tuner_job *job, struct tuner_device *device)
{
    struct gnf_tuned *tuned;
    if (!job->begun)
        return GNF_OK;
    GNF_TRY(gnf_tuned_load(&tuned, job->tuner->path, NULL));
    pthread_mutex_lock(&job->tuner->lock);
    tuner_job_recall(job, tuned, job->tuner->args->again);
    pthread_mutex_unlock(&job->tuner->lock);
    gnf_tuned_free(tuned);
    return tuner_job_run(job, device);
}

static void *device_main(void *argument)
{
    struct tuner_device *device = argument;
    struct tuner *tuner = device->tuner;
    struct tuner_job *job;
    while ((job = take_job(tuner, device)) != NULL) {
        gnf_status status = run_job(job, device);
        pthread_mutex_lock(&tuner->lock);
        if (status != GNF_OK && tuner->status == GNF_OK) {
            tuner->status = status;
            snprintf(tuner->error, sizeof tuner->error, "%s", gnf_error_message());
        }
        if (status != GNF_OK)
            tuner->stopping = true;
        job->state =
            status == GNF_OK ? TUNER_DONE : TUNER_PRINTED; /* a failure of the whole has its own line */
        tuner->changes++;
        pthread_cond_signal(&tuner->changed);
        pthread_mutex_unlock(&tuner->lock);
    }
    /* Its process is this thread's child, and would be killed with it anyway. */
    measurer_destroy(device->measurer);
    device->measurer = NULL;
    pthread_mutex_lock(&tuner->lock);
    tuner->threads--;
    pthread_cond_signal(&tuner->changed);
    pthread_mutex_unlock(&tuner->lock);
    return NULL;
}

gnf_status tuner_start(struct tuner *tuner)
{
    for (int i = 0; i < tuner->kind_count; i++)
        GNF_TRY(start_compiling(tuner, &tuner->kind[i]));
    for (int i = 0; i < tuner->device_count; i++) {
        struct tuner_device *device = &tuner->device[i];
        pthread_mutex_lock(&tuner->lock);
        device->started = pthread_create(&device->thread, NULL, device_main, device) == 0;
        tuner->threads += device->started;
        pthread_mutex_unlock(&tuner->lock);
        if (!device->started) {
            tuner->stopping = true;
            return gnf_fail(GNF_OUT_OF_MEMORY, "no thread can be started for device %d", device->ordinal);
        }
    }
    return GNF_OK;
}

gnf_status tuner_finish(struct tuner *tuner)
{
    for (int i = 0; i < tuner->device_count; i++)
        if (tuner->device[i].started)
            pthread_join(tuner->device[i].thread, NULL);
    for (int i = 0; i < tuner->device_count; i++)
        tuner->device[i].started = false;
    return tuner->status == GNF_OK ? GNF_OK : gnf_fail(tuner->status, "%s", tuner->error);
}

void tuner_close(struct tuner *tuner)
{
    tuner->stopping = true;
    tuner_finish(tuner);
    for (int i = 0; i < tuner->kind_count; i++)
        compiling_destroy(tuner->kind[i].compiling);
    for (int i = 0; i < tuner->device_count; i++)
        measurer_destroy(tuner->device[i].measurer);
    for (int i = 0; i < tuner->job_count; i++)
        tuner_job_free(&tuner->jobs[i]);
    free(tuner->jobs);
    append_close(tuner->append);
    tuner->append = NULL;
    pthread_cond_destroy(&tuner->changed);
    pthread_mutex_destroy(&tuner->lock);
}
