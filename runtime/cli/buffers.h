/* Device memory between two guard bands: what a kernel writes outside its tensors is found, and what it reads
 * there is NaN. */
#ifndef CLI_BUFFERS_H
#define CLI_BUFFERS_H

#include "session.h"

enum { BUFFER_GUARD = 256 }; /* bytes on each side */

struct buffer {
    CUdeviceptr base; /* of the allocation; 0: none */
    CUdeviceptr data; /* of the tensor */
    size_t bytes, total;
};

/* data is aligned to 256 bytes plus `offset`. The whole of it, guards included, holds COMPARE_POISON. */
gnf_status buffer_create(struct session *session, struct buffer *buffer, size_t bytes, size_t offset);
void buffer_free(struct session *session, struct buffer *buffer);
/* Poison again, guards included; ordered on the session's stream. */
gnf_status buffer_poison(struct session *session, const struct buffer *buffer);
gnf_status buffer_upload(struct session *session, const struct buffer *buffer, const void *from);
gnf_status buffer_download(struct session *session, const struct buffer *buffer, void *to);
/* *place: bytes from the tensor's start (negative) or end (positive) of the first guard byte that changed; 0:
 * none. */
gnf_status buffer_check_guards(struct session *session, const struct buffer *buffer, int *place);

#endif
