/* Which of cuBLASLt's algorithms a plan's matrix products take: measured, the candidates in turns, as part of
 * the plan's launch with cold inputs. */
#include "measuring.h"

#include "../runtime/linear.h"
#include "measurable.h"
#include <stdlib.h>
#include <string.h>

/* The heuristics know 8 at most. Of fewer rounds a disturbance could pick. */
enum { MOST_CANDIDATES = 16, ROUNDS = 7, SIMULATED_ROUNDS = 3 };
static const double warm_ms = 10;

/* One product's candidates. */
struct contest {
    struct timing_job job[MOST_CANDIDATES];
    double sample[MOST_CANDIDATES][ROUNDS];
    bool out[MOST_CANDIDATES]; /* cuBLASLt offered it and does not run it */
    int count, rounds;
    int at; /* what the parent is told */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A graph of each, as timing_prepare() makes it with the algorithm taken just before. In the simulator, where
 * each launch costs real time, single launches do. */
static gnf_status prepare(struct measuring *m, struct subject *subject, int gemm, struct contest *contest)
{
    for (int i = 0; i < contest->count; i++) {
        worker_at(m->worker, contest->at);
        contest->job[i] =
            (struct timing_job){.launch = rotation_launch, .user = &subject->run, .sets = m->rotation.sets};
        if (m->session.simulated)
            continue;
        gnf_plan_gemm_take(subject->plan, gemm, i);
        if (timing_prepare(&m->clock, &contest->job[i]) == GNF_OK)
            continue;
        contest->out[i] = true;
        measuring_inspect(m);
        if (m->broken)
            return GNF_DRIVER_ERROR;
    }
    for (int i = 0; i < contest->count && !m->session.simulated; i++)
        if (!contest->out[i])
            return timing_warm(&m->clock, &contest->job[i], 1, warm_ms);
    return GNF_OK;
}

static gnf_status sample(struct measuring *m, struct subject *subject, int gemm, struct contest *contest)
{
    int order[MOST_CANDIDATES];
    for (int round = 0; round < contest->rounds; round++) {
        timing_shuffle(&m->shuffle, order, contest->count);
        for (int i = 0; i < contest->count; i++) {
            int one = order[i];
            double *us = &contest->sample[one][round];
            worker_at(m->worker, contest->at);
            if (contest->out[one])
                continue;
            if (m->session.simulated)
                gnf_plan_gemm_take(subject->plan, gemm, one);
            GNF_TRY(m->session.simulated ? timing_glance(&m->clock, &contest->job[one], round, us)
                                         : timing_sample(&m->clock, &contest->job[one], us));
        }
    }
    return GNF_OK;
}

/* The fastest; the heuristics' first where nothing was faster. */
static int best_of(struct contest *contest)
{
    int best = -1;
    for (int i = 0; i < contest->count; i++) {
        if (contest->out[i])
            continue;
        qsort(contest->sample[i], (size_t)contest->rounds, sizeof(double), by_value);
        double median = contest->sample[i][contest->rounds / 2];
        if (best < 0 || median < contest->sample[best][contest->rounds / 2])
            best = i;
    }
    return best >= 0 ? best : 0;
}

static gnf_status hold_contest(struct measuring *m, struct subject *subject, int at, int gemm, int *best)
{
    struct contest *contest = calloc(1, sizeof *contest);
    *best = 0;
    if (contest == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory to time a matrix product's algorithms");
    int count = gnf_plan_gemm_candidates(subject->plan, gemm);
    contest->count = count < MOST_CANDIDATES ? count : MOST_CANDIDATES;
    contest->at = at;
    contest->rounds = m->session.simulated ? SIMULATED_ROUNDS : ROUNDS;
    gnf_status status = GNF_OK;
    if (contest->count > 1) {
        status = prepare(m, subject, gemm, contest);
        if (status == GNF_OK)
            status = sample(m, subject, gemm, contest);
        if (status == GNF_OK)
            *best = best_of(contest);
    }
    for (int i = 0; i < contest->count; i++)
        timing_release(&m->session, &contest->job[i]);
    free(contest);
    if (count > 0)
        gnf_plan_gemm_take(subject->plan, gemm, *best);
    return status;
}

/* Variants of one product differ in their tails, and what was found for one of them is true for all. */
static struct picked *find_picked(struct measuring *m, const struct gnf_product *product)
{
    for (int i = 0; i < m->picked_count; i++)
        if (m->picked[i].method == product->method && m->picked[i].chunks == product->chunks)
            return &m->picked[i];
    if (m->picked_count == MEASURING_PRODUCTS)
        return NULL;
    m->picked[m->picked_count] = (struct picked){.method = product->method, .chunks = product->chunks};
    return &m->picked[m->picked_count++];
}

static gnf_status pick(struct measuring *m, struct subject *subject, int at, int gemms)
{
    struct picked *picked = find_picked(m, &subject->plan->choice.variant->product);
    for (int gemm = 0; gemm < gemms; gemm++) {
        int taken = 0;
        if (picked != NULL && gemm < picked->gemms)
            gnf_plan_gemm_take(subject->plan, gemm, taken = picked->taken[gemm]);
        else
            GNF_TRY(hold_contest(m, subject, at, gemm, &taken));
        subject->repicked |= taken != 0;
        if (picked != NULL && gemm == picked->gemms && gemm < MEASURING_GEMMS)
            picked->taken[picked->gemms++] = taken;
    }
    return GNF_OK;
}

gnf_status measuring_pick(struct measuring *m, struct subject *subject, int at)
{
    int gemms = subject->plan->empty ? 0 : gnf_plan_gemms(subject->plan);
    bool moved;
    if (subject->picked || gemms == 0 || !measurable_clock(m->session.simulated))
        return GNF_OK;
    GNF_TRY(measuring_fit(m, subject, &moved));
    worker_host(m->worker, false);
    GNF_TRY(pick(m, subject, at, gemms));
    /* A graph has the algorithm in it that was taken when it was captured. */
    timing_release(&m->session, &subject->cold);
    timing_release(&m->session, &subject->hot);
    GNF_TRY(gnf_plan_gemm_text(subject->plan, &subject->gemm));
    subject->picked = true;
    return GNF_OK;
}
