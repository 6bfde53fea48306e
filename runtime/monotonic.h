/* The monotonic clock. */
#ifndef GNF_MONOTONIC_H
#define GNF_MONOTONIC_H

#include <stdint.h>
#include <time.h>

/* Seconds: a double holds months of them to the tenth of a microsecond. */
static inline double gnf_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static inline int64_t gnf_now_ms(void)
{
    return (int64_t)(gnf_now() * 1e3);
}

#endif
