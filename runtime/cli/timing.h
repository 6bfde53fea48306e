/* Times of launches on a GPU: medians of interleaved samples, each a replay of a captured graph of many
 * launches over rotating inputs, so that neither the host nor the L2 cache counts. */
#ifndef CLI_TIMING_H
#define CLI_TIMING_H

#include "session.h"

/* What is launched, and after timing_prepare() the graph of it. */
struct timing_job {
    /* Enqueues one launch on set `set` of the inputs. */
    gnf_status (*launch)(void *user, int set, CUstream stream);
    void *user;
    int sets; /* at least 1 */

    CUgraphExec graph; /* NULL: not prepared */
    int batch;         /* launches a sample */
    /* results of timing_run */
    double median_us; /* a launch */
    double spread_us; /* distance of the quartiles */
    int samples;
};

/* The two events round a sample. */
struct timing_clock {
    struct session *session;
    CUevent start, stop;
};

gnf_status timing_open(struct timing_clock *clock, struct session *session);
/* A zeroed one is fine. */
void timing_close(struct timing_clock *clock);
/* Finds how many launches make a sample of 1 to 2 ms, one at least; captures them; runs them once. */
gnf_status timing_prepare(struct timing_clock *clock, struct timing_job *job);
void timing_release(const struct session *session, struct timing_job *job);
/* One sample of a prepared job, in us a launch, after 1.5 ms of rest (the card's power limit makes
 * back-to-back runs depend on what ran before; a simulator needs none). */
gnf_status timing_sample(struct timing_clock *clock, const struct timing_job *job, double *us);
/* One launch on the set, between events, after one on the set before: no graph and no rest, for a first look.
 */
gnf_status timing_glance(struct timing_clock *clock, const struct timing_job *job, int set, double *us);
/* Prepared jobs one after another for so long, so that the clocks are up. */
gnf_status timing_warm(struct timing_clock *clock, const struct timing_job *jobs, int count, double ms);

/* An order of [0, count) that depends on *state, which moves on. */
void timing_shuffle(unsigned *state, int *order, int count);

/* Each round takes one sample of every job, in an order shuffled anew. */
gnf_status timing_run(struct session *session, struct timing_job *jobs, int count, int samples);
/* How many sets of inputs of `bytes` keep a launch from finding its own in the L2 cache. At most what fits
 * `memory`, and two in a simulator. */
int timing_sets(const struct session *session, int64_t bytes, int64_t memory);

#endif
