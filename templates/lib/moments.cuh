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
    a.m2 += b.m2 + d * (d * (a.n * share)); // in this order d cannot overflow where a is empty
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
