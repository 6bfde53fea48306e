#include "check.h"
#include "commands.h"
#include "output.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES_FOR_ANY = 3 }; /* N where the problem says * */

struct checking {
    const struct args *args;
    struct progress progress;
    json_t *results;
};

static void on_result(void *user, const struct check_result *result)
{
    struct checking *checking = user;
    const char *verdict = result->ok ? "ok" : "FAILED";
    if (checking->args->json)
        json_array_append_new(checking->results,
                              json_pack("{s:s, s:s, s:s, s:b, s:o, s:s}", "name", result->variant, "data",
                                        result->data, "mode", result->mode, "ok", result->ok, "max_error",
                                        output_number(result->max_error), "text", result->text));
    if (result->ok && (!checking->args->verbose || checking->args->json))
        return;
    progress_clear(&checking->progress);
    fprintf(checking->args->json ? stderr : stdout, "check %s %s %s: %s, %s\n", result->variant, result->data,
            result->mode, verdict, result->text);
}

static void on_step(void *user, const char *data, const char *variant)
{
    struct checking *checking = user;
    progress_step(&checking->progress, "%s on %s data", variant, data);
}

static void totals(const struct check *check, int *passed, int *failed, int *skipped)
{
    *passed = *failed = *skipped = 0;
    for (int i = 0; i < check->variant_count; i++) {
        *passed += check->variants[i].passed;
        *failed += check->variants[i].failed;
        *skipped += check->variants[i].plan == NULL && check->variants[i].failed == 0;
    }
}

static gnf_status print_json(const struct check *check, struct checking *checking, bool ok)
{
    json_t *variants = json_array();
    double max_error = 0;
    for (int i = 0; i < check->variant_count; i++) {
        const struct check_variant *one = &check->variants[i];
        if (!(one->max_error <= max_error))
            max_error = one->max_error;
        json_t *row = json_pack("{s:s, s:b, s:i, s:i, s:o}", "name", one->variant->name, "ok",
                                one->failed == 0, "passed", one->passed, "failed", one->failed, "max_error",
                                output_number(one->max_error));
        if (one->skipped[0] != '\0')
            json_object_set_new(row, "skipped", json_string(one->skipped));
        json_array_append_new(variants, row);
    }
    return output_json(
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:b, s:f, s:o, s:o, s:O}", "problem", check->problem->text,
                  "device", check->session->device, "gpu", check->session->context->device.name, "samples",
                  (json_int_t)check->tensors.samples, "seed", (json_int_t)checking->args->seed, "ok", ok,
                  "tolerance", compare_tolerance(check->problem), "max_error", output_number(max_error),
                  "variants", variants, "results", checking->results));
}

static void print_variants(const struct check *check)
{
    for (int i = 0; i < check->variant_count; i++) {
        const struct check_variant *one = &check->variants[i];
        if (one->plan == NULL)
            printf("%-36s %s: %s\n", one->variant->name, one->failed ? "FAILED" : "skipped", one->skipped);
        else
            printf("%-36s %s  max error %.3g, %d passed, %d failed\n", one->variant->name,
                   one->failed ? "FAILED" : "ok    ", one->max_error, one->passed, one->failed);
    }
}

/* How to see a failure again, alone. */
static void print_reproduction(const struct check *check, const struct args *args, FILE *out)
{
    char quoted[2 * GNF_KEY_SIZE];
    output_quoted(quoted, sizeof quoted, check->problem->text);
    for (int i = 0; i < check->variant_count; i++) {
        if (check->variants[i].failed == 0)
            continue;
        fprintf(out, "again: gnfuse check %s --variant %s --seed %llu --device %s -v", quoted,
                check->variants[i].variant->name, (unsigned long long)args->seed, check->session->device);
        for (int k = 0; k < args->packs.count; k++)
            fprintf(out, " --pack %s", args->packs.at[k]);
        fputc('\n', out);
        return;
    }
}

static gnf_status run(struct check *check, struct checking *checking, int *exit_status)
{
    const struct args *args = checking->args;
    struct session *session = check->session;
    struct pack_variant *list = NULL;
    int count = 0, passed, failed, skipped;
    GNF_TRY(packs_variants(&session->packs, check->problem, args->variant, &list, &count));
    gnf_status status = check_prepare(check, list, count);
    free(list);
    GNF_TRY(status);
    progress_begin(&checking->progress, count * check->data_count, args->quiet);
    status = check_run(check, args->seed);
    progress_clear(&checking->progress);
    char message[1024];
    snprintf(message, sizeof message, "%s", gnf_error_message());
    if (status != GNF_OK && !check->lost)
        return status;
    totals(check, &passed, &failed, &skipped);
    if (passed + failed == 0)
        return gnf_fail(GNF_NO_DEVICE, "no variant can run on %s: %s", session->context->device.name,
                        check->variants[0].skipped);
    bool ok = failed == 0;
    *exit_status = ok ? 0 : check->lost ? 4 : 1;
    if (args->json) {
        GNF_TRY(print_json(check, checking, ok));
    } else {
        print_variants(check);
        printf("%s: %d variants on %d data sets, N = %lld, seed %llu, tolerance %g: %d passed, %d failed, %d "
               "variants "
               "skipped\n",
               ok ? "ok" : "FAILED", check->variant_count, check->data_count,
               (long long)check->tensors.samples, (unsigned long long)args->seed,
               compare_tolerance(check->problem), passed, failed, skipped);
    }
    if (check->lost)
        fprintf(stderr, "gnfuse: check: %s; the context is lost, the rest was not checked\n", message);
    if (failed > 0)
        print_reproduction(check, args, args->json ? stderr : stdout);
    return GNF_OK;
}

gnf_status command_check(const struct args *args, int *exit_status)
{
    struct gnf_problem problem;
    struct session session;
    GNF_TRY(gnf_problem_parse(args->operand, &problem));
    struct checking checking = {.args = args, .results = json_array()};
    struct check check = {
        .session = &session, .problem = &problem, .report = on_result, .step = on_step, .user = &checking};
    gnf_status status =
        tensors_create(&check.tensors, &problem, problem.samples < 0 ? SAMPLES_FOR_ANY : problem.samples);
    if (status == GNF_OK)
        status = session_open(&session, args, &problem);
    if (status == GNF_OK) {
        status = run(&check, &checking, exit_status);
        check_free(&check);
        session_close(&session);
    }
    json_decref(checking.results);
    return status;
}
