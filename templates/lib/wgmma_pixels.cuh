// Products of a warpgroup (wgmma.cuh has its sums, fence, commit and settle) of 64 rows in registers by 128 pixels in shared
// memory, 16 of K at a time, both fp16. A pixel is 8 of K in 16 bytes, one pixel after another, 16-byte aligned: a
// step takes 8 of K from 128 pixels in a row, and the other 8 from as many, `apart` pixels further on. So a
// shifted window is another address and nothing is ever gathered. Lane l of warp w has, of rows r = 16 * w + l / 4 and
// r + 8, elements k = 2 * (l % 4) and k + 1, low half first: rows[0] of r, rows[1] of r + 8, rows[2] and rows[3] of k + 8.
#ifdef GNF_SIM
// Pixels from the arena's start.
GNF_DEV uint32_t gnf_pixels(const void *p)
{
    return (uint32_t)((const unsigned char *)p - gnf_shared()) >> 4;
}
// Computed at the wait, so that sums read before it or pixels that change before it show.
SIMT_UNCHECKED GNF_DEV void gnf_wgmma_pixels(float (&d)[64], const uint32_t (&rows)[4], uint32_t pixels, int apart, bool add, SIMT_AT)
{
    enum { MOST = 32 };
    simt_warp(~0u, gnf_wgmma_together, nullptr, "wgmma", SIMT_HERE);
    if (!simt_self->deferred)
        simt_self->deferred = new simt_deferred[MOST];
    if (simt_self->deferred_count == MOST)
        simt_fault(719, "more products in flight than the simulator keeps", SIMT_HERE);
    const unsigned char *own = gnf_shared() + (pixels + simt_self->tid.x % 128) * 16; // the four warps share them
    simt_check_published(own, 16, SIMT_HERE);
    simt_check_published(own + apart * 16, 16, SIMT_HERE);
    simt_deferred &one = simt_self->deferred[simt_self->deferred_count++];
    one = {d, rows[0] | (uint64_t)rows[1] << 32, pixels | (uint64_t)(uint32_t)apart << 32, add, simt_self->deferred_group};
    one.a_rest = rows[2] | (uint64_t)rows[3] << 32;
}
// A lane has its part of the warp's 16 rows and reads 4 of the 128 pixels; one lane then does the arithmetic of all.
struct gnf_pixels_share {
    float rows[4][2], columns[4][16], *d;
    bool add;
};
SIMT_UNCHECKED GNF_DEV void gnf_wgmma_pixels_multiply(unsigned, void *const *args)
{
    float w[16][128];
    for (int column = 0; column < 128; column++)
        for (int k = 0; k < 16; k++)
            w[k][column] = ((const gnf_pixels_share *)args[column / 4])->columns[column % 4][k];
    for (int row = 0; row < 16; row++) {
        float sum[128] = {};
        for (int k = 0; k < 16; k++) {
            const gnf_pixels_share *lane = (const gnf_pixels_share *)args[row % 8 * 4 + k % 8 / 2];
            const float v = lane->rows[row / 8 + k / 8 * 2][k % 2];
            for (int column = 0; column < 128; column++)
                sum[column] += v * w[k][column];
        }
        for (int column = 0; column < 128; column++) {
            const gnf_pixels_share *lane = (const gnf_pixels_share *)args[row % 8 * 4 + column % 8 / 2];
            float &d = lane->d[column / 8 * 4 + row / 8 * 2 + column % 2];
            d = (lane->add ? d : 0.0f) + sum[column];
        }
    }
}
template <int LEFT> GNF_DEV void gnf_wgmma_pixels_wait(SIMT_AT)
{
    int done = 0;
    for (; done < simt_self->deferred_count; done++) {
        const simt_deferred &one = simt_self->deferred[done];
        if (one.group >= simt_self->deferred_group - LEFT)
            break;
        gnf_pixels_share share;
        share.d = one.d;
        share.add = one.keep;
        for (int i = 0; i < 8; i++)
            share.rows[i / 2][i % 2] = gnf_f16_to_f32((uint16_t)((i < 4 ? one.a : one.a_rest) >> i % 4 * 16));
        const uint16_t *pixels = (const uint16_t *)(gnf_shared() + (one.b & 0xffffffff) * 16);
        for (int i = 0; i < 64; i++) {
            const int pixel = (int)simt_self->lane * 4 + i / 16, k = i % 16;
            share.columns[i / 16][k] = gnf_f16_to_f32(pixels[(pixel + k / 8 * (int)(one.b >> 32)) * 8 + k % 8]);
        }
        simt_warp(~0u, gnf_wgmma_pixels_multiply, &share, "wgmma wait", SIMT_HERE);
    }
    for (int i = done; i < simt_self->deferred_count; i++)
        simt_self->deferred[i - done] = simt_self->deferred[i];
    simt_self->deferred_count -= done;
    __syncwarp(~0u, SIMT_HERE); // what one lane does next comes after the reads of all
}
#else
// The lower half of the descriptor but for `apart`, which stands in its upper 16 bits.
GNF_DEV uint32_t gnf_pixels(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p) >> 4;
}
#define GNF_SUMS_4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GNF_SUMS_16(i) GNF_SUMS_4(i), GNF_SUMS_4(i + 4), GNF_SUMS_4(i + 8), GNF_SUMS_4(i + 12)
#define GNF_SUMS       GNF_SUMS_16(0), GNF_SUMS_16(16), GNF_SUMS_16(32), GNF_SUMS_16(48)
// Adds to the sums or, where `add` is false, begins them. `apart` is 0 to 16383: 0 takes the same pixels twice.
GNF_DEV void gnf_wgmma_pixels(float (&d)[64], const uint32_t (&rows)[4], uint32_t pixels, int apart, bool add)
{
    uint64_t columns; // the next 8 pixels are 8 further on; no swizzle
    asm volatile("mov.b64 %0,{ %1,%2};" : "=l"(columns) : "r"(pixels + ((uint32_t)apart << 16)), "r"(8));
    asm volatile("{.reg .pred p; setp.ne.b32 p,%69,0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
                 "},{ %64,%65,%66,%67},%68,p,1,1,0;}"
                 : GNF_SUMS
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(columns), "r"((int)add));
}
#undef GNF_SUMS
#undef GNF_SUMS_16
#undef GNF_SUMS_4
// Until no more than LEFT of the groups are at work.
template <int LEFT> GNF_DEV void gnf_wgmma_pixels_wait()
{
    gnf_wgmma_wait<LEFT>();
}
#endif
