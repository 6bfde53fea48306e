// Functions on the special-function unit. The twins carry a relative error of the documented size, so that no test leans
// on exactness; the points that the unit has exactly stay exact. Each keeps NaN and gives the limits of its function at the infinities.
#ifdef GNF_SIM
GNF_DEV float gnf_exp2(float x)
{
    return x == 0 ? 1 : std::exp2(x) * (1 + 1.2e-7f);
}
GNF_DEV float gnf_rcp(float x)
{
    return x == 1 ? 1 : 1 / x * (1 - 1.2e-7f);
}
GNF_DEV float gnf_log2(float x)
{
    return std::log2(x) * (1 + 1.2e-7f);
}
#else
GNF_DEV float gnf_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}
GNF_DEV float gnf_rcp(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}
GNF_DEV float gnf_log2(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}
#endif
GNF_DEV float gnf_exp(float x)
{
    return gnf_exp2(x * 1.44269504f);
}
// 1 - 2 / (e^2x + 1): two special functions, absolute error near 1e-7.
GNF_DEV float gnf_tanh(float x)
{
    return fmaf(-2.0f, gnf_rcp(gnf_exp2(x * 2.88539008f) + 1.0f), 1.0f);
}
// tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), for e = e^x below 2^64.
GNF_DEV float gnf_mish_factor(float x)
{
    float e = gnf_exp(x), n = e * (e + 2.0f);
    return n * gnf_rcp(n + 2.0f);
}
