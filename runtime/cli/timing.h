/* Times of launches on a GPU: medians of interleaved samples, each a replay of a captured graph of many
 * launches over rotating inputs, so that neither the host nor the L2 cache counts. */
#ifndef CLI_TIMING_H
#define CLI_TIMING_H

#include "session.h"

struct timing_job {
    /* Enqueues one launch on set `set` of the inputs. */
    gnf_status (*launch)(void *user, int set, CUstream stream);
    void *user;
    int sets; /* at least 1 */
    /* results */
    double median_us;   /* a launch */
    double spread_us;   /* distance of the quartiles */
    int samples, batch; /* batch: launches a sample */
};

/* Each round takes one sample of every job, in an order shuffled anew, after 1.5 ms of rest (the card's power
 * limit makes back-to-back runs depend on what ran before). */
gnf_status timing_run(struct session *session, struct timing_job *jobs, int count, int samples);
/* How many sets of inputs of `bytes` keep a launch from finding its own in the L2 cache. At most what fits
 * `memory`. */
int timing_sets(const struct session *session, int64_t bytes, int64_t memory);

#endif
