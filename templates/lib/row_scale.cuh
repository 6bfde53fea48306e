// The power of two by which a row is scaled for fp16, and whether hi + lo can hold the row. For blocks of WARPS warps.
// The greatest absolute value of a row and the least that is not 0, as bits, which compare as the values do: NaN and
// infinity are the greatest of all. The least is less 1, so that 0 does not count.
struct gnf_span {
    uint32_t greatest, least;
};
GNF_DEV void gnf_widen(gnf_span &r, uint32_t bits)
{
    const uint32_t size = bits & 0x7fffffff;
    r.greatest = max(r.greatest, size);
    r.least = min(r.least, size - 1);
}
template <int LANES> GNF_DEV void gnf_lane_span(gnf_span &r)
{
#pragma unroll
    for (int k = LANES / 2; k; k /= 2) {
        r.greatest = max(r.greatest, __shfl_xor_sync(~0u, r.greatest, k));
        r.least = min(r.least, __shfl_xor_sync(~0u, r.least, k));
    }
}
template <int LANES> GNF_DEV void gnf_lane_count(uint32_t &n)
{
#pragma unroll
    for (int k = LANES / 2; k; k /= 2)
        n += __shfl_xor_sync(~0u, n, k);
}
template <int WARPS> GNF_DEV void gnf_block_span(gnf_span &r, uint2 *scratch)
{
    gnf_lane_span<32>(r);
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = make_uint2(r.greatest, r.least);
    __syncthreads();
    const uint2 other = scratch[threadIdx.x % WARPS];
    r.greatest = other.x, r.least = other.y;
    gnf_lane_span<WARPS>(r);
}
// What the scaled row is found to hold as it is split: elements that count against it, and the sum of squares.
struct gnf_tally {
    uint32_t count;
    float squares;
};
template <int WARPS> GNF_DEV void gnf_block_tally(gnf_tally &t, uint2 *scratch)
{
    gnf_lane_count<32>(t.count);
    t.squares = gnf_lane_sum<32>(t.squares);
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = make_uint2(t.count, __float_as_uint(t.squares));
    __syncthreads();
    const uint2 other = scratch[threadIdx.x % WARPS];
    t.count = other.x, t.squares = gnf_lane_sum<WARPS>(__uint_as_float(other.y));
    gnf_lane_count<WARPS>(t.count);
}
struct gnf_row_scale {
    bool zero, flagged;
    uint32_t exponent, small; // of the maximum; what elements whose bits less 1 are below count against the row
};
// Flagged is what fp16 hi + lo cannot hold as well as fp32 does: not finite, a maximum outside 2^-80 to 2^80, one
// element below 2^-36 of it, or more than one in 64 below 2^-SMALL, which gnf_take_tally() adds: 28 where lo is scaled,
// 24 where it is not.
template <uint32_t SMALL> GNF_DEV gnf_row_scale gnf_judge_row(const gnf_span &span)
{
    gnf_row_scale s;
    s.zero = span.greatest == 0;
    s.exponent = span.greatest >> 23;
    s.small = span.greatest - (SMALL << 23) - 1;
    s.flagged = !s.zero && (span.greatest < (127u - 80) << 23 || span.greatest > (127u + 80) << 23 ||
                            span.least < span.greatest - (36u << 23) - 1);
    return s;
}
// Adds an element, by its bits, and scaled.
GNF_DEV void gnf_add_to_tally(gnf_tally &t, const gnf_row_scale &s, uint32_t bits, float scaled)
{
    t.count += (bits & 0x7fffffff) - 1 < s.small;
    t.squares = fmaf(scaled, scaled, t.squares);
}
GNF_DEV void gnf_take_tally(gnf_row_scale &s, const gnf_tally &t, long long inputs)
{
    // Of few products fp32 rounds less than the split loses.
    s.flagged = s.flagged || (!s.zero && (inputs < 32 || (long long)t.count * 64 > inputs));
}
// The maximum goes to [2^13, 2^14): its exponent, of 127 + e - 1, to 127 + 13.
GNF_DEV float gnf_scale_down(const gnf_row_scale &s)
{
    return s.zero ? 1.0f : __uint_as_float((127 + 127 + 13 - s.exponent) << 23);
}
// What undoes it; 0 says that the row is flagged.
GNF_DEV float gnf_scale_back(const gnf_row_scale &s)
{
    return s.flagged ? 0.0f : s.zero ? 1.0f : __uint_as_float((s.exponent - 13) << 23);
}
// What the guard against cancellation compares products with. A row of x stays scaled, so that none is out of range.
GNF_DEV float gnf_row_norm(const gnf_tally &t, long long inputs)
{
    return sqrtf(t.squares / (float)inputs);
}
GNF_DEV float gnf_column_norm(const gnf_row_scale &s, const gnf_tally &t)
{
    return sqrtf(t.squares) * gnf_scale_back(s);
}
