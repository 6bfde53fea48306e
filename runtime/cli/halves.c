#include "halves.h"

#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float f16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t mantissa = half & 0x3ffu;
    if (exponent == 31) /* infinity or NaN, payload kept */
        return float_of(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24 is exact in a float */
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of(sign | (exponent + 112u) << 23 | mantissa << 13);
}

uint16_t float_to_f16(float value)
{
    uint32_t bits = bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) /* NaN: quiet, top of the payload kept */
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x33000001u) /* at most 2^-25, which ties to zero */
        return sign;
    if (magnitude < 0x38800000u) { /* subnormal half */
        uint32_t shift = 126u - (magnitude >> 23);
        uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
        kept += rest > tie || (rest == tie && (kept & 1u));
        return (uint16_t)(sign | kept);
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

float bf16_to_float(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

uint16_t float_to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

double stored_load(enum gnf_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case GNF_F16:
        return f16_to_float(((const uint16_t *)data)[i]);
    case GNF_BF16:
        return bf16_to_float(((const uint16_t *)data)[i]);
    default:
        return ((const float *)data)[i];
    }
}

void stored_store(enum gnf_dtype dtype, void *data, int64_t i, float value)
{
    switch (dtype) {
    case GNF_F16:
        ((uint16_t *)data)[i] = float_to_f16(value);
        break;
    case GNF_BF16:
        ((uint16_t *)data)[i] = float_to_bf16(value);
        break;
    default:
        ((float *)data)[i] = value;
    }
}

void stored_load_many(enum gnf_dtype dtype, const void *data, int64_t at, int64_t count, double *out)
{
    if (dtype == GNF_F32) {
        const float *from = (const float *)data + at;
        for (int64_t i = 0; i < count; i++)
            out[i] = from[i];
        return;
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = stored_load(dtype, data, at + i);
}

double stored_max(enum gnf_dtype dtype)
{
    return dtype == GNF_F16 ? 65504.0 : dtype == GNF_BF16 ? 0x1.fep127 : 0x1.fffffep127;
}
