#include "timing.h"
#include "../monotonic.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_JOBS = 16,
    MOST_SAMPLES = 256,
    MOST_BATCH = 2000,
    SIMULATED_BATCH = 20, /* each launch costs real time there */
    SIMULATED_SETS = 2,
    SAMPLE_US = 2000, /* a sample is about this long, so that starting a graph does not count */
    REST_NS = 1500000
};

int timing_sets(const struct session *session, int64_t bytes, int64_t memory)
{
    int64_t cold = 2 * (int64_t)session->context->device.l2_bytes;
    int64_t sets = bytes > 0 ? cold / bytes + 2 : 1, fitting = bytes > 0 ? memory / bytes : 1;
    int64_t most = session->simulated ? SIMULATED_SETS : MOST_BATCH;
    if (sets > most)
        sets = most;
    if (sets > fitting)
        sets = fitting;
    return sets > 1 ? (int)sets : 1;
}

gnf_status timing_open(struct timing_clock *clock, struct session *session)
{
    const struct gnf_driver *cuda = &session->context->driver;
    *clock = (struct timing_clock){.session = session};
    gnf_status status = GNF_CU(cuda, cuEventCreate, (&clock->start, CU_EVENT_DEFAULT));
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuEventCreate, (&clock->stop, CU_EVENT_DEFAULT));
    if (status != GNF_OK)
        timing_close(clock);
    return status;
}

void timing_close(struct timing_clock *clock)
{
    if (clock->session == NULL)
        return;
    const struct gnf_driver *cuda = &clock->session->context->driver;
    if (clock->start != NULL)
        cuda->cuEventDestroy(clock->start);
    if (clock->stop != NULL)
        cuda->cuEventDestroy(clock->stop);
    memset(clock, 0, sizeof *clock);
}

static gnf_status enqueue(struct session *session, const struct timing_job *job, int launches)
{
    for (int i = 0; i < launches; i++)
        GNF_TRY(job->launch(job->user, i % job->sets, session->stream));
    return GNF_OK;
}

static gnf_status begin(struct timing_clock *clock)
{
    return GNF_CU(&clock->session->context->driver, cuEventRecord, (clock->start, clock->session->stream));
}

static gnf_status elapsed_us(struct timing_clock *clock, double *us)
{
    struct session *session = clock->session;
    const struct gnf_driver *cuda = &session->context->driver;
    float ms;
    GNF_TRY(GNF_CU(cuda, cuEventRecord, (clock->stop, session->stream)));
    GNF_TRY(GNF_CU(cuda, cuEventSynchronize, (clock->stop)));
    GNF_TRY(GNF_CU(cuda, cuEventElapsedTime, (&ms, clock->start, clock->stop)));
    *us = 1000.0 * ms;
    return GNF_OK;
}

/* How many launches make a sample. */
static gnf_status choose_batch(struct timing_clock *clock, struct timing_job *job)
{
    struct session *session = clock->session;
    int trial = session->simulated ? 1 : 10, most = session->simulated ? SIMULATED_BATCH : MOST_BATCH;
    double us;
    GNF_TRY(enqueue(session, job, session->simulated ? 1 : 2));
    GNF_TRY(session_wait(session));
    GNF_TRY(begin(clock));
    GNF_TRY(enqueue(session, job, trial));
    GNF_TRY(elapsed_us(clock, &us));
    double once = us / trial;
    int batch = once > SAMPLE_US ? 1 : once > 1 ? (int)(SAMPLE_US / once) + 1 : once > 0 ? most : trial;
    if (once < 200 && batch < job->sets)
        batch = job->sets;
    job->batch = batch < most ? batch : most;
    return GNF_OK;
}

static gnf_status capture(struct session *session, struct timing_job *job)
{
    const struct gnf_driver *cuda = &session->context->driver;
    CUgraph graph = NULL;
    GNF_TRY(GNF_CU(cuda, cuStreamBeginCapture, (session->stream, CU_STREAM_CAPTURE_MODE_RELAXED)));
    gnf_status status = enqueue(session, job, job->batch);
    gnf_status ended = GNF_CU(cuda, cuStreamEndCapture, (session->stream, &graph));
    if (status == GNF_OK)
        status = ended;
    if (status == GNF_OK)
        status = GNF_CU(cuda, cuGraphInstantiate, (&job->graph, graph, 0));
    if (graph != NULL)
        cuda->cuGraphDestroy(graph);
    return status;
}

static gnf_status replay(struct timing_clock *clock, const struct timing_job *job)
{
    return GNF_CU(&clock->session->context->driver, cuGraphLaunch, (job->graph, clock->session->stream));
}

gnf_status timing_prepare(struct timing_clock *clock, struct timing_job *job)
{
    GNF_TRY(choose_batch(clock, job));
    GNF_TRY(capture(clock->session, job));
    GNF_TRY(replay(clock, job));
    return session_wait(clock->session);
}

void timing_release(const struct session *session, struct timing_job *job)
{
    if (job->graph != NULL)
        session->context->driver.cuGraphExecDestroy(job->graph);
    job->graph = NULL;
}

gnf_status timing_sample(struct timing_clock *clock, const struct timing_job *job, double *us)
{
    const struct timespec rest = {0, REST_NS};
    if (!clock->session->simulated)
        nanosleep(&rest, NULL);
    GNF_TRY(begin(clock));
    GNF_TRY(replay(clock, job));
    GNF_TRY(elapsed_us(clock, us));
    *us /= job->batch;
    return GNF_OK;
}

gnf_status timing_glance(struct timing_clock *clock, const struct timing_job *job, int set, double *us)
{
    struct session *session = clock->session;
    GNF_TRY(job->launch(job->user, (set + job->sets - 1) % job->sets, session->stream));
    GNF_TRY(begin(clock));
    GNF_TRY(job->launch(job->user, set % job->sets, session->stream));
    return elapsed_us(clock, us);
}

gnf_status timing_warm(struct timing_clock *clock, const struct timing_job *jobs, int count, double ms)
{
    double end = 1e3 * gnf_now() + ms;
    for (int i = 0; count > 0 && 1e3 * gnf_now() < end; i = (i + 1) % count) {
        GNF_TRY(replay(clock, &jobs[i]));
        GNF_TRY(session_wait(clock->session));
    }
    return GNF_OK;
}

void timing_shuffle(unsigned *state, int *order, int count)
{
    for (int i = 0; i < count; i++) { /* a shuffle that grows */
        *state = *state * 1664525u + 1013904223u;
        int j = (int)((*state >> 16) % (unsigned)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
}

static gnf_status measure(struct timing_clock *clock, struct timing_job *jobs, int count, int samples,
                          double (*sample)[MOST_SAMPLES])
{
    unsigned state = 1;
    for (int i = 0; i < count; i++)
        GNF_TRY(timing_prepare(clock, &jobs[i]));
    for (int round = 0; round < samples; round++) {
        int order[MOST_JOBS];
        timing_shuffle(&state, order, count);
        for (int i = 0; i < count; i++)
            GNF_TRY(timing_sample(clock, &jobs[order[i]], &sample[order[i]][round]));
    }
    return GNF_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

gnf_status timing_run(struct session *session, struct timing_job *jobs, int count, int samples)
{
    struct timing_clock clock = {0};
    if (count > MOST_JOBS || samples > MOST_SAMPLES)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%d jobs of %d samples are too many (allowed: %d of %d)", count,
                        samples, MOST_JOBS, MOST_SAMPLES);
    double(*sample)[MOST_SAMPLES] = calloc((size_t)count, sizeof *sample);
    gnf_status status =
        sample != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for %d jobs", count);
    if (status == GNF_OK)
        status = timing_open(&clock, session);
    if (status == GNF_OK)
        status = measure(&clock, jobs, count, samples, sample);
    for (int i = 0; i < count && status == GNF_OK; i++) {
        double *sorted = sample[i];
        qsort(sorted, (size_t)samples, sizeof *sorted, by_value);
        jobs[i].median_us =
            samples % 2 ? sorted[samples / 2] : 0.5 * (sorted[samples / 2 - 1] + sorted[samples / 2]);
        jobs[i].spread_us = sorted[samples - 1 - samples / 4] - sorted[samples / 4];
        jobs[i].samples = samples;
    }
    for (int i = 0; i < count; i++)
        timing_release(session, &jobs[i]);
    timing_close(&clock);
    free(sample);
    return status;
}
