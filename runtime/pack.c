#define _POSIX_C_SOURCE 200809L /* strdup */
#include "pack.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

static const char magic[8] = "gnfpack\n";
enum { FORMAT = 1, HEADER = 16, NAME_MAX_BYTES = 200, TEXT_MAX = 4096 };
static const int64_t content_max = INT64_C(1) << 30, source_max = INT64_C(16) << 20,
                     manifest_max = INT64_C(64) << 20, whole_max = INT32_MAX;

struct part {
    size_t at, size;
};
struct entry {
    const char *key;
    bool generic;
    struct gnf_variant *variant;
    int count;
};
struct gnf_pack {
    char *name;
    char *path;       /* absolute, where it came from a file */
    char *content;    /* all that was compressed */
    json_t *manifest; /* owns the strings of entries and variants */
    const char *blob;
    size_t blob_size;
    struct part *part;
    int part_count;
    struct entry *entry; /* by key */
    int entry_count;
};

/* Where in the manifest we are, for messages. */
struct place {
    const char *pack, *key, *variant;
    int kernel; /* -1 outside one */
};

__attribute__((format(printf, 2, 3))) static gnf_status bad(const struct place *place, const char *format,
                                                            ...)
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

static gnf_status no_memory(const struct place *place)
{
    return gnf_fail(GNF_OUT_OF_MEMORY, "pack %s: no host memory", place->pack);
}

/* ---- fields of the manifest ---- */

static gnf_status whole(const struct place *place, const json_t *value, const char *field, int64_t least,
                        int64_t most, int64_t *out)
{
    if (!json_is_integer(value))
        return bad(place, "%s is %s: allowed is a whole number", field,
                   value ? "of another type" : "missing");
    *out = json_integer_value(value);
    if (*out < least || *out > most)
        return bad(place, "%s = %" PRId64 ": allowed are %" PRId64 " to %" PRId64, field, *out, least, most);
    return GNF_OK;
}

static gnf_status text(const struct place *place, const json_t *object, const char *field, size_t most,
                       const char **out)
{
    const json_t *value = json_object_get(object, field);
    *out = json_string_value(value);
    if (!*out)
        return bad(place, "%s is %s: allowed is a string", field, value ? "of another type" : "missing");
    if (!**out || json_string_length(value) > most)
        return bad(place, "%s has %zu bytes: allowed are 1 to %zu", field, json_string_length(value), most);
    for (const char *c = *out; *c; c++)
        if (*c < ' ' || *c > '~')
            return bad(place, "%s holds byte %d: allowed are printable ASCII characters", field,
                       (unsigned char)*c);
    return GNF_OK;
}

static gnf_status word(const struct place *place, const json_t *object, const char *field,
                       const char *const *words, int count, int *out)
{
    const char *value;
    GNF_TRY(text(place, object, field, NAME_MAX_BYTES, &value));
    for (*out = 0; *out < count; ++*out)
        if (!strcmp(value, words[*out]))
            return GNF_OK;
    return bad(place, "%s = '%s': allowed are %s and others up to %s", field, value, words[0],
               words[count - 1]);
}

static gnf_status array(const struct place *place, const json_t *value, const char *field, size_t least,
                        size_t most)
{
    if (!json_is_array(value))
        return bad(place, "%s is %s: allowed is an array", field, value ? "of another type" : "missing");
    if (json_array_size(value) < least || json_array_size(value) > most)
        return bad(place, "%s has %zu elements: allowed are %zu to %zu", field, json_array_size(value), least,
                   most);
    return GNF_OK;
}

/* ---- kernels, variants, entries ---- */

static gnf_status read_parts_list(const struct gnf_pack *pack, const struct place *place, const json_t *list,
                                  struct gnf_kernel *kernel)
{
    int64_t size = 0, index;
    int count;
    GNF_TRY(array(place, list, "parts", 1, TEXT_MAX));
    count = (int)json_array_size(list);
    int *part = calloc((size_t)count, sizeof *part);
    if (!part)
        return no_memory(place);
    kernel->part = part;
    for (int i = 0; i < count; i++) {
        GNF_TRY(whole(place, json_array_get(list, (size_t)i), "a part", 0, pack->part_count - 1, &index));
        part[i] = (int)index;
        size += (int64_t)pack->part[index].size;
        if (size > source_max)
            return bad(place, "a source of more than %" PRId64 " bytes", source_max);
    }
    kernel->part_count = count;
    return GNF_OK;
}

static gnf_status read_kernel(const struct gnf_pack *pack, const struct place *place, const json_t *row,
                              struct gnf_kernel *kernel)
{
    static const char *const units[] = {"group", "sample", "position"};
    static const char *const spans[] = {"none", "group", "spatial", "sample"};
    int64_t block, shared;
    int unit, span;
    GNF_TRY(text(place, row, "entry", NAME_MAX_BYTES, &kernel->entry));
    for (const char *c = kernel->entry; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
              (*c >= '0' && *c <= '9' && c > kernel->entry)))
            return bad(place, "entry = '%s': allowed is a C name", kernel->entry);
    GNF_TRY(read_parts_list(pack, place, json_object_get(row, "parts"), kernel));
    GNF_TRY(whole(place, json_object_get(row, "block"), "block", 32, 1024, &block));
    if (block % 32)
        return bad(place, "block = %" PRId64 ": allowed are multiples of 32", block);
    GNF_TRY(whole(place, json_object_get(row, "shared"), "shared", 0, 256 << 10, &shared));
    GNF_TRY(word(place, row, "unit", units, 3, &unit));
    GNF_TRY(whole(place, json_object_get(row, "units_per_block"), "units_per_block", 1, whole_max,
                  &kernel->units_per_block));
    GNF_TRY(word(place, row, "span", spans, 4, &span));
    GNF_TRY(whole(place, json_object_get(row, "tile"), "tile", 1, INT64_MAX, &kernel->tile));
    GNF_TRY(whole(place, json_object_get(row, "cap"), "cap", 1, whole_max, &kernel->cap));
    kernel->block = (unsigned)block;
    kernel->shared_bytes = (int)shared;
    kernel->unit = (enum gnf_unit)unit;
    kernel->span = (enum gnf_span)span;
    return GNF_OK;
}

/* "threads 256, vector 4, items 4", in the order of the manifest */
static gnf_status read_parameters(const struct place *place, json_t *object, char **line)
{
    const char *name;
    json_t *value;
    int64_t number;
    size_t length = 0;
    if (!json_is_object(object))
        return bad(place, "parameters is %s: allowed is an object", object ? "of another type" : "missing");
    if (!(*line = calloc(1, TEXT_MAX)))
        return no_memory(place);
    json_object_foreach(object, name, value)
    {
        GNF_TRY(whole(place, value, "a parameter", INT64_MIN, INT64_MAX, &number));
        length += (size_t)snprintf(*line + length, TEXT_MAX - length, "%s%s %" PRId64, length ? ", " : "",
                                   name, number);
        if (length >= TEXT_MAX)
            return bad(place, "parameters take more than %d bytes", TEXT_MAX - 1);
    }
    return GNF_OK;
}

static gnf_status read_variant(const struct gnf_pack *pack, struct place place, const json_t *row,
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
        return bad(&place, "alignment = %" PRId64 ": allowed are powers of two", alignment);
    GNF_TRY(whole(&place, json_object_get(row, "capability"), "capability", 0, 1000, &capability));
    GNF_TRY(whole(&place, json_object_get(row, "workspace"), "workspace", 0, 1 << 20, &variant->workspace));
    GNF_TRY(whole(&place, json_object_get(row, "group_max"), "group_max", 0, INT64_MAX, &variant->group_max));
    GNF_TRY(array(&place, kernels, "kernels", 1, GNF_MAX_KERNELS));
    variant->alignment = (unsigned)alignment;
    variant->capability = (int)capability;
    variant->generic = generic;
    for (int i = 0; i < (int)json_array_size(kernels); i++) {
        place.kernel = i;
        variant->kernel_count = i + 1; /* what is there so far is freed after a failure */
        GNF_TRY(read_kernel(pack, &place, json_array_get(kernels, (size_t)i), &variant->kernel[i]));
    }
    return GNF_OK;
}

static gnf_status read_entry(const struct gnf_pack *pack, struct place place, const json_t *row,
                             struct entry *entry)
{
    const json_t *generic = json_object_get(row, "generic"), *variants = json_object_get(row, "variants");
    GNF_TRY(text(&place, row, "key", TEXT_MAX, &entry->key));
    place.key = entry->key;
    if (!json_is_boolean(generic))
        return bad(&place, "generic is %s: allowed are true and false",
                   generic ? "of another type" : "missing");
    entry->generic = json_is_true(generic);
    GNF_TRY(array(&place, variants, "variants", 1, TEXT_MAX));
    if (!(entry->variant = calloc(json_array_size(variants), sizeof *entry->variant)))
        return no_memory(&place);
    entry->count = (int)json_array_size(variants);
    for (int i = 0; i < entry->count; i++) {
        struct gnf_variant *variant = &entry->variant[i];
        GNF_TRY(read_variant(pack, place, json_array_get(variants, (size_t)i), entry->generic, variant));
        for (int j = 0; j < i; j++)
            if (!strcmp(entry->variant[j].name, variant->name))
                return bad(&place, "two variants are called '%s'", variant->name);
    }
    return GNF_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

static gnf_status read_part_ranges(struct gnf_pack *pack, const struct place *place)
{
    const json_t *parts = json_object_get(pack->manifest, "parts");
    int64_t at, size;
    GNF_TRY(array(place, parts, "parts", 0, 1 << 20));
    int count = (int)json_array_size(parts);
    if (!(pack->part = calloc((size_t)count + 1, sizeof *pack->part)))
        return no_memory(place);
    for (; pack->part_count < count; pack->part_count++) {
        const json_t *range = json_array_get(parts, (size_t)pack->part_count);
        GNF_TRY(array(place, range, "a part", 2, 2));
        GNF_TRY(whole(place, json_array_get(range, 0), "offset of a part", 0, (int64_t)pack->blob_size, &at));
        GNF_TRY(whole(place, json_array_get(range, 1), "size of a part", 0, (int64_t)pack->blob_size - at,
                      &size));
        pack->part[pack->part_count] = (struct part){(size_t)at, (size_t)size};
    }
    return GNF_OK;
}

static gnf_status read_manifest(struct gnf_pack *pack, const struct place *place)
{
    const json_t *entries = json_object_get(pack->manifest, "entries");
    int64_t format;
    GNF_TRY(whole(place, json_object_get(pack->manifest, "format"), "format", FORMAT, FORMAT, &format));
    GNF_TRY(read_part_ranges(pack, place));
    GNF_TRY(array(place, entries, "entries", 0, 1 << 20));
    size_t count = json_array_size(entries);
    if (!(pack->entry = calloc(count + 1, sizeof *pack->entry)))
        return no_memory(place);
    for (size_t i = 0; i < count; i++) {
        pack->entry_count++;
        GNF_TRY(read_entry(pack, *place, json_array_get(entries, i), &pack->entry[i]));
    }
    qsort(pack->entry, count, sizeof *pack->entry, by_key);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(pack->entry[i - 1].key, pack->entry[i].key))
            return bad(place, "two entries have the key '%s'", pack->entry[i].key);
    return GNF_OK;
}

/* ---- the file ---- */

static uint64_t little_endian(const unsigned char *data, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | data[i];
    return value;
}

/* Checks the header and decompresses what follows. */
static gnf_status unpack(struct gnf_pack *pack, const struct place *place, const unsigned char *data,
                         size_t size, size_t *content_size)
{
    if (size < HEADER || memcmp(data, magic, sizeof magic))
        return bad(place, "not a gnfuse pack: it does not start with \"gnfpack\"");
    unsigned version = (unsigned)little_endian(data + 8, 4);
    if (version > FORMAT)
        return bad(place, "format %u is newer than this library (%d.%d.%d), which reads format %d", version,
                   GNF_VERSION_MAJOR, GNF_VERSION_MINOR, GNF_VERSION_PATCH, FORMAT);
    if (version != FORMAT || little_endian(data + 12, 4))
        return bad(place, "damaged header: format %u", version);
    const unsigned char *frame = data + HEADER;
    size_t frame_size = size - HEADER;
    unsigned long long content = ZSTD_getFrameContentSize(frame, frame_size);
    if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN)
        return bad(place, "damaged: no zstd frame with its size");
    if (content < 8 || content > (unsigned long long)content_max)
        return bad(place, "a content of %llu bytes: allowed are 8 to %" PRId64, content, content_max);
    if (ZSTD_findFrameCompressedSize(frame, frame_size) != frame_size)
        return bad(place, "damaged: cut short, or bytes after its end");
    if (!(pack->content = malloc((size_t)content)))
        return no_memory(place);
    size_t result = ZSTD_decompress(pack->content, (size_t)content, frame, frame_size);
    if (ZSTD_isError(result) || result != content)
        return bad(place, "damaged: %s", ZSTD_isError(result) ? ZSTD_getErrorName(result) : "too short");
    *content_size = result;
    return GNF_OK;
}

static gnf_status read_pack(struct gnf_pack *pack, const void *data, size_t size)
{
    struct place place = {.pack = pack->name, .kernel = -1};
    size_t content_size = 0;
    json_error_t error;
    GNF_TRY(unpack(pack, &place, data, size, &content_size));
    uint64_t manifest_size = little_endian((unsigned char *)pack->content, 8);
    if (manifest_size > content_size - 8 || manifest_size > (uint64_t)manifest_max)
        return bad(&place,
                   "a manifest of %" PRIu64 " bytes: allowed are %" PRId64 ", and no more than there is",
                   manifest_size, manifest_max);
    pack->blob = pack->content + 8 + manifest_size;
    pack->blob_size = content_size - 8 - (size_t)manifest_size;
    if (memchr(pack->blob, 0, pack->blob_size))
        return bad(&place, "a zero byte in its sources");
    pack->manifest = json_loadb(pack->content + 8, (size_t)manifest_size, JSON_REJECT_DUPLICATES, &error);
    if (!pack->manifest)
        return bad(&place, "the manifest is no JSON: line %d: %s", error.line, error.text);
    if (!json_is_object(pack->manifest))
        return bad(&place, "the manifest is no JSON object");
    return read_manifest(pack, &place);
}

gnf_status gnf_pack_read(struct gnf_pack **out, const void *data, size_t size, const char *name)
{
    *out = NULL;
    struct gnf_pack *pack = calloc(1, sizeof *pack);
    if (!pack || !(pack->name = strdup(name))) {
        free(pack);
        return gnf_fail(GNF_OUT_OF_MEMORY, "pack %s: no host memory", name);
    }
    gnf_status status = read_pack(pack, data, size);
    if (status != GNF_OK) {
        gnf_pack_free(pack);
        return status;
    }
    *out = pack;
    return GNF_OK;
}

static gnf_status read_file(FILE *file, const char *path, char **data, size_t *size)
{
    size_t room = 1 << 16;
    for (;; room *= 2) {
        char *larger = realloc(*data, room);
        if (!larger)
            return gnf_fail(GNF_OUT_OF_MEMORY, "pack %s: no host memory", path);
        *data = larger;
        *size += fread(*data + *size, 1, room - *size, file);
        if (ferror(file))
            return gnf_fail(GNF_IO, "pack %s: cannot be read: %s", path, strerror(errno));
        if (*size < room)
            return GNF_OK;
        if ((int64_t)room > content_max)
            return gnf_fail(GNF_BAD_PACK, "pack %s: a file of more than %" PRId64 " bytes", path,
                            content_max);
    }
}

gnf_status gnf_pack_load(struct gnf_pack **pack, const char *path)
{
    char *data = NULL;
    size_t size = 0;
    *pack = NULL;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return gnf_fail(GNF_IO, "pack %s: cannot be opened: %s", path, strerror(errno));
    gnf_status status = read_file(file, path, &data, &size);
    fclose(file);
    if (status == GNF_OK)
        status = gnf_pack_read(pack, data, size, path);
    if (status == GNF_OK)
        (*pack)->path = realpath(path, NULL); /* the working directory may be another one later */
    free(data);
    return status;
}

gnf_status gnf_pack_write(const struct gnf_pack *pack, void **data, size_t *size)
{
    size_t content_size = (size_t)(pack->blob - pack->content) + pack->blob_size;
    size_t room = ZSTD_compressBound(content_size);
    unsigned char *out = malloc(HEADER + room);
    if (!out)
        return gnf_fail(GNF_OUT_OF_MEMORY, "pack %s: no host memory", pack->name);
    memset(out, 0, HEADER);
    memcpy(out, magic, sizeof magic);
    out[sizeof magic] = FORMAT;
    size_t written = ZSTD_compress(out + HEADER, room, pack->content, content_size, 1);
    if (ZSTD_isError(written)) {
        free(out);
        return gnf_fail(GNF_OUT_OF_MEMORY, "pack %s: cannot be compressed: %s", pack->name,
                        ZSTD_getErrorName(written));
    }
    *data = out;
    *size = HEADER + written;
    return GNF_OK;
}

void gnf_pack_free(struct gnf_pack *pack)
{
    if (!pack)
        return;
    for (int i = 0; i < pack->entry_count; i++) {
        struct entry *entry = &pack->entry[i];
        for (int j = 0; j < entry->count; j++) {
            free((void *)entry->variant[j].parameters);
            for (int k = 0; k < entry->variant[j].kernel_count; k++)
                free((void *)entry->variant[j].kernel[k].part);
        }
        free(entry->variant);
    }
    free(pack->entry);
    free(pack->part);
    json_decref(pack->manifest);
    free(pack->content);
    free(pack->path);
    free(pack->name);
    free(pack);
}

const char *gnf_pack_name(const struct gnf_pack *pack)
{
    return pack->name;
}

const char *gnf_pack_path(const struct gnf_pack *pack)
{
    return pack->path;
}

const struct gnf_variant *gnf_pack_find(const struct gnf_pack *pack, const char *key, int *count)
{
    const struct entry wanted = {.key = key};
    const struct entry *entry =
        bsearch(&wanted, pack->entry, (size_t)pack->entry_count, sizeof *pack->entry, by_key);
    *count = entry ? entry->count : 0;
    return entry ? entry->variant : NULL;
}

const char *gnf_pack_entry(const struct gnf_pack *pack, int i, const struct gnf_variant **variants,
                           int *count)
{
    if (i < 0 || i >= pack->entry_count)
        return NULL;
    *variants = pack->entry[i].variant;
    *count = pack->entry[i].count;
    return pack->entry[i].key;
}

gnf_status gnf_pack_source(const struct gnf_pack *pack, const struct gnf_kernel *kernel, char **source)
{
    size_t size = 0;
    for (int i = 0; i < kernel->part_count; i++)
        size += pack->part[kernel->part[i]].size;
    if (!(*source = malloc(size + 1)))
        return gnf_fail(GNF_OUT_OF_MEMORY, "pack %s: %s: no host memory for the source", pack->name,
                        kernel->entry);
    char *out = *source;
    for (int i = 0; i < kernel->part_count; i++) {
        const struct part *part = &pack->part[kernel->part[i]];
        memcpy(out, pack->blob + part->at, part->size);
        out += part->size;
    }
    *out = '\0';
    return GNF_OK;
}

static void hash_kernel(XXH3_state_t *state, const struct gnf_pack *pack, const struct gnf_kernel *kernel)
{
    unsigned char length[8];
    uint64_t size = 0;
    for (int i = 0; i < kernel->part_count; i++)
        size += pack->part[kernel->part[i]].size;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(size >> (8 * i));
    XXH3_128bits_update(state, length, sizeof length);
    for (int i = 0; i < kernel->part_count; i++) {
        const struct part *part = &pack->part[kernel->part[i]];
        XXH3_128bits_update(state, pack->blob + part->at, part->size);
    }
}

gnf_status gnf_pack_source_hash(const struct gnf_pack *pack, const struct gnf_variant *variant, char hash[33])
{
    XXH128_canonical_t canonical;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return gnf_fail(GNF_OUT_OF_MEMORY, "pack %s: %s: no host memory for the source's hash", pack->name,
                        variant->name);
    XXH3_128bits_reset(state);
    for (int i = 0; i < variant->kernel_count; i++)
        hash_kernel(state, pack, &variant->kernel[i]);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    for (size_t i = 0; i < sizeof canonical.digest; i++)
        snprintf(hash + 2 * i, 3, "%02x", canonical.digest[i]);
    return GNF_OK;
}
