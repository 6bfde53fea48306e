// Words: two floats cut to fp16 at once, the greater of two floats or NaN, the greater of pairs of 16 bits, copies of one word
// into shared memory.
// Towards zero.
#ifdef GNF_SIM
GNF_DEV uint32_t gnf_pack_cut(float low, float high)
{
    auto cut = [](float f) {
        const uint16_t h = gnf_f32_to_f16(f);
        return (uint16_t)(fabs(gnf_f16_to_f32(h)) > fabs(f) ? h - 1 : h);
    };
    return cut(low) | (uint32_t)cut(high) << 16;
}
#else
GNF_DEV uint32_t gnf_pack_cut(float low, float high)
{
    uint32_t w;
    asm("cvt.rz.f16x2.f32 %0,%1,%2;" : "=r"(w) : "f"(high), "f"(low));
    return w;
}
#endif
// The greater, or NaN where one is.
#ifdef GNF_SIM
GNF_DEV float gnf_max_or_nan(float a, float b)
{
    return a != a || b != b ? a + b : fmaxf(a, b);
}
#else
GNF_DEV float gnf_max_or_nan(float a, float b)
{
    float r;
    asm("max.NaN.f32 %0,%1,%2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
#endif
// Of each half, as unsigned numbers: what fp16 without its sign compares as.
#ifdef GNF_SIM
GNF_DEV uint32_t gnf_greater_halves(uint32_t a, uint32_t b)
{
    return max(a & 0xffff, b & 0xffff) | max(a >> 16, b >> 16) << 16;
}
#else
GNF_DEV uint32_t gnf_greater_halves(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("max.u16x2 %0,%1,%2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
#endif
// One word to shared memory, which the thread need not wait for until gnf_copied_words().
#ifdef GNF_SIM
GNF_DEV void gnf_copied_words()
{
    for (int i = 0; i < simt_self->word_count; i++)
        *simt_self->words[i].to = *simt_self->words[i].from;
    simt_self->word_count = 0;
}
// Done at the wait, and a NaN until then, so that who reads before it sees.
GNF_DEV void gnf_copy_word(float *to, const float *from)
{
    enum { MOST = 64 };
    if (!simt_self->words)
        simt_self->words = new simt_word[MOST];
    if (simt_self->word_count == MOST) // a copy may be done early
        gnf_copied_words();
    *to = __uint_as_float(~0u);
    simt_self->words[simt_self->word_count++] = {to, from};
}
#else
GNF_DEV void gnf_copy_word(float *to, const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0],[%1],4;" ::"r"(gnf_shared_address(to)), "l"(from) : "memory");
}
GNF_DEV void gnf_copied_words()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}
#endif
