/* A pack's manifest: what each field may be, and that a variant's kernels are those of its product. */
#include "pack_content.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 200, TEXT_MAX = 4096, SUMS_MAX = 17 };
static const int64_t source_max = INT64_C(16) << 20, whole_max = INT32_MAX;

gnf_status gnf_pack_bad(const struct gnf_place *place, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    gnf_fail(GNF_BAD_PACK, "pack %s: ", place->pack);
    if (place->key)
        gnf_fail_more(GNF_BAD_PACK, "entry '%.*s': ", NAME_MAX_BYTES, place->key);
    if (place->variant)
        gnf_fail_more(GNF_BAD_PACK, "variant '%.*s': ", NAME_MAX_BYTES, place->variant);
    if (place->kernel >= 0)
        gnf_fail_more(GNF_BAD_PACK, "kernel %d: ", place->kernel);
    return gnf_fail_more(GNF_BAD_PACK, "%s", what);
}

gnf_status gnf_pack_no_memory(const struct gnf_place *place)
{
    return gnf_fail(GNF_OUT_OF_MEMORY, "pack %s: no host memory", place->pack);
}

/* ---- fields of the manifest ---- */

static gnf_status whole(const struct gnf_place *place, const json_t *value, const char *field, int64_t least,
                        int64_t most, int64_t *out)
{
    if (!json_is_integer(value))
        return gnf_pack_bad(place, "%s is %s: allowed is a whole number", field,
                            value ? "of another type" : "missing");
    *out = json_integer_value(value);
    if (*out < least || *out > most)
        return gnf_pack_bad(place, "%s = %" PRId64 ": allowed are %" PRId64 " to %" PRId64, field, *out,
                            least, most);
    return GNF_OK;
}

static gnf_status text(const struct gnf_place *place, const json_t *object, const char *field, size_t most,
                       const char **out)
{
    const json_t *value = json_object_get(object, field);
    *out = json_string_value(value);
    if (!*out)
        return gnf_pack_bad(place, "%s is %s: allowed is a string", field,
                            value ? "of another type" : "missing");
    if (!**out || json_string_length(value) > most)
        return gnf_pack_bad(place, "%s has %zu bytes: allowed are 1 to %zu", field, json_string_length(value),
                            most);
    for (const char *c = *out; *c; c++)
        if (*c < ' ' || *c > '~')
            return gnf_pack_bad(place, "%s holds byte %d: allowed are printable ASCII characters", field,
                                (unsigned char)*c);
    return GNF_OK;
}

static gnf_status word(const struct gnf_place *place, const json_t *object, const char *field,
                       const char *const *words, int count, int *out)
{
    const char *value;
    GNF_TRY(text(place, object, field, NAME_MAX_BYTES, &value));
    for (*out = 0; *out < count; ++*out)
        if (!strcmp(value, words[*out]))
            return GNF_OK;
    return gnf_pack_bad(place, "%s = '%s': allowed are %s and others up to %s", field, value, words[0],
                        words[count - 1]);
}

/* False where it is missing. */
static gnf_status flag(const struct gnf_place *place, const json_t *object, const char *field, bool *out)
{
    const json_t *value = json_object_get(object, field);
    *out = json_is_true(value);
    if (value && !json_is_boolean(value))
        return gnf_pack_bad(place, "%s is of another type: allowed are true and false", field);
    return GNF_OK;
}

static gnf_status array(const struct gnf_place *place, const json_t *value, const char *field, size_t least,
                        size_t most)
{
    if (!json_is_array(value))
        return gnf_pack_bad(place, "%s is %s: allowed is an array", field,
                            value ? "of another type" : "missing");
    if (json_array_size(value) < least || json_array_size(value) > most)
        return gnf_pack_bad(place, "%s has %zu elements: allowed are %zu to %zu", field,
                            json_array_size(value), least, most);
    return GNF_OK;
}

/* ---- kernels, variants, entries ---- */

static gnf_status read_parts_list(const struct gnf_pack *pack, const struct gnf_place *place,
                                  const json_t *list, struct gnf_kernel *kernel)
{
    int64_t size = 0, index;
    int count;
    GNF_TRY(array(place, list, "parts", 1, TEXT_MAX));
    count = (int)json_array_size(list);
    int *part = calloc((size_t)count, sizeof *part);
    if (!part)
        return gnf_pack_no_memory(place);
    kernel->part = part;
    for (int i = 0; i < count; i++) {
        GNF_TRY(whole(place, json_array_get(list, (size_t)i), "a part", 0, pack->part_count - 1, &index));
        part[i] = (int)index;
        size += (int64_t)pack->part[index].size;
        if (size > source_max)
            return gnf_pack_bad(place, "a source of more than %" PRId64 " bytes", source_max);
    }
    kernel->part_count = count;
    return GNF_OK;
}

static gnf_status read_kernel(const struct gnf_pack *pack, const struct gnf_place *place, const json_t *row,
                              struct gnf_kernel *kernel)
{
    static const char *const units[] = {"group", "sample", "position", "channel", "output"};
    static const char *const spans[] = {"none", "group", "spatial", "sample", "channels"};
    static const char *const roles[] = {"weights", "inputs", "product", "tail"};
    int64_t block, shared, cluster = 0;
    int unit, span, role = GNF_ROLE_TAIL;
    GNF_TRY(text(place, row, "entry", NAME_MAX_BYTES, &kernel->entry));
    for (const char *c = kernel->entry; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
              (*c >= '0' && *c <= '9' && c > kernel->entry)))
            return gnf_pack_bad(place, "entry = '%s': allowed is a C name", kernel->entry);
    GNF_TRY(read_parts_list(pack, place, json_object_get(row, "parts"), kernel));
    GNF_TRY(whole(place, json_object_get(row, "block"), "block", 32, 1024, &block));
    if (block % 32)
        return gnf_pack_bad(place, "block = %" PRId64 ": allowed are multiples of 32", block);
    GNF_TRY(whole(place, json_object_get(row, "shared"), "shared", 0, 256 << 10, &shared));
    GNF_TRY(word(place, row, "unit", units, 5, &unit));
    GNF_TRY(whole(place, json_object_get(row, "units_per_block"), "units_per_block", 1, whole_max,
                  &kernel->units_per_block));
    GNF_TRY(word(place, row, "span", spans, 5, &span));
    GNF_TRY(whole(place, json_object_get(row, "tile"), "tile", 1, INT64_MAX, &kernel->tile));
    GNF_TRY(whole(place, json_object_get(row, "cap"), "cap", 1, whole_max, &kernel->cap));
    if (json_object_get(row, "role"))
        GNF_TRY(word(place, row, "role", roles, 4, &role));
    GNF_TRY(flag(place, row, "exact", &kernel->exact));
    if (json_object_get(row, "cluster"))
        GNF_TRY(whole(place, json_object_get(row, "cluster"), "cluster", 1, 16, &cluster));
    kernel->cluster = (int)cluster;
    kernel->block = (unsigned)block;
    kernel->shared_bytes = (int)shared;
    kernel->unit = (enum gnf_unit)unit;
    kernel->span = (enum gnf_span)span;
    kernel->role = (enum gnf_role)role;
    return GNF_OK;
}

static gnf_status read_product(const struct gnf_place *place, const json_t *row, struct gnf_product *product)
{
    static const char *const methods[] = {"own", "direct", "tf32", "fp16x1", "fp16x3", "wgmma"};
    static const char *const weights[] = {"given", "prepared", "each"};
    int64_t chunks, sums;
    int method, weight;
    if (!row)
        return GNF_OK;
    if (!json_is_object(row))
        return gnf_pack_bad(place, "product is of another type: allowed is an object");
    GNF_TRY(word(place, row, "method", methods, 6, &method));
    GNF_TRY(word(place, row, "weights", weights, 3, &weight));
    GNF_TRY(whole(place, json_object_get(row, "chunks"), "chunks", 1, SUMS_MAX - 1, &chunks));
    GNF_TRY(whole(place, json_object_get(row, "sums"), "sums", 0, SUMS_MAX, &sums));
    GNF_TRY(whole(place, json_object_get(row, "least"), "least", 0, INT64_MAX, &product->least));
    GNF_TRY(whole(place, json_object_get(row, "most"), "most", 0, INT64_MAX, &product->most));
    GNF_TRY(whole(place, json_object_get(row, "samples_max"), "samples_max", 0, INT64_MAX,
                  &product->samples_max));
    if (json_object_get(row, "inputs_max"))
        GNF_TRY(whole(place, json_object_get(row, "inputs_max"), "inputs_max", 0, INT64_MAX,
                      &product->inputs_max));
    if (json_object_get(row, "weight_bytes"))
        GNF_TRY(whole(place, json_object_get(row, "weight_bytes"), "weight_bytes", 0, INT64_MAX,
                      &product->weight_bytes));
    GNF_TRY(flag(place, row, "yields", &product->yields));
    product->method = (enum gnf_method)(method + GNF_METHOD_OWN);
    product->weights = (enum gnf_weights)weight;
    product->chunks = (int)chunks;
    product->sums = (int)sums;
    return GNF_OK;
}

static int count_role(const struct gnf_variant *variant, enum gnf_role role)
{
    int count = 0;
    for (int i = 0; i < variant->kernel_count; i++)
        count += variant->kernel[i].role == role;
    return count;
}

/* An own product is that of one kernel; or with weights "each" the tail's, where weight_bytes says so behind
 * a kernel that makes of the weight what the tail takes. */
static bool has_own_kernels(const struct gnf_variant *variant)
{
    bool each = variant->product.weights == GNF_WEIGHTS_EACH;
    return count_role(variant, GNF_ROLE_INPUTS) == 0 && count_role(variant, GNF_ROLE_PRODUCT) == !each &&
           (count_role(variant, GNF_ROLE_WEIGHTS) > 0) == (each && variant->product.weight_bytes > 0);
}

static bool has_its_kernels(const struct gnf_variant *variant, bool split)
{
    bool wgmma = variant->product.method == GNF_METHOD_WGMMA;
    int products = count_role(variant, GNF_ROLE_PRODUCT);
    if (variant->product.method == GNF_METHOD_OWN)
        return has_own_kernels(variant);
    return count_role(variant, GNF_ROLE_WEIGHTS) == split && count_role(variant, GNF_ROLE_INPUTS) == split &&
           (wgmma ? products == 2 : products <= 1);
}

/* What the launching takes for granted: linear.c. */
static gnf_status check_product(const struct gnf_place *place, const struct gnf_variant *variant)
{
    const struct gnf_product *product = &variant->product;
    bool split = gnf_is_split(product->method);
    bool own = product->method == GNF_METHOD_OWN, each = own && product->weights == GNF_WEIGHTS_EACH;
    int sums = product->chunks + (product->method == GNF_METHOD_FP16X3);
    for (int i = 1; i < variant->kernel_count; i++)
        if (variant->kernel[i].role < variant->kernel[i - 1].role)
            return gnf_pack_bad(place,
                                "kernel %d is out of order: allowed are weights, inputs, product, tail", i);
    if (variant->kernel[variant->kernel_count - 1].role != GNF_ROLE_TAIL)
        return gnf_pack_bad(place, "no tail: allowed is one kernel or more");
    if (product->method == GNF_METHOD_NONE)
        return variant->kernel[0].role == GNF_ROLE_TAIL ? GNF_OK : gnf_pack_bad(place, "product is missing");
    if (own ? product->weights == GNF_WEIGHTS_PREPARED : (product->weights == GNF_WEIGHTS_GIVEN) == split)
        return gnf_pack_bad(place, "its weights are not those of its product");
    if (!has_its_kernels(variant, split))
        return gnf_pack_bad(place, "its kernels are not those of its product");
    if (product->chunks & (product->chunks - 1) ||
        (product->chunks > 1 && product->method != GNF_METHOD_FP16X3))
        return gnf_pack_bad(place, "chunks = %d: allowed are 1, and 2, 4, 8, 16 for fp16x3", product->chunks);
    if (each ? product->sums > 1 : product->sums != sums)
        return gnf_pack_bad(place, "sums = %d: allowed %s %d", product->sums, each ? "are 0 and" : "is",
                            sums);
    if (product->weight_bytes && !each)
        return gnf_pack_bad(place,
                            "weight_bytes = %" PRId64 ": allowed is 0 but for weights \"each\" of \"own\"",
                            product->weight_bytes);
    return GNF_OK;
}

/* "threads 256, vector 4, precision half", in the order of the manifest */
static gnf_status read_parameters(const struct gnf_place *place, json_t *object, char **line)
{
    const char *name, *given;
    json_t *value;
    char number[24];
    size_t length = 0;
    if (!json_is_object(object))
        return gnf_pack_bad(place, "parameters is %s: allowed is an object",
                            object ? "of another type" : "missing");
    if (!(*line = calloc(1, TEXT_MAX)))
        return gnf_pack_no_memory(place);
    json_object_foreach(object, name, value)
    {
        if (json_is_string(value))
            GNF_TRY(text(place, object, name, NAME_MAX_BYTES, &given));
        else if (!json_is_integer(value))
            return gnf_pack_bad(place, "parameter %s is of another type: allowed are whole numbers and words",
                                name);
        snprintf(number, sizeof number, "%" PRId64, (int64_t)json_integer_value(value));
        length += (size_t)snprintf(*line + length, TEXT_MAX - length, "%s%s %s", length ? ", " : "", name,
                                   json_is_string(value) ? given : number);
        if (length >= TEXT_MAX)
            return gnf_pack_bad(place, "parameters take more than %d bytes", TEXT_MAX - 1);
    }
    return GNF_OK;
}

static gnf_status read_variant(const struct gnf_pack *pack, struct gnf_place place, const json_t *row,
                               bool generic, struct gnf_variant *variant)
{
    int64_t alignment, capability;
    char *parameters = NULL;
    const json_t *kernels = json_object_get(row, "kernels");
    GNF_TRY(text(&place, row, "name", NAME_MAX_BYTES, &variant->name));
    place.variant = variant->name;
    GNF_TRY(text(&place, row, "strategy", NAME_MAX_BYTES, &variant->strategy));
    gnf_status status = read_parameters(&place, json_object_get(row, "parameters"), &parameters);
    variant->parameters = parameters;
    GNF_TRY(status);
    GNF_TRY(whole(&place, json_object_get(row, "alignment"), "alignment", 1, 256, &alignment));
    if (alignment & (alignment - 1))
        return gnf_pack_bad(&place, "alignment = %" PRId64 ": allowed are powers of two", alignment);
    GNF_TRY(whole(&place, json_object_get(row, "capability"), "capability", 0, 1000, &capability));
    GNF_TRY(whole(&place, json_object_get(row, "workspace"), "workspace", 0, 1 << 20, &variant->workspace));
    GNF_TRY(whole(&place, json_object_get(row, "group_max"), "group_max", 0, INT64_MAX, &variant->group_max));
    GNF_TRY(flag(&place, row, "exact", &variant->exact));
    GNF_TRY(read_product(&place, json_object_get(row, "product"), &variant->product));
    GNF_TRY(array(&place, kernels, "kernels", 1, GNF_MAX_KERNELS));
    variant->alignment = (unsigned)alignment;
    variant->capability = (int)capability;
    variant->generic = generic;
    for (int i = 0; i < (int)json_array_size(kernels); i++) {
        place.kernel = i;
        variant->kernel_count = i + 1; /* what is there so far is freed after a failure */
        GNF_TRY(read_kernel(pack, &place, json_array_get(kernels, (size_t)i), &variant->kernel[i]));
    }
    place.kernel = -1;
    return check_product(&place, variant);
}

static gnf_status read_entry(const struct gnf_pack *pack, struct gnf_place place, const json_t *row,
                             struct gnf_pack_entry *entry)
{
    const json_t *generic = json_object_get(row, "generic"), *variants = json_object_get(row, "variants");
    GNF_TRY(text(&place, row, "key", TEXT_MAX, &entry->key));
    place.key = entry->key;
    if (!json_is_boolean(generic))
        return gnf_pack_bad(&place, "generic is %s: allowed are true and false",
                            generic ? "of another type" : "missing");
    entry->generic = json_is_true(generic);
    GNF_TRY(array(&place, variants, "variants", 1, TEXT_MAX));
    if (!(entry->variant = calloc(json_array_size(variants), sizeof *entry->variant)))
        return gnf_pack_no_memory(&place);
    entry->count = (int)json_array_size(variants);
    for (int i = 0; i < entry->count; i++) {
        struct gnf_variant *variant = &entry->variant[i];
        GNF_TRY(read_variant(pack, place, json_array_get(variants, (size_t)i), entry->generic, variant));
        for (int j = 0; j < i; j++)
            if (!strcmp(entry->variant[j].name, variant->name))
                return gnf_pack_bad(&place, "two variants are called '%s'", variant->name);
    }
    return GNF_OK;
}

int gnf_pack_by_key(const void *a, const void *b)
{
    return strcmp(((const struct gnf_pack_entry *)a)->key, ((const struct gnf_pack_entry *)b)->key);
}

static gnf_status read_part_ranges(struct gnf_pack *pack, const struct gnf_place *place)
{
    const json_t *parts = json_object_get(pack->manifest, "parts");
    int64_t at, size;
    GNF_TRY(array(place, parts, "parts", 0, 1 << 20));
    int count = (int)json_array_size(parts);
    if (!(pack->part = calloc((size_t)count + 1, sizeof *pack->part)))
        return gnf_pack_no_memory(place);
    for (; pack->part_count < count; pack->part_count++) {
        const json_t *range = json_array_get(parts, (size_t)pack->part_count);
        GNF_TRY(array(place, range, "a part", 2, 2));
        GNF_TRY(whole(place, json_array_get(range, 0), "offset of a part", 0, (int64_t)pack->blob_size, &at));
        GNF_TRY(whole(place, json_array_get(range, 1), "size of a part", 0, (int64_t)pack->blob_size - at,
                      &size));
        pack->part[pack->part_count] = (struct gnf_part){(size_t)at, (size_t)size};
    }
    return GNF_OK;
}

gnf_status gnf_manifest_read(struct gnf_pack *pack, const struct gnf_place *place)
{
    const json_t *entries = json_object_get(pack->manifest, "entries");
    int64_t format;
    GNF_TRY(whole(place, json_object_get(pack->manifest, "format"), "format", GNF_PACK_FORMAT,
                  GNF_PACK_FORMAT, &format));
    GNF_TRY(read_part_ranges(pack, place));
    GNF_TRY(array(place, entries, "entries", 0, 1 << 20));
    size_t count = json_array_size(entries);
    if (!(pack->entry = calloc(count + 1, sizeof *pack->entry)))
        return gnf_pack_no_memory(place);
    for (size_t i = 0; i < count; i++) {
        pack->entry_count++;
        GNF_TRY(read_entry(pack, *place, json_array_get(entries, i), &pack->entry[i]));
    }
    qsort(pack->entry, count, sizeof *pack->entry, gnf_pack_by_key);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(pack->entry[i - 1].key, pack->entry[i].key))
            return gnf_pack_bad(place, "two entries have the key '%s'", pack->entry[i].key);
    return GNF_OK;
}
