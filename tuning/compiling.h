/* Kernels compiled ahead into the cache by child processes, as many as the host has cores: a compiler that
 * crashes or never ends costs a child. */
#ifndef TUNING_COMPILING_H
#define TUNING_COMPILING_H

#include "../runtime/cli/options/args.h"
#include "../runtime/problem.h"

struct compiling; /* Thread-safety: safe */

/* `capability` of the device, 90. jobs: children at once, 0 for one a core. limit_s: a kernel's longest
 * compile. */
gnf_status compiling_create(struct compiling **compiling, const struct args *args, int capability, int jobs,
                            double limit_s);
/* Kills what is still at work. */
void compiling_destroy(struct compiling *compiling);
/* Queues a variant of a problem; returns at once. */
gnf_status compiling_add(struct compiling *compiling, const char *problem, const char *variant);
/* Waits until that one is done. GNF_OK, GNF_COMPILE_FAILED with the compiler's words, or that it took too
 * long or crashed; *ms is how long it took, 0 out of the cache. `stop` (may be NULL) is asked ten times a
 * second. */
gnf_status compiling_wait(struct compiling *compiling, const char *problem, const char *variant, double *ms,
                          bool (*stop)(void *user), void *user);
/* How many of those added are done. */
int compiling_done(struct compiling *compiling, int *added);

#endif
