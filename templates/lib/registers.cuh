// A group held in registers by LANES threads: read once, written once. LANES is at most 32 (threads side by side in a
// warp) or the whole block. An inactive group takes part in the sums and touches no memory.
template <int LANES> GNF_DEV float gnf_team_sum(float v, float *scratch)
{
    if constexpr (LANES <= 32)
        return gnf_lane_sum<LANES>(v);
    else
        return gnf_block_sum<LANES / 32>(v, scratch);
}
template <int LANES, int V, int ITEMS, int VECTORS, int EPS>
GNF_DEV void gnf_in_registers(const gnf_kernel_args &a, long long unit, int lane, bool active, float *scratch)
{
    const long long sample = unit / gnf_groups(a);
    const gnf_index group = (gnf_index)(unit - sample * gnf_groups(a));
    const gnf_element *x = (const gnf_element *)a.x;
    gnf_element *y = (gnf_element *)a.y;
    float v[ITEMS][V], t[V], pivot = 0.0f, sum = 0.0f, squares = 0.0f;
    if (LANES > 32)
        pivot = gnf_pivot(a, sample, group, 0);
    // Where LANES divides the vectors every lane is full and the compiler drops the test.
    auto mine = [&](int k) { return active && (k * LANES + LANES <= VECTORS || k * LANES + lane < VECTORS); };
    auto place = [&](int k) { return gnf_locate(a, sample, group, (gnf_index)(k * LANES + lane) * V); };
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        if (mine(k))
            gnf_load_once(v[k], x + place(k).at);
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        if (mine(k))
            gnf_hold(a, place(k), v[k]);
    if (LANES <= 32) { // from the register: with y = x a lane that is done may have overwritten the group's first element
        t[0] = 0.0f;
        if (mine(0)) {
            gnf_copy(t, v[0]);
            gnf_value(a, place(0), t);
        }
        pivot = __shfl_sync(~0u, t[0], 0, LANES);
    }
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        if (mine(k)) {
            gnf_copy(t, v[k]);
            gnf_value(a, place(k), t);
            float part = __fsub_rn(t[0], pivot);
#pragma unroll
            for (int j = 1; j < V; j++)
                part += __fsub_rn(t[j], pivot);
            sum += part;
        }
    const float size = (float)gnf_group_size(a), mean = gnf_team_sum<LANES>(sum, scratch) / size;
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        if (mine(k)) {
            gnf_copy(t, v[k]);
            gnf_value(a, place(k), t);
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float d = __fsub_rn(t[j], pivot) - mean;
                squares = fmaf(d, d, squares);
            }
        }
    // The second half of the scratch: the first may still be read.
    const float m2 = gnf_team_sum<LANES>(squares, scratch + 32);
    const gnf_stat s = gnf_make_stat(pivot, mean, m2, size, a.scalar[EPS]);
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        if (mine(k)) {
            gnf_finish(a, place(k), s, v[k]);
            gnf_store(y + place(k).at, v[k]);
        }
}
