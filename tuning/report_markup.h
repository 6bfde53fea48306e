/* Text of a page, put together piece by piece: grows as needed, escapes what is not markup, knows no locale.
 */
#ifndef TUNING_REPORT_MARKUP_H
#define TUNING_REPORT_MARKUP_H

#include <stdbool.h>
#include <stddef.h>

struct markup {
    char *text; /* NUL-terminated once anything was added */
    size_t used, size;
    bool failed; /* out of memory: everything after is dropped */
};

/* As it is. */
void markup_raw(struct markup *markup, const char *text);
/* Escaped, right in text and in quoted attributes. Control characters become spaces. */
void markup_text(struct markup *markup, const char *text);
/* printf for markup with whole numbers and words of our own: %d, %s. */
void markup_format(struct markup *markup, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "-12.50" with that many decimals (at most 6); a dash for what is no number. */
void markup_number(struct markup *markup, double value, int decimals);
/* "3.1e-07"; a dash for what is no number. */
void markup_scientific(struct markup *markup, double value);
void markup_free(struct markup *markup);

#endif
