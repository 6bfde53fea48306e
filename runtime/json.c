#define _GNU_SOURCE 1 /* memmem, strcasestr */
#include "json.h"
#include "number.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the string starts with that stands for a number: U+FFFF, which is no character. */
static const char mark[] = "\xef\xbf\xbf";

/* Length of the number that starts here; *real: it has a point or an exponent. */
static size_t number_length(const char *text, size_t length, bool *real)
{
    size_t i = 0;
    *real = false;
    if (*text != '-' && (*text < '0' || *text > '9'))
        return 0;
    for (; i < length && text[i] && strchr("+-.0123456789eE", text[i]); i++)
        *real = *real || strchr(".eE", text[i]);
    return i;
}

/* `out` has room for three times the text. */
static size_t mark_numbers(const char *text, size_t length, char *out)
{
    char *const begin = out;
    bool quoted = false;
    for (size_t i = 0, number; i < length; i += number ? number : 1) {
        bool real = false;
        number = quoted ? 0 : number_length(text + i, length - i, &real);
        if (real)
            out += snprintf(out, number + 8, "\"%s%.*s\"", mark, (int)number, text + i);
        else if (number)
            out = (char *)memcpy(out, text + i, number) + number;
        else if ((*out++ = text[i]) == '"')
            quoted = !quoted;
        else if (quoted && text[i] == '\\' && i + 1 < length)
            *out++ = text[++i];
    }
    *out = '\0';
    return (size_t)(out - begin);
}

static json_t *fail(json_error_t *error, enum json_error_code code, const char *text)
{
    *error = (json_error_t){.line = -1, .column = -1};
    snprintf(error->text, sizeof error->text - 1, "%s", text);
    error->text[sizeof error->text - 1] = (char)code; /* where json_error_code() looks */
    return NULL;
}

json_t *gnf_json_read(const char *text, size_t length, json_error_t *error)
{
    char *marked = malloc(3 * length + 16);
    if (!marked)
        return fail(error, json_error_out_of_memory, "no host memory");
    size_t size = mark_numbers(text, length, marked);
    json_t *value = memmem(text, length, mark, strlen(mark)) || strcasestr(marked, "\\uffff")
                        ? fail(error, json_error_invalid_syntax, "U+FFFF, which is no character")
                        : json_loadb(marked, size, JSON_REJECT_DUPLICATES, error);
    free(marked);
    return value;
}

const char *gnf_json_real(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && !strncmp(text, mark, strlen(mark)) ? text + strlen(mark) : NULL;
}

const char *gnf_json_text(const json_t *value)
{
    return gnf_json_real(value) ? NULL : json_string_value(value);
}

double gnf_json_number(const json_t *value)
{
    const char *text = gnf_json_real(value);
    float number = 0;
    if (!text)
        return (double)json_integer_value(value);
    return gnf_number_float(text, strlen(text), &number) == GNF_NUMBER_OK ? (double)number : 0;
}
