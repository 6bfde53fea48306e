/* Packs for tests: a manifest and the parts, as the generator would write them but with any content. */
#ifndef GNF_MAKE_PACK_H
#define GNF_MAKE_PACK_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static void put_little(unsigned char *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

/* The caller frees it. */
static unsigned char *make_pack(const char *manifest, size_t manifest_size, const char *parts, size_t *size)
{
    size_t content_size = 8 + manifest_size + strlen(parts), room = ZSTD_compressBound(content_size);
    unsigned char *content = malloc(content_size), *pack = malloc(16 + room);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    put_little(content, manifest_size, 8);
    memcpy(content + 8, manifest, manifest_size);
    memcpy(content + 8 + manifest_size, parts, strlen(parts));
    memcpy(pack, "gnfpack\n", 8);
    put_little(pack + 8, 1, 8);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
    *size = 16 + ZSTD_compress2(zstd, pack + 16, room, content, content_size);
    ZSTD_freeCCtx(zstd);
    free(content);
    return pack;
}

#endif
