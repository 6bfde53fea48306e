#include "tuner_output.h"
#include "../runtime/monotonic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILURES_SHOWN = 3 };
static const double SIGN_OF_LIFE_S = 1;

gnf_status tuner_output_begin(struct tuner_output *output, struct tuner *tuner)
{
    int total = 0;
    for (int i = 0; i < tuner->job_count; i++)
        total += tuner->jobs[i].count;
    *output = (struct tuner_output){.tuner = tuner, .seen = tuner->changes - 1, .reports = json_array()};
    output->text = tuner->args->json || tuner->args->events ? stderr : stdout;
    progress_begin(&output->progress, total, tuner->args->quiet);
    return output->reports != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no memory for the reports");
}

/* The simulator's clock says nothing unless somebody set it. */
static bool times_count(const struct tuner_job *job)
{
    const char *clock = getenv("CUDASIM_CLOCK");
    return !job->kind->device.simulated || (clock != NULL && *clock != '\0');
}

/* " 12.3 us", " 12.3 us simulated", or nothing. */
static void spell_time(char out[48], const struct tuner_job *job, double us)
{
    out[0] = '\0';
    if (times_count(job) && us > 0)
        snprintf(out, 48, " %.*f us%s", us < 100 ? 2 : 1, us,
                 job->kind->device.simulated ? " simulated" : "");
}

static const struct tuner_variant *at(const struct tuner_job *job, int variant)
{
    return variant >= 0 ? &job->variants[variant] : NULL;
}

static const char *name_of(const struct tuner_variant *v)
{
    return v != NULL ? v->variant->name : "";
}

static json_t *time_of(const struct tuner_job *job, const struct tuner_variant *v)
{
    bool has = v != NULL && v->have && v->time_us > 0 && times_count(job);
    return has ? output_number(v->time_us) : json_null();
}

static void device_of(const struct tuner_job *job, char out[16])
{
    const struct tuner_device *device = job->device != NULL ? job->device : &job->tuner->device[0];
    if (job->kind->device.simulated)
        snprintf(out, 16, "sim");
    else
        snprintf(out, 16, "%d", device->ordinal);
}

/* ---- a problem's end */

static json_t *failures_of(const struct tuner_job *job)
{
    json_t *list = json_array();
    for (int i = 0; i < job->count; i++) {
        const struct tuner_variant *v = &job->variants[i];
        if (v->have && v->status != GNF_RECORD_OK && v->status != GNF_RECORD_SLOW)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", v->variant->name, "status",
                                                  gnf_record_status_names[v->status], "error", v->error));
    }
    return list;
}

static json_t *report_of(const struct tuner_job *job)
{
    const struct tuner_variant *winner = at(job, job->winner), *fallback = at(job, job->default_index);
    int measured, known, failed;
    char device[16];
    tuner_job_counts(job, &measured, &known, &failed);
    device_of(job, device);
    json_t *report =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:i, s:i, s:i, s:b, s:s, s:s, s:o}", "problem",
                  job->problem->text, "key", job->problem->key, "samples", (json_int_t)job->problem->samples,
                  "variant", name_of(winner), "default", name_of(fallback), "time_us", time_of(job, winner),
                  "default_us", time_of(job, fallback), "measured", measured, "known", known, "failed",
                  failed, "complete", job->begun && job->complete, "device", device, "gpu",
                  job->kind->device.gpu, "failures", failures_of(job));
    if (report != NULL && job->failure[0] != '\0')
        json_object_set_new(report, "error", json_string(job->failure));
    return report;
}

static void print_reproduction(const struct tuner_job *job, const struct tuner_variant *v, FILE *out)
{
    const struct args *args = job->tuner->args;
    char quoted[2 * GNF_KEY_SIZE], device[16];
    output_quoted(quoted, sizeof quoted, job->problem->text);
    device_of(job, device);
    fprintf(out, "  again: gnfuse check %s --variant %s --seed %llu --device %s -v", quoted, v->variant->name,
            (unsigned long long)args->seed, device);
    for (int i = 0; i < args->packs.count; i++)
        fprintf(out, " --pack %s", args->packs.at[i]);
    fputc('\n', out);
}

static void print_variant(const struct tuner_job *job, const struct tuner_variant *v, FILE *out)
{
    char time[48];
    spell_time(time, job, v->have ? v->time_us : 0);
    fprintf(out, "  %-36s %-12s%s%s", v->variant->name,
            v->have ? gnf_record_status_names[v->status] : "not measured",
            v->known && !v->measured ? " known" : "", time);
    if (time[0] != '\0' && v->timings > 1)
        fprintf(out, ", spread %.2f us, %d samples", v->spread_us, v->timings);
    fprintf(out, "%s%s\n", v->error[0] != '\0' ? " " : "", v->error);
}

static void print_variants(const struct tuner_job *job, FILE *out)
{
    bool verbose = job->tuner->args->verbose;
    int failures = 0;
    for (int i = 0; i < job->count; i++) {
        const struct tuner_variant *v = &job->variants[i];
        bool failed = v->have && v->status != GNF_RECORD_OK && v->status != GNF_RECORD_SLOW;
        failures += failed;
        if (verbose || (failed && failures <= FAILURES_SHOWN))
            print_variant(job, v, out);
        if (failed && v->status == GNF_RECORD_WRONG)
            print_reproduction(job, v, out);
    }
    if (!verbose && failures > FAILURES_SHOWN)
        fprintf(out, "  and %d more that cannot be used (-v lists them)\n", failures - FAILURES_SHOWN);
}

static void print_job(const struct tuner_job *job, FILE *out)
{
    const struct tuner_variant *winner = at(job, job->winner), *fallback = at(job, job->default_index);
    int measured, known, failed;
    char time[48], default_time[48];
    tuner_job_counts(job, &measured, &known, &failed);
    fprintf(out, "%s", job->problem->text);
    if (job->tuner->kind_count > 1)
        fprintf(out, " on %s", job->kind->device.gpu);
    if (!job->begun) {
        fprintf(out, ": not begun, the time is used up\n");
        return;
    }
    if (job->failure[0] != '\0') {
        fprintf(out, ": cannot be measured: %s\n", job->failure);
        return;
    }
    if (winner == NULL) {
        fprintf(out, ": no variant can be measured, so plans take what the default rule says, %s",
                fallback != NULL ? fallback->variant->name : "and it has none");
    } else {
        spell_time(time, job, winner->time_us);
        fprintf(out, ": %s%s", winner->variant->name, time);
    }
    if (winner != NULL && winner == fallback)
        fprintf(out, ", the default");
    else if (winner != NULL && fallback != NULL) {
        bool timed = fallback->have && fallback->time_us > 0 && times_count(job);
        spell_time(default_time, job, timed ? fallback->time_us : 0);
        fprintf(out, ", default %s%s", fallback->variant->name, default_time);
        if (timed)
            fprintf(out, ", %.2f times as fast", fallback->time_us / winner->time_us);
    }
    fprintf(out, "; %d measured, %d known, %d failed%s\n", measured, known, failed,
            job->complete ? "" : "; cut short, the same command goes on");
    print_variants(job, out);
}

/* Releases the fields. */
static gnf_status print_event(const char *name, json_t *fields)
{
    json_t *event = json_pack("{s:s}", "event", name);
    int failed = event == NULL || fields == NULL || json_object_update(event, fields) != 0 ||
                 json_dumpf(event, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0;
    json_decref(event);
    json_decref(fields);
    fputc('\n', stdout);
    return failed ? gnf_fail(GNF_IO, "standard output: cannot be written") : output_flush();
}

static gnf_status finish_job(struct tuner_output *output, const struct tuner_job *job)
{
    const struct args *args = output->tuner->args;
    progress_clear(&output->progress);
    if (!(args->json || args->events) || args->verbose)
        print_job(job, output->text);
    if (args->events)
        return print_event("report", report_of(job));
    if (args->json)
        json_array_append_new(output->reports, report_of(job));
    return output_flush();
}

/* ---- on the way */

static bool look(struct tuner_output *output, struct moment *moment)
{
    struct tuner *tuner = output->tuner;
    pthread_mutex_lock(&tuner->lock);
    bool changed = output->seen != tuner->changes;
    output->seen = tuner->changes;
    const struct tuner_job *job = tuner->shown_job;
    *moment = (struct moment){.job = job,
                              .step = tuner->shown_step,
                              .variant = tuner->shown_variant,
                              .count = tuner->shown_count,
                              .best = -1};
    for (int i = 0; i < tuner->job_count; i++)
        moment->all_done +=
            tuner->jobs[i].state >= TUNER_DONE ? tuner->jobs[i].count : tuner->jobs[i].finished;
    if (job != NULL) {
        moment->done = job->finished;
        moment->total = job->count;
        moment->best = job->best;
        moment->best_us = job->best >= 0 ? job->variants[job->best].time_us : 0;
    }
    pthread_mutex_unlock(&tuner->lock);
    return changed;
}

static const char *const steps[] = {"compiling", "checking", "timing"};

/* What nobody could tell from the last one only comes as a sign of life. */
static gnf_status send_moment(struct tuner_output *output, const struct moment *moment)
{
    const struct tuner_job *job = moment->job;
    struct moment *last = &output->last;
    double now = gnf_now();
    if (last->job == job && last->step == moment->step && last->variant == moment->variant &&
        last->done == moment->done && last->best == moment->best && now - output->sent < SIGN_OF_LIFE_S)
        return GNF_OK;
    *last = *moment;
    output->sent = now;
    bool timed = times_count(job) && moment->best >= 0;
    return print_event("progress", json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:o, s:f}", "problem",
                                             job->problem->text, "step", steps[moment->step], "variant",
                                             name_of(at(job, moment->variant)), "done", moment->done, "total",
                                             moment->total, "best", name_of(at(job, moment->best)), "best_us",
                                             timed ? output_number(moment->best_us) : json_null(),
                                             "elapsed_s", now - output->tuner->begin));
}

static void show_moment(struct tuner_output *output, const struct moment *moment)
{
    const struct tuner_job *job = moment->job;
    double elapsed = gnf_now() - output->tuner->begin;
    const char *variant = job->variants[moment->variant].variant->name;
    const char *best = name_of(at(job, moment->best));
    char what[160], time[48];
    if (moment->count > 1)
        snprintf(what, sizeof what, "timing %d variants", moment->count);
    else
        snprintf(what, sizeof what, "%s %s", steps[moment->step], variant);
    spell_time(time, job, moment->best_us);
    progress_at(&output->progress, moment->all_done, "%s%s%s%s  %.0f s", what, *best ? "  best " : "", best,
                time, elapsed);
}

gnf_status tuner_output_update(struct tuner_output *output)
{
    struct tuner *tuner = output->tuner;
    struct moment moment;
    bool changed = look(output, &moment);
    if (moment.job != NULL && tuner->args->events)
        GNF_TRY(send_moment(output, &moment));
    else if (moment.job != NULL && (changed || output->progress.live))
        show_moment(output, &moment);
    for (int i = 0; i < tuner->job_count; i++) {
        struct tuner_job *job = &tuner->jobs[i];
        pthread_mutex_lock(&tuner->lock);
        bool done = job->state == TUNER_DONE;
        pthread_mutex_unlock(&tuner->lock);
        if (!done)
            continue;
        job->state = TUNER_PRINTED;
        GNF_TRY(finish_job(output, job));
    }
    return GNF_OK;
}

gnf_status tuner_output_end(struct tuner_output *output, int *exit_status)
{
    const struct tuner *tuner = output->tuner;
    char device[16];
    progress_clear(&output->progress);
    for (int i = 0; i < tuner->job_count; i++) {
        const struct tuner_job *job = &tuner->jobs[i];
        if (job->begun && job->winner < 0 && *exit_status == 0)
            *exit_status = 4;
        for (int k = 0; k < job->count; k++)
            if (job->variants[k].have && job->variants[k].status == GNF_RECORD_WRONG)
                *exit_status = 1;
    }
    device_of(&tuner->jobs[0], device);
    gnf_status status = GNF_OK;
    if (tuner->args->json)
        status = output_json(json_pack("{s:b, s:s, s:s, s:O}", "ok", *exit_status == 0, "device", device,
                                       "gpu", tuner->kind[0].device.gpu, "problems", output->reports));
    json_decref(output->reports);
    output->reports = NULL;
    return status;
}

void tuner_output_error(gnf_status status)
{
    char message[1024];
    snprintf(message, sizeof message, "%s", gnf_error_message());
    if (print_event("error", json_pack("{s:s, s:s}", "status", gnf_status_name(status), "error", message)) !=
        GNF_OK)
        gnf_fail(status, "%s", message); /* the first trouble is the one to tell */
}
