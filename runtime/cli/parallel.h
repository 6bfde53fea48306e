/* A loop over host threads, for work on host tensors. */
#ifndef CLI_PARALLEL_H
#define CLI_PARALLEL_H

#include <stdint.h>

/* Covers [0, count) by calls of body(user, begin, end) from up to 16 threads, each call at most `grain` long
 * (at least 1). Returns when all are done. Falls back to this thread where no other can be started. */
void parallel_for(int64_t count, int64_t grain, void (*body)(void *user, int64_t begin, int64_t end),
                  void *user);

#endif
