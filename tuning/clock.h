/* The clock that a GPU's multiprocessors run at, for records: a time says little where the card was
 * throttled. */
#ifndef TUNING_CLOCK_H
#define TUNING_CLOCK_H

#include "../runtime/driver.h"

/* In MHz, at this moment; 0 where NVML is not there, or does not know. Not for several threads at once. */
int clock_mhz(const struct gnf_driver *driver, int ordinal);

#endif
