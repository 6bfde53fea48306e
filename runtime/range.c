#include "range.h"
#include <inttypes.h>

bool gnf_range_overlap(const struct gnf_range *a, const struct gnf_range *b)
{
    return a->at < b->at + b->size && b->at < a->at + a->size;
}

gnf_status gnf_range_check(const struct gnf_range *tensor, uint64_t alignment)
{
    if (!tensor->at)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s is null: allowed is a device address of %" PRIu64 " bytes",
                        tensor->name, tensor->size);
    if (tensor->at % alignment)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "%s = 0x%" PRIx64 ": allowed are multiples of %" PRIu64 " bytes", tensor->name,
                        tensor->at, alignment);
    if (tensor->size > UINT64_MAX - tensor->at)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "%s = 0x%" PRIx64 ": its %" PRIu64 " bytes end past the last address", tensor->name,
                        tensor->at, tensor->size);
    return GNF_OK;
}

gnf_status gnf_range_apart(const struct gnf_range *written, const struct gnf_range *other, bool same)
{
    if (!gnf_range_overlap(written, other) || (same && written->at == other->at))
        return GNF_OK;
    return gnf_fail(GNF_INVALID_ARGUMENT,
                    "%s = 0x%" PRIx64 " (%" PRIu64 " bytes) overlaps %s = 0x%" PRIx64 " (%" PRIu64
                    " bytes): allowed %s none of its bytes",
                    written->name, written->at, written->size, other->name, other->at, other->size,
                    same ? "are the same address or" : "is");
}
