#include "measuring.h"

#include "../runtime/cli/output.h"
#include "../runtime/monotonic.h"
#include "clock.h"
#include <math.h>
#include <stdlib.h>

enum { MOST_SAMPLES = 1 << 20 };
static const double idle_ms = 100, warm_ms = 10;

/* One request. */
struct timing_request {
    struct subject **subject;
    int count, rounds;
    bool hot, quick;
    double *sample; /* count * rounds */
    int *order;
    int at; /* the variant that the device is busy with, or -1 */
};

static struct timing_job *job_of(const struct timing_request *t, int i)
{
    return t->hot ? &t->subject[i]->hot : &t->subject[i]->cold;
}

static gnf_status read_request(struct timing_request *t, const json_t *request)
{
    json_int_t rounds = json_integer_value(json_object_get(request, "rounds"));
    size_t count = json_array_size(json_object_get(request, "variants"));
    if (count == 0 || rounds < 1 || count > MOST_SAMPLES || rounds > MOST_SAMPLES ||
        count * (size_t)rounds > MOST_SAMPLES)
        return gnf_fail(GNF_INVALID_ARGUMENT, "worker: %zu variants in %lld rounds (allowed: %d samples)",
                        count, (long long)rounds, MOST_SAMPLES);
    t->count = (int)count;
    t->rounds = (int)rounds;
    t->hot = json_is_true(json_object_get(request, "hot"));
    t->quick = json_is_true(json_object_get(request, "quick"));
    t->subject = calloc(count, sizeof *t->subject);
    t->sample = calloc(count * (size_t)rounds, sizeof *t->sample);
    t->order = calloc(count, sizeof *t->order);
    return t->subject != NULL && t->sample != NULL && t->order != NULL
               ? GNF_OK
               : gnf_fail(GNF_OUT_OF_MEMORY, "worker: no host memory for %zu variants", count);
}

gnf_status measuring_fit(struct measuring *m, struct subject *subject, bool *moved)
{
    if (m->rotation.session == NULL)
        GNF_TRY(rotation_create(&m->rotation, &m->session, &m->tensors));
    GNF_TRY(rotation_fit(&m->rotation, &subject->run, moved));
    for (int i = 0; i < m->subject_count && *moved; i++) {
        timing_release(&m->session, &m->subjects[i]->cold);
        timing_release(&m->session, &m->subjects[i]->hot);
    }
    return GNF_OK;
}

/* Plans and memory. After a restart a variant that was checked in another process is planned here. `how` is
 * filled, and t->at tells which, where one has no plan. */
static gnf_status find_subjects(struct measuring *m, const json_t *request, struct timing_request *t,
                                struct measured *how)
{
    const json_t *names = json_object_get(request, "variants");
    if (m->rotation.session == NULL) /* before any variant is at hand: it is not to blame for the tensors */
        GNF_TRY(rotation_create(&m->rotation, &m->session, &m->tensors));
    for (int i = 0; i < t->count; i++) {
        const char *name = json_string_value(json_array_get(names, (size_t)i));
        bool moved;
        worker_at(m->worker, i);
        t->at = -1;
        GNF_TRY(measuring_subject(m, name != NULL ? name : "", &t->subject[i], how));
        t->at = i;
        if (t->subject[i] == NULL)
            return GNF_OK;
        GNF_TRY(measuring_fit(m, t->subject[i], &moved));
    }
    t->at = -1;
    return GNF_OK;
}

static gnf_status prepare(struct measuring *m, struct timing_request *t)
{
    for (int i = 0; i < t->count; i++) {
        struct timing_job *job = job_of(t, i);
        t->at = i;
        worker_at(m->worker, i);
        GNF_TRY(measuring_pick(m, t->subject[i], i)); /* where a process before this one had checked it */
        if (job->graph != NULL)
            continue;
        job->launch = rotation_launch;
        job->user = &t->subject[i]->run;
        job->sets = t->hot ? 1 : m->rotation.sets;
        if (!t->quick)
            GNF_TRY(timing_prepare(&m->clock, job));
    }
    return GNF_OK;
}

/* An idle card slows its clocks. */
static gnf_status warm(struct measuring *m, struct timing_request *t)
{
    double start = 1e3 * gnf_now(), us;
    if (m->session.simulated || start - m->worked_ms < idle_ms)
        return GNF_OK;
    t->at = 0;
    worker_at(m->worker, 0);
    if (!t->quick)
        return timing_warm(&m->clock, job_of(t, 0), 1, warm_ms);
    while (1e3 * gnf_now() - start < warm_ms)
        GNF_TRY(timing_glance(&m->clock, job_of(t, 0), 0, &us));
    return GNF_OK;
}

static gnf_status sample(struct measuring *m, struct timing_request *t)
{
    for (int round = 0; round < t->rounds; round++) {
        timing_shuffle(&m->shuffle, t->order, t->count);
        for (int i = 0; i < t->count; i++) {
            int one = t->at = t->order[i];
            double *us = &t->sample[one * t->rounds + round];
            worker_at(m->worker, one);
            GNF_TRY(t->quick ? timing_glance(&m->clock, job_of(t, one), round, us)
                             : timing_sample(&m->clock, job_of(t, one), us));
        }
    }
    m->worked_ms = 1e3 * gnf_now();
    return GNF_OK;
}

static gnf_status run(struct measuring *m, struct timing_request *t)
{
    GNF_TRY(prepare(m, t));
    GNF_TRY(warm(m, t));
    GNF_TRY(sample(m, t));
    if (!m->session.simulated && !t->quick) /* while the clocks are still what they were */
        m->clock_mhz = clock_mhz(&m->session.context->driver, m->session.context->device.ordinal);
    return GNF_OK;
}

/* What no clock can have meant is none. */
static json_t *samples(const struct timing_request *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->count * t->rounds; i++)
        json_array_append_new(list, t->sample[i] > 0 ? output_number(t->sample[i]) : json_null());
    return list;
}

static gnf_status answer_request(struct measuring *m, const json_t *request, struct timing_request *t,
                                 json_t *answer)
{
    struct measured how;
    GNF_TRY(read_request(t, request));
    if (m->tensors.y_elements == 0)
        return gnf_fail(GNF_INVALID_ARGUMENT, "'%s' has no elements to time", m->problem.text);
    gnf_status status = find_subjects(m, request, t, &how);
    if (status == GNF_OK && t->at < 0) {
        worker_host(m->worker, false);
        status = run(m, t);
        if (status == GNF_OK)
            return json_object_set_new(answer, "sample", samples(t)) == 0
                       ? GNF_OK
                       : gnf_fail(GNF_OUT_OF_MEMORY, "worker: no host memory for an answer");
    }
    if (t->at < 0)
        return status;
    if (status != GNF_OK) {
        measured_fail(&how, GNF_RECORD_FAILED, gnf_error_message());
        measuring_inspect(m);
    }
    json_object_set_new(answer, "failed", json_integer(t->at));
    json_object_set_new(answer, "measured", measured_write(&how));
    return GNF_OK;
}

gnf_status measuring_time(struct measuring *m, const json_t *request, json_t *answer)
{
    struct timing_request t = {.at = -1};
    gnf_status status = answer_request(m, request, &t, answer);
    free(t.subject);
    free(t.sample);
    free(t.order);
    return status;
}
