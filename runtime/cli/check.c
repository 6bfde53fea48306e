#include "check.h"

#include "reference.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One data set's state. */
struct round {
    struct check *check;
    struct data_set data;
    double *reference;   /* logical order */
    void *first, *again; /* results in memory order */
    void *logical;
    size_t y_bytes;
    struct bindings aligned, misaligned, in_place[TENSORS_MAX];
};

static gnf_status plan_variant(struct check *check, struct check_variant *one)
{
    const gnf_plan_options options = {
        .size = sizeof options,
        .samples = check->problem->samples < 0 ? check->tensors.samples : 0,
        .variant = one->variant->name,
        .prepared = 1,
    };
    gnf_status status = gnf_plan_create(&one->plan, check->session->context, check->problem->text, &options);
    struct check_result result = {.variant = one->variant->name, .data = "any", .mode = "compile"};
    switch (status) {
    case GNF_NOT_SUPPORTED: /* by this device, or for this N */
    case GNF_NO_CUBLAS:
        snprintf(one->skipped, sizeof one->skipped, "%s", gnf_error_message());
        return GNF_OK;
    case GNF_COMPILE_FAILED: /* the others may be right */
        one->failed++;
        snprintf(result.text, sizeof result.text, "%s", gnf_error_message());
        snprintf(one->skipped, sizeof one->skipped, "does not compile");
        check->report(check->user, &result);
        return GNF_OK;
    default:
        return status;
    }
}

gnf_status check_prepare(struct check *check, const struct pack_variant *list, int count)
{
    check->data_count = data_sets_list(check->problem, check->data);
    check->variants = calloc((size_t)count, sizeof *check->variants);
    if (check->variants == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for %d variants", count);
    for (int i = 0; i < count; i++) {
        struct check_variant *one = &check->variants[check->variant_count++];
        one->variant = list[i].variant;
        gnf_status status = plan_variant(check, one);
        if (status != GNF_OK)
            return gnf_fail_more(status, "; while planning variant %s", one->variant->name);
    }
    return GNF_OK;
}

static void report(struct round *round, struct check_variant *one, struct check_result *result)
{
    struct check *check = round->check;
    result->variant = one->variant->name;
    result->data = round->data.name;
    one->passed += result->ok;
    one->failed += !result->ok;
    if (isnan(result->max_error) || result->max_error > one->max_error)
        one->max_error = result->max_error;
    check->report(check->user, result);
}

/* A run, its guards, and its values against the reference, or against the aligned run where `exact`. */
static gnf_status run_once(struct round *round, struct check_variant *one, struct bindings *bindings,
                           const char *mode, void *y, const void *exact)
{
    struct check *check = round->check;
    struct check_result result = {.mode = mode, .ok = true};
    gnf_status status = bindings_run(bindings, one->plan);
    if (status != GNF_OK) {
        result.ok = false;
        check->lost = status == GNF_DRIVER_ERROR;
        snprintf(result.text, sizeof result.text, "%s", gnf_error_message());
        report(round, one, &result);
        return check->lost ? status : GNF_OK;
    }
    GNF_TRY(bindings_result(bindings, y));
    GNF_TRY(bindings_inspect(bindings, round->data.thorough, result.text, sizeof result.text));
    result.ok = result.text[0] == '\0';
    if (result.ok && exact != NULL) {
        result.ok = memcmp(y, exact, round->y_bytes) == 0;
        snprintf(result.text, sizeof result.text,
                 result.ok ? "same bits" : "not the same bits as the first aligned run");
    } else if (result.ok) {
        struct comparison comparison;
        tensors_from_memory(&check->tensors, y, round->logical);
        GNF_TRY(compare_run(&check->tensors, round->logical, round->reference, &comparison));
        result.ok = comparison.ok;
        result.max_error = comparison.max_error;
        compare_text(&check->tensors, &comparison, result.text, sizeof result.text);
    }
    report(round, one, &result);
    return GNF_OK;
}

static gnf_status run_variant(struct round *round, struct check_variant *one)
{
    struct check *check = round->check;
    if (one->plan == NULL)
        return GNF_OK;
    check->step(check->user, round->data.name, one->variant->name);
    GNF_TRY(run_once(round, one, &round->aligned, "aligned", round->first, NULL));
    if (!round->data.thorough)
        return GNF_OK;
    GNF_TRY(run_once(round, one, &round->aligned, "repeat", round->again, round->first));
    GNF_TRY(run_once(round, one, &round->misaligned, "misaligned", round->again, NULL));
    for (int i = 0; i < TENSORS_MAX; i++) {
        char mode[64];
        if (!tensors_can_share(&check->tensors, i))
            continue;
        snprintf(mode, sizeof mode, "in-place-of-%s", check->tensors.at[i].name);
        GNF_TRY(run_once(round, one, &round->in_place[i], mode, round->again, round->first));
    }
    return GNF_OK;
}

static gnf_status prepare_round(struct round *round, uint64_t seed)
{
    struct check *check = round->check;
    struct tensors *tensors = &check->tensors;
    GNF_TRY(tensors_random(tensors, &round->data.recipe, seed));
    GNF_TRY(reference_run(tensors, round->reference));
    GNF_TRY(bindings_create(&round->aligned, check->session, tensors, false, -1));
    if (!round->data.thorough)
        return GNF_OK;
    GNF_TRY(bindings_create(&round->misaligned, check->session, tensors, true, -1));
    for (int i = 0; i < TENSORS_MAX; i++)
        if (tensors_can_share(tensors, i))
            GNF_TRY(bindings_create(&round->in_place[i], check->session, tensors, false, i));
    return GNF_OK;
}

static void end_round(struct round *round)
{
    bindings_free(&round->aligned);
    bindings_free(&round->misaligned);
    for (int i = 0; i < TENSORS_MAX; i++)
        bindings_free(&round->in_place[i]);
}

gnf_status check_run(struct check *check, uint64_t seed)
{
    int64_t elements = check->tensors.y_elements > 0 ? check->tensors.y_elements : 1;
    size_t bytes = (size_t)elements * gnf_dtype_size(check->problem->dtype);
    struct round round = {
        .check = check,
        .reference = malloc((size_t)elements * sizeof(double)),
        .first = malloc(bytes),
        .again = malloc(bytes),
        .logical = malloc(bytes),
        .y_bytes = (size_t)check->tensors.y_elements * gnf_dtype_size(check->problem->dtype),
    };
    gnf_status status = GNF_OK;
    if (round.reference == NULL || round.first == NULL || round.again == NULL || round.logical == NULL)
        status = gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for results of %zu bytes", bytes);
    for (int i = 0; i < check->data_count && status == GNF_OK; i++) {
        round.data = check->data[i];
        status = prepare_round(&round, seed);
        for (int v = 0; v < check->variant_count && status == GNF_OK; v++)
            status = run_variant(&round, &check->variants[v]);
        end_round(&round);
    }
    free(round.reference);
    free(round.first);
    free(round.again);
    free(round.logical);
    return status;
}

void check_free(struct check *check)
{
    for (int i = 0; i < check->variant_count; i++)
        gnf_plan_destroy(&check->variants[i].plan);
    free(check->variants);
    tensors_free(&check->tensors);
    check->variants = NULL;
    check->variant_count = 0;
}
