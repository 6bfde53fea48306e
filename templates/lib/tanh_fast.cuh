// The tanh of the special-function unit: relative error up to 2^-11, absolute error up to 8e-6; 1 for
// infinity, NaN for NaN.
#ifdef GNF_SIM
GNF_DEV float gnf_tanh_fast(float x)
{
    const float t = std::tanh(x), error = std::fmin(std::fabs(t) * 4.8828125e-4f, 7.8e-6f);
    return std::fabs(t) == 1 ? t : t - (t < 0 ? -error : error);
}
#else
GNF_DEV float gnf_tanh_fast(float x)
{
    float y;
    asm("tanh.approx.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}
#endif
