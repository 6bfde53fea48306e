#include "linear.h"
#include "tune.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ALIGNMENT = 16, LARGEST_ALIGNMENT = 4096 };

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
        struct gnf_loaded loaded;
        GNF_TRY(gnf_context_kernel(context, &request, &loaded));
        choice->launch[i].function = loaded.function;
        choice->launch[i].capability = loaded.capability;
        choice->registers = loaded.registers > choice->registers ? loaded.registers : choice->registers;
    }
    return GNF_OK;
}

static gnf_status check_options(const gnf_plan_options *options, struct gnf_problem *problem,
                                unsigned *alignment)
{
    unsigned element = (unsigned)gnf_dtype_size(problem->dtype);
    *alignment = options->alignment ? options->alignment : DEFAULT_ALIGNMENT;
    if (*alignment & (*alignment - 1) || *alignment < element || *alignment > LARGEST_ALIGNMENT)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "alignment = %u: allowed are powers of two from %u (one %s element) to %d",
                        *alignment, element, gnf_dtype_name(problem->dtype), LARGEST_ALIGNMENT);
    if (options->tune != 0 && options->tune != 1)
        return gnf_fail(GNF_INVALID_ARGUMENT, "tune = %d: allowed are 0 and 1", options->tune);
    if (options->prepared != 0 && options->prepared != 1)
        return gnf_fail(GNF_INVALID_ARGUMENT, "prepared = %d: allowed are 0 and 1", options->prepared);
    GNF_TRY(gnf_tune_check_budget(options->tune_budget, "tune_budget"));
    return gnf_problem_take_samples(problem, options->samples);
}

/* What conv2d and maxpool2d move over; all zeros where there is neither. */
static void fill_windows(struct gnf_kernel_args *args, const struct gnf_problem *problem)
{
    const struct gnf_window *conv = &problem->conv, *pool = &problem->pool;
    if (!conv->kernel && !pool->kernel)
        return;
    const int64_t *seen = conv->kernel ? conv->output : problem->size; /* by groupnorm */
    args->height = problem->size[0];
    args->width = problem->size[1];
    args->out_height = seen[0];
    args->out_width = seen[1];
    args->kernel = conv->kernel;
    args->stride = conv->stride;
    args->padding = conv->padding;
    args->pool_kernel = pool->kernel;
    args->pool_stride = pool->stride;
    args->pooled_height = pool->output[0];
    args->pooled_width = pool->output[1];
}

static void fill_arguments(struct gnf_plan *plan)
{
    const struct gnf_problem *problem = &plan->problem;
    plan->args.samples = problem->samples;
    plan->args.groups = problem->groups;
    plan->args.group_channels = problem->channels / problem->groups;
    plan->args.spatial = problem->spatial;
    plan->args.inputs = problem->inputs;
    fill_windows(&plan->args, problem);
    for (int i = 0; i < problem->scalar_count; i++)
        plan->args.scalar[i] = problem->scalar[i];
}

typedef gnf_status choose(const struct gnf_choice_request *, struct gnf_choice *);

/* Makes cuBLASLt ready for a choice; where it cannot be had, chooses what own kernels do, unless by name. */
static gnf_status make_gemms_ready(struct gnf_plan *plan, struct gnf_choice_request *request, choose *again,
                                   struct gnf_choice *choice)
{
    if (plan->empty)
        return GNF_OK;
    gnf_status status = gnf_linear_prepare(plan->context, choice, &plan->problem, request->stream);
    if (status != GNF_NO_CUBLAS || request->variant)
        return status;
    gnf_log_line(&plan->context->options.log, GNF_LOG_WARNING, "%s: kernels of its own multiply: %s",
                 plan->problem.text, gnf_error_message());
    request->no_cublaslt = true;
    return again(request, choice);
}

/* The request becomes the fallback's. */
static gnf_status choose_fallback(struct gnf_plan *plan, struct gnf_choice_request *request, choose *choose)
{
    enum gnf_method method = plan->choice.variant->product.method;
    /* The caller prepares the weight for the choice, once. */
    request->prepared = request->prepared && plan->choice.linear.prepared;
    GNF_TRY(choose(request, &plan->fallback));
    if (plan->fallback.linear.prepared && plan->fallback.variant->product.method != method) {
        request->prepared = false;
        GNF_TRY(choose(request, &plan->fallback));
    }
    return make_gemms_ready(plan, request, choose, &plan->fallback);
}

/* Loads the choice, and what `choose` takes for pointers of any alignment. */
static gnf_status make_ready(struct gnf_plan *plan, struct gnf_choice_request request, choose *choose)
{
    GNF_TRY(make_gemms_ready(plan, &request, choose, &plan->choice));
    request.variant = NULL;
    request.alignment = (unsigned)gnf_dtype_size(plan->problem.dtype);
    bool two = plan->choice.alignment > request.alignment;
    if (two)
        GNF_TRY(choose_fallback(plan, &request, choose));
    if (!plan->empty) {
        int first = plan->choice.variant->kernel_count,
            total = first + (two ? plan->fallback.variant->kernel_count : 0);
        GNF_TRY(load(plan->context, &plan->choice, request.stream, 0, total));
        if (two)
            GNF_TRY(load(plan->context, &plan->fallback, request.stream, first, total));
    }
    if (!two)
        plan->fallback = plan->choice;
    plan->workspace_size = plan->choice.workspace_size > plan->fallback.workspace_size
                               ? plan->choice.workspace_size
                               : plan->fallback.workspace_size;
    return GNF_OK;
}

static void release(struct gnf_plan *plan)
{
    if (plan->fallback.linear.gemms != plan->choice.linear.gemms)
        gnf_linear_release(&plan->fallback);
    plan->fallback.linear.gemms = NULL;
    gnf_linear_release(&plan->choice);
}

/* Another variant may be in the cache, or compile. */
static bool is_out_of_reach(gnf_status status)
{
    return status == GNF_NO_COMPILER || status == GNF_COMPILE_FAILED || status == GNF_NOT_COMPILED;
}

/* Not for want of a tail: plans of a problem have the product in common, and with it the prepared weight. */
static bool lacks_exact(const struct gnf_choice *choice)
{
    for (int i = 0; choice->variant && i < choice->variant->kernel_count; i++)
        if (choice->variant->kernel[i].exact && !choice->launch[i].function)
            return true;
    return false;
}

/* What failed was the choice, unless that was named, or the fallback, and others run anywhere. */
static bool can_do_without_exact(const struct gnf_plan *plan, const char *named)
{
    const struct gnf_choice *choice = &plan->choice;
    bool loaded = choice->launch[choice->variant->kernel_count - 1].function;
    return loaded ? lacks_exact(&plan->fallback) : !named && lacks_exact(choice);
}

static gnf_status create(struct gnf_plan *plan, const char *text, const gnf_plan_options *options)
{
    struct gnf_problem *problem = &plan->problem;
    unsigned alignment;
    GNF_TRY(gnf_problem_parse(text, problem));
    GNF_TRY(check_options(options, problem, &alignment));
    GNF_TRY(gnf_problem_elements(problem, problem->samples, &plan->x_elements, &plan->y_elements));
    fill_arguments(plan);
    plan->empty = plan->x_elements == 0;

    struct gnf_choice_request request = {
        .context = plan->context,
        .problem = problem,
        .variant = options->variant,
        .alignment = alignment,
        .prepared = options->prepared,
        .stream = options->stream,
    };
    GNF_TRY(gnf_choice_make(&request, &plan->choice));
    bool known = options->variant || plan->choice.match == gnf_match_names[GNF_MATCH_EXACT];
    if (options->tune && !known && !plan->empty && gnf_tune_on_first_use(plan->context, problem, options))
        GNF_TRY(gnf_choice_make(&request, &plan->choice));
    gnf_status status = make_ready(plan, request, gnf_choice_make);
    if (is_out_of_reach(status) && can_do_without_exact(plan, request.variant)) {
        gnf_log_line(&plan->context->options.log, GNF_LOG_WARNING,
                     "%s: what is for this architecture alone cannot be had: %s", problem->text,
                     gnf_error_message());
        release(plan);
        request.no_exact = true;
        GNF_TRY(gnf_choice_make(&request, &plan->choice));
        status = make_ready(plan, request, gnf_choice_make);
    }
    if (!is_out_of_reach(status) || (plan->choice.recorded_us <= 0 && plan->fallback.recorded_us <= 0))
        return status;
    /* Records decide only speed: without them it might have worked. */
    gnf_log_line(&plan->context->options.log, GNF_LOG_WARNING,
                 "%s: what the tuning database says cannot be had, the default rule decides: %s",
                 problem->text, gnf_error_message());
    release(plan);
    if (!options->variant)
        GNF_TRY(gnf_choice_by_rule(&request, &plan->choice));
    return make_ready(plan, request, gnf_choice_by_rule);
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
        gnf_plan_destroy(&plan);
        return status;
    }
    *out = plan;
    return GNF_OK;
}

void gnf_plan_destroy(gnf_plan **plan)
{
    if (!plan || !*plan)
        return;
    release(*plan);
    free(*plan);
    *plan = NULL;
}

size_t gnf_plan_workspace_size(const gnf_plan *plan)
{
    return plan ? plan->workspace_size : 0;
}

/* Of one execution; what is made of a weight is made once for all slabs. */
static unsigned count_launches(const struct gnf_plan *plan)
{
    const struct gnf_variant *variant = plan->choice.variant;
    unsigned slabs = plan->problem.inputs ? (unsigned)plan->choice.linear.slabs : 1, once = 0;
    for (int i = 0; i < variant->kernel_count; i++)
        once += variant->product.weights == GNF_WEIGHTS_EACH && variant->kernel[i].role == GNF_ROLE_WEIGHTS;
    return plan->empty ? 0 : slabs * (gnf_variant_launches(variant) - once) + once;
}

gnf_status gnf_plan_get_info(const gnf_plan *plan, gnf_plan_info *info)
{
    if (!plan)
        return gnf_fail(GNF_INVALID_ARGUMENT, "plan is null");
    const struct gnf_variant *variant = plan->choice.variant;
    gnf_plan_info known = {
        .problem = plan->problem.text,
        .variant = variant->name,
        .fallback = plan->fallback.variant->name,
        .match = plan->choice.match,
        .workspace_size = plan->workspace_size,
        .x_elements = plan->x_elements,
        .y_elements = plan->y_elements,
        .kernels = count_launches(plan),
        .registers = plan->choice.registers,
        .recorded_us = plan->choice.recorded_us,
        .prepared_size = plan->empty ? 0 : plan->choice.linear.prepared,
    };
    for (int i = 0; i < variant->kernel_count; i++)
        if (variant->kernel[i].shared_bytes > known.shared_bytes)
            known.shared_bytes = variant->kernel[i].shared_bytes;
    return gnf_struct_write(info, &known, sizeof known, "info", "gnf_plan_info");
}
