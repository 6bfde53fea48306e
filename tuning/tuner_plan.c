#include "tuner_plan.h"

#include "../runtime/cli/generate.h"
#include "../runtime/cli/interrupt.h"
#include "../runtime/cli/simulate.h"
#include "../runtime/plan.h"
#include "measurable.h"
#include "shipped.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gnf_status add_problem(struct tuner *tuner, const char *text)
{
    struct gnf_problem *problem = &tuner->problems[tuner->problem_count];
    GNF_TRY(measurable_parse(text, problem));
    for (int i = 0; i < tuner->problem_count; i++)
        if (strcmp(tuner->problems[i].text, problem->text) == 0)
            return GNF_OK;
    tuner->problem_count++;
    return GNF_OK;
}

gnf_status tuner_plan_problems(struct tuner *tuner, const struct args *args)
{
    size_t shipped = 0;
    if (args->all && args->operands.count > 0)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "--all: is every shipped problem, and '%s' is given too (allowed: one of the two)",
                        args->operands.at[0]);
    if (!args->all && args->operands.count == 0)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "PROBLEM is missing, or --all for every shipped one (see gnfuse tune -h)");
    while (args->all && gnf_shipped_problems[shipped] != NULL)
        shipped++;
    tuner->problems = calloc(shipped + (size_t)args->operands.count, sizeof *tuner->problems);
    if (tuner->problems == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for the problems");
    for (size_t i = 0; i < shipped; i++)
        GNF_TRY(add_problem(tuner, gnf_shipped_problems[i]));
    for (int i = 0; i < args->operands.count; i++)
        GNF_TRY(add_problem(tuner, args->operands.at[i]));
    return GNF_OK;
}

static gnf_status add_ordinal(struct tuner_plan *plan, int ordinal)
{
    for (int i = 0; i < plan->ordinal_count; i++)
        if (plan->ordinals[i] == ordinal)
            return GNF_OK;
    if (plan->ordinal_count == TUNER_MAX_DEVICES)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--devices: %d is one too many (allowed: %d)", ordinal,
                        TUNER_MAX_DEVICES);
    plan->ordinals[plan->ordinal_count++] = ordinal;
    return GNF_OK;
}

gnf_status tuner_plan_devices(struct tuner_plan *plan, const struct args *args)
{
    enum { MOST = 255 };
    plan->ordinal_count = 0;
    if (args->devices == NULL)
        return add_ordinal(plan, args->device);
    if (args->device_given)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "--devices: %s, and --device is given too (allowed: one of the two)", args->devices);
    if (strcmp(args->devices, "all") == 0)
        return GNF_OK;
    const char *digit = args->devices; /* digits and commas alone: args.c has seen to that */
    while (*digit != '\0') {
        int ordinal = 0;
        size_t length = strspn(digit, "0123456789");
        for (size_t i = 0; i < length && ordinal <= MOST; i++)
            ordinal = ordinal * 10 + (digit[i] - '0');
        if (length == 0 || ordinal > MOST)
            return gnf_fail(
                GNF_INVALID_ARGUMENT,
                "--devices: '%s' is not a list of GPUs (allowed: all, or numbers from 0 to %d like 0,1)",
                args->devices, MOST);
        GNF_TRY(add_ordinal(plan, ordinal));
        digit += length;
        digit += *digit == ',';
    }
    return GNF_OK;
}

/* Children search what we search, in our order. */
static gnf_status list_packs(struct tuner_plan *plan, const struct packs *packs)
{
    plan->args.packs.count = 0;
    for (int i = 0; i < packs->count; i++) {
        if (!packs->at[i].added)
            continue;
        if (plan->args.packs.count == ARGS_MAX_LIST)
            return gnf_fail(GNF_INVALID_ARGUMENT, "%s: is one pack too many (allowed: %d)", packs->at[i].path,
                            ARGS_MAX_LIST);
        plan->args.packs.at[plan->args.packs.count++] = packs->at[i].path;
    }
    return GNF_OK;
}

/* Without making any. */
static gnf_status find_kernels(struct session *session, const struct gnf_problem *problem, bool *missing)
{
    int count;
    char path[FILES_PATH_SIZE];
    *missing = false;
    if (packs_find(&session->packs, problem->key, &count, NULL) != NULL)
        return GNF_OK;
    *missing = !generate_kept_pack(session->options.cache_dir, problem, path);
    return *missing ? GNF_OK : packs_add(&session->packs, path, true);
}

/* One library of host-compiled kernels a problem; the simulator reads their names once, when it is opened. */
static gnf_status simulate_all(struct tuner *tuner, struct tuner_plan *plan)
{
    const char *given = getenv("CUDASIM_KERNELS");
    if (given != NULL && *given != '\0')
        return GNF_OK;
    char *list = strdup("");
    gnf_status status = list != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no memory for CUDASIM_KERNELS");
    for (int i = 0; i < tuner->problem_count && status == GNF_OK && !interrupt_pending(); i++) {
        unsetenv("CUDASIM_KERNELS");
        status = simulate_prepare(&tuner->session->packs, &plan->args, &tuner->session->options,
                                  &tuner->problems[i]);
        const char *one = getenv("CUDASIM_KERNELS");
        if (status != GNF_OK || one == NULL || strstr(list, one) != NULL)
            continue;
        size_t size = strlen(list) + strlen(one) + 2;
        char *longer = malloc(size);
        if (longer == NULL) {
            status = gnf_fail(GNF_OUT_OF_MEMORY, "no memory for CUDASIM_KERNELS");
            continue;
        }
        snprintf(longer, size, "%s%s%s", list, *list ? ":" : "", one);
        free(list);
        list = longer;
    }
    if (status == GNF_OK && setenv("CUDASIM_KERNELS", list, 1) != 0)
        status = gnf_fail(GNF_OUT_OF_MEMORY, "no memory for CUDASIM_KERNELS");
    free(list);
    return status;
}

gnf_status tuner_plan_packs(struct tuner *tuner, struct tuner_plan *plan, bool simulated, bool *missing)
{
    struct session *session = tuner->session;
    for (int i = 0; i < tuner->problem_count && !interrupt_pending(); i++) {
        if (missing != NULL) {
            GNF_TRY(find_kernels(session, &tuner->problems[i], &missing[i]));
            continue;
        }
        plan->args.operand = tuner->problems[i].text;
        GNF_TRY(packs_require(&session->packs, &plan->args, &session->options, &tuner->problems[i]));
    }
    GNF_TRY(list_packs(plan, &session->packs));
    return simulated && missing == NULL ? simulate_all(tuner, plan) : GNF_OK;
}
