/* Stored values of the three dtypes on the host: f32, f16 and bf16 (the halves as their 16 bits). Exact, no
 * libm. */
#ifndef CLI_HALVES_H
#define CLI_HALVES_H

#include "../problem.h"

/* To float: exact. From float: round to nearest, ties to even; overflow gives infinity; NaN stays NaN. */
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);

/* Element i of an array of `dtype`. */
double stored_load(enum gnf_dtype dtype, const void *data, int64_t i);
void stored_store(enum gnf_dtype dtype, void *data, int64_t i, float value);
/* data[at .. at + count) as doubles. */
void stored_load_many(enum gnf_dtype dtype, const void *data, int64_t at, int64_t count, double *out);
/* The largest finite value of the dtype. */
double stored_max(enum gnf_dtype dtype);

#endif
