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

/* What a plan takes on the device at hand, nothing being compiled; the strings are empty where there is no
 * device, or no N to plan for. */
struct taken {
    char variant[128], by_rule[128], match[32];
    double recorded_us;
};

static gnf_status find_taken(struct session *on_device, const struct gnf_problem *problem,
                             struct taken *taken)
{
    enum { ALIGNMENT = 16 };
    const struct gnf_choice_request request = {
        .context = on_device->context,
        .problem = problem,
        .alignment = ALIGNMENT,
        .prepared = true,
    };
    struct gnf_choice choice;
    GNF_TRY(session_require(on_device, problem));
    GNF_TRY(gnf_choice_by_rule(&request, &choice));
    snprintf(taken->by_rule, sizeof taken->by_rule, "%s", choice.variant->name);
    GNF_TRY(gnf_choice_make(&request, &choice));
    snprintf(taken->variant, sizeof taken->variant, "%s", choice.variant->name);
    snprintf(taken->match, sizeof taken->match, "%s", choice.match);
    taken->recorded_us = choice.recorded_us;
    return GNF_OK;
}

static gnf_status take_variant(const struct session *session, const struct gnf_problem *problem,
                               struct taken *taken)
{
    struct session on_device;
    memset(taken, 0, sizeof *taken);
    gnf_status status = session_open(&on_device, session->args, NULL);
    if (status != GNF_OK)
        return session->args->device_given ? status : GNF_OK;
    /* One that no variant is legal for is a list all the same. */
    if (problem->samples >= 0)
        find_taken(&on_device, problem, taken);
    session_close(&on_device);
    return GNF_OK;
}

static const char *const method_names[] = {"", "own", "direct", "tf32", "fp16x1", "fp16x3", "wgmma"};
static const char *const weights_names[] = {"given", "prepared", "each"};

static json_t *product_json(const struct gnf_product *product)
{
    json_t *object = json_pack("{s:s, s:s, s:i, s:I}", "method", method_names[product->method], "weights",
                               weights_names[product->weights], "chunks", product->chunks, "least",
                               (json_int_t)product->least);
    if (product->most > 0)
        json_object_set_new(object, "most", json_integer((json_int_t)product->most));
    if (product->samples_max > 0)
        json_object_set_new(object, "samples_max", json_integer((json_int_t)product->samples_max));
    if (product->inputs_max > 0)
        json_object_set_new(object, "inputs_max", json_integer((json_int_t)product->inputs_max));
    return object;
}

static json_t *variant_json(const struct pack_variant *row, const struct taken *taken)
{
    const struct gnf_variant *v = row->variant;
    json_t *entries = json_array();
    for (int i = 0; i < v->kernel_count; i++)
        json_array_append_new(entries, json_string(v->kernel[i].entry));
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:i, s:o, s:i, s:i, s:i, s:b, s:b, s:b, s:s}", "name", v->name, "strategy",
                  v->strategy, "parameters", v->parameters, "kernels", v->kernel_count, "entries", entries,
                  "alignment", (int)v->alignment, "capability", v->capability, "shared_bytes", shared_of(v),
                  "generic", v->generic, "default", strcmp(v->name, taken->by_rule) == 0, "taken",
                  strcmp(v->name, taken->variant) == 0, "pack", gnf_pack_name(row->file->pack));
    if (v->exact)
        json_object_set_new(object, "exact", json_true());
    if (v->product.method != GNF_METHOD_NONE)
        json_object_set_new(object, "product", product_json(&v->product));
    return object;
}

static gnf_status list_as_json(const struct gnf_problem *problem, const struct pack_variant *list, int count,
                               const struct taken *taken)
{
    json_t *variants = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(variants, variant_json(&list[i], taken));
    json_t *report =
        json_pack("{s:s, s:s, s:s}", "problem", problem->text, "key", problem->key, "chain", problem->chain);
    if (taken->match[0] != '\0')
        json_object_set_new(report, "match", json_string(taken->match));
    if (taken->recorded_us > 0)
        json_object_set_new(report, "recorded_us", output_number(taken->recorded_us));
    json_object_set_new(report, "variants", variants);
    return output_json(report);
}

static void print_taken(const struct taken *taken)
{
    if (taken->variant[0] == '\0')
        printf("\nWhich one a plan takes depends on N and on the device.\n");
    else if (strcmp(taken->match, "default") == 0 || strcmp(taken->match, "generic") == 0)
        printf("\n* taken by the default rule on this device: no tuning record speaks for another\n");
    else if (strcmp(taken->variant, taken->by_rule) == 0)
        printf("\n* taken on this device, by a tuning record (%s) and by the default rule\n", taken->match);
    else
        printf("\n* taken on this device, by a tuning record (%s); the default rule would take %s\n",
               taken->match, taken->by_rule);
}

/* Of the column that holds the texts, as wide as the longest. */
static int widen(int width, const char *text)
{
    int length = (int)strlen(text);
    return length > width ? length : width;
}

static void print_variants(const struct gnf_problem *problem, const struct pack_variant *list, int count,
                           const struct taken *taken)
{
    int name = 7, parameters = 10; /* of the headings */
    for (int i = 0; i < count; i++) {
        name = widen(name, list[i].variant->name);
        parameters = widen(parameters, list[i].variant->parameters);
    }
    printf("problem  %s\nkey      %s\nchain    %s\n\n", problem->text, problem->key, problem->chain);
    printf("  %-*s %-*s %7s %7s %8s\n", name, "variant", parameters, "parameters", "kernels", "align B",
           "shared B");
    for (int i = 0; i < count; i++) {
        const struct gnf_variant *v = list[i].variant;
        printf("%c %-*s %-*s %7d %7u %8d%s\n", strcmp(v->name, taken->variant) == 0 ? '*' : ' ', name,
               v->name, parameters, v->parameters, v->kernel_count, v->alignment, shared_of(v),
               v->generic ? "  any sizes" : "");
    }
    print_taken(taken);
}

static gnf_status list_variants(struct session *session, const struct gnf_problem *problem)
{
    struct pack_variant *list;
    int count;
    struct taken taken;
    GNF_TRY(packs_require(&session->packs, session->args, &session->options, problem));
    GNF_TRY(packs_variants(&session->packs, problem, session->args->variant, &list, &count));
    gnf_status status = take_variant(session, problem, &taken);
    if (status == GNF_OK && session->args->json)
        status = list_as_json(problem, list, count, &taken);
    else if (status == GNF_OK)
        print_variants(problem, list, count, &taken);
    free(list);
    return status;
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
