#include "../plan.h"
#include "commands.h"
#include "output.h"
#include "session.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared_of(const struct gnf_variant *variant)
{
    int most = 0;
    for (int i = 0; i < variant->kernel_count; i++)
        if (variant->kernel[i].shared_bytes > most)
            most = variant->kernel[i].shared_bytes;
    return most;
}

static gnf_status list_keys(struct session *session)
{
    json_t *keys = json_array();
    if (!session->args->json)
        printf("variants  problem, N and spatial sizes as the kernels see them; or chain, for any sizes\n");
    for (int i = session->packs.count - 1; i >= 0; i--) {
        const struct pack_file *file = &session->packs.at[i];
        const struct gnf_variant *variants;
        const char *key;
        int count;
        for (int k = 0; (key = gnf_pack_entry(file->pack, k, &variants, &count)) != NULL; k++) {
            bool generic = count > 0 && variants[0].generic;
            if (session->args->json)
                json_array_append_new(keys, json_pack("{s:s, s:b, s:i, s:s}", "key", key, "generic", generic,
                                                      "count", count, "pack", gnf_pack_name(file->pack)));
            else
                printf("%8d  %s\n", count, key);
        }
    }
    if (session->args->json)
        return output_json(json_pack("{s:o}", "kernels", keys));
    json_decref(keys);
    return GNF_OK;
}

/* The variant that the default rule takes on the device at hand, nothing being compiled: "" where there is no
 * device, or no N to plan for. */
static gnf_status default_variant(const struct session *session, const struct gnf_problem *problem,
                                  char *name, size_t size)
{
    enum { ALIGNMENT = 16 };
    struct session on_device;
    struct gnf_choice choice;
    const struct pack_file *file;
    int count;
    name[0] = '\0';
    gnf_status status = session_open(&on_device, session->args, NULL);
    if (status != GNF_OK)
        return session->args->device_given ? status : GNF_OK;
    const struct gnf_variant *variants = packs_find(&session->packs, problem->key, &count, &file);
    if (variants == NULL)
        variants = packs_find(&session->packs, problem->chain, &count, &file);
    if (problem->samples >= 0 && variants != NULL &&
        gnf_choice_default(&choice, file->pack, variants, count, problem, ALIGNMENT,
                           &on_device.context->device) == GNF_OK)
        snprintf(name, size, "%s", choice.variant->name);
    session_close(&on_device);
    return GNF_OK;
}

static gnf_status list_variants(struct session *session, const struct gnf_problem *problem)
{
    struct pack_variant *list;
    int count;
    char chosen[128];
    GNF_TRY(packs_require(&session->packs, session->args, &session->options, problem));
    GNF_TRY(packs_variants(&session->packs, problem, session->args->variant, &list, &count));
    gnf_status status = default_variant(session, problem, chosen, sizeof chosen);
    if (status != GNF_OK) {
        free(list);
        return status;
    }

    json_t *variants = json_array();
    if (!session->args->json) {
        printf("problem  %s\nkey      %s\nchain    %s\n\n", problem->text, problem->key, problem->chain);
        printf("  %-28s %-50s %7s %7s %8s\n", "variant", "parameters", "kernels", "align B", "shared B");
    }
    for (int i = 0; i < count; i++) {
        const struct gnf_variant *v = list[i].variant;
        bool taken = strcmp(v->name, chosen) == 0;
        if (session->args->json)
            json_array_append_new(
                variants, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:s}", "name", v->name,
                                    "strategy", v->strategy, "parameters", v->parameters, "kernels",
                                    v->kernel_count, "alignment", (int)v->alignment, "capability",
                                    v->capability, "shared_bytes", shared_of(v), "generic", v->generic,
                                    "default", taken, "pack", gnf_pack_name(list[i].file->pack)));
        else
            printf("%c %-28s %-50s %7d %7u %8d%s\n", taken ? '*' : ' ', v->name, v->parameters,
                   v->kernel_count, v->alignment, shared_of(v), v->generic ? "  any sizes" : "");
    }
    free(list);
    if (session->args->json)
        return output_json(json_pack("{s:s, s:s, s:s, s:o}", "problem", problem->text, "key", problem->key,
                                     "chain", problem->chain, "variants", variants));
    json_decref(variants);
    printf(chosen[0] != '\0' ? "\n* taken by the default rule on this device\n"
                             : "\nWhich one the default rule takes depends on N and on the device.\n");
    return GNF_OK;
}

gnf_status command_kernels(const struct args *args, int *exit_status)
{
    (void)exit_status;
    struct gnf_problem problem;
    struct session session;
    if (args->operand != NULL)
        GNF_TRY(gnf_problem_parse(args->operand, &problem));
    GNF_TRY(session_open_packs(&session, args));
    gnf_status status = args->operand != NULL ? list_variants(&session, &problem) : list_keys(&session);
    session_close(&session);
    return status;
}
