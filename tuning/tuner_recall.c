/* A job's variants and what the database knows of them. */
#include "tuner.h"

#include "../runtime/plan.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KNOWN_AGAIN = 6 }; /* of the known ones, so many run with those that are new */

/* As for plans of programs that prepare their weights. */
static struct gnf_terms terms_of(const struct tuner_kind *kind)
{
    return (struct gnf_terms){
        .alignment = TUNER_ALIGNMENT, .prepared = true, .no_cublaslt = kind->no_cublaslt};
}

/* As a plan does: the specialised entry, and where nothing there is legal the generic one. */
static int default_of(const struct tuner_job *job)
{
    const struct packs *packs = &job->tuner->session->packs;
    const char *const keys[] = {job->problem->key, job->problem->chain};
    const struct gnf_terms terms = terms_of(job->kind);
    for (int k = 0; k < 2; k++) {
        int count;
        const struct pack_file *file;
        struct gnf_choice choice;
        const struct gnf_variant *variants = packs_find(packs, keys[k], &count, &file);
        if (variants == NULL || gnf_choice_default(&choice, file->pack, variants, count, job->problem, &terms,
                                                   &job->kind->facts) != GNF_OK)
            continue;
        for (int i = 0; i < job->count; i++)
            if (job->variants[i].variant == choice.variant)
                return i;
    }
    return -1;
}

/* Whether its product is for these sizes and this device: another one is none of this problem's, and no
 * failure. */
static bool is_of(const struct gnf_variant *variant, const struct gnf_problem *problem,
                  const struct gnf_device *device)
{
    const struct gnf_product *product = &variant->product;
    return (product->samples_max == 0 || problem->samples <= product->samples_max) &&
           (product->inputs_max == 0 || problem->inputs <= product->inputs_max) &&
           !(product->yields && device->capability == GNF_WGMMA_CAPABILITY);
}

gnf_status tuner_job_create(struct tuner_job *job, struct tuner *tuner, struct tuner_kind *kind,
                            const struct gnf_problem *problem)
{
    struct pack_variant *list;
    *job = (struct tuner_job){.tuner = tuner, .kind = kind, .problem = problem, .winner = -1, .best = -1};
    const struct gnf_terms terms = terms_of(kind);
    int count;
    GNF_TRY(packs_variants(&tuner->session->packs, problem, NULL, &list, &count));
    job->variants = calloc((size_t)count, sizeof *job->variants);
    gnf_status status = job->variants != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no memory");
    for (int i = 0; i < count && status == GNF_OK; i++) {
        if (!is_of(list[i].variant, problem, &kind->facts))
            continue;
        struct tuner_variant *v = &job->variants[job->count++];
        struct gnf_choice choice = {.pack = list[i].file->pack, .variant = list[i].variant};
        v->variant = choice.variant;
        v->pack = choice.pack;
        if (gnf_choice_check(&choice, problem, &terms, &kind->facts) != GNF_OK ||
            gnf_choice_size(&choice, problem) != GNF_OK)
            tuner_copy_line(v->refused, sizeof v->refused, gnf_error_message());
        status = gnf_pack_source_hash(v->pack, v->variant, v->source);
    }
    free(list);
    job->default_index = default_of(job);
    return status;
}

void tuner_job_free(struct tuner_job *job)
{
    free(job->variants);
    free(job->variant_of);
    free(job->halving.at);
}

struct gnf_record tuner_record_of(const struct tuner_job *job, const struct tuner_variant *v)
{
    struct gnf_record record = {
        .key = (char *)(uintptr_t)job->problem->key,
        .problem = (char *)(uintptr_t)job->problem->text,
        .samples = job->problem->samples,
        .variant = (char *)(uintptr_t)v->variant->name,
        .device = job->kind->device,
        .nvrtc = job->kind->nvrtc,
        .status = v->status,
        .complete = v->complete,
        .is_default = job->default_index >= 0 && v == &job->variants[job->default_index],
        .time_us = v->time_us,
        .spread_us = v->spread_us,
        .timings = v->timings,
        .max_error = v->max_error,
        .clock_mhz = job->clock_mhz,
        .gemm = v->gemm[0] != '\0' ? (char *)(uintptr_t)v->gemm : NULL,
        .error = v->status != GNF_RECORD_OK ? (char *)(uintptr_t)v->error : NULL,
    };
    memcpy(record.source, v->source, sizeof record.source);
    struct tm now;
    time_t seconds = time(NULL);
    if (gmtime_r(&seconds, &now) != NULL)
        strftime(record.date, sizeof record.date, "%Y-%m-%dT%H:%M:%SZ", &now);
    return record;
}

static void recall(struct tuner_job *job, struct tuner_variant *v, const struct gnf_tuned *tuned)
{
    const struct gnf_record wanted = tuner_record_of(job, v);
    const struct gnf_tuned_line *line;
    for (int i = 0; (line = gnf_tuned_get(tuned, i)) != NULL; i++) {
        const struct gnf_record *record = &line->record;
        /* What was shipped was measured elsewhere, however alike the device. */
        if (strcmp(line->file, "shipped") == 0 || !gnf_record_same(record, &wanted))
            continue;
        v->known = v->have = true;
        v->status = record->status;
        v->complete = record->complete;
        v->time_us = record->time_us;
        v->spread_us = record->spread_us;
        v->timings = record->timings;
        v->max_error = record->max_error;
        snprintf(v->gemm, sizeof v->gemm, "%s", record->gemm != NULL ? record->gemm : "");
        tuner_copy_line(v->error, sizeof v->error, record->error != NULL ? record->error : "");
    }
}

bool tuner_has_time(const struct tuner_variant *v)
{
    return v->have && v->status == GNF_RECORD_OK && isfinite(v->time_us) && v->time_us > 0;
}

/* The fastest that is not running yet; -1 for none. */
static int next_known(const struct tuner_job *job)
{
    int best = -1;
    for (int i = 0; i < job->count; i++)
        if (tuner_has_time(&job->variants[i]) && !job->variants[i].running &&
            (best < 0 || job->variants[i].time_us < job->variants[best].time_us))
            best = i;
    return best;
}

void tuner_job_recall(struct tuner_job *job, const struct gnf_tuned *tuned, bool again)
{
    bool any = false;
    for (int i = 0; i < job->count; i++) {
        struct tuner_variant *v = &job->variants[i];
        v->known = v->have = false;
        v->max_error = NAN;
        v->gemm[0] = '\0';
        if (!again)
            recall(job, v, tuned);
        bool settled = v->known && (v->status != GNF_RECORD_OK || (v->complete && tuner_has_time(v)));
        v->running = !settled && v->refused[0] == '\0';
        any |= v->running;
    }
    /* Times of two runs do not compare: what could win runs again with those that are new. */
    if (any && job->default_index >= 0 && tuner_has_time(&job->variants[job->default_index]))
        job->variants[job->default_index].running = true;
    for (int i = 0; any && i < KNOWN_AGAIN; i++) {
        int at = next_known(job);
        if (at >= 0)
            job->variants[at].running = true;
    }
    job->finished = 0;
    job->best = -1;
    for (int i = 0; i < job->count; i++) {
        const struct tuner_variant *v = &job->variants[i];
        job->finished += !v->running;
        if (tuner_has_time(v) && (job->best < 0 || v->time_us < job->variants[job->best].time_us))
            job->best = i;
    }
}

void tuner_job_counts(const struct tuner_job *job, int *measured, int *known, int *failed)
{
    *measured = *known = *failed = 0;
    for (int i = 0; i < job->count; i++) {
        const struct tuner_variant *v = &job->variants[i];
        *measured += v->measured;
        *known += v->known && !v->measured;
        *failed += v->have && v->status != GNF_RECORD_OK && v->status != GNF_RECORD_SLOW;
    }
}

int tuner_pick_known(const struct tuner_job *job)
{
    struct gnf_timing *timings = calloc((size_t)job->count + 1, sizeof *timings);
    if (timings == NULL)
        return -1;
    for (int i = 0; i < job->count; i++) {
        const struct tuner_variant *v = &job->variants[i];
        timings[i] = (struct gnf_timing){.time_us = tuner_has_time(v) ? v->time_us : 0,
                                         .spread_us = v->spread_us,
                                         .timings = v->timings,
                                         .rank = i,
                                         .is_default = i == job->default_index};
    }
    int picked = gnf_timing_pick(timings, job->count);
    free(timings);
    return picked;
}
