// Matrix products of a warpgroup (4 warps, the first a multiple of 4; compute capability 9.0 alone): 64 rows of one tile
// (tiles.cuh) by 128 rows of another, 16 of K at a time, both fp16 in shared memory. Lane l of warp w has, of rows
// 16 * w + l / 4 and 8 below, columns 8 * i + 2 * (l % 4) and the next: d[4 * i] to d[4 * i + 1], d[4 * i + 2] to d[4 * i + 3].
// An operand counts in 16 bytes: a step of 16 along K adds 2, a row 8. Sums are no one's between gnf_wgmma() and the end of
// gnf_wgmma_settle() after the wait.
enum { GNF_WGMMA_STEP = 16, GNF_WGMMA_ALONG = 2, GNF_WGMMA_ROW = 8 };
#ifdef GNF_SIM
GNF_DEV uint32_t gnf_wgmma_operand(const void *p)
{
    return (uint32_t)((const unsigned char *)p - gnf_shared()) >> 4;
}
GNF_DEV void gnf_wgmma_fence()
{
}
GNF_DEV void gnf_wgmma_together(unsigned, void *const *)
{
}
static __forceinline__ const unsigned char *gnf_wgmma_place(uint32_t operand, int row, int k)
{
    // Places are swapped by address bits 7 to 9, so a start within a row of the tile needs no more than its address.
    const uint32_t at = operand * 16 + row * GNF_TILE_PITCH + k * 2;
    return gnf_shared() + (at ^ (at >> 3 & 0x70));
}
// Computed at the wait, so that sums read before it or operands that change before it show.
SIMT_UNCHECKED GNF_DEV void gnf_wgmma(float (&d)[64], uint32_t rows, uint32_t columns, bool add, SIMT_AT)
{
    enum { MOST = 32 };
    simt_warp(~0u, gnf_wgmma_together, nullptr, "wgmma", SIMT_HERE);
    if (!simt_self->deferred)
        simt_self->deferred = new simt_deferred[MOST];
    if (simt_self->deferred_count == MOST)
        simt_fault(719, "more products in flight than the simulator keeps", SIMT_HERE);
    const int warp = (int)(simt_self->tid.x / 32 % 4), lane = (int)simt_self->lane;
    // The four warps share the 128 rows.
    simt_check_published(gnf_wgmma_place(rows, warp * 16 + lane / 2, lane % 2 * 8), 16, SIMT_HERE);
    for (int k = 0; k < GNF_WGMMA_STEP; k += 8)
        simt_check_published(gnf_wgmma_place(columns, warp * 32 + lane, k), 16, SIMT_HERE);
    simt_self->deferred[simt_self->deferred_count++] = {d, rows, columns, add, simt_self->deferred_group};
}
GNF_DEV void gnf_wgmma_commit()
{
    simt_self->deferred_group++;
}
// A lane reads half a row of the warp's 16 and 4 rows of the 128; one lane then does the arithmetic of all.
struct gnf_wgmma_share {
    float rows[8], columns[4][16], *d;
    bool add;
};
GNF_DEV float gnf_wgmma_element(uint32_t operand, int row, int k)
{
    return gnf_f16_to_f32(*(const uint16_t *)gnf_wgmma_place(operand, row, k));
}
SIMT_UNCHECKED GNF_DEV void gnf_wgmma_multiply(unsigned, void *const *args)
{
    float w[16][128];
    for (int column = 0; column < 128; column++)
        for (int k = 0; k < 16; k++)
            w[k][column] = ((const gnf_wgmma_share *)args[column / 4])->columns[column % 4][k];
    for (int row = 0; row < 16; row++) {
        float sum[128] = {};
        for (int k = 0; k < 16; k++) {
            const float v = ((const gnf_wgmma_share *)args[row * 2 + k / 8])->rows[k % 8];
            for (int column = 0; column < 128; column++)
                sum[column] += v * w[k][column];
        }
        for (int column = 0; column < 128; column++) {
            const gnf_wgmma_share *lane = (const gnf_wgmma_share *)args[row % 8 * 4 + column % 8 / 2];
            float &d = lane->d[column / 8 * 4 + row / 8 * 2 + column % 2];
            d = (lane->add ? d : 0.0f) + sum[column];
        }
    }
}
template <int LEFT> GNF_DEV void gnf_wgmma_wait(SIMT_AT)
{
    const int lane = (int)simt_self->lane, row = (int)(simt_self->tid.x / 32 % 4 * 16) + lane / 2;
    int done = 0;
    for (; done < simt_self->deferred_count; done++) {
        const simt_deferred &one = simt_self->deferred[done];
        if (one.group >= simt_self->deferred_group - LEFT)
            break;
        gnf_wgmma_share share;
        share.d = one.d;
        share.add = one.keep;
        for (int k = 0; k < 8; k++)
            share.rows[k] = gnf_wgmma_element((uint32_t)one.a, row, lane % 2 * 8 + k);
        for (int k = 0; k < 64; k++)
            share.columns[k / 16][k % 16] = gnf_wgmma_element((uint32_t)one.b, lane * 4 + k / 16, k % 16);
        simt_warp(~0u, gnf_wgmma_multiply, &share, "wgmma wait", SIMT_HERE);
    }
    for (int i = done; i < simt_self->deferred_count; i++)
        simt_self->deferred[i - done] = simt_self->deferred[i];
    simt_self->deferred_count -= done;
    __syncwarp(~0u, SIMT_HERE); // what one lane does next comes after the reads of all
}
GNF_DEV void gnf_wgmma_settle(float (&)[64])
{
}
#else
// The lower half of its descriptor: the start, and 1 for a distance that these tiles do not have.
GNF_DEV uint32_t gnf_wgmma_operand(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p) >> 4 | 1u << 16;
}
// Before the first product after other work on the sums.
GNF_DEV void gnf_wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
#define GNF_SUMS_4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GNF_SUMS_16(i) GNF_SUMS_4(i), GNF_SUMS_4(i + 4), GNF_SUMS_4(i + 8), GNF_SUMS_4(i + 12)
#define GNF_SUMS       GNF_SUMS_16(0), GNF_SUMS_16(16), GNF_SUMS_16(32), GNF_SUMS_16(48)
// Adds to the sums or, where `add` is false, begins them.
GNF_DEV void gnf_wgmma(float (&d)[64], uint32_t rows, uint32_t columns, bool add)
{
    const uint64_t high = (uint64_t)(8 * GNF_WGMMA_ROW | 1u << 30) << 32; // to the next 8 rows; swizzle of 128 bytes
    asm volatile("{.reg .pred p; setp.ne.b32 p,%66,0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
                 "},%64,%65,p,1,1,0,0;}"
                 : GNF_SUMS
                 : "l"(high | rows), "l"(high | columns), "r"((int)add));
}
GNF_DEV void gnf_wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until no more than LEFT of the groups are at work.
template <int LEFT> GNF_DEV void gnf_wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// So that no use of the sums moves to before the wait.
GNF_DEV void gnf_wgmma_settle(float (&d)[64])
{
    asm volatile("" : GNF_SUMS::"memory");
}
#undef GNF_SUMS
#undef GNF_SUMS_16
#undef GNF_SUMS_4
#endif
