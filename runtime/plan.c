#include "plan.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ALIGNMENT = 16, LARGEST_ALIGNMENT = 4096 };

/* One search for variants. */
struct search {
    gnf_context *context;
    const struct gnf_problem *problem;
};
/* Where it stands. */
struct found {
    int key, next_pack;
    const struct gnf_pack *pack;
    const struct gnf_variant *variants;
    int count;
};

gnf_status gnf_plan_supported(const struct gnf_problem *problem, const char *text)
{
    for (int i = 0; i < problem->stage_count; i++) {
        const struct gnf_stage *stage = &problem->stage[i];
        bool everything = false;
        for (int j = 0; j < stage->op->param_count; j++)
            everything = everything || (stage->op->param[j].type == 'w' && stage->value[j] > 0);
        if (everything || stage->op->kind == GNF_OP_LINEAR || stage->op->kind == GNF_OP_CONV2D ||
            stage->op->kind == GNF_OP_MAXPOOL2D)
            return gnf_problem_refuse(
                GNF_NOT_SUPPORTED, text, stage->at,
                "no kernel of this version does this (stage '%s'): supported are groupnorm, "
                "elementwise operations, add, mul and reductions over the channels",
                stage->op->name);
    }
    return GNF_OK;
}

/* Steps to the next entry for the problem: exact keys in all packs before chains, the last pack loaded first.
 * False past the last; start from all zeros. */
static bool next_entry(const struct search *search, struct found *found)
{
    const char *const keys[] = {search->problem->key, search->problem->chain};
    for (; found->key < 2; found->key++, found->next_pack = 0)
        while ((found->pack = gnf_context_pack(search->context, found->next_pack))) {
            found->next_pack++;
            found->variants = gnf_pack_find(found->pack, keys[found->key], &found->count);
            if (found->variants)
                return true;
        }
    return false;
}

static gnf_status no_kernel(const struct search *search)
{
    return gnf_fail(
        GNF_NO_KERNEL,
        "no loaded pack has the chain '%s'; make one with  gnfuse-gen '%s' -o FILE  and name FILE in "
        "GNFUSE_PACK_PATH or load it",
        search->problem->chain, search->problem->text);
}

static gnf_status choose_default(const struct search *search, unsigned alignment, struct gnf_choice *choice)
{
    const struct gnf_device *device = &search->context->device;
    gnf_status status = GNF_NO_KERNEL;
    for (struct found found = {0}; next_entry(search, &found);) {
        status = gnf_choice_default(choice, found.pack, found.variants, found.count, search->problem,
                                    alignment, device);
        if (status == GNF_OK)
            return GNF_OK;
    }
    return status == GNF_NO_KERNEL ? no_kernel(search) : status;
}

static gnf_status no_variant(const struct search *search, const char *name)
{
    char names[4096];
    size_t length = 0;
    for (struct found found = {0}; next_entry(search, &found);)
        for (int i = 0; i < found.count && length + 256 < sizeof names; i++)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "",
                                       found.variants[i].name);
    if (!length)
        return no_kernel(search);
    return gnf_fail(GNF_INVALID_ARGUMENT, "variant = '%s': '%s' has %s", name, search->problem->text, names);
}

static gnf_status choose_named(const struct search *search, const char *name, unsigned alignment,
                               struct gnf_choice *choice)
{
    for (struct found found = {0}; next_entry(search, &found);)
        for (int i = 0; i < found.count; i++) {
            if (strcmp(found.variants[i].name, name))
                continue;
            *choice = (struct gnf_choice){.pack = found.pack, .variant = &found.variants[i]};
            GNF_TRY(gnf_choice_check(choice, search->problem, alignment, &search->context->device));
            return gnf_choice_size(choice, search->problem);
        }
    return no_variant(search, name);
}

/* Number of kernels that come before the choice's own, and of all, are for the log. */
static gnf_status load(gnf_context *context, struct gnf_choice *choice, CUstream stream, int before,
                       int total)
{
    for (int i = 0; i < choice->variant->kernel_count; i++) {
        const struct gnf_kernel_request request = {
            .pack = choice->pack,
            .kernel = &choice->variant->kernel[i],
            .stream = stream,
            .number = before + i + 1,
            .total = total,
        };
        int registers;
        GNF_TRY(gnf_context_kernel(context, &request, &choice->launch[i].function, &registers));
        choice->registers = registers > choice->registers ? registers : choice->registers;
    }
    return GNF_OK;
}

static gnf_status check_options(const gnf_plan_options *options, struct gnf_problem *problem,
                                unsigned *alignment)
{
    unsigned element = (unsigned)gnf_dtype_size(problem->dtype);
    int64_t samples = problem->samples >= 0 ? problem->samples : options->samples;
    *alignment = options->alignment ? options->alignment : DEFAULT_ALIGNMENT;
    if (*alignment & (*alignment - 1) || *alignment < element || *alignment > LARGEST_ALIGNMENT)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "alignment = %u: allowed are powers of two from %u (one %s element) to %d",
                        *alignment, element, gnf_dtype_name(problem->dtype), LARGEST_ALIGNMENT);
    if (problem->samples < 0 && options->samples <= 0)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "samples = %" PRId64 ": the problem leaves N open, so allowed are 1 and more",
                        options->samples);
    if (options->samples && options->samples != samples)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "samples = %" PRId64 ": the problem says N = %" PRId64 ", so allowed are 0 and that",
                        options->samples, samples);
    return gnf_problem_set_samples(problem, samples);
}

static void fill_arguments(struct gnf_plan *plan)
{
    const struct gnf_problem *problem = &plan->problem;
    plan->args.samples = problem->samples;
    plan->args.groups = problem->groups;
    plan->args.group_channels = problem->channels / problem->groups;
    plan->args.spatial = problem->spatial;
    for (int i = 0; i < problem->scalar_count; i++)
        plan->args.scalar[i] = problem->scalar[i];
}

static gnf_status create(struct gnf_plan *plan, const char *text, const gnf_plan_options *options)
{
    struct gnf_problem *problem = &plan->problem;
    const struct search search = {plan->context, problem};
    unsigned alignment;
    GNF_TRY(gnf_problem_parse(text, problem));
    GNF_TRY(gnf_plan_supported(problem, text));
    GNF_TRY(check_options(options, problem, &alignment));
    GNF_TRY(gnf_problem_elements(problem, problem->samples, &plan->x_elements, &plan->y_elements));
    fill_arguments(plan);
    plan->empty = plan->x_elements == 0;
    plan->in_place = problem->reduction < 0;

    if (options->variant)
        GNF_TRY(choose_named(&search, options->variant, alignment, &plan->choice));
    else
        GNF_TRY(choose_default(&search, alignment, &plan->choice));
    plan->match = options->variant ? "named" : plan->choice.variant->generic ? "generic" : "default";
    unsigned element = (unsigned)gnf_dtype_size(problem->dtype);
    bool two = plan->choice.variant->alignment > element;
    if (two)
        GNF_TRY(choose_default(&search, element, &plan->fallback));
    if (!plan->empty) {
        int first = plan->choice.variant->kernel_count,
            total = first + (two ? plan->fallback.variant->kernel_count : 0);
        GNF_TRY(load(plan->context, &plan->choice, options->stream, 0, total));
        if (two)
            GNF_TRY(load(plan->context, &plan->fallback, options->stream, first, total));
    }
    if (!two)
        plan->fallback = plan->choice;
    plan->workspace_size = plan->choice.workspace_size > plan->fallback.workspace_size
                               ? plan->choice.workspace_size
                               : plan->fallback.workspace_size;
    return GNF_OK;
}

gnf_status gnf_plan_create(gnf_plan **out, gnf_context *context, const char *problem,
                           const gnf_plan_options *options)
{
    gnf_plan_options known;
    if (!out)
        return gnf_fail(GNF_INVALID_ARGUMENT, "plan is null: allowed is the address of a gnf_plan *");
    *out = NULL;
    if (!context)
        return gnf_fail(GNF_INVALID_ARGUMENT, "context is null");
    GNF_TRY(gnf_struct_read(options, &known, sizeof known, "options"));
    struct gnf_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return gnf_fail(GNF_OUT_OF_MEMORY, "plan: no host memory");
    plan->context = context;
    gnf_status status = create(plan, problem, &known);
    if (status != GNF_OK) {
        free(plan);
        return status;
    }
    *out = plan;
    return GNF_OK;
}

void gnf_plan_destroy(gnf_plan **plan)
{
    if (!plan)
        return;
    free(*plan);
    *plan = NULL;
}

size_t gnf_plan_workspace_size(const gnf_plan *plan)
{
    return plan ? plan->workspace_size : 0;
}

gnf_status gnf_plan_get_info(const gnf_plan *plan, gnf_plan_info *info)
{
    if (!plan)
        return gnf_fail(GNF_INVALID_ARGUMENT, "plan is null");
    if (!info)
        return gnf_fail(GNF_INVALID_ARGUMENT, "info is null");
    size_t size = info->size;
    if (size < sizeof size || size > 4096)
        return gnf_fail(GNF_INVALID_ARGUMENT, "info.size = %zu: allowed is sizeof(gnf_plan_info), %zu here",
                        size, sizeof *info);
    const struct gnf_variant *variant = plan->choice.variant;
    gnf_plan_info known = {
        .size = size,
        .problem = plan->problem.text,
        .variant = variant->name,
        .fallback = plan->fallback.variant->name,
        .match = plan->match,
        .workspace_size = plan->workspace_size,
        .x_elements = plan->x_elements,
        .y_elements = plan->y_elements,
        .kernels = plan->empty ? 0 : (unsigned)variant->kernel_count,
        .registers = plan->choice.registers,
    };
    for (int i = 0; i < variant->kernel_count; i++)
        if (variant->kernel[i].shared_bytes > known.shared_bytes)
            known.shared_bytes = variant->kernel[i].shared_bytes;
    if (size > sizeof known)
        memset((char *)info + sizeof known, 0, size - sizeof known);
    memcpy(info, &known, size < sizeof known ? size : sizeof known);
    return GNF_OK;
}
