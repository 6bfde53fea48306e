#define _POSIX_C_SOURCE 200809L /* strdup */
#include "pack_content.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

static const char magic[8] = "gnfpack\n";
enum { HEADER = 16 };
static const int64_t content_max = INT64_C(1) << 30, manifest_max = INT64_C(64) << 20;

/* ---- the file ---- */

static uint64_t little_endian(const unsigned char *data, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | data[i];
    return value;
}

/* Checks the header and decompresses what follows. */
static gnf_status unpack(struct gnf_pack *pack, const struct gnf_place *place, const unsigned char *data,
                         size_t size, size_t *content_size)
{
    if (size < HEADER || memcmp(data, magic, sizeof magic))
        return gnf_pack_bad(place, "not a gnfuse pack: it does not start with \"gnfpack\"");
    unsigned version = (unsigned)little_endian(data + 8, 4);
    if (version > GNF_PACK_FORMAT)
        return gnf_pack_bad(place, "format %u is newer than this library (%d.%d.%d), which reads format %d",
                            version, GNF_VERSION_MAJOR, GNF_VERSION_MINOR, GNF_VERSION_PATCH,
                            GNF_PACK_FORMAT);
    if (version != GNF_PACK_FORMAT || little_endian(data + 12, 4))
        return gnf_pack_bad(place, "damaged header: format %u", version);
    const unsigned char *frame = data + HEADER;
    size_t frame_size = size - HEADER;
    unsigned long long content = ZSTD_getFrameContentSize(frame, frame_size);
    if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN)
        return gnf_pack_bad(place, "damaged: no zstd frame with its size");
    if (content < 8 || content > (unsigned long long)content_max)
        return gnf_pack_bad(place, "a content of %llu bytes: allowed are 8 to %" PRId64, content,
                            content_max);
    if (ZSTD_findFrameCompressedSize(frame, frame_size) != frame_size)
        return gnf_pack_bad(place, "damaged: cut short, or bytes after its end");
    if (!(pack->content = malloc((size_t)content)))
        return gnf_pack_no_memory(place);
    size_t result = ZSTD_decompress(pack->content, (size_t)content, frame, frame_size);
    if (ZSTD_isError(result) || result != content)
        return gnf_pack_bad(place, "damaged: %s",
                            ZSTD_isError(result) ? ZSTD_getErrorName(result) : "too short");
    *content_size = result;
    return GNF_OK;
}

static gnf_status read_pack(struct gnf_pack *pack, const void *data, size_t size)
{
    struct gnf_place place = {.pack = pack->name, .kernel = -1};
    size_t content_size = 0;
    json_error_t error;
    GNF_TRY(unpack(pack, &place, data, size, &content_size));
    uint64_t manifest_size = little_endian((unsigned char *)pack->content, 8);
    if (manifest_size > content_size - 8 || manifest_size > (uint64_t)manifest_max)
        return gnf_pack_bad(
            &place, "a manifest of %" PRIu64 " bytes: allowed are %" PRId64 ", and no more than there is",
            manifest_size, manifest_max);
    pack->blob = pack->content + 8 + manifest_size;
    pack->blob_size = content_size - 8 - (size_t)manifest_size;
    if (memchr(pack->blob, 0, pack->blob_size))
        return gnf_pack_bad(&place, "a zero byte in its sources");
    pack->manifest = json_loadb(pack->content + 8, (size_t)manifest_size, JSON_REJECT_DUPLICATES, &error);
    if (!pack->manifest)
        return gnf_pack_bad(&place, "the manifest is no JSON: line %d: %s", error.line, error.text);
    if (!json_is_object(pack->manifest))
        return gnf_pack_bad(&place, "the manifest is no JSON object");
    return gnf_manifest_read(pack, &place);
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
    out[sizeof magic] = GNF_PACK_FORMAT;
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
        struct gnf_pack_entry *entry = &pack->entry[i];
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
    const struct gnf_pack_entry wanted = {.key = key};
    const struct gnf_pack_entry *entry =
        bsearch(&wanted, pack->entry, (size_t)pack->entry_count, sizeof *pack->entry, gnf_pack_by_key);
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
        const struct gnf_part *part = &pack->part[kernel->part[i]];
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
        const struct gnf_part *part = &pack->part[kernel->part[i]];
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
