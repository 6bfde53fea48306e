/* JSON whose numbers are the same in every locale. jansson reads those with a point or an exponent by strtod,
 * which follows the host's locale, and aborts where its decimal point has several bytes. Here they are kept
 * as they are written. */
#ifndef GNF_JSON_H
#define GNF_JSON_H

#include <jansson.h>
#include <stddef.h>

/* An array or object without duplicate names, for json_decref(); NULL with *error filled in. */
json_t *gnf_json_read(const char *text, size_t length, json_error_t *error);
/* A number with a point or an exponent as it is written; NULL for anything else. */
const char *gnf_json_real(const json_t *value);
/* The string; NULL for anything else. */
const char *gnf_json_text(const json_t *value);
/* The number, whole or not, to the precision of a float; 0 for anything else. */
double gnf_json_number(const json_t *value);

#endif
