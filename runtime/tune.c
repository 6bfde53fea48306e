/* gnf_tune(): a child process measures; its events, one JSON object a line, become progress and report. */
#define _POSIX_C_SOURCE 200809L /* strdup, clock_gettime */
#include "tune.h"
#include "json.h"
#include "monotonic.h"
#include "number.h"
#include "plan.h"
#include "process.h"
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

enum { LARGEST_BUDGET = 1000000, ALIGNMENT = 16 /* what plans and the tuner assume */ };
/* Seconds: between calls of the callback at most; from asking a child to end to killing it. */
static const double heartbeat_s = 0.5, patience_s = 2;

struct run {
    gnf_context *context;
    const gnf_tune_options *options;
    struct gnf_process process;
    double begin, called, stopped; /* seconds; of the last call, of the request to end (0: none) */
    char variant[128], best[128];
    gnf_tune_progress progress;
    gnf_tune_report
        report; /* until there is one, `known` is what was done at the beginning, -1: no progress */
    bool reported;
    gnf_status status; /* the child's own, with its message */
    char message[4096];
    char last_words[512]; /* of its standard error */
};

/* ---- events ---- */

static const char *text_of(const json_t *event, const char *field)
{
    const char *text = gnf_json_text(json_object_get(event, field));
    return text ? text : "";
}

static double number_of(const json_t *event, const char *field)
{
    return gnf_json_number(json_object_get(event, field));
}

static int count_of(const json_t *event, const char *field)
{
    double number = number_of(event, field);
    return number > 0 && number < INT_MAX ? (int)number : 0;
}

static gnf_status status_named(const char *name)
{
    for (gnf_status status = GNF_INVALID_ARGUMENT; status <= GNF_NO_CUBLAS; status++)
        if (!strcmp(name, gnf_status_name(status)))
            return status;
    return GNF_IO; /* a newer program's */
}

static void call_back(struct run *run)
{
    const gnf_tune_options *options = run->options;
    if (!options->progress || run->stopped > 0)
        return;
    run->called = gnf_now();
    run->progress.elapsed_s = run->called - run->begin;
    if (options->progress(options->progress_user, &run->progress)) {
        run->stopped = gnf_now();
        gnf_process_signal(&run->process, SIGTERM);
    }
}

static void take_progress(struct run *run, const json_t *event)
{
    snprintf(run->variant, sizeof run->variant, "%s", text_of(event, "variant"));
    snprintf(run->best, sizeof run->best, "%s", text_of(event, "best"));
    run->progress.done = count_of(event, "done");
    if (run->report.known < 0)
        run->report.known = run->progress.done;
    run->progress.total = count_of(event, "total");
    run->progress.best_us = number_of(event, "best_us");
    call_back(run);
}

static void take_report(struct run *run, const json_t *event)
{
    gnf_tune_report *report = &run->report;
    run->reported = true;
    snprintf(report->variant, sizeof report->variant, "%s", text_of(event, "variant"));
    snprintf(report->default_variant, sizeof report->default_variant, "%s", text_of(event, "default"));
    report->time_us = number_of(event, "time_us");
    report->default_us = number_of(event, "default_us");
    report->measured = count_of(event, "measured");
    report->known = count_of(event, "known");
    report->failed = count_of(event, "failed");
    report->complete = json_is_true(json_object_get(event, "complete"));
    if (json_object_get(event, "error")) { /* its tensors do not fit the device */
        run->status = GNF_OUT_OF_MEMORY;
        snprintf(run->message, sizeof run->message, "%s", text_of(event, "error"));
    }
}

static void take_line(struct run *run, const char *line)
{
    json_error_t error;
    json_t *event = gnf_json_read(line, strlen(line), &error);
    const char *kind = text_of(event, "event");
    if (!strcmp(kind, "progress")) {
        take_progress(run, event);
    } else if (!strcmp(kind, "report")) {
        take_report(run, event);
    } else if (!strcmp(kind, "error")) {
        run->status = status_named(text_of(event, "status"));
        snprintf(run->message, sizeof run->message, "%s", text_of(event, "error"));
    } else {
        gnf_log_line(&run->context->options.log, GNF_LOG_DEBUG, "tune: not an event: %s", line);
    }
    json_decref(event);
}

static void follow(struct run *run)
{
    for (;;) {
        char *line;
        enum gnf_process_event event = gnf_process_read(&run->process, (int)(heartbeat_s * 1000), &line);
        if (event == GNF_PROCESS_ENDED)
            return;
        if (event == GNF_PROCESS_LINE)
            take_line(run, line);
        if (event == GNF_PROCESS_ERROR_LINE && *line) {
            snprintf(run->last_words, sizeof run->last_words, "%s", line);
            gnf_log_line(&run->context->options.log, GNF_LOG_DEBUG, "tune: %s", line);
        }
        double now = gnf_now();
        if (now - run->called >= heartbeat_s)
            call_back(run);
        if (run->stopped > 0 && now - run->stopped >= patience_s)
            gnf_process_signal(&run->process, SIGKILL);
    }
}

/* ---- the child ---- */

/* PATH is the caller's, and a program of higher privileges must not start what it finds there. */
static gnf_status find_program(const struct gnf_options *own, const gnf_tune_options *options,
                               const char **program)
{
    *program = options->program && *options->program ? options->program : own->program;
    if (!*program && getauxval(AT_SECURE))
        return gnf_fail(GNF_IO, "tune: no program is named, and this one runs with raised privileges: set "
                                "options.program");
    if (!*program)
        *program = "gnfuse";
    return GNF_OK;
}

static gnf_status start(struct run *run, const char *program, const struct gnf_tune_words *words)
{
    gnf_status status = gnf_process_start(&run->process, program, words->argument, words->environment);
    if (status != GNF_OK)
        return gnf_fail_more(status, " (to tune; options.program or GNFUSE_PROGRAM names another)");
    run->begin = run->called = gnf_now();
    gnf_log_line(&run->context->options.log, GNF_LOG_INFO, "tuning %s", words->argument[2]);
    return GNF_OK;
}

/* How it went, for a child that has ended. */
static gnf_status judge(struct run *run, const char *program)
{
    char how[64];
    if (run->stopped > 0)
        return GNF_OK;
    if (run->status != GNF_OK)
        return gnf_fail(run->status, "%s", run->message);
    if (run->reported)
        return GNF_OK;
    gnf_process_describe(&run->process, how, sizeof how);
    return gnf_fail(GNF_IO, "tune: the program '%s' ended without a report: %s%s%s", program, how,
                    *run->last_words ? ": " : "", run->last_words);
}

/* What the child did not say: one that was asked to end goes without a report, and one that had no time has
 * no winner. */
static void complete_report(struct run *run, const struct gnf_problem *problem)
{
    gnf_tune_report *report = &run->report;
    const struct gnf_choice_request request = {
        .context = run->context, .problem = problem, .alignment = ALIGNMENT, .prepared = true};
    struct gnf_choice choice;
    if (!*report->variant && gnf_choice_make(&request, &choice) == GNF_OK) {
        snprintf(report->variant, sizeof report->variant, "%s", choice.variant->name);
        report->time_us = choice.recorded_us;
    }
    if (run->reported)
        return;
    if (gnf_choice_by_rule(&request, &choice) == GNF_OK)
        snprintf(report->default_variant, sizeof report->default_variant, "%s", choice.variant->name);
    report->known = report->known < 0 ? 0 : report->known;
    report->measured = run->progress.done - report->known;
}

static gnf_status measure(struct run *run, const struct gnf_problem *problem)
{
    const gnf_tune_options *options = run->options;
    struct gnf_tune_words words;
    const char *program;
    GNF_TRY(find_program(&run->context->options, options, &program));
    GNF_TRY(gnf_tune_words_make(&words, run->context, problem->text, program, options->budget,
                                options->again != 0));
    gnf_status status = start(run, program, &words);
    if (status == GNF_OK) {
        follow(run);
        gnf_process_end(&run->process);
        /* Also after a failure: what was measured before it is kept. */
        gnf_status loaded = gnf_context_reload_tuned(run->context);
        status = judge(run, program);
        if (status == GNF_OK)
            status = loaded;
        if (status == GNF_OK)
            complete_report(run, problem);
    }
    gnf_tune_words_free(&words);
    return status;
}

/* ---- the calls ---- */

gnf_status gnf_tune_check_budget(double seconds, const char *what)
{
    char number[32];
    if (seconds >= 0 && seconds <= LARGEST_BUDGET)
        return GNF_OK;
    if (isfinite((float)seconds))
        gnf_number_format((float)seconds, number);
    else
        snprintf(number, sizeof number, "%s", isnan(seconds) ? "nan" : seconds < 0 ? "-inf" : "inf");
    return gnf_fail(GNF_INVALID_ARGUMENT, "%s = %s: allowed are 0 (no limit) to %d seconds", what, number,
                    LARGEST_BUDGET);
}

static gnf_status check(gnf_context *context, const char *text, const gnf_tune_options *options,
                        struct gnf_problem *problem)
{
    struct gnf_entry entry = {0};
    int64_t x, y;
    GNF_TRY(gnf_problem_parse(text, problem));
    GNF_TRY(gnf_problem_take_samples(problem, options->samples));
    GNF_TRY(gnf_problem_elements(problem, problem->samples, &x, &y));
    if (x == 0)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "problem = '%s': x has no elements, so there is no time to measure", problem->text);
    GNF_TRY(gnf_tune_check_budget(options->budget, "budget"));
    if (!gnf_entry_next(context, problem, &entry))
        return gnf_entry_none(problem);
    if (!context->options.db)
        return gnf_fail(GNF_IO,
                        "tune: there is no tuning database: neither options.db nor GNFUSE_DB names one, and "
                        "neither XDG_CONFIG_HOME nor HOME a folder for it");
    return GNF_OK;
}

gnf_status gnf_tune(gnf_context *context, const char *problem, const gnf_tune_options *options,
                    gnf_tune_report *report)
{
    static const gnf_tune_report none;
    gnf_tune_options known;
    if (!context)
        return gnf_fail(GNF_INVALID_ARGUMENT, "context is null");
    GNF_TRY(gnf_struct_read(options, &known, sizeof known, "options"));
    if (report) /* all zeros until there is one */
        GNF_TRY(gnf_struct_write(report, &none, sizeof none, "report", "gnf_tune_report"));
    struct gnf_problem *parsed = malloc(sizeof *parsed);
    struct run *run = calloc(1, sizeof *run);
    gnf_status status = parsed && run ? check(context, problem, &known, parsed)
                                      : gnf_fail(GNF_OUT_OF_MEMORY, "tune: no host memory");
    if (status == GNF_OK) {
        run->context = context;
        run->options = &known;
        run->report.known = -1;
        run->progress =
            (gnf_tune_progress){.size = sizeof run->progress, .variant = run->variant, .best = run->best};
        status = measure(run, parsed);
    }
    if (status == GNF_OK && report)
        status = gnf_struct_write(report, &run->report, sizeof run->report, "report", "gnf_tune_report");
    free(run);
    free(parsed);
    return status;
}

/* ---- on first use ---- */

struct gnf_tried {
    struct gnf_tried *next;
    int64_t samples;
    char key[];
};

/* False where it was there before; one that cannot be remembered is not tried either. */
static bool remember(gnf_context *context, const struct gnf_problem *problem)
{
    for (struct gnf_tried *tried = context->tried; tried; tried = tried->next)
        if (tried->samples == problem->samples && !strcmp(tried->key, problem->key))
            return false;
    size_t size = strlen(problem->key) + 1;
    struct gnf_tried *tried = malloc(sizeof *tried + size);
    if (!tried)
        return false;
    memcpy(tried->key, problem->key, size);
    tried->samples = problem->samples;
    tried->next = context->tried;
    context->tried = tried;
    return true;
}

void gnf_tune_forget(gnf_context *context)
{
    while (context->tried) {
        struct gnf_tried *tried = context->tried;
        context->tried = tried->next;
        free(tried);
    }
}

bool gnf_tune_on_first_use(gnf_context *context, const struct gnf_problem *problem,
                           const gnf_plan_options *options)
{
    bool capturing;
    if (gnf_context_capturing(context, options->stream, &capturing) != GNF_OK || capturing)
        return false;
    const gnf_tune_options tune = {.size = sizeof tune, .budget = options->tune_budget};
    pthread_mutex_lock(&context->tune_lock);
    if (remember(context, problem) && gnf_tune(context, problem->text, &tune, NULL) != GNF_OK)
        gnf_log_line(&context->options.log, GNF_LOG_WARNING, "%s is not tuned: %s", problem->text,
                     gnf_error_message());
    pthread_mutex_unlock(&context->tune_lock);
    return true;
}
