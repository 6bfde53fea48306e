#include "packs.h"

#include "generate.h"
#include "output.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gnf_status packs_add(struct packs *packs, const char *path, bool added)
{
    if (packs->count == PACKS_MAX)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: is one pack too many (allowed: %d)", path, PACKS_MAX);
    struct pack_file *slot = &packs->at[packs->count];
    GNF_TRY(gnf_pack_load(&slot->pack, path));
    slot->path = strdup(path);
    slot->added = added;
    packs->count++;
    return slot->path != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "%s: no memory for the pack", path);
}

gnf_status packs_open(struct packs *packs, const struct args *args, const struct gnf_options *options)
{
    packs->count = 0;
    packs->temporary[0] = '\0';
    gnf_status status =
        gnf_pack_read(&packs->at[0].pack, gnf_embedded_pack, gnf_embedded_pack_size, "embedded");
    if (status != GNF_OK)
        return status;
    packs->at[0].path = NULL;
    packs->at[0].added = false;
    packs->count = 1;
    /* The first of the path is searched first, so it is added last. */
    char *list = options->pack_path != NULL ? strdup(options->pack_path) : NULL;
    while (status == GNF_OK && list != NULL && *list != '\0') {
        char *colon = strrchr(list, ':');
        const char *path = colon != NULL ? colon + 1 : list;
        if (*path != '\0')
            status = packs_add(packs, path, false);
        *(colon != NULL ? colon : list) = '\0';
    }
    free(list);
    for (int i = 0; i < args->packs.count && status == GNF_OK; i++)
        status = packs_add(packs, args->packs.at[i], true);
    if (status != GNF_OK)
        packs_close(packs);
    return status;
}

void packs_close(struct packs *packs)
{
    for (int i = 0; i < packs->count; i++) {
        gnf_pack_free(packs->at[i].pack);
        free(packs->at[i].path);
    }
    packs->count = 0;
    if (packs->temporary[0] != '\0')
        files_remove_folder(packs->temporary);
    packs->temporary[0] = '\0';
}

const struct gnf_variant *packs_find(const struct packs *packs, const char *key, int *count,
                                     const struct pack_file **file)
{
    for (int i = packs->count - 1; i >= 0; i--) {
        const struct gnf_variant *variants = gnf_pack_find(packs->at[i].pack, key, count);
        if (variants == NULL)
            continue;
        if (file != NULL)
            *file = &packs->at[i];
        return variants;
    }
    *count = 0;
    return NULL;
}

static gnf_status no_variant(const char *name, const struct pack_variant *list, int count)
{
    char allowed[1024] = "";
    for (int i = 0; i < count; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", list[i].variant->name);
    }
    return gnf_fail(GNF_INVALID_ARGUMENT, "--variant: '%s' is not a variant of this problem (allowed: %s)",
                    name, allowed);
}

gnf_status packs_variants(const struct packs *packs, const struct gnf_problem *problem, const char *name,
                          struct pack_variant **list, int *count)
{
    const struct pack_file *file = NULL, *generic_file = NULL;
    int special = 0, generic = 0;
    const struct gnf_variant *variants = packs_find(packs, problem->key, &special, &file);
    const struct gnf_variant *generics = packs_find(packs, problem->chain, &generic, &generic_file);
    *list = NULL;
    *count = 0;
    if (special + generic == 0)
        return gnf_fail(GNF_NO_KERNEL, "no loaded pack has kernels for '%s'", problem->key);
    *list = malloc((size_t)(special + generic) * sizeof **list);
    if (*list == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d variants", special + generic);
    for (int i = 0; i < special; i++)
        (*list)[(*count)++] = (struct pack_variant){&variants[i], file};
    for (int i = 0; i < generic; i++)
        (*list)[(*count)++] = (struct pack_variant){&generics[i], generic_file};
    for (int i = 0; i < *count && name != NULL; i++) {
        if (strcmp((*list)[i].variant->name, name) != 0)
            continue;
        (*list)[0] = (*list)[i];
        *count = 1;
        return GNF_OK;
    }
    if (name == NULL)
        return GNF_OK;
    gnf_status status = no_variant(name, *list, *count);
    free(*list);
    *list = NULL;
    return status;
}

gnf_status packs_require(struct packs *packs, const struct args *args, const struct gnf_options *options,
                         const struct gnf_problem *problem)
{
    int count;
    if (packs_find(packs, problem->key, &count, NULL) != NULL)
        return GNF_OK;
    const struct gnf_variant *generic = packs_find(packs, problem->chain, &count, NULL);
    for (int i = 0; i < count && args->variant != NULL; i++)
        if (strcmp(generic[i].name, args->variant) == 0)
            return GNF_OK;

    char path[FILES_PATH_SIZE];
    gnf_status status = generate_pack(options->cache_dir, problem, args->quiet, packs->temporary, path);
    if (status == GNF_OK)
        return packs_add(packs, path, true);
    if (generic != NULL) {
        fprintf(stderr, "gnfuse: %s; the shape-generic kernel is used\n", gnf_error_message());
        return GNF_OK;
    }
    char reason[512], quoted[1024];
    snprintf(reason, sizeof reason, "%s", gnf_error_message());
    output_quoted(quoted, sizeof quoted, problem->text);
    return gnf_fail(GNF_NO_KERNEL,
                    "no loaded pack has kernels for '%s', and %s; where Python and Jinja2 are: "
                    "gnfuse-gen %s -o F.gnfpack, then here: --pack F.gnfpack",
                    problem->key, reason, quoted);
}
