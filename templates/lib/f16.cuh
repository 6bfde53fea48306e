#ifdef GNF_SIM
GNF_DEV float gnf_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31)
        return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) {
        float f = (float)mantissa * 5.9604644775390625e-8f;
        return sign ? -f : f;
    }
    return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
}
GNF_DEV uint16_t gnf_f32_to_f16(float f) // to nearest even
{
    uint32_t u = __float_as_uint(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return (uint16_t)0x7fff;
    if (u >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000u) // subnormal: the addition rounds
        return (uint16_t)(sign | (__float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((u - 0x38000000u + 0xfff + (u >> 13 & 1)) >> 13));
}
GNF_DEV uint32_t gnf_pack(float low, float high)
{
    return gnf_f32_to_f16(low) | (uint32_t)gnf_f32_to_f16(high) << 16;
}
#else
GNF_DEV float gnf_f16_to_f32(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0,%1;" : "=f"(f) : "h"(h));
    return f;
}
GNF_DEV uint16_t gnf_f32_to_f16(float f)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0,%1;" : "=h"(h) : "f"(f));
    return h;
}
GNF_DEV uint32_t gnf_pack(float low, float high)
{
    uint32_t w;
    asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(w) : "f"(high), "f"(low));
    return w;
}
#endif
GNF_DEV float gnf_unpack(uint16_t h)
{
    return gnf_f16_to_f32(h);
}
GNF_DEV uint16_t gnf_pack_one(float f)
{
    return gnf_f32_to_f16(f);
}
