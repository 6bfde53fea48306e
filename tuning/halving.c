#include "halving.h"

#include "../runtime/number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOKS = 3,         /* quick samples at most: a neighbour seldom strikes three times */
    FEWEST_ROUNDS = 3, /* fewer have no median that one bad round leaves alone */
    FINALISTS = 6, /* besides the default: with 3 % noise the best is among the first six after nine rounds */
    SAMPLES_A_CALL = 64 /* so that a budget and an interrupt are heard within a stage */
};
static const double slow = 3;          /* times the best: out, if further looks say so too */
static const double far_too_slow = 10; /* no neighbour explains that: out without a further look */
static const double absence_us = 5000; /* but a host does that was called away between the events of a look */

struct stage {
    int rounds;
    double sure; /* with a larger relative error of the times the stage goes on: so many rounds again */
    int most;    /* rounds */
    double keep; /* who might be within so many times the best stays */
};
/* First few rounds of many, where only a wide margin is safe, then more of fewer. */
static const struct stage stages[] = {
    {FEWEST_ROUNDS, 0.05, 12, 1.25},
    {6, 0.02, 24, 1.08},
    {24, 0.005, HALVING_MOST_SAMPLES, 0}, /* what gnf_timing_pick() tells apart at best */
};
enum { STAGES = sizeof stages / sizeof *stages };

struct contender {
    struct halving_candidate *candidate;
    double raw[HALVING_MOST_SAMPLES]; /* as measured in this stage */
    double middle;                    /* median of those */
    double low;                       /* lower quartile of the normalised samples */
    bool changed;                     /* since it was noted */
};
struct run {
    struct halving *halving;
    struct contender *in; /* in the running */
    int count, rounds;    /* rounds of this stage so far */
    double best;          /* least time_us seen in the first looks */
    bool ended;           /* by stop() or a status */
    gnf_status status;
    struct halving_candidate **order; /* all, as they are looked at */
    struct halving_candidate **which; /* scratch: of one call */
    double *sample, *sorted;          /* scratch: of one call, and to find a median */
};

static bool usable(double sample)
{
    return isfinite(sample) && sample > 0;
}
static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* Of sorted values, between neighbours by their distance. */
static double quantile(const double *sorted, int n, double q)
{
    double at = (n - 1) * q;
    int below = (int)at;
    return below + 1 < n ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
}
static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare_numbers);
    return quantile(values, n, 0.5);
}

static bool may_go_on(struct run *run)
{
    struct halving *h = run->halving;
    run->ended = run->ended || (h->stop != NULL && h->stop(h->user));
    return !run->ended;
}
/* After a callback. What failed because it was told to stop is no failure. */
static bool went_well(struct run *run, gnf_status status)
{
    if (status != GNF_OK && may_go_on(run)) {
        run->status = status;
        run->ended = true;
    }
    return status == GNF_OK;
}
static void note(struct run *run, struct halving_candidate *c)
{
    if (run->halving->note != NULL)
        run->halving->note(run->halving->user, c);
}
/* The status is final. */
static void out(struct run *run, struct halving_candidate *c)
{
    c->complete = true;
    note(run, c);
}
static void out_slow(struct run *run, struct halving_candidate *c, double best, const char *why)
{
    long tenths = lround(fmin(c->time_us / best, 1e9) * 100);
    c->status = GNF_RECORD_SLOW;
    snprintf(c->error, sizeof c->error, "%s%ld.%02ld times the best after %d sample%s", why, tenths / 100,
             tenths % 100, c->timings, c->timings == 1 ? "" : "s");
    out(run, c);
}
static void out_failed(struct run *run, struct halving_candidate *c, double sample)
{
    char value[32];
    if (isnan(sample))
        strcpy(value, "nan");
    else if (isinf(sample) || fabs(sample) > 1e30)
        strcpy(value, sample > 0 ? "inf" : "-inf");
    else
        gnf_number_format((float)sample, value);
    c->status = GNF_RECORD_FAILED;
    snprintf(c->error, sizeof c->error, "the clock gave %s", value);
    out(run, c);
}
/* The callback has said why; but whatever it said, this one is out. */
static void out_by_callback(struct run *run, struct halving_candidate *c)
{
    if (c->status == GNF_RECORD_OK) {
        c->status = GNF_RECORD_FAILED;
        snprintf(c->error, sizeof c->error, "it could not be timed");
    }
    out(run, c);
}
static void take_away(struct run *run, int i)
{
    run->count--;
    memmove(&run->in[i], &run->in[i + 1], (size_t)(run->count - i) * sizeof *run->in);
}

/* ---- the first look */

static bool hopeless(const struct run *run, double sample)
{
    return sample > far_too_slow * run->best && sample > absence_us;
}
/* Quick samples: of the default a few, as all others are compared with it; of another one, and more only
 * where the first is no time, or so long that it is out unless a neighbour was to blame. False: nothing more
 * is to be done. */
static bool look(struct run *run, struct halving_candidate *c)
{
    struct halving *h = run->halving;
    double seen[LOOKS], sample = NAN;
    int n = 0, failed;
    for (int i = 0; i < LOOKS && may_go_on(run); i++) {
        failed = -1;
        if (!went_well(run, h->time(h->user, &c, 1, 1, true, &sample, &failed)))
            break;
        if (failed >= 0) {
            out_by_callback(run, c);
            return false;
        }
        if (usable(sample))
            seen[n++] = sample;
        if (usable(sample) && !c->is_default && (sample <= slow * run->best || hopeless(run, sample)))
            break;
    }
    if (n == 0) {
        if (!run->ended)
            out_failed(run, c, sample);
        return false;
    }
    double middle = median(seen, n);
    c->time_us = c->is_default ? middle : seen[0];
    c->spread_us = c->is_default ? quantile(seen, n, 0.75) - quantile(seen, n, 0.25) : 0;
    c->timings = n;
    memcpy(c->sample, seen, (size_t)n * sizeof *seen);
    return true;
}
static void add(struct run *run, struct halving_candidate *c)
{
    run->best = fmin(run->best, c->time_us);
    run->in[run->count++] = (struct contender){.candidate = c};
}
static void first_look(struct run *run, struct halving_candidate *c)
{
    struct halving *h = run->halving;
    if (c->status != GNF_RECORD_OK)
        return;
    if (usable(c->time_us)) { /* resumed */
        add(run, c);
        return;
    }
    if (!may_go_on(run) || !went_well(run, h->check(h->user, c)))
        return;
    if (c->later && c->status == GNF_RECORD_OK)
        return;
    if (c->status != GNF_RECORD_OK) {
        out(run, c);
        return;
    }
    if (!look(run, c))
        return;
    if (!c->is_default && c->time_us > slow * run->best) {
        out_slow(run, c, run->best, "");
        return;
    }
    add(run, c);
    note(run, c);
}

/* ---- stages */

/* Until there are so many rounds of all, as far as they come. */
static void sample(struct run *run, int rounds)
{
    struct halving *h = run->halving;
    while (run->rounds < rounds && run->count > 0 && may_go_on(run)) {
        int failed = -1, now = SAMPLES_A_CALL / run->count;
        now = now < 1 ? 1 : now > rounds - run->rounds ? rounds - run->rounds : now;
        for (int i = 0; i < run->count; i++)
            run->which[i] = run->in[i].candidate;
        if (!went_well(run, h->time(h->user, run->which, run->count, now, false, run->sample, &failed)))
            return;
        if (failed >= 0 && failed < run->count) { /* again without it; what others had before stands */
            struct halving_candidate *c = run->in[failed].candidate;
            take_away(run, failed);
            out_by_callback(run, c);
            continue;
        }
        for (int i = 0; i < run->count; i++)
            memcpy(&run->in[i].raw[run->rounds], &run->sample[i * now], (size_t)now * sizeof *run->sample);
        run->rounds += now;
    }
}
static int usable_of(const struct run *run, const struct contender *c, double *values)
{
    int n = 0;
    for (int r = 0; r < run->rounds; r++)
        if (usable(c->raw[r]))
            values[n++] = c->raw[r];
    return n;
}
static void drop_clockless(struct run *run)
{
    for (int i = run->count - 1; i >= 0; i--) {
        struct halving_candidate *c = run->in[i].candidate;
        double bad = NAN;
        if (2 * usable_of(run, &run->in[i], run->sorted) >= run->rounds)
            continue;
        for (int r = run->rounds - 1; r >= 0; r--)
            bad = usable(run->in[i].raw[r]) ? bad : run->in[i].raw[r];
        take_away(run, i);
        out_failed(run, c, bad);
    }
}
/* How much slower than usual the round was for all in it but `without`; 0 where that cannot be told. Each
 * sample is compared with its own candidate's median, not with other candidates, whose order differs from
 * round to round. */
static double scale_of(struct run *run, int round, const struct contender *without)
{
    int n = 0;
    for (const struct contender *in = run->in; in < run->in + run->count; in++)
        if (in != without && usable(in->raw[round]))
            run->sorted[n++] = in->raw[round] / in->middle;
    return n == 0 ? 0 : median(run->sorted, n);
}
/* The quartiles' distance over the median. A candidate's own samples take no part in its rounds' scales, or
 * few would measure each other by themselves and seem steadier than they are; the scales' own noise is taken
 * off again. */
static double relative_spread(struct run *run, const struct contender *in)
{
    double value[HALVING_MOST_SAMPLES], scale;
    bool alone = run->count == 1;
    int n = 0;
    for (int r = 0; r < run->rounds; r++)
        if (usable(in->raw[r]) && (scale = alone ? 1 : scale_of(run, r, in)) > 0)
            value[n++] = in->raw[r] / scale;
    if (n == 0)
        return 0;
    double middle = median(value, n), others = alone ? 1 : sqrt((double)run->count / (run->count - 1));
    return (quantile(value, n, 0.75) - quantile(value, n, 0.25)) / middle / others;
}
/* Times and spreads of this stage. */
static void evaluate(struct run *run)
{
    double scale[HALVING_MOST_SAMPLES];
    drop_clockless(run);
    if (run->count == 0)
        return;
    for (struct contender *in = run->in; in < run->in + run->count; in++)
        in->middle = median(run->sorted, usable_of(run, in, run->sorted));
    for (int r = 0; r < run->rounds; r++)
        scale[r] = run->count == 1 ? 1 : scale_of(run, r, NULL); /* one alone would be its own measure */
    for (struct contender *in = run->in; in < run->in + run->count; in++) {
        struct halving_candidate *c = in->candidate;
        c->timings = 0;
        for (int r = 0; r < run->rounds; r++)
            if (usable(in->raw[r]))
                c->sample[c->timings++] = in->raw[r] / scale[r];
        memcpy(run->sorted, c->sample, (size_t)c->timings * sizeof *run->sorted);
        c->time_us = median(run->sorted, c->timings);
        in->low = run->sorted[(c->timings - 1) / 4];
        c->spread_us = relative_spread(run, in) * c->time_us;
        in->changed = true;
    }
}
static double best_time(const struct run *run)
{
    double best = INFINITY;
    for (int i = 0; i < run->count; i++)
        best = fmin(best, run->in[i].candidate->time_us);
    return best;
}
/* A neighbour only makes times longer: few rounds tell by their lower quartile who may be fast, while what is
 * the best goes by the medians, lest one time that is too short drops all others. */
static void drop_slow(struct run *run, double keep)
{
    double best = best_time(run);
    for (int i = run->count - 1; i >= 0; i--) {
        struct halving_candidate *c = run->in[i].candidate;
        if (c->is_default || run->in[i].low <= keep * best)
            continue;
        take_away(run, i);
        out_slow(run, c, best, "");
    }
}
/* The default first, then by the lower quartile. */
static int compare_contenders(const void *a, const void *b)
{
    const struct contender *x = a, *y = b;
    if (x->candidate->is_default != y->candidate->is_default)
        return x->candidate->is_default ? -1 : 1;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return x->candidate->rank - y->candidate->rank;
}
static void drop_all_but_finalists(struct run *run)
{
    if (run->count == 0)
        return;
    double best = best_time(run);
    qsort(run->in, (size_t)run->count, sizeof *run->in, compare_contenders);
    int keep = FINALISTS + run->in[0].candidate->is_default;
    while (run->count > keep)
        out_slow(run, run->in[--run->count].candidate, best, "not among the finalists: ");
}
/* Of most; 0 where there is nothing to compare. */
static double relative_error(struct run *run)
{
    for (int i = 0; i < run->count; i++) {
        const struct halving_candidate *c = run->in[i].candidate;
        const struct gnf_timing timing = {
            .time_us = c->time_us, .spread_us = c->spread_us, .timings = c->timings};
        run->sorted[i] = gnf_timing_error(&timing) / c->time_us;
    }
    return run->count > 1 ? median(run->sorted, run->count) : 0;
}
static void run_stages(struct run *run)
{
    for (int i = run->count - 1; i >= 0; i--) { /* the best was not known when they were looked at */
        struct halving_candidate *c = run->in[i].candidate;
        if (c->is_default || c->time_us <= far_too_slow * run->best)
            continue;
        take_away(run, i);
        out_slow(run, c, run->best, "");
    }
    for (int i = 0; i < STAGES && !run->ended; i++) {
        const struct stage *stage = &stages[i];
        bool last = i == STAGES - 1;
        if (!last && run->count <= 1)
            continue;
        if (last)
            drop_all_but_finalists(run);
        run->rounds = 0;
        do {
            sample(run, run->rounds + stage->rounds);
            if (run->rounds >= FEWEST_ROUNDS)
                evaluate(run);
        } while (!run->ended && run->rounds < stage->most && relative_error(run) > stage->sure);
        if (!run->ended && !last)
            drop_slow(run, stage->keep);
    }
    for (int i = 0; i < run->count; i++) {
        run->in[i].candidate->complete = !run->ended;
        if (run->in[i].changed)
            note(run, run->in[i].candidate);
    }
}

/* ---- all of it */

static int compare_ranks(const void *a, const void *b)
{
    const struct halving_candidate *x = *(struct halving_candidate *const *)a,
                                   *y = *(struct halving_candidate *const *)b;
    if (x->is_default != y->is_default)
        return x->is_default ? -1 : 1;
    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank) : (x > y) - (x < y);
}
/* Among all that have a time, also those that a stop has kept out of the stages. */
static gnf_status pick(const struct halving *h, int *winner)
{
    struct gnf_timing *timings = calloc((size_t)h->count, sizeof *timings);
    if (timings == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d variants", h->count);
    for (int i = 0; i < h->count; i++) {
        const struct halving_candidate *c = &h->at[i];
        bool known = c->status == GNF_RECORD_OK && usable(c->time_us);
        timings[i] = (struct gnf_timing){.time_us = known ? c->time_us : 0,
                                         .spread_us = c->spread_us,
                                         .timings = c->timings > 0 ? c->timings : 1,
                                         .rank = c->rank,
                                         .is_default = c->is_default};
    }
    *winner = gnf_timing_pick(timings, h->count);
    free(timings);
    return GNF_OK;
}
static gnf_status run_all(struct run *run)
{
    struct halving *h = run->halving;
    size_t n = (size_t)h->count;
    size_t most = n > HALVING_MOST_SAMPLES ? n : HALVING_MOST_SAMPLES; /* of either scratch */
    run->in = calloc(n, sizeof *run->in);
    run->order = calloc(n, sizeof(struct halving_candidate *));
    run->which = calloc(n, sizeof(struct halving_candidate *));
    run->sample = calloc(most, sizeof *run->sample);
    run->sorted = calloc(most, sizeof *run->sorted);
    if (run->in == NULL || run->order == NULL || run->which == NULL || run->sample == NULL ||
        run->sorted == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d variants", h->count);
    for (int i = 0; i < h->count; i++)
        run->order[i] = &h->at[i];
    qsort(run->order, n, sizeof(struct halving_candidate *), compare_ranks);
    for (int i = 0; i < h->count && !run->ended; i++)
        first_look(run, run->order[i]);
    for (int i = 0; i < h->count && !run->ended; i++)
        if (run->order[i]->later)
            first_look(run, run->order[i]);
    if (!run->ended)
        run_stages(run);
    return run->status;
}

gnf_status halving_run(struct halving *halving, int *winner, bool *complete)
{
    struct run run = {.halving = halving, .best = INFINITY, .status = GNF_OK};
    *winner = -1;
    *complete = false;
    if (halving->count <= 0) {
        *complete = true;
        return GNF_OK;
    }
    gnf_status status = run_all(&run);
    free(run.in);
    free(run.order);
    free(run.which);
    free(run.sample);
    free(run.sorted);
    /* what is known counts, also where no more can be measured; the message is of the first failure */
    if (status != GNF_OK) {
        pick(halving, winner);
        return status;
    }
    *complete = !run.ended;
    return pick(halving, winner);
}
