#include "compare_table.h"

#include <math.h>
#include <stdlib.h>

bool compare_row_ok(const struct compare_row *row)
{
    return row->reached && row->measured.status == GNF_RECORD_OK;
}

const char *compare_row_status(const struct compare_row *row)
{
    return row->reached ? gnf_record_status_names[row->measured.status] : "not measured";
}

bool compare_table_ok(const struct compare_table *table)
{
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].reached && !compare_row_ok(&table->rows[i]) &&
            table->rows[i].measured.status != GNF_RECORD_REFUSED)
            return false;
    return true;
}

/* 0: has a time, 1: right but without, 2: not measured, 3: failed. */
static int place_of(const struct compare_row *row)
{
    if (!row->reached)
        return 2;
    return !compare_row_ok(row) ? 3 : row->cold.count == 0;
}

static int by_time(const void *a, const void *b)
{
    const struct compare_row *one = a, *two = b;
    int first = place_of(one), second = place_of(two);
    if (first != second)
        return first - second;
    if (first == 0 && one->cold.median_us != two->cold.median_us)
        return one->cold.median_us < two->cold.median_us ? -1 : 1;
    return one->rank - two->rank;
}

void compare_table_sort(struct compare_table *table)
{
    qsort(table->rows, (size_t)table->count, sizeof *table->rows, by_time);
}

const struct compare_row *compare_table_fastest(const struct compare_table *table)
{
    return table->count > 0 && place_of(&table->rows[0]) == 0 ? &table->rows[0] : NULL;
}

double compare_gbps(const struct compare_table *table, double time_us)
{
    return time_us > 0 ? (double)table->bytes / time_us * 1e-3 : 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the two neighbours, as the quartiles of few samples would jump. */
static double quantile(const double *sorted, int count, double at)
{
    double place = at * (count - 1);
    int below = (int)place;
    int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

struct compare_times compare_summary(double *samples, int count)
{
    int good = 0;
    for (int i = 0; i < count; i++)
        if (isfinite(samples[i]) && samples[i] > 0)
            samples[good++] = samples[i];
    if (good == 0)
        return (struct compare_times){0};
    qsort(samples, (size_t)good, sizeof *samples, by_value);
    return (struct compare_times){
        .count = good,
        .median_us = quantile(samples, good, 0.5),
        .spread_us = quantile(samples, good, 0.75) - quantile(samples, good, 0.25),
    };
}
