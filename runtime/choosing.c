/* Which variant of the loaded packs a plan takes: the named one, the one that was measured to be best, the
 * default rule's. */
#include "linear.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gnf_entry_next(gnf_context *context, const struct gnf_problem *problem, struct gnf_entry *entry)
{
    const char *const keys[] = {problem->key, problem->chain};
    for (; entry->key < 2; entry->key++, entry->next_pack = 0)
        while ((entry->pack = gnf_context_pack(context, entry->next_pack))) {
            entry->next_pack++;
            entry->variants = gnf_pack_find(entry->pack, keys[entry->key], &entry->count);
            if (entry->variants)
                return true;
        }
    return false;
}

gnf_status gnf_entry_none(const struct gnf_problem *problem)
{
    return gnf_fail(
        GNF_NO_KERNEL,
        "no loaded pack has the chain '%s'; make one with  gnfuse-gen '%s' -o FILE  and name FILE in "
        "GNFUSE_PACK_PATH or load it",
        problem->chain, problem->text);
}

static struct gnf_terms terms_of(const struct gnf_choice_request *request)
{
    return (struct gnf_terms){
        .alignment = request->alignment,
        .prepared = request->prepared,
        .no_cublaslt = request->no_cublaslt || gnf_cublaslt_is_missing(request->context->cublaslt),
        .no_exact = request->no_exact,
        .named = request->variant != NULL,
    };
}

/* What a choice has besides its sizes, whatever it rests on. */
static void complete(const struct gnf_choice_request *request, struct gnf_choice *choice)
{
    enum gnf_method method = choice->variant->product.method;
    unsigned alignment = request->alignment < GNF_GEMM_ALIGNMENT ? request->alignment : GNF_GEMM_ALIGNMENT;
    struct gnf_record_device device;
    choice->alignment = choice->variant->alignment;
    /* cuBLASLt reads the caller's own tensors, and its algorithms are those for the alignment promised. */
    if ((method == GNF_METHOD_DIRECT || method == GNF_METHOD_TF32) && alignment > choice->alignment)
        choice->alignment = alignment;
    if (!gnf_linear_gemms(method))
        return;
    gnf_record_device_of(&request->context->device, request->context->driver.simulated, &device);
    struct gnf_tuned *tuned = gnf_context_tuned(request->context);
    const char *gemm = gnf_tuned_gemm(tuned, request->problem, &device, choice->variant);
    snprintf(choice->gemm, sizeof choice->gemm, "%s", gemm ? gemm : "");
    gnf_tuned_free(tuned);
}

static gnf_status choose_by_rule(const struct gnf_choice_request *request, struct gnf_choice *choice)
{
    const struct gnf_terms terms = terms_of(request);
    gnf_status status = GNF_NO_KERNEL;
    for (struct gnf_entry entry = {0}; gnf_entry_next(request->context, request->problem, &entry);) {
        status = gnf_choice_default(choice, entry.pack, entry.variants, entry.count, request->problem, &terms,
                                    &request->context->device);
        if (status == GNF_OK) {
            choice->match = choice->variant->generic ? "generic" : "default";
            return GNF_OK;
        }
    }
    return status == GNF_NO_KERNEL ? gnf_entry_none(request->problem) : status;
}

gnf_status gnf_choice_by_rule(const struct gnf_choice_request *request, struct gnf_choice *choice)
{
    GNF_TRY(choose_by_rule(request, choice));
    complete(request, choice);
    return GNF_OK;
}

/* A variant that the rule has no say in. */
static gnf_status take(const struct gnf_choice_request *request, const struct gnf_candidate *candidate,
                       struct gnf_choice *choice)
{
    const struct gnf_terms terms = terms_of(request);
    *choice = (struct gnf_choice){.pack = candidate->pack, .variant = candidate->variant};
    GNF_TRY(gnf_choice_check(choice, request->problem, &terms, &request->context->device));
    return gnf_choice_size(choice, request->problem);
}

/* ---- by name ---- */

static gnf_status no_variant(const struct gnf_choice_request *request)
{
    char names[4096];
    size_t length = 0;
    for (struct gnf_entry entry = {0}; gnf_entry_next(request->context, request->problem, &entry);)
        for (int i = 0; i < entry.count && length + 256 < sizeof names; i++)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "",
                                       entry.variants[i].name);
    if (!length)
        return gnf_entry_none(request->problem);
    return gnf_fail(GNF_INVALID_ARGUMENT, "variant = '%s': '%s' has %s", request->variant,
                    request->problem->text, names);
}

static gnf_status choose_named(const struct gnf_choice_request *request, struct gnf_choice *choice)
{
    for (struct gnf_entry entry = {0}; gnf_entry_next(request->context, request->problem, &entry);)
        for (int i = 0; i < entry.count; i++) {
            if (strcmp(entry.variants[i].name, request->variant))
                continue;
            const struct gnf_candidate candidate = {entry.pack, &entry.variants[i]};
            GNF_TRY(take(request, &candidate, choice));
            choice->match = "named";
            return GNF_OK;
        }
    return no_variant(request);
}

/* ---- by records ---- */

/* The database decides only speed: what it names is checked like any other. */
static bool is_legal(void *user, const struct gnf_candidate *candidate)
{
    struct gnf_choice choice;
    return take(user, candidate, &choice) == GNF_OK;
}

static gnf_status list_candidates(const struct gnf_choice_request *request, struct gnf_candidate **list,
                                  int *count)
{
    *list = NULL;
    *count = 0;
    for (struct gnf_entry entry = {0}; gnf_entry_next(request->context, request->problem, &entry);) {
        struct gnf_candidate *larger = realloc(*list, (size_t)(*count + entry.count) * sizeof *larger);
        if (!larger) {
            free(*list);
            return gnf_fail(GNF_OUT_OF_MEMORY, "plan: no host memory");
        }
        *list = larger;
        for (int i = 0; i < entry.count; i++)
            larger[(*count)++] = (struct gnf_candidate){entry.pack, &entry.variants[i]};
    }
    return GNF_OK;
}

/* Leaves *choice, the default rule's, where nothing is known. */
static gnf_status choose_tuned(const struct gnf_choice_request *request, const struct gnf_tuned *tuned,
                               struct gnf_choice *choice)
{
    gnf_context *context = request->context;
    struct gnf_candidate *list;
    struct gnf_tuned_query query = {
        .problem = request->problem,
        .nvrtc = gnf_context_nvrtc(context, request->stream),
        .legal = is_legal,
        .user = (void *)request,
        .default_index = -1,
        .explain = request->explain,
        .explain_user = request->explain_user,
    };
    gnf_record_device_of(&context->device, context->driver.simulated, &query.device);
    GNF_TRY(list_candidates(request, &list, &query.count));
    query.candidates = list;
    for (int i = 0; i < query.count && query.default_index < 0; i++)
        if (list[i].variant == choice->variant)
            query.default_index = i;
    const struct gnf_tuned_choice best = gnf_tuned_choose(tuned, &query);
    gnf_status status = GNF_OK;
    if (best.index >= 0) {
        status = take(request, &list[best.index], choice);
        choice->match = gnf_match_names[best.match];
        choice->recorded_us = best.line->record.time_us;
    }
    free(list);
    return status;
}

static gnf_status choose(const struct gnf_choice_request *request, struct gnf_choice *choice)
{
    *choice = (struct gnf_choice){.match = "default"};
    if (request->variant)
        return choose_named(request, choice);
    GNF_TRY(choose_by_rule(request, choice));
    struct gnf_tuned *tuned = gnf_context_tuned(request->context);
    gnf_status status = GNF_OK;
    if (tuned && gnf_tuned_has(tuned, request->problem->key))
        status = choose_tuned(request, tuned, choice);
    gnf_tuned_free(tuned);
    return status;
}

gnf_status gnf_choice_make(const struct gnf_choice_request *request, struct gnf_choice *choice)
{
    GNF_TRY(choose(request, choice));
    complete(request, choice);
    return GNF_OK;
}

/* ---- for callers ---- */

static gnf_status fill_info(gnf_variant_info *info, const struct gnf_variant *variant)
{
    gnf_variant_info known = {
        .name = variant->name,
        .strategy = variant->strategy,
        .parameters = variant->parameters,
        .alignment = variant->alignment,
        .capability = variant->capability,
        .kernels = gnf_variant_launches(variant),
    };
    for (int i = 0; i < variant->kernel_count; i++)
        if (variant->kernel[i].shared_bytes > known.shared_bytes)
            known.shared_bytes = variant->kernel[i].shared_bytes;
    return gnf_struct_write(info, &known, sizeof known, "info", "gnf_variant_info");
}

/* An entry before has one of that name, which is the one that plans take. */
static bool is_hidden(gnf_context *context, const struct gnf_problem *problem, const struct gnf_entry *entry,
                      const char *name)
{
    for (struct gnf_entry before = {0}; gnf_entry_next(context, problem, &before);) {
        if (before.variants == entry->variants)
            return false;
        for (int i = 0; i < before.count; i++)
            if (!strcmp(before.variants[i].name, name))
                return true;
    }
    return false;
}

gnf_status gnf_get_variant(gnf_context *context, const char *text, int i, gnf_variant_info *info)
{
    struct gnf_problem problem;
    int before = 0;
    if (!context)
        return gnf_fail(GNF_INVALID_ARGUMENT, "context is null");
    GNF_TRY(gnf_problem_parse(text, &problem));
    for (struct gnf_entry entry = {0}; gnf_entry_next(context, &problem, &entry);)
        for (int j = 0; j < entry.count; j++)
            if (!is_hidden(context, &problem, &entry, entry.variants[j].name) && before++ == i)
                return fill_info(info, &entry.variants[j]);
    if (!before)
        return gnf_entry_none(&problem);
    return gnf_fail(GNF_INVALID_ARGUMENT, "i = %d: allowed are 0 to %d", i, before - 1);
}
