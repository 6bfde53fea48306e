// Sums and statistics across lanes and threads, in one fixed order: the same bits from run to run.
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

// Count, mean and sum of squared deviations of some values less a pivot near their mean: means of a spread of 1 around
// 1e4 keep their digits.
struct gnf_moments {
    float n, mean, m2;
};
// Chan, Golub, LeVeque 1983: moments of two sets from those of each.
GNF_DEV void gnf_merge(gnf_moments &a, const gnf_moments &b)
{
    float n = a.n + b.n, share = n > 0.0f ? b.n / n : 0.0f, d = b.mean - a.mean;
    a.mean += d * share;
    a.m2 += b.m2 + d * d * a.n * share;
    a.n = n;
}
GNF_DEV gnf_moments gnf_warp_merge(const gnf_moments &a)
{
    gnf_moments r;
    r.n = gnf_lane_sum<32>(a.n);
    r.mean = gnf_lane_sum<32>(a.n * a.mean) / (r.n > 0.0f ? r.n : 1.0f);
    float d = a.mean - r.mean;
    r.m2 = gnf_lane_sum<32>(a.n > 0.0f ? a.m2 + a.n * d * d : 0.0f);
    return r;
}
// In every thread of the first warp. `scratch` holds WARPS moments.
template <int WARPS> GNF_DEV gnf_moments gnf_block_merge(const gnf_moments &a, gnf_moments *scratch)
{
    gnf_moments r = gnf_warp_merge(a);
    if (WARPS == 1)
        return r;
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = r;
    __syncthreads();
    if (threadIdx.x < 32) {
        gnf_moments none = {0.0f, 0.0f, 0.0f};
        r = gnf_warp_merge(threadIdx.x < WARPS ? scratch[threadIdx.x] : none);
    }
    return r;
}

// What normalising needs. The mean is mean + low, since one float has too few digits for a large mean.
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
