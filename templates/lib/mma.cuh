// Matrix products of a warp: 16 rows by 8 columns, 16 of K at a time, operands of 16 bits, sums in fp32.
// Of a, [16][16], lane l has rows l / 4 and l / 4 + 8 at K 2 * (l % 4) and the next, then both 8 further on;
// of b, [8][16], column l / 4 at K 2 * (l % 4) and the next, then 8 further on;
// of d, [16][8], row l / 4 at column 2 * (l % 4) and the next, then row l / 4 + 8 at the same.
// So four matrices of 8 rows of 16 bytes, as gnf_ldmatrix() brings them, are a, or b for two times 8 columns.
#ifdef GNF_SIM
GNF_DEV uint32_t gnf_shared_offset(const void *p)
{
    return (uint32_t)((const unsigned char *)p - gnf_shared());
}
struct gnf_ldmatrix_share {
    const unsigned char *row;
    uint32_t *r;
};
SIMT_UNCHECKED GNF_DEV void gnf_ldmatrix_all(unsigned, void *const *args)
{
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            memcpy(((const gnf_ldmatrix_share *)args[lane])->r + i,
                   ((const gnf_ldmatrix_share *)args[i * 8 + lane / 4])->row + lane % 4 * 4, 4);
}
GNF_DEV void gnf_ldmatrix(uint32_t (&r)[4], uint32_t at, SIMT_AT)
{
    uint4 row = gnf_read((const uint4 *)(gnf_shared() + at)
                             GNF_HERE); // by the lane itself, for the sanitizers to see
    gnf_ldmatrix_share share = {(const unsigned char *)&row, r};
    simt_warp(~0u, gnf_ldmatrix_all, &share, "ldmatrix", SIMT_HERE);
}
struct gnf_mma_share {
    float *d;
    const uint32_t *a;
    uint32_t b[2];
};
SIMT_UNCHECKED GNF_DEV float gnf_mma_element(uint32_t pair, int k)
{
    return gnf_unpack((uint16_t)(k % 2 ? pair >> 16 : pair & 0xffff));
}
SIMT_UNCHECKED GNF_DEV void gnf_mma_all(unsigned, void *const *args)
{
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            float sum = 0.0f;
            for (int k = 0; k < 16; k++) {
                const gnf_mma_share *a = (const gnf_mma_share *)args[row % 8 * 4 + k % 8 / 2];
                const gnf_mma_share *b = (const gnf_mma_share *)args[column * 4 + k % 8 / 2];
                sum += gnf_mma_element(a->a[k / 8 * 2 + row / 8], k) * gnf_mma_element(b->b[k / 8], k);
            }
            ((const gnf_mma_share *)args[row % 8 * 4 + column / 2])->d[row / 8 * 2 + column % 2] += sum;
        }
}
// The format is that of gnf_unpack().
GNF_DEV void gnf_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SIMT_AT)
{
    gnf_mma_share share = {d, a, {b0, b1}};
    simt_warp(~0u, gnf_mma_all, &share, "mma", SIMT_HERE);
}
GNF_DEV void gnf_mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SIMT_AT)
{
    gnf_mma(d, a, b0, b1, SIMT_HERE);
}
GNF_DEV void gnf_mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SIMT_AT)
{
    gnf_mma(d, a, b0, b1, SIMT_HERE);
}
#else
// An address of shared memory in bytes, as gnf_ldmatrix() counts it.
GNF_DEV uint32_t gnf_shared_offset(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
// Four matrices of 8 by 8: lane l names row l % 8 of matrix l / 8, 16 bytes at a multiple of 16, and gets of
// row l / 4 of each the elements 2 * (l % 4) and the next.
GNF_DEV void gnf_ldmatrix(uint32_t (&r)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
// d += a * b
GNF_DEV void gnf_mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0,%1,%2,%3},{ %4,%5,%6,%7},{ %8,%9},{ "
                 "%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
GNF_DEV void gnf_mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0,%1,%2,%3},{ %4,%5,%6,%7},{ "
                 "%8,%9},{ %0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif
// The value as one that the compiler knows nothing about, so that what is quickly made of it is made again
// where it is wanted rather than kept in registers, which the sums need.
GNF_DEV int gnf_afresh(int v)
{
#ifndef GNF_SIM
    asm volatile("" : "+r"(v));
#endif
    return v;
}
