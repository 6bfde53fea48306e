#include "timing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_JOBS = 16,
    MOST_SAMPLES = 256,
    MOST_BATCH = 2000,
    SAMPLE_US = 2000, /* a sample is about this long, so that starting a graph does not count */
    REST_NS = 1500000
};

struct measurement {
    struct timing_job *job;
    CUgraphExec graph;
    float sample[MOST_SAMPLES];
};
struct clock {
    CUevent start, stop;
};

int timing_sets(const struct session *session, int64_t bytes, int64_t memory)
{
    int64_t cold = 2 * (int64_t)session->context->device.l2_bytes;
    int64_t sets = bytes > 0 ? cold / bytes + 2 : 1, fitting = bytes > 0 ? memory / bytes : 1;
    if (sets > MOST_BATCH)
        sets = MOST_BATCH;
    if (sets > fitting)
        sets = fitting;
    return sets > 1 ? (int)sets : 1;
}

static gnf_status enqueue(struct session *session, struct timing_job *job, int launches)
{
    for (int i = 0; i < launches; i++)
        GNF_TRY(job->launch(job->user, i % job->sets, session->stream));
    return GNF_OK;
}

static gnf_status elapsed_us(struct session *session, struct clock *clock, float *us)
{
    const struct gnf_driver *cuda = &session->context->driver;
    GNF_TRY(GNF_CU(cuda, cuEventRecord, (clock->stop, session->stream)));
    GNF_TRY(GNF_CU(cuda, cuEventSynchronize, (clock->stop)));
    GNF_TRY(GNF_CU(cuda, cuEventElapsedTime, (us, clock->start, clock->stop)));
    *us *= 1000;
    return GNF_OK;
}

/* How many launches make a sample. */
static gnf_status choose_batch(struct session *session, struct clock *clock, struct timing_job *job)
{
    enum { TRIAL = 10 };
    const struct gnf_driver *cuda = &session->context->driver;
    float us;
    GNF_TRY(enqueue(session, job, 2));
    GNF_TRY(session_wait(session));
    GNF_TRY(GNF_CU(cuda, cuEventRecord, (clock->start, session->stream)));
    GNF_TRY(enqueue(session, job, TRIAL));
    GNF_TRY(elapsed_us(session, clock, &us));
    float once = us / TRIAL;
    int batch = once > SAMPLE_US ? 1 : once > 1 ? (int)(SAMPLE_US / once) + 1 : MOST_BATCH;
    if (once < 200 && batch < job->sets)
        batch = job->sets;
    job->batch = batch < MOST_BATCH ? batch : MOST_BATCH;
    return GNF_OK;
}

static gnf_status capture(struct session *session, struct measurement *measurement)
{
    const struct gnf_driver *cuda = &session->context->driver;
    CUgraph graph = NULL;
    GNF_TRY(GNF_CU(cuda, cuStreamBeginCapture, (session->stream, CU_STREAM_CAPTURE_MODE_RELAXED)));
    gnf_status status = enqueue(session, measurement->job, measurement->job->batch);
    gnf_status ended = GNF_CU(cuda, cuStreamEndCapture, (session->stream, &graph));
    if (status == GNF_OK)
        status = ended;
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuGraphInstantiate, (&measurement->graph, graph, 0));
    if (graph != NULL)
        cuda->cuGraphDestroy(graph);
    return status;
}

static gnf_status sample(struct session *session, struct clock *clock, struct measurement *measurement,
                         float *us)
{
    const struct gnf_driver *cuda = &session->context->driver;
    const struct timespec rest = {0, REST_NS};
    nanosleep(&rest, NULL);
    GNF_TRY(GNF_CU(cuda, cuEventRecord, (clock->start, session->stream)));
    GNF_TRY(GNF_CU(cuda, cuGraphLaunch, (measurement->graph, session->stream)));
    GNF_TRY(elapsed_us(session, clock, us));
    *us /= (float)measurement->job->batch;
    return GNF_OK;
}

static gnf_status measure(struct session *session, struct clock *clock, struct measurement *all, int count,
                          int samples)
{
    float ignored;
    for (int i = 0; i < count; i++) {
        GNF_TRY(choose_batch(session, clock, all[i].job));
        GNF_TRY(capture(session, &all[i]));
        GNF_TRY(sample(session, clock, &all[i], &ignored));
    }
    unsigned state = 1;
    for (int round = 0; round < samples; round++) {
        int order[MOST_JOBS];
        for (int i = 0; i < count; i++) { /* a shuffle that grows */
            state = state * 1664525u + 1013904223u;
            int j = (int)((state >> 16) % (unsigned)(i + 1));
            order[i] = order[j];
            order[j] = i;
        }
        for (int i = 0; i < count; i++)
            GNF_TRY(sample(session, clock, &all[order[i]], &all[order[i]].sample[round]));
    }
    return GNF_OK;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

gnf_status timing_run(struct session *session, struct timing_job *jobs, int count, int samples)
{
    const struct gnf_driver *cuda = &session->context->driver;
    if (count > MOST_JOBS || samples > MOST_SAMPLES)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%d jobs of %d samples are too many (allowed: %d of %d)", count,
                        samples, MOST_JOBS, MOST_SAMPLES);
    struct measurement *all = calloc((size_t)count, sizeof *all);
    struct clock clock = {0};
    gnf_status status =
        all != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for %d jobs", count);
    for (int i = 0; i < count && status == GNF_OK; i++)
        all[i].job = &jobs[i];
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuEventCreate, (&clock.start, CU_EVENT_DEFAULT));
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuEventCreate, (&clock.stop, CU_EVENT_DEFAULT));
    if (status == GNF_OK)
        status = measure(session, &clock, all, count, samples);
    for (int i = 0; i < count && status == GNF_OK; i++) {
        float *sorted = all[i].sample;
        qsort(sorted, (size_t)samples, sizeof *sorted, by_value);
        jobs[i].median_us =
            samples % 2 ? sorted[samples / 2] : 0.5 * (sorted[samples / 2 - 1] + sorted[samples / 2]);
        jobs[i].spread_us = sorted[samples - 1 - samples / 4] - sorted[samples / 4];
        jobs[i].samples = samples;
    }
    for (int i = 0; all != NULL && i < count; i++)
        if (all[i].graph != NULL)
            cuda->cuGraphExecDestroy(all[i].graph);
    if (clock.start != NULL)
        cuda->cuEventDestroy(clock.start);
    if (clock.stop != NULL)
        cuda->cuEventDestroy(clock.stop);
    free(all);
    return status;
}
