/* struct measured as JSON, between a measuring child and its parent. */
#ifndef TUNING_MEASURED_H
#define TUNING_MEASURED_H

#include "measurer.h"
#include <jansson.h>

/* A new object; NULL without memory. */
json_t *measured_write(const struct measured *measured);
/* False where it is not one. */
bool measured_read(const json_t *object, struct measured *measured);
/* Nothing known but the status. `text` may be of several lines. */
void measured_fail(struct measured *measured, enum gnf_record_status status, const char *text);

/* A number, NaN for null and for what is none. */
double measured_number(const json_t *value);

#endif
