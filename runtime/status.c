#include "status.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 16 * 1024 }; /* an NVRTC log of a few dozen errors */

static _Thread_local char message[MESSAGE_BYTES];

static const char cut_note[] = " ... [cut: message longer than 16 KiB]";

/* A message that does not fit ends with the note, and never in the middle of a UTF-8 character. */
static void mark_cut(char *text)
{
    size_t end = MESSAGE_BYTES - sizeof cut_note;

    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
        end--;
    memcpy(text + end, cut_note, sizeof cut_note);
}

/* Formats beside the stored message first: an argument may point into it. */
static void store(size_t at, const char *format, va_list arguments)
{
    char text[MESSAGE_BYTES];
    int length;

    memcpy(text, message, at);
    length = vsnprintf(text + at, sizeof text - at, format, arguments);
    if (length < 0)
        text[at] = '\0';
    else if (at + (size_t)length >= sizeof text)
        mark_cut(text);
    memcpy(message, text, strlen(text) + 1);
}

gnf_status gnf_fail(gnf_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    store(0, format, arguments);
    va_end(arguments);
    return status;
}

gnf_status gnf_fail_more(gnf_status status, const char *format, ...)
{
    size_t length = strlen(message);
    va_list arguments;

    if (length >= sizeof cut_note && strcmp(message + length - sizeof cut_note + 1, cut_note) == 0)
        return status;
    va_start(arguments, format);
    store(length, format, arguments);
    va_end(arguments);
    return status;
}

const char *gnf_error_message(void)
{
    return message;
}

const char *gnf_status_name(gnf_status status)
{
#define NAME(value)                                                                                          \
    case value:                                                                                              \
        return #value
    switch (status) {
        NAME(GNF_OK);
        NAME(GNF_INVALID_ARGUMENT);
        NAME(GNF_INVALID_PROBLEM);
        NAME(GNF_NOT_SUPPORTED);
        NAME(GNF_NO_DRIVER);
        NAME(GNF_NO_DEVICE);
        NAME(GNF_NO_COMPILER);
        NAME(GNF_COMPILE_FAILED);
        NAME(GNF_NOT_COMPILED);
        NAME(GNF_NOT_PREPARED);
        NAME(GNF_NO_KERNEL);
        NAME(GNF_BAD_PACK);
        NAME(GNF_OUT_OF_MEMORY);
        NAME(GNF_DRIVER_ERROR);
        NAME(GNF_TOO_LARGE);
        NAME(GNF_IO);
        NAME(GNF_NO_CUBLAS);
    }
#undef NAME
    return "GNF_UNKNOWN_STATUS"; /* a newer library's, or not a status at all */
}

int gnf_version(void)
{
    return GNF_VERSION_MAJOR * 10000 + GNF_VERSION_MINOR * 100 + GNF_VERSION_PATCH;
}
