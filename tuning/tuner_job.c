/* One problem on one device: what is known, what is measured, what is written down. */
#include "tuner.h"

#include "../runtime/cli/interrupt.h"
#include "../runtime/monotonic.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AT_ONCE = 32 }; /* variants in one request for times */
static const double COMPILE_PATIENCE_S = 2;

void tuner_copy_line(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
}

static void show(struct tuner_job *job, enum tuner_step step, int variant, int count)
{
    struct tuner *tuner = job->tuner;
    pthread_mutex_lock(&tuner->lock);
    tuner->shown_job = job;
    tuner->shown_step = step;
    tuner->shown_variant = variant;
    tuner->shown_count = count;
    tuner->changes++;
    pthread_cond_signal(&tuner->changed);
    pthread_mutex_unlock(&tuner->lock);
}

static void write_down(struct tuner_job *job, struct tuner_variant *v)
{
    const struct gnf_record record = tuner_record_of(job, v);
    gnf_status status = append_record(job->tuner->append, &record);
    if (status != GNF_OK && job->write_status == GNF_OK) {
        job->write_status = status;
        tuner_copy_line(job->failure, sizeof job->failure, gnf_error_message());
    }
    pthread_mutex_lock(&job->tuner->lock);
    job->tuner->kept += status == GNF_OK && !v->measured;
    v->measured = true;
    pthread_mutex_unlock(&job->tuner->lock);
}

/* ---- what halving calls */

static struct tuner_variant *variant_of(const struct tuner_job *job,
                                        const struct halving_candidate *candidate)
{
    return &job->variants[job->variant_of[candidate - job->halving.at]];
}

static bool stop(void *user)
{
    struct tuner_job *job = user;
    if (job->tuner->stopping || interrupt_pending() || job->write_status != GNF_OK)
        return true;
    /* The default is in the running whatever it costs: what is taken must not be slower than it. */
    return job->deadline > 0 && job->default_seen && gnf_now() > job->deadline;
}

struct compile_wait {
    struct tuner_job *job;
    double until;
};

static bool stop_waiting(void *user)
{
    const struct compile_wait *wait = user;
    return stop(wait->job) || gnf_now() > wait->until;
}

/* Until when a compile is waited for. The second time as long as it takes, but for half of the time that is
 * left, which is for the others. */
static double patience(const struct tuner_job *job, bool again)
{
    double now = gnf_now();
    if (!again)
        return now + COMPILE_PATIENCE_S;
    return job->deadline > 0 ? now + (job->deadline - now) / 2 : INFINITY;
}

static gnf_status check(void *user, struct halving_candidate *candidate)
{
    struct tuner_job *job = user;
    struct tuner_variant *v = variant_of(job, candidate);
    struct measured measured;
    double ms;
    show(job, TUNER_COMPILING, (int)(v - job->variants), 1);
    /* One that takes long to compile holds nobody up, but for the default, which comes first. */
    bool again = candidate->later;
    struct compile_wait wait = {job, candidate->is_default ? INFINITY : patience(job, again)};
    candidate->later = false;
    gnf_status status =
        compiling_wait(job->kind->compiling, job->problem->text, candidate->name, &ms, stop_waiting, &wait);
    if (stop(job))
        return GNF_OK;
    if (status != GNF_OK && gnf_now() > wait.until) {
        candidate->later = true;
        return GNF_OK;
    }
    if (status == GNF_COMPILE_FAILED) {
        candidate->status = GNF_RECORD_NOT_COMPILED;
        tuner_copy_line(candidate->error, sizeof candidate->error, gnf_error_message());
        return GNF_OK;
    }
    GNF_TRY(status);
    show(job, TUNER_CHECKING, (int)(v - job->variants), 1);
    GNF_TRY(measurer_check(job->device->measurer, candidate->name, &measured));
    v->ready = measured.status == GNF_RECORD_OK;
    v->max_error = measured.max_error;
    memcpy(v->gemm, measured.gemm, sizeof v->gemm);
    candidate->status = measured.status;
    tuner_copy_line(candidate->error, sizeof candidate->error, measured.error);
    return GNF_OK;
}

/* What came out of the database was not looked at yet. */
static gnf_status check_all(struct tuner_job *job, struct halving_candidate *const *which, int count,
                            int *failed)
{
    for (int i = 0; i < count; i++) {
        if (variant_of(job, which[i])->ready)
            continue;
        GNF_TRY(check(job, which[i]));
        if (which[i]->status != GNF_RECORD_OK) {
            *failed = i;
            return GNF_OK;
        }
        if (!variant_of(job, which[i])->ready) /* halving knows that it was told to stop */
            return gnf_fail(GNF_IO, "stopped");
    }
    return GNF_OK;
}

/* In parts, so that a budget is heard between them: where there are so many, a round is all that is asked
 * for. */
static gnf_status time_parts(struct tuner_job *job, struct halving_candidate *const *which,
                             const char *const *names, int count, int rounds, bool quick, double *sample,
                             int *failed)
{
    struct measured how;
    for (int from = 0; from < count; from += MOST_AT_ONCE) {
        int part = count - from < MOST_AT_ONCE ? count - from : MOST_AT_ONCE;
        if (from > 0 && stop(job))
            return gnf_fail(GNF_IO, "stopped");
        show(job, TUNER_TIMING, (int)(variant_of(job, which[from]) - job->variants), part);
        GNF_TRY(measurer_time(job->device->measurer, names + from, part, rounds, false, quick,
                              sample + (ptrdiff_t)from * rounds, failed, &how));
        if (*failed < 0)
            continue;
        *failed += from;
        which[*failed]->status = how.status;
        tuner_copy_line(which[*failed]->error, sizeof which[*failed]->error, how.error);
        return GNF_OK;
    }
    if (!quick || job->clock_mhz == 0)
        job->clock_mhz = measurer_clock_mhz(job->device->measurer);
    return GNF_OK;
}

static gnf_status time_them(void *user, struct halving_candidate *const *which, int count, int rounds,
                            bool quick, double *sample, int *failed)
{
    struct tuner_job *job = user;
    const char **names = malloc((size_t)count * sizeof *names);
    if (names == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d names", count);
    for (int i = 0; i < count; i++)
        names[i] = which[i]->name;
    *failed = -1;
    gnf_status status = check_all(job, which, count, failed);
    if (status == GNF_OK && *failed < 0)
        status = time_parts(job, which, names, count, rounds, quick, sample, failed);
    free(names);
    return status;
}

static void note(void *user, const struct halving_candidate *candidate)
{
    struct tuner_job *job = user;
    struct tuner *tuner = job->tuner;
    struct tuner_variant *v = variant_of(job, candidate);
    if (interrupt_pending() && candidate->status != GNF_RECORD_OK)
        return; /* perhaps no fault of the kernel */
    pthread_mutex_lock(&tuner->lock);
    job->finished += !v->measured;
    v->have = true;
    v->status = candidate->status;
    v->complete = candidate->complete || candidate->status != GNF_RECORD_OK;
    v->time_us = isfinite(candidate->time_us) ? candidate->time_us : 0;
    v->spread_us = isfinite(candidate->spread_us) ? candidate->spread_us : 0;
    v->timings = candidate->timings;
    tuner_copy_line(v->error, sizeof v->error, candidate->error);
    job->default_seen |= candidate->is_default;
    job->best = -1;
    for (int i = 0; i < job->count; i++)
        if (tuner_has_time(&job->variants[i]) &&
            (job->best < 0 || job->variants[i].time_us < job->variants[job->best].time_us))
            job->best = i;
    tuner->changes++;
    pthread_cond_signal(&tuner->changed);
    pthread_mutex_unlock(&tuner->lock);
    write_down(job, v);
}

/* ---- a run */

static gnf_status make_candidates(struct tuner_job *job)
{
    job->halving =
        (struct halving){.user = job, .check = check, .time = time_them, .note = note, .stop = stop};
    free(job->variant_of);
    job->variant_of = calloc((size_t)job->count + 1, sizeof *job->variant_of);
    job->halving.at = calloc((size_t)job->count + 1, sizeof *job->halving.at);
    if (job->variant_of == NULL || job->halving.at == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d candidates", job->count);
    job->default_seen = true; /* unless it has to be measured */
    for (int i = 0; i < job->count; i++) {
        const struct tuner_variant *v = &job->variants[i];
        if (!v->running)
            continue;
        job->default_seen &= i != job->default_index || tuner_has_time(v);
        job->variant_of[job->halving.count] = i;
        struct halving_candidate *candidate = &job->halving.at[job->halving.count++];
        *candidate = (struct halving_candidate){
            .name = v->variant->name, .rank = i, .is_default = i == job->default_index};
        if (tuner_has_time(v)) {
            candidate->time_us = v->time_us;
            candidate->spread_us = v->spread_us;
            candidate->timings = v->timings;
        }
    }
    return GNF_OK;
}

static void refuse(struct tuner_job *job)
{
    for (int i = 0; i < job->count && !stop(job); i++) {
        struct tuner_variant *v = &job->variants[i];
        if (v->refused[0] == '\0' || v->known)
            continue;
        v->have = v->complete = true;
        v->status = GNF_RECORD_REFUSED;
        v->time_us = v->spread_us = 0;
        v->timings = 0;
        memcpy(v->error, v->refused, sizeof v->error);
        write_down(job, v);
    }
}

gnf_status tuner_job_run(struct tuner_job *job, struct tuner_device *device)
{
    int winner = -1;
    job->device = device;
    job->complete = true;
    GNF_TRY(make_candidates(job));
    refuse(job);
    if (job->halving.count > 0 && job->write_status == GNF_OK) {
        gnf_status status = measurer_open(device->measurer, job->problem, job->problem->samples);
        if (status == GNF_OK)
            status = halving_run(&job->halving, &winner, &job->complete);
        if (status == GNF_OUT_OF_MEMORY) { /* of this problem on this device: the others go on */
            tuner_copy_line(job->failure, sizeof job->failure, gnf_error_message());
            job->complete = false;
            return GNF_OK;
        }
        GNF_TRY(status);
        for (int i = 0; i < job->count; i++) /* one may be left out whose compile took too long */
            job->complete &= !job->variants[i].running || job->variants[i].have;
    }
    if (job->write_status != GNF_OK)
        return gnf_fail(job->write_status, "%s", job->failure);
    job->winner = winner >= 0 ? job->variant_of[winner] : tuner_pick_known(job);
    return GNF_OK;
}
