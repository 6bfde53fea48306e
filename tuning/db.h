/* The actions of `gnfuse db`. */
#ifndef TUNING_DB_H
#define TUNING_DB_H

#include "../runtime/cli/session.h"
#include "../runtime/tuned.h"

/* What is known: a line a problem, N, device and file. */
gnf_status db_show(const struct args *args);
/* Which record a plan takes on the device at hand, and why not the others. */
gnf_status db_explain(const struct args *args);
/* Files into one. */
gnf_status db_merge(const struct args *args);
/* The user's records, fit to be shipped. */
gnf_status db_export(const struct args *args);

/* "NVIDIA H200 (9.0, 132 multiprocessors)". */
void db_device_text(const struct gnf_record_device *device, char *out, size_t size);
/* "6.41 us", or "-" for no time. */
void db_time_text(double time_us, char out[32]);

#endif
