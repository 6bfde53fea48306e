#include "buffers.h"

#include "compare.h"
#include <string.h>

gnf_status buffer_create(struct session *session, struct buffer *buffer, size_t bytes, size_t offset)
{
    const struct gnf_driver *cuda = &session->context->driver;
    memset(buffer, 0, sizeof *buffer);
    size_t total = BUFFER_GUARD + offset + (bytes + 3) / 4 * 4 + BUFFER_GUARD;
    total = (total + 3) / 4 * 4;
    gnf_status status = GNF_CU(cuda, cuMemAlloc, (&buffer->base, total));
    if (status != GNF_OK)
        return gnf_fail_more(status, " (%zu bytes)", total);
    buffer->data = buffer->base + BUFFER_GUARD + offset;
    buffer->bytes = bytes;
    buffer->total = total;
    return buffer_poison(session, buffer);
}

void buffer_free(struct session *session, struct buffer *buffer)
{
    if (buffer->base != 0)
        session->context->driver.cuMemFree(buffer->base);
    memset(buffer, 0, sizeof *buffer);
}

gnf_status buffer_poison(struct session *session, const struct buffer *buffer)
{
    return GNF_CU(&session->context->driver, cuMemsetD32Async,
                  (buffer->base, COMPARE_POISON, buffer->total / 4, session->stream));
}

gnf_status buffer_upload(struct session *session, const struct buffer *buffer, const void *from)
{
    GNF_TRY(session_wait(session));
    if (buffer->bytes == 0)
        return GNF_OK;
    return GNF_CU(&session->context->driver, cuMemcpyHtoD, (buffer->data, from, buffer->bytes));
}

gnf_status buffer_download(struct session *session, const struct buffer *buffer, void *to)
{
    GNF_TRY(session_wait(session));
    if (buffer->bytes == 0)
        return GNF_OK;
    return GNF_CU(&session->context->driver, cuMemcpyDtoH, (to, buffer->data, buffer->bytes));
}

/* The poison as bytes from the start of the allocation. */
static unsigned char poison_at(size_t offset)
{
    return (unsigned char)(COMPARE_POISON >> 8 * (offset % 4));
}

gnf_status buffer_check_guards(struct session *session, const struct buffer *buffer, int *place)
{
    enum { MOST = BUFFER_GUARD + 64 };
    const struct gnf_driver *cuda = &session->context->driver;
    unsigned char band[MOST];
    size_t before = (size_t)(buffer->data - buffer->base), end = before + buffer->bytes;
    size_t after = buffer->total - end;
    *place = 0;
    if (before > MOST || after > MOST)
        return gnf_fail(GNF_INVALID_ARGUMENT, "a guard band is longer than %d bytes", MOST);
    GNF_TRY(session_wait(session));
    GNF_TRY(GNF_CU(cuda, cuMemcpyDtoH, (band, buffer->base, before)));
    for (size_t i = before; i-- > 0;) {
        if (band[i] != poison_at(i)) {
            *place = -(int)(before - i);
            return GNF_OK;
        }
    }
    GNF_TRY(GNF_CU(cuda, cuMemcpyDtoH, (band, buffer->base + end, after)));
    for (size_t i = 0; i < after && *place == 0; i++)
        if (band[i] != poison_at(end + i))
            *place = (int)i + 1;
    return GNF_OK;
}
