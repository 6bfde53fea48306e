/* What `gnfuse compare` found: one row a variant, and what they share. */
#ifndef TUNING_COMPARE_TABLE_H
#define TUNING_COMPARE_TABLE_H

#include "../runtime/pack.h"
#include "measurer.h"

struct compare_times {
    int count; /* samples; 0: none, and then the rest means nothing */
    double median_us, spread_us;
};
struct compare_row {
    const char *name, *strategy, *parameters; /* the pack's */
    bool generic, planned, is_default;
    int rank;     /* place in the pack's order */
    bool reached; /* false: the budget ended before it was looked at, and `measured` is empty */
    struct measured measured;
    struct compare_times cold, hot;
    double copy_fraction; /* of the copy's bandwidth, cold; 0: not known */
    double tflops;        /* of the table's flop, cold; 0: not known */
};
struct compare_table {
    const char *problem;    /* canonical text, with N */
    const char *gpu;        /* its name */
    const char *device;     /* "sim", or its number */
    const char *command;    /* to get all this again */
    const char *match;      /* why the plan takes what it takes; NULL where no plan could be made */
    char no_plan[512];      /* the reason then */
    char date[24];          /* 2026-11-29T18:03:11Z */
    int64_t samples, bytes; /* N; what one launch has to read and write at least */
    double flop;            /* of linear or conv2d, 0 without either */
    int multiprocessors, driver, nvrtc; /* versions as 13000; 0: not known */
    double copy_us;                     /* of as many bytes, cold; 0: not known */
    double peak_gbps;                   /* the memory's nominal bandwidth; 0: not known */
    bool simulated;                     /* by the simulator: times, if any, are of its simulated clock */
    bool timed;                         /* false: there is no clock to time by */
    bool complete;                      /* false: the budget ended it */
    int rounds;                         /* samples of each variant, if complete */
    struct compare_row *rows;           /* fastest first, then what has no time, then what failed */
    int count;
};

/* Did it compute the right thing? */
bool compare_row_ok(const struct compare_row *row);
/* "ok", or the status of a record, or "not measured". */
const char *compare_row_status(const struct compare_row *row);
/* Of the whole: no variant that the device can hold failed. */
bool compare_table_ok(const struct compare_table *table);
void compare_table_sort(struct compare_table *table);
/* The first with a time; NULL for none. */
const struct compare_row *compare_table_fastest(const struct compare_table *table);
/* Bytes a microsecond to GB/s; 0 for no time. */
double compare_gbps(const struct compare_table *table, double time_us);
/* Median and distance of the quartiles of the samples that are times; sorts them in place. */
struct compare_times compare_summary(double *samples, int count);

#endif
