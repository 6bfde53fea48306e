/* What goes to standard output: one JSON object, or text. And the live line of long work on standard error.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "../status.h"
#include <jansson.h>
#include <stdbool.h>

/* Prints the object and releases it. NULL is GNF_OUT_OF_MEMORY. */
gnf_status output_json(json_t *object);
/* Flushes standard output: a full disk or a closed pipe is GNF_IO. */
gnf_status output_flush(void);
/* A JSON number; null for NaN and infinities, which JSON does not have. */
json_t *output_number(double value);
/* 'text' as one word of a shell command. */
void output_quoted(char *out, size_t size, const char *text);
/* "520.2 MB", "64 bytes". */
void output_bytes(char *out, size_t size, double bytes);

struct progress {
    bool quiet;
    bool live; /* standard error is a terminal: one line, rewritten */
    int done, total;
    bool shown;   /* the live line stands there */
    int64_t last; /* when the last line was printed, in seconds */
};
void progress_begin(struct progress *progress, int total, bool quiet);
/* Into a pipe, lines at most every other second. "[3/20] compiling block.t256.v4.i4 for sm_90". */
void progress_step(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same where the caller counts what is done. */
void progress_at(struct progress *progress, int done, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Clears the live line, before other output and at the end. */
void progress_clear(struct progress *progress);

#endif
