/* A synthetic clock for the tuner's schedule: noise, drift, a neighbour, times that are none, failures at
 * every moment. Include after the headers that cmocka wants. */
#ifndef HALVING_FIXTURE_H
#define HALVING_FIXTURE_H

#include "../tuning/halving.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400 };

/* What one candidate is, and what was done with it. */
struct subject {
    double truth; /* us */
    double bad;   /* what the clock gives, with a probability */
    double bad_probability;
    enum gnf_record_status checked; /* what check() says */
    int fails_after; /* this one ends a call to time() when it has so many samples; -1: never */
    int checks, quick, samples, notes;
};
struct world {
    struct halving halving;
    struct halving_candidate at[MOST];
    struct subject subject[MOST];
    uint64_t random;
    double noise, common, drift, busy, factor, launches, run; /* common: noise of whole rounds */
    int batch;                                                /* launches of a sample that is not quick */
    long asked, stop_at;                                      /* 0: never */
    gnf_status breaks; /* what the call of time() after `breaks_after` samples returns */
    int breaks_after;
    bool breaks_by_stop; /* which stop() says from then on */
    int first;           /* that was checked; -1: none */
    int winner;
    bool complete;
};

static inline double uniform(struct world *w)
{
    uint64_t x = w->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}
static inline double gaussian(struct world *w)
{
    double a = 1 - uniform(w), b = uniform(w);
    return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}
static inline double launch(struct world *w, const struct subject *s, double round)
{
    double t = s->truth * round * (1 + w->noise * gaussian(w)) * (1 + w->drift * w->launches / w->run);
    double neighbour = uniform(w), bad = uniform(w);
    w->launches++;
    return bad < s->bad_probability ? s->bad : neighbour < w->busy ? t * w->factor : t;
}

static inline struct subject *subject_of(struct world *w, const struct halving_candidate *c)
{
    return &w->subject[c - w->at];
}
static inline gnf_status check(void *user, struct halving_candidate *c)
{
    struct world *w = user;
    struct subject *s = subject_of(w, c);
    w->first = w->first < 0 ? (int)(c - w->at) : w->first;
    s->checks++;
    c->status = s->checked;
    if (s->checked != GNF_RECORD_OK)
        snprintf(c->error, sizeof c->error, "as the test wants");
    return GNF_OK;
}
/* Rounds one after another, the candidates of each in an order of its own. */
static inline gnf_status take(void *user, struct halving_candidate *const *which, int count, int rounds,
                              bool quick, double *sample, int *failed)
{
    struct world *w = user;
    int order[MOST];
    *failed = -1;
    assert_in_range(count, 1, MOST);
    assert_in_range(rounds, 1, HALVING_MOST_SAMPLES);
    if (w->breaks != GNF_OK && w->launches >= w->breaks_after) {
        w->stop_at = w->breaks_by_stop ? w->asked + 1 : 0;
        return w->breaks;
    }
    for (int i = 0; i < count; i++) {
        struct subject *s = subject_of(w, which[i]);
        assert_int_equal(which[i]->status, GNF_RECORD_OK);
        order[i] = i;
        if (s->fails_after >= 0 && s->samples + rounds > s->fails_after) {
            which[i]->status = GNF_RECORD_HUNG;
            snprintf(which[i]->error, sizeof which[i]->error, "no answer");
            for (int k = 0; k < count * rounds; k++)
                sample[k] = 1e-3; /* not valid */
            *failed = i;
            return GNF_OK;
        }
    }
    for (int r = 0; r < rounds; r++) {
        double round = exp(w->common * gaussian(w));
        for (int i = count - 1; i > 0; i--) {
            int k = (int)(uniform(w) * (i + 1)), swap = order[i];
            order[i] = order[k];
            order[k] = swap;
        }
        for (int i = 0; i < count; i++) {
            struct subject *s = subject_of(w, which[order[i]]);
            s->quick += quick;
            s->samples += !quick;
            int launches = quick ? 1 : w->batch;
            double sum = 0;
            for (int k = 0; k < launches; k++)
                sum += launch(w, s, round);
            sample[order[i] * rounds + r] = sum / launches;
        }
    }
    return GNF_OK;
}
static inline void note(void *user, const struct halving_candidate *c)
{
    struct subject *s = subject_of(user, c);
    s->notes++;
    assert_true(c->status != GNF_RECORD_OK || c->time_us > 0);
    assert_true(c->status == GNF_RECORD_OK || (c->complete && c->error[0] != '\0'));
}
static inline bool stop(void *user)
{
    struct world *w = user;
    return ++w->asked == w->stop_at || (w->stop_at && w->asked > w->stop_at);
}

/* `count` candidates of 10 us, the first of them the default, no noise. */
static inline struct world *world(int count)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->halving = (struct halving){w->at, count, w, check, take, note, stop};
    w->random = 1;
    w->run = 500;
    w->factor = 3;
    w->batch = 1;
    w->first = -1;
    for (int i = 0; i < count; i++) {
        w->at[i] = (struct halving_candidate){.name = "x", .rank = i, .is_default = i == 0};
        w->subject[i] = (struct subject){.truth = 10, .fails_after = -1};
    }
    return w;
}
static inline void run(struct world *w)
{
    w->winner = -2;
    assert_int_equal(halving_run(&w->halving, &w->winner, &w->complete), GNF_OK);
    assert_in_range(w->winner + 1, 0, w->halving.count);
    for (int i = 0; i < w->halving.count; i++) {
        assert_true(isfinite(w->at[i].time_us) && w->at[i].time_us >= 0);
        assert_true(isfinite(w->at[i].spread_us) && w->at[i].spread_us >= 0);
    }
}
static inline double truth(const struct world *w, int i)
{
    return w->subject[i].truth;
}

#endif
