/* Successive halving, apart from what measures: which variants to sample, how often, which to drop, which one
 * wins. */
#ifndef TUNING_HALVING_H
#define TUNING_HALVING_H

#include "../runtime/record.h"
#include "../runtime/tuned.h"

enum { HALVING_MOST_SAMPLES = 96 };

struct halving_candidate {
    const char *name;
    int rank; /* place in the pack's order */
    bool is_default;
    bool later; /* set by check() where it would have to wait: it is asked once more after all others, and
                   left out where check() does not take this back */
    enum gnf_record_status status; /* OK while it is in the running */
    bool complete;                 /* all samples were taken, or the status is final */
    char error[512];
    double time_us, spread_us;
    int timings;
    double sample[HALVING_MOST_SAMPLES]; /* `timings` of them: its last stage's, rounds made comparable */
};

struct halving {
    struct halving_candidate *at;
    int count;
    void *user;
    /* Makes one ready and checks it; sets status and error. Returns GNF_OK unless nothing can be measured any
     * more. */
    gnf_status (*check)(void *user, struct halving_candidate *candidate);
    /* As measurer_time(): `rounds` interleaved samples of each. `quick` for the first look. *failed: the
     * index into `which` of one that must leave the running (its status and error are set), -1 for none. */
    gnf_status (*time)(void *user, struct halving_candidate *const *which, int count, int rounds, bool quick,
                       double *sample, int *failed);
    /* Called when a candidate's times or fate changed: the place to append a record. */
    void (*note)(void *user, const struct halving_candidate *candidate);
    /* Asked before each call of the others; true ends it with what is known (budget, interrupt). A call that
     * fails while this is true is no failure. note and stop may be NULL. */
    bool (*stop)(void *user);
};

/* The default first, then the others in rank order: check and one quick sample (three of the default, which
 * all are compared with). Beyond 10 times the best and 5 ms it is SLOW at once; beyond 3 times the best only
 * if two more samples say so too, as a neighbour, or the host, may have been in the way. Then stages of more
 * and more interleaved rounds with fewer and fewer variants: 3 rounds of all (with much noise up to 12), 6
 * (24) of those within 1.25 times the best, 24 (96) of the default and the first six of those within 1.08
 * times. Who leaves is SLOW; the default never is. Times of a stage are made comparable round by round (a
 * drift or a busy neighbour troubles all that are sampled in a round alike). A candidate less than half of
 * whose samples in a stage are times is FAILED ("the clock gave nan"). Candidates that come with time_us > 0
 * and status OK (resumed) are not looked at anew before the stages; others that are not OK stay out. *winner:
 * index, -1 where no candidate is left; *complete: it was not stopped before its end. GNF_OUT_OF_MEMORY, or
 * what check or time failed with; *winner is then of what was known. */
gnf_status halving_run(struct halving *halving, int *winner, bool *complete);

#endif
