/* Why a plan takes what it takes. */
#include "db.h"

#include "../runtime/cli/output.h"
#include "../runtime/plan.h"
#include "measurable.h"
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16 };

struct explaining {
    const struct args *args;
    json_t *records;
    const char *file; /* of the record before */
    int count, replaced;
    int64_t samples; /* of the problem, and the device at hand: told only where a record's are others */
    struct gnf_record_device device;
};

static bool is_taken(const char *why)
{
    return strncmp(why, "taken", 5) == 0;
}

static bool is_replaced(const char *why)
{
    return strncmp(why, "replaced", 8) == 0;
}

static void on_record(void *user, const struct gnf_tuned_line *line, const char *why)
{
    struct explaining *explaining = user;
    const struct gnf_record *record = &line->record;
    char time[32], device[256];
    explaining->count++;
    if (explaining->args->json) {
        json_t *object = json_pack(
            "{s:s, s:i, s:s, s:I, s:s, s:b, s:s, s:s, s:s, s:b}", "file", line->file, "line", line->line,
            "variant", record->variant, "samples", (json_int_t)record->samples, "gpu", record->device.gpu,
            "simulated", record->device.simulated, "status", gnf_record_status_names[record->status], "date",
            record->date, "why", why, "taken", is_taken(why));
        if (record->time_us > 0)
            json_object_set_new(object, "time_us", output_number(record->time_us));
        if (record->gemm != NULL)
            json_object_set_new(object, "gemm", json_string(record->gemm));
        json_array_append_new(explaining->records, object);
        return;
    }
    if (is_replaced(why) && !explaining->args->verbose) {
        explaining->replaced++;
        return;
    }
    if (explaining->file == NULL || strcmp(explaining->file, line->file) != 0)
        printf("\n%s\n", line->file);
    explaining->file = line->file;
    db_time_text(record->time_us, time);
    printf("%c line %-5d %-36s %10s  ", is_taken(why) ? '*' : ' ', line->line, record->variant, time);
    if (record->samples != explaining->samples)
        printf("N = %lld, ", (long long)record->samples);
    if (!gnf_record_same_device(&record->device, &explaining->device)) {
        db_device_text(&record->device, device, sizeof device);
        printf("%s, ", device);
    }
    if (record->gemm != NULL && explaining->args->verbose)
        printf("algorithms of cuBLASLt %.*s, ", (int)strcspn(record->gemm, ":"), record->gemm);
    printf("%s\n", why);
}

static gnf_status answer(struct session *session, const struct gnf_problem *problem)
{
    struct explaining explaining = {
        .args = session->args, .records = json_array(), .samples = problem->samples};
    gnf_record_device_of(&session->context->device, session->simulated, &explaining.device);
    struct gnf_choice_request request = {
        .context = session->context,
        .problem = problem,
        .alignment = ALIGNMENT,
        .prepared = true,
    };
    struct gnf_choice choice, standard;
    gnf_status status = gnf_choice_by_rule(&request, &standard);
    if (status == GNF_OK)
        status = gnf_choice_make(&request, &choice);
    if (status == GNF_OK && !session->args->json) {
        char time[32];
        db_time_text(choice.recorded_us, time);
        printf("problem  %s\ndevice   %s (%s)\nplan     %s (%s)%s%s\ndefault  %s\n", problem->text,
               session->context->device.name, session->device, choice.variant->name, choice.match,
               choice.recorded_us > 0 ? ", recorded with " : "", choice.recorded_us > 0 ? time : "",
               standard.variant->name);
    }
    request.explain = on_record;
    request.explain_user = &explaining;
    if (status == GNF_OK)
        status = gnf_choice_make(&request, &choice);
    if (status == GNF_OK && session->args->json) {
        json_t *object = json_pack(
            "{s:b, s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s?, s:O}", "ok", 1, "problem", problem->text,
            "key", problem->key, "samples", (json_int_t)problem->samples, "device", session->device, "gpu",
            session->context->device.name, "variant", choice.variant->name, "match", choice.match, "default",
            standard.variant->name, "db", session->options.db, "records", explaining.records);
        if (object != NULL && choice.recorded_us > 0)
            json_object_set_new(object, "recorded_us", output_number(choice.recorded_us));
        status = output_json(object);
    } else if (status == GNF_OK && explaining.count == 0) {
        printf("\nno record is about this problem, at whatever N: the default rule decides\n");
    } else if (status == GNF_OK && explaining.replaced > 0) {
        printf("\n%d lines that later ones replace are not shown (-v shows them)\n", explaining.replaced);
    }
    json_decref(explaining.records);
    return status;
}

/* Without a device: what there is, and that a device is wanted. */
static gnf_status no_device(const struct args *args, const struct gnf_problem *problem, gnf_status status)
{
    struct session session;
    struct gnf_tuned *tuned;
    const struct gnf_tuned_line *line;
    char reason[512], known[1024] = "";
    snprintf(reason, sizeof reason, "%s", gnf_error_message());
    GNF_TRY(session_open_packs(&session, args));
    gnf_status loaded = gnf_tuned_load(&tuned, session.options.db, &session.options.log);
    for (int i = 0; loaded == GNF_OK && (line = gnf_tuned_get(tuned, i)) != NULL; i++) {
        char device[256];
        size_t used = strlen(known);
        db_device_text(&line->record.device, device, sizeof device);
        if (strcmp(line->record.key, problem->key) != 0 || strstr(known, device) != NULL ||
            used + strlen(device) + 3 > sizeof known)
            continue;
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", device);
    }
    if (loaded == GNF_OK)
        gnf_tuned_free(tuned);
    session_close(&session);
    return gnf_fail(status,
                    "which record a plan takes depends on its device: %s; records of this problem are of: %s",
                    reason, known[0] != '\0' ? known : "none");
}

gnf_status db_explain(const struct args *args)
{
    struct gnf_problem problem;
    struct session session;
    GNF_TRY(measurable_parse(args->operands.at[1], &problem));
    /* No kernel will run, so the simulator need not know any. */
    gnf_status status = session_open(&session, args, NULL);
    if (status == GNF_NO_DRIVER || status == GNF_NO_DEVICE)
        return no_device(args, &problem, status);
    GNF_TRY(status);
    status = session_require(&session, &problem);
    if (status == GNF_OK)
        status = answer(&session, &problem);
    session_close(&session);
    return status;
}
