/* The shipped problems (tuning/problems.txt), for `gnfuse tune --all`. */
#ifndef TUNING_SHIPPED_H
#define TUNING_SHIPPED_H

/* Canonical texts; ends with NULL. Made at build time by generator/shipped.py. */
extern const char *const gnf_shipped_problems[];

#endif
