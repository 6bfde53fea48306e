// Sums across lanes and threads, in one fixed order: the same bits from run to run.
template <int LANES> GNF_DEV float gnf_lane_sum(float v)
{
#pragma unroll
    for (int k = LANES / 2; k; k /= 2)
        v += __shfl_xor_sync(~0u, v, k);
    return v;
}
// The sum over a block of WARPS warps, in every thread. `scratch` holds WARPS floats and must not be in use.
template <int WARPS> GNF_DEV float gnf_block_sum(float v, float *scratch)
{
    v = gnf_lane_sum<32>(v);
    if (WARPS == 1)
        return v;
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < WARPS ? scratch[threadIdx.x % 32] : 0.0f;
    return gnf_lane_sum<32>(v);
}

// What normalising needs. The mean is mean + low, since one float has too few digits for a large mean. Whatever takes a
// pivot or this mean away from a value does it with __fsub_rn: the value may be a product, and where one pass fuses the two
// and another does not, the passes differ by the product's rounding, which is 300 times as much in a constant group.
struct gnf_stat {
    float mean, low, rstd;
};
GNF_DEV gnf_stat gnf_make_stat(float pivot, float mean, float m2, float n, float eps)
{
    gnf_stat s;
    s.mean = pivot + mean; // Knuth's two-sum
    float part = s.mean - pivot;
    s.low = (pivot - (s.mean - part)) + (mean - part);
    s.rstd = 1.0f / sqrtf(m2 / n + eps);
    return s;
}
