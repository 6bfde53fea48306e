/* Numbers as text, whatever the locale: what a user writes, and what goes into canonical problem texts. */
#ifndef GNF_NUMBER_H
#define GNF_NUMBER_H

#include <stddef.h>
#include <stdint.h>

enum gnf_number { GNF_NUMBER_OK, GNF_NUMBER_MALFORMED, GNF_NUMBER_RANGE };

/* [+-]digits, all `length` bytes of it. RANGE: does not fit int64_t. */
enum gnf_number gnf_number_whole(const char *text, size_t length, int64_t *value);
/* [+-]digits[.digits][e[+-]digits] with a digit somewhere before the e ("-2", "1e-3", ".5"); no inf, no nan.
 * The nearest float, ties to even. RANGE: beyond the largest one. */
enum gnf_number gnf_number_float(const char *text, size_t length, float *value);
/* The fewest digits that gnf_number_float() reads back as the same float: "-2", "0.1", "9e-5", "1.5e10". An
 * exponent only below 1e-4 and from 1e9. Finite values. */
void gnf_number_format(float value, char text[32]);

#endif
