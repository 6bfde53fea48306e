// Elements of bf16, as bits.
typedef uint16_t gnf_element;
#ifdef GNF_SIM
GNF_DEV uint16_t gnf_pack_one(float f) // to nearest even
{
    uint32_t u = __float_as_uint(f);
    return (uint16_t)(f != f ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}
GNF_DEV uint32_t gnf_pack(float low, float high)
{
    return gnf_pack_one(low) | (uint32_t)gnf_pack_one(high) << 16;
}
#else
GNF_DEV uint32_t gnf_pack(float low, float high)
{
    uint32_t w;
    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(w) : "f"(high), "f"(low));
    return w;
}
GNF_DEV uint16_t gnf_pack_one(float f)
{
    return (uint16_t)gnf_pack(f, 0.0f);
}
#endif
GNF_DEV float gnf_unpack(uint16_t h)
{
    return __uint_as_float((uint32_t)h << 16);
}
