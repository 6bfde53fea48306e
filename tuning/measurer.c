#include "measurer.h"

#include "../runtime/cli/interrupt.h"
#include "child.h"
#include "measured.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What host work may take: making the data (and, for the simulator, compiling every kernel for the host), and
 * all else (compiling a kernel that was not compiled ahead, comparing). */
static const double open_limit_s = 900, host_limit_s = 150, beat_s = 0.2;

struct measurer {
    const struct args *args;
    int device;
    double hang_s;
    struct child child;
    char *problem; /* NULL: none is open */
    int64_t samples;
    bool open; /* in the child that is there now */
};

/* How a request went. */
enum outcome {
    ANSWERED,
    HUNG,
    LOST,       /* the child is gone, or speaks nonsense */
    IMPOSSIBLE, /* *status and its message say why */
};
struct exchange {
    json_t *answer;
    gnf_status status;
    double limit_s; /* of host work */
    int at;         /* index of the variant that the child was at; -1: not said */
    char how[128];  /* LOST, HUNG */
};

gnf_status measurer_create(struct measurer **out, const struct measurer_options *options)
{
    struct measurer *measurer = calloc(1, sizeof *measurer);
    if (measurer == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for a measuring process");
    measurer->args = options->args;
    measurer->device = options->device;
    measurer->hang_s = options->hang_s;
    *out = measurer;
    return GNF_OK;
}

void measurer_destroy(struct measurer *measurer)
{
    if (measurer == NULL)
        return;
    child_end(&measurer->child, interrupt_pending(), NULL, 0);
    free(measurer->problem);
    free(measurer);
}

static gnf_status start(struct measurer *measurer)
{
    const struct args *args = measurer->args;
    const char *words[CHILD_MAX_WORDS + 1];
    char device[16], seed[24];
    int count = 0;
    snprintf(device, sizeof device, "%d", measurer->device);
    snprintf(seed, sizeof seed, "%" PRIu64, args->seed);
    const char *const first[] = {"worker",
                                 "measure",
                                 "--device",
                                 args->sim ? "sim" : device,
                                 "--seed",
                                 seed,
                                 args->verbose ? "-v" : "-q"};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        words[count++] = first[i];
    child_tell(words, count, args);
    measurer->open = false;
    return child_start(&measurer->child, words);
}

/* Asked ten times a second. A child that is stopped in its tracks leaves half-made files, so it has a second
 * to answer: what it had started for the host ends at once by the same Ctrl-C. */
static bool interrupted(void *user)
{
    int *patience = user;
    return interrupt_pending() && (*patience)-- <= 0;
}

/* An answer is {"ok":...}; heartbeats before it have none. */
static enum child_answer receive(struct measurer *measurer, struct exchange *exchange)
{
    double beats_s = 0;
    int patience = 10;
    for (;;) {
        enum child_answer answer =
            child_receive(&measurer->child, measurer->hang_s, interrupted, &patience, &exchange->answer);
        if (answer != CHILD_ANSWERED || json_object_get(exchange->answer, "ok") != NULL)
            return answer;
        const json_t *at = json_object_get(exchange->answer, "at");
        if (at != NULL)
            exchange->at = (int)json_integer_value(at);
        beats_s = at != NULL ? 0 : beats_s + beat_s;
        json_decref(exchange->answer);
        exchange->answer = NULL;
        if (beats_s > exchange->limit_s) {
            snprintf(exchange->how, sizeof exchange->how, "its work on the host took longer than %g s",
                     exchange->limit_s);
            return CHILD_TIMEOUT;
        }
    }
}

static enum outcome lose(struct measurer *measurer, struct exchange *exchange, bool hung)
{
    char end[sizeof exchange->how];
    child_end(&measurer->child, hung, end, sizeof end);
    measurer->open = false;
    if (interrupt_pending()) {
        exchange->status = gnf_fail(GNF_IO, "interrupted");
        return IMPOSSIBLE;
    }
    if (!hung)
        memcpy(exchange->how, end, sizeof end);
    else if (exchange->how[0] == '\0')
        snprintf(exchange->how, sizeof exchange->how, "no answer within %g s", measurer->hang_s);
    return hung ? HUNG : LOST;
}

/* Sends the request, which it releases, and takes the answer, exchange->answer, the caller's to release. */
static enum outcome exchange_once(struct measurer *measurer, json_t *request, struct exchange *exchange)
{
    *exchange = (struct exchange){.at = -1, .limit_s = measurer->open ? host_limit_s : open_limit_s};
    if (interrupt_pending())
        exchange->status = gnf_fail(GNF_IO, "interrupted");
    else if (measurer->child.pid == 0)
        exchange->status = start(measurer);
    if (exchange->status != GNF_OK) {
        json_decref(request);
        return IMPOSSIBLE;
    }
    if (!child_send(&measurer->child, request))
        return lose(measurer, exchange, false);
    enum child_answer answer = receive(measurer, exchange);
    if (answer != CHILD_ANSWERED)
        return lose(measurer, exchange, answer == CHILD_TIMEOUT);
    if (json_is_true(json_object_get(exchange->answer, "broken"))) {
        child_end(&measurer->child, false, NULL, 0);
        measurer->open = false;
    }
    if (json_is_true(json_object_get(exchange->answer, "ok")))
        return ANSWERED;
    json_int_t status = json_integer_value(json_object_get(exchange->answer, "status"));
    const char *error = json_string_value(json_object_get(exchange->answer, "error"));
    if (interrupt_pending())
        exchange->status = gnf_fail(GNF_IO, "interrupted");
    else
        exchange->status =
            gnf_fail(status > 0 && status <= GNF_NO_CUBLAS ? (gnf_status)status : GNF_DRIVER_ERROR, "%s",
                     error != NULL ? error : "the measuring process failed");
    json_decref(exchange->answer);
    exchange->answer = NULL;
    return IMPOSSIBLE;
}

static gnf_status status_of(enum outcome outcome, const struct exchange *exchange, const char *what)
{
    if (outcome == ANSWERED)
        return GNF_OK;
    if (outcome == IMPOSSIBLE)
        return exchange->status;
    return gnf_fail(GNF_DRIVER_ERROR, "the measuring process ended (%s) %s", exchange->how, what);
}

/* Gives the child that is there, or a fresh one, the problem. */
static gnf_status ensure_open(struct measurer *measurer)
{
    struct exchange exchange;
    if (measurer->problem == NULL)
        return gnf_fail(GNF_INVALID_ARGUMENT, "no problem is open to be measured");
    for (int attempt = 0; attempt < 2 && !measurer->open; attempt++) {
        json_t *request = json_pack("{s:s, s:s, s:I}", "request", "open", "problem", measurer->problem,
                                    "samples", (json_int_t)measurer->samples);
        GNF_TRY(status_of(exchange_once(measurer, request, &exchange), &exchange, "while making its data"));
        measurer->open =
            measurer->child.pid != 0 && !json_is_true(json_object_get(exchange.answer, "restart"));
        json_decref(exchange.answer);
        if (!measurer->open)
            child_end(&measurer->child, false, NULL, 0);
    }
    return measurer->open
               ? GNF_OK
               : gnf_fail(GNF_DRIVER_ERROR, "the measuring process cannot open '%s'", measurer->problem);
}

gnf_status measurer_open(struct measurer *measurer, const struct gnf_problem *problem, int64_t samples)
{
    free(measurer->problem);
    measurer->problem = strdup(problem->text);
    measurer->samples = samples;
    measurer->open = false;
    if (measurer->problem == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for a problem's text");
    return ensure_open(measurer);
}

/* A lost child's variant. False where the outcome is not one of those. */
static bool judge_loss(enum outcome outcome, const struct exchange *exchange, struct measured *out)
{
    char text[192];
    if (outcome != HUNG && outcome != LOST)
        return false;
    snprintf(text, sizeof text, outcome == HUNG ? "%s" : "the measuring process ended: %s", exchange->how);
    measured_fail(out, outcome == HUNG ? GNF_RECORD_HUNG : GNF_RECORD_FAILED, text);
    return true;
}

gnf_status measurer_check(struct measurer *measurer, const char *variant, struct measured *out)
{
    struct exchange exchange;
    GNF_TRY(ensure_open(measurer));
    enum outcome outcome =
        exchange_once(measurer, json_pack("{s:s, s:s}", "request", "check", "variant", variant), &exchange);
    if (judge_loss(outcome, &exchange, out))
        return GNF_OK;
    GNF_TRY(status_of(outcome, &exchange, ""));
    bool good = measured_read(json_object_get(exchange.answer, "measured"), out);
    json_decref(exchange.answer);
    return good ? GNF_OK : gnf_fail(GNF_DRIVER_ERROR, "the measuring process gave no result of %s", variant);
}

static json_t *time_request(const char *const *variants, int count, int rounds, bool hot, bool quick)
{
    json_t *names = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(names, json_string(variants[i]));
    return json_pack("{s:s, s:o, s:i, s:b, s:b}", "request", "time", "variants", names, "rounds", rounds,
                     "hot", (int)hot, "quick", (int)quick);
}

static bool read_samples(const json_t *list, int count, double *sample)
{
    if (!json_is_array(list) || json_array_size(list) != (size_t)count)
        return false;
    for (int i = 0; i < count; i++)
        sample[i] = measured_number(json_array_get(list, (size_t)i));
    return true;
}

gnf_status measurer_time(struct measurer *measurer, const char *const *variants, int count, int rounds,
                         bool hot, bool quick, double *sample, int *failed, struct measured *how)
{
    struct exchange exchange;
    *failed = -1;
    if (count <= 0 || rounds <= 0)
        return GNF_OK;
    GNF_TRY(ensure_open(measurer));
    enum outcome outcome =
        exchange_once(measurer, time_request(variants, count, rounds, hot, quick), &exchange);
    if (exchange.at >= 0 && exchange.at < count && judge_loss(outcome, &exchange, how)) {
        *failed = exchange.at;
        return GNF_OK;
    }
    GNF_TRY(status_of(outcome, &exchange, "while preparing to time"));
    const json_t *index = json_object_get(exchange.answer, "failed");
    bool good;
    if (index != NULL) {
        *failed = (int)json_integer_value(index);
        good = *failed >= 0 && *failed < count &&
               measured_read(json_object_get(exchange.answer, "measured"), how);
    } else {
        good = read_samples(json_object_get(exchange.answer, "sample"), count * rounds, sample);
    }
    json_decref(exchange.answer);
    return good ? GNF_OK : gnf_fail(GNF_DRIVER_ERROR, "the measuring process gave no times");
}

gnf_status measurer_copy(struct measurer *measurer, double *copy_us, int64_t *bytes)
{
    struct exchange exchange;
    GNF_TRY(ensure_open(measurer));
    enum outcome outcome = exchange_once(measurer, json_pack("{s:s}", "request", "copy"), &exchange);
    GNF_TRY(status_of(outcome, &exchange, "while timing a copy"));
    *copy_us = json_number_value(json_object_get(exchange.answer, "copy_us"));
    *bytes = json_integer_value(json_object_get(exchange.answer, "bytes"));
    json_decref(exchange.answer);
    return GNF_OK;
}

static int whole(const json_t *object, const char *key)
{
    return (int)json_integer_value(json_object_get(object, key));
}

/* *answer is the caller's to release. */
static gnf_status ask_device(struct measurer *measurer, struct gnf_device *facts, json_t **answer)
{
    struct exchange exchange;
    enum outcome outcome = exchange_once(measurer, json_pack("{s:s}", "request", "device"), &exchange);
    GNF_TRY(status_of(outcome, &exchange, "while opening the device"));
    const json_t *object = json_object_get(exchange.answer, "device");
    const char *gpu = json_string_value(json_object_get(object, "gpu"));
    *facts = (struct gnf_device){
        .ordinal = whole(object, "ordinal"),
        .capability = whole(object, "capability"),
        .multiprocessors = whole(object, "multiprocessors"),
        .shared_block = whole(object, "shared_block"),
        .l2_bytes = whole(object, "l2_bytes"),
        .memory = (size_t)json_integer_value(json_object_get(object, "memory")),
        .driver_version = whole(object, "driver_version"),
    };
    snprintf(facts->name, sizeof facts->name, "%s", gpu != NULL ? gpu : "");
    *answer = exchange.answer;
    if (gpu != NULL)
        return GNF_OK;
    json_decref(exchange.answer);
    return gnf_fail(GNF_DRIVER_ERROR, "the measuring process gave no device");
}

gnf_status measurer_device(struct measurer *measurer, struct gnf_record_device *device, int *nvrtc)
{
    struct gnf_device facts;
    json_t *answer;
    GNF_TRY(ask_device(measurer, &facts, &answer));
    const json_t *object = json_object_get(answer, "device");
    gnf_record_device_of(&facts, json_is_true(json_object_get(object, "simulated")), device);
    *nvrtc = whole(object, "nvrtc");
    json_decref(answer);
    return GNF_OK;
}

gnf_status measurer_facts(struct measurer *measurer, struct gnf_device *facts, int *devices)
{
    json_t *answer;
    GNF_TRY(ask_device(measurer, facts, &answer));
    if (devices != NULL)
        *devices = whole(json_object_get(answer, "device"), "devices");
    json_decref(answer);
    return GNF_OK;
}

gnf_status measurer_cublaslt(struct measurer *measurer, bool *there)
{
    struct exchange exchange;
    enum outcome outcome = exchange_once(measurer, json_pack("{s:s}", "request", "cublaslt"), &exchange);
    GNF_TRY(status_of(outcome, &exchange, "while loading cuBLASLt"));
    *there = whole(exchange.answer, "version") > 0;
    json_decref(exchange.answer);
    return GNF_OK;
}

int measurer_clock_mhz(struct measurer *measurer)
{
    struct exchange exchange;
    if (exchange_once(measurer, json_pack("{s:s}", "request", "clock"), &exchange) != ANSWERED)
        return 0;
    int mhz = whole(exchange.answer, "mhz");
    json_decref(exchange.answer);
    return mhz;
}
