#include "../runtime/cli/commands.h"
#include "../runtime/cli/interrupt.h"
#include "../runtime/cli/simulate.h"
#include "../runtime/monotonic.h"
#include "tuner_output.h"
#include "tuner_plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TICK_MS = 100 };
static const double PATIENCE_S = 0.5;

/* Ctrl-C: every record is whole on the disk when its variant is done. */
static void end_interrupted(struct tuner *tuner, struct tuner_output *output)
{
    char temporary[FILES_PATH_SIZE];
    memcpy(temporary, tuner->session->packs.temporary, sizeof temporary);
    if (output != NULL)
        progress_clear(&output->progress);
    if (tuner->append != NULL)
        append_finish(tuner->append);
    fprintf(stderr,
            "gnfuse: tune: interrupted; %d variants measured are kept in %s, and the same command goes on\n",
            tuner->kept, tuner->path);
    if (temporary[0] != '\0')
        files_remove_folder(temporary);
    interrupt_release(); /* ends the process, and with it its children */
}

static gnf_status follow(struct tuner *tuner, struct tuner_output *output)
{
    gnf_status status = GNF_OK;
    double interrupted = 0;
    for (bool running = true; running;) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&tuner->lock);
        if (tuner->threads > 0 && (interrupted > 0 || tuner->changes == output->seen))
            pthread_cond_timedwait(&tuner->changed, &tuner->lock, &until);
        running = tuner->threads > 0;
        pthread_mutex_unlock(&tuner->lock);
        if (interrupt_pending()) {
            if (interrupted == 0)
                interrupted = gnf_now();
            if (running && gnf_now() - interrupted < PATIENCE_S)
                continue; /* the threads stop their processes and end */
            end_interrupted(tuner, output);
        }
        if (status == GNF_OK)
            status = tuner_output_update(output);
        if (status != GNF_OK)
            tuner->stopping = true; /* nobody reads it any more */
    }
    return status;
}

static gnf_status measure(struct tuner *tuner, int *exit_status)
{
    struct tuner_output output;
    GNF_TRY(tuner_output_begin(&output, tuner));
    gnf_status status = tuner_start(tuner);
    gnf_status followed = follow(tuner, &output);
    gnf_status finished = tuner_finish(tuner);
    if (status == GNF_OK)
        status = finished == GNF_OK ? followed : finished;
    if (status != GNF_OK) {
        progress_clear(&output.progress);
        json_decref(output.reports);
        return status;
    }
    return tuner_output_end(&output, exit_status);
}

/* A GPU is asked first: without one, nothing need be generated. The simulator reads the names of its kernels
 * when it is opened, so they come first; as with any process, what is generated later a child learns by being
 * started anew. */
static gnf_status prepare(struct tuner *tuner, struct tuner_plan *plan, bool *missing)
{
    struct session *session = tuner->session;
    bool simulated = tuner->args->sim || simulate_is(session->options.driver);
    if (simulated)
        GNF_TRY(tuner_plan_packs(tuner, plan, true, missing));
    int before = session->packs.count;
    gnf_status status =
        interrupt_pending() ? GNF_OK : tuner_open_devices(tuner, plan->ordinals, plan->ordinal_count);
    GNF_TRY(status);
    if (!simulated)
        GNF_TRY(tuner_plan_packs(tuner, plan, false, missing));
    return session->packs.count == before ? GNF_OK : tuner_restart_devices(tuner);
}

static int drop_missing(struct tuner *tuner, const bool *missing, struct gnf_problem *dropped)
{
    int kept = 0, count = 0;
    for (int i = 0; i < tuner->problem_count; i++)
        *(missing[i] ? &dropped[count++] : &tuner->problems[kept++]) = tuner->problems[i];
    tuner->problem_count = kept;
    return count;
}

static gnf_status dry_run(struct tuner *tuner, struct tuner_plan *plan)
{
    bool *missing = calloc((size_t)tuner->problem_count, sizeof *missing);
    struct gnf_problem *dropped = calloc((size_t)tuner->problem_count, sizeof *dropped);
    gnf_status status =
        missing != NULL && dropped != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no memory");
    if (status == GNF_OK)
        status = prepare(tuner, plan, missing);
    if (status == GNF_OK) {
        int count = drop_missing(tuner, missing, dropped);
        status = tuner_prepare(tuner);
        if (status == GNF_OK)
            status = tuner_dry_run(tuner, dropped, count);
    }
    free(missing);
    free(dropped);
    return status;
}

static gnf_status tune(struct tuner *tuner, struct tuner_plan *plan, int *exit_status)
{
    const struct args *args = tuner->args;
    tuner->path = tuner->session->options.db;
    if (tuner->path == NULL)
        return gnf_fail(GNF_IO,
                        "no folder for the tuning database: name a file by --db or GNFUSE_DB, or set HOME");
    if (args->dry_run)
        return dry_run(tuner, plan);
    GNF_TRY(append_check(tuner->path));
    gnf_status status = prepare(tuner, plan, NULL);
    if (interrupt_pending())
        end_interrupted(tuner, NULL);
    GNF_TRY(status);
    GNF_TRY(append_open(&tuner->append, tuner->path));
    GNF_TRY(tuner_prepare(tuner));
    return measure(tuner, exit_status);
}

static gnf_status run(struct tuner *tuner, struct tuner_plan *plan, const struct args *args, int *exit_status)
{
    if (args->json && args->events)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--events: and --json is given too (allowed: one of the two)");
    GNF_TRY(tuner_plan_problems(tuner, args));
    GNF_TRY(tuner_plan_devices(plan, args));
    GNF_TRY(session_open_packs(tuner->session, args));
    gnf_status status = tune(tuner, plan, exit_status);
    char message[1024];
    snprintf(message, sizeof message, "%s", gnf_error_message());
    tuner_close(tuner);
    session_close(tuner->session);
    return status == GNF_OK ? GNF_OK : gnf_fail(status, "%s", message);
}

gnf_status command_tune(const struct args *args, int *exit_status)
{
    struct session session;
    struct tuner_plan plan = {.args = *args};
    struct tuner *tuner = calloc(1, sizeof *tuner);
    if (tuner == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory");
    tuner->session = &session;
    tuner->args = &plan.args;
    tuner->begin = gnf_now();
    tuner->deadline = args->budget > 0 ? tuner->begin + args->budget : 0;
    tuner_create(tuner);
    interrupt_hold(); /* what an interrupt leaves is said */
    gnf_status status = run(tuner, &plan, args, exit_status);
    interrupt_release();
    if (status != GNF_OK && args->events)
        tuner_output_error(status);
    free(tuner->problems);
    free(tuner);
    return status;
}
