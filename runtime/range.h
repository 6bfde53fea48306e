/* A tensor of one execution, and what may not lie where. */
#ifndef GNF_RANGE_H
#define GNF_RANGE_H

#include "status.h"
#include <stdbool.h>

enum { GNF_WORKSPACE_ALIGNMENT = 16 };

struct gnf_range {
    const char *name;
    uint64_t at;
    uint64_t size; /* bytes */
};

bool gnf_range_overlap(const struct gnf_range *a, const struct gnf_range *b);
/* GNF_INVALID_ARGUMENT for null, for an address that is not a multiple of `alignment`, and for an end beyond
 * the last address. */
gnf_status gnf_range_check(const struct gnf_range *tensor, uint64_t alignment);
/* GNF_INVALID_ARGUMENT where `written` shares bytes with `other`. `same`: it may be the very same address. */
gnf_status gnf_range_apart(const struct gnf_range *written, const struct gnf_range *other, bool same);

#endif
