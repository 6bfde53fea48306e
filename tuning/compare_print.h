/* A comparison on standard output. */
#ifndef TUNING_COMPARE_PRINT_H
#define TUNING_COMPARE_PRINT_H

#include "../runtime/status.h"
#include "compare_table.h"

/* For people, at most 140 columns wide unless `verbose`. The table must be sorted. */
gnf_status compare_print_text(const struct compare_table *table, bool verbose);
/* One JSON object; `key` of the problem and `seed` of the data go into it. */
gnf_status compare_print_json(const struct compare_table *table, const char *key, uint64_t seed);

#endif
