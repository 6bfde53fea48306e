/* What tuned.c loads and tuned_choice.c searches. */
#ifndef GNF_TUNED_INDEX_H
#define GNF_TUNED_INDEX_H

#include "tuned.h"
#include <stdatomic.h>

struct gnf_tuned_item {
    struct gnf_tuned_line line;
    bool users;                            /* of the user's file */
    const struct gnf_tuned_item *replaced; /* by this later line of the same file; NULL: it counts */
};
struct gnf_tuned {
    atomic_int owners;
    char *path;
    struct gnf_tuned_item *item; /* in the order of the files */
    int count, room;
    /* By key, file, device but for its memory, and N; then by variant, source and compiler; then as read. So
     * what may be compared stands together. */
    struct gnf_tuned_item **sorted;
};

/* Those of one key: sorted[first] and the following. Returns their number. */
int gnf_tuned_range(const struct gnf_tuned *tuned, const char *key, int *first);
/* 0 where both are of one file, device (but for its memory) and N. */
int gnf_tuned_order_groups(const struct gnf_tuned_item *a, const struct gnf_tuned_item *b);

#endif
