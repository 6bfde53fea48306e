#include "report_markup.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct markup *markup, const char *text, size_t length)
{
    if (markup->failed)
        return;
    if (markup->used + length + 1 > markup->size) {
        size_t size = 2 * (markup->used + length + 1) + 4096;
        char *larger = realloc(markup->text, size);
        if (larger == NULL) {
            markup->failed = true;
            return;
        }
        markup->text = larger;
        markup->size = size;
    }
    memcpy(markup->text + markup->used, text, length);
    markup->used += length;
    markup->text[markup->used] = '\0';
}

void markup_raw(struct markup *markup, const char *text)
{
    append(markup, text, strlen(text));
}

void markup_text(struct markup *markup, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            markup_raw(markup, "&amp;");
            break;
        case '<':
            markup_raw(markup, "&lt;");
            break;
        case '>':
            markup_raw(markup, "&gt;");
            break;
        case '"':
            markup_raw(markup, "&quot;");
            break;
        case '\'':
            markup_raw(markup, "&#39;");
            break;
        default:
            append(markup, (unsigned char)*text < 32 || *text == 127 ? " " : text, 1);
        }
    }
}

void markup_format(struct markup *markup, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= (int)sizeof text)
        markup->failed = true;
    else
        append(markup, text, (size_t)length);
}

void markup_number(struct markup *markup, double value, int decimals)
{
    long long scale = 1;
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    if (!isfinite(value) || fabs(value) >= 1e12) {
        markup_raw(markup, "–");
        return;
    }
    long long whole = llround(fabs(value) * (double)scale);
    markup_format(markup, "%s%lld", value < 0 && whole != 0 ? "-" : "", whole / scale);
    if (decimals > 0)
        markup_format(markup, ".%0*lld", decimals, whole % scale);
}

void markup_scientific(struct markup *markup, double value)
{
    int exponent = 0;
    if (!isfinite(value)) {
        markup_raw(markup, "–");
        return;
    }
    if (value == 0) {
        markup_raw(markup, "0");
        return;
    }
    double digits = fabs(value);
    for (; digits >= 9.95 && exponent < 400; exponent++)
        digits /= 10;
    for (; digits < 0.995 && exponent > -400; exponent--)
        digits *= 10;
    markup_number(markup, value < 0 ? -digits : digits, 1);
    if (exponent != 0)
        markup_format(markup, "e%+03d", exponent);
}

void markup_free(struct markup *markup)
{
    free(markup->text);
    *markup = (struct markup){0};
}
