/* The log of one context: a callback, or standard error where GNFUSE_LOG asks for it, or nothing. */
#ifndef GNF_LOG_H
#define GNF_LOG_H

#include "gnfuse/gnfuse.h"

struct gnf_log {
    gnf_log_callback callback; /* NULL: silent */
    void *user;
    gnf_log_level level;
};

/* Thread-safety: safe. Formats one line and hands it over if `level` is wanted. Newlines become spaces. `log`
 * may be NULL. */
void gnf_log_line(const struct gnf_log *log, gnf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A gnf_log_callback: one line "gnfuse: warning: ..." on standard error. */
void gnf_log_stderr(void *user, gnf_log_level level, const char *line);

/* The level called "error", "warning", "info" or "debug"; 0 where there is none of that name. */
gnf_log_level gnf_log_level_named(const char *name);

#endif
