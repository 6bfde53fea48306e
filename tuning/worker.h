/* A child's side of child.h: requests from standard input, answers to what was standard output, one JSON
 * object a line. {"alive":true} between them says that the work goes on. What libraries print goes to
 * standard error. */
#ifndef TUNING_WORKER_H
#define TUNING_WORKER_H

#include "../runtime/cli/options/args.h"
#include <jansson.h>

struct worker;

/* Once, before anything else is opened. From here the process ends when its input closes, whatever it is at:
 * no child outlives its parent. An interrupt is left to the parent, which decides what it still wants. */
gnf_status worker_create(struct worker **worker);
/* The next request, the caller's to release; NULL at the end of the input. */
json_t *worker_read(struct worker *worker);
/* Sends and releases. Thread-safety: safe. */
void worker_send(struct worker *worker, json_t *object);
/* The answer of a request that failed: {"ok":false,"status":13,"error":"..."} from the last failure's
 * message. */
json_t *worker_failure(gnf_status status);

/* A JSON string, even of what is not UTF-8: a path, a compiler's words, a message cut within a character. */
json_t *worker_words(const char *text);

/* {"alive":true} every fifth of a second while true: for work on the host, which takes as long as it takes.
 * Not while a device works, or nobody would see it hang. */
void worker_host(struct worker *worker, bool busy);
/* {"alive":true,"at":INDEX}: the device answered, and the variant of that place comes next. At most ten a
 * second for one and the same. */
void worker_at(struct worker *worker, int index);

gnf_status worker_measure(struct worker *worker, const struct args *args);
gnf_status worker_compile(struct worker *worker, const struct args *args);

#endif
