#include "log.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const level_name[] = {"?", "error", "warning", "info", "debug"};

void gnf_log_line(const struct gnf_log *log, gnf_log_level level, const char *format, ...)
{
    char line[2048];
    va_list arguments;
    int length;

    if (!log || !log->callback || level > log->level)
        return;
    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof line)
        memcpy(line + sizeof line - sizeof "...", "...", sizeof "...");
    for (char *newline = line; (newline = strchr(newline, '\n'));)
        *newline = ' ';
    log->callback(log->user, level, line);
}

void gnf_log_stderr(void *user, gnf_log_level level, const char *line)
{
    (void)user;
    if (level < GNF_LOG_ERROR || level > GNF_LOG_DEBUG)
        level = 0;
    fprintf(stderr, "gnfuse: %s: %s\n", level_name[level], line);
}

gnf_log_level gnf_log_level_named(const char *name)
{
    for (int level = GNF_LOG_ERROR; level <= GNF_LOG_DEBUG; level++) {
        if (strcmp(name, level_name[level]) == 0)
            return (gnf_log_level)level;
    }
    return 0;
}
