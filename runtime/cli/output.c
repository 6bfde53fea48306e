#include "output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PIPE_SECONDS = 2 };

gnf_status output_flush(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return gnf_fail(GNF_IO, "standard output: cannot be written: %s", strerror(errno));
    return GNF_OK;
}

gnf_status output_json(json_t *object)
{
    if (object == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for the JSON object");
    int failed = json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (failed)
        return gnf_fail(GNF_IO, "standard output: cannot be written: %s", strerror(errno));
    fputc('\n', stdout);
    return output_flush();
}

json_t *output_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void output_quoted(char *out, size_t size, const char *text)
{
    size_t used = (size_t)snprintf(out, size, "'");
    for (; *text != '\0' && used < size; text++)
        used += (size_t)snprintf(out + used, size - used, *text == '\'' ? "'\\''" : "%c", *text);
    if (used < size)
        snprintf(out + used, size - used, "'");
}

void output_bytes(char *out, size_t size, double bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB"};
    int unit = 0;
    for (; bytes >= 1000 && unit < 3; unit++)
        bytes /= 1000;
    snprintf(out, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

void progress_begin(struct progress *progress, int total, bool quiet)
{
    *progress = (struct progress){.quiet = quiet, .live = isatty(STDERR_FILENO) == 1, .total = total};
}

/* A live line that wraps is not rewritten by the next one. */
static size_t live_columns(void)
{
    struct winsize window;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
}

static void show(struct progress *progress, const char *format, va_list arguments)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (progress->quiet ||
        (!progress->live && progress->last != 0 && now.tv_sec - progress->last < PIPE_SECONDS))
        return;
    progress->last = (int64_t)now.tv_sec;
    progress->shown = true;
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    char line[320];
    snprintf(line, sizeof line, "[%d/%d] %s", progress->done, progress->total, text);
    if (progress->live) {
        size_t columns = live_columns();
        if (columns < sizeof line)
            line[columns - 1] = '\0';
    }
    fprintf(stderr, progress->live ? "\r\033[K%s" : "%s\n", line);
    fflush(stderr);
}

void progress_step(struct progress *progress, const char *format, ...)
{
    va_list arguments;
    progress->done++;
    va_start(arguments, format);
    show(progress, format, arguments);
    va_end(arguments);
}

void progress_at(struct progress *progress, int done, const char *format, ...)
{
    va_list arguments;
    progress->done = done;
    va_start(arguments, format);
    show(progress, format, arguments);
    va_end(arguments);
}

void progress_clear(struct progress *progress)
{
    if (progress->live && progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
