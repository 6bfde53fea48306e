/* This program again as a child: lines to its standard input, lines from its standard output. Its standard
 * error is ours. A child does not outlive us: a worker ends when its input closes, at whatever it is
 * (worker.h). */
#ifndef TUNING_CHILD_H
#define TUNING_CHILD_H

#include "../runtime/cli/options/args.h"
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* Start from all zeros. Thread-safety: one thread at a time for one child, any number of children at once. */
struct child {
    const char *program; /* a path; NULL: this program */
    pid_t pid;           /* 0: none */
    int to, from;
    char *buffer; /* of what came and is not yet a line */
    size_t used, size;
};
enum child_answer { CHILD_ANSWERED, CHILD_TIMEOUT, CHILD_GONE };

/* Arguments after the program's name, at most CHILD_MAX_WORDS, NULL at the end. GNF_IO, GNF_OUT_OF_MEMORY;
 * then there is no child. */
enum { CHILD_MAX_WORDS = 600 };
gnf_status child_start(struct child *child, const char *const arguments[]);
/* Adds what every child has to be told of our own arguments, packs and cache, and the NULL. `words` has room
 * for CHILD_MAX_WORDS + 1, `count` of which are there. */
void child_tell(const char *words[], int count, const struct args *args);
/* Sends the object as one line and releases it; NULL is a failure. False where the child is gone. */
bool child_send(struct child *child, json_t *object);
/* One line as an object, the caller's to release. A line that is not an object, or longer than 64 MiB, is no
 * answer: CHILD_GONE, though the child may still be there (child_end() kills it). `seconds` are of the time
 * that this process runs, and is not stopped. `stop` (may be NULL) is asked ten times a second; true: as a
 * timeout. */
enum child_answer child_receive(struct child *child, double seconds, bool (*stop)(void *user), void *user,
                                json_t **object);
/* Waits for its end, a second long after its input was closed, then kills it; or kills it at once. Frees what
 * belongs to it; none is fine. `how` (may be NULL): "killed by signal 11", "exit status 3"; "" where there
 * was none. */
void child_end(struct child *child, bool kill_it, char *how, size_t size);

#endif
