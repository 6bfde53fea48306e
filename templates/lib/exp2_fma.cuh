// 2^x on the FMA units: 2^n times the polynomial of degree 5 that is nearest to 2^f, where x = n + f and |f| is up
// to 1/2 (Remez's exchange for the relative error; 2.2e-7 in fp32). 0 below -126.5, infinity from 127.5 on, NaN
// for NaN.
#ifdef GNF_SIM
GNF_DEV float gnf_within(float x, float least, float most)
{
    return x < least ? least : x > most ? most : x;
}
#else
GNF_DEV float gnf_within(float x, float least, float most)
{
    float y;
    asm("{\n.reg .f32 above;\nmax.NaN.f32 above,%1,%2;\nmin.NaN.f32 %0,above,%3;\n}" : "=f"(y) : "f"(x), "f"(least), "f"(most));
    return y;
}
#endif
GNF_DEV float gnf_exp2_fma(float x)
{
    const float at = gnf_within(x, -127.0f, 128.0f), moved = at + 0x1.8p23f; // n in the lowest bits
    const float f = at - (moved - 0x1.8p23f);
    float v = 1.3276472e-3f;
    v = fmaf(v, f, 9.675541e-3f);
    v = fmaf(v, f, 5.550713e-2f);
    v = fmaf(v, f, 2.402212e-1f);
    v = fmaf(v, f, 6.9314694e-1f);
    v = fmaf(v, f, 1.0000001f);
    return v * __uint_as_float((__float_as_uint(moved) << 23) + 0x3f800000);
}
