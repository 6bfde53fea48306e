// What the kernels of a split strategy leave each other in the workspace: first a partial result a chunk, {count, mean
// less the chunk's pivot, sum of squared deviations, pivot}, then what normalising needs a group, {mean, low, rstd, 0}.
GNF_DEV float4 *gnf_partials(const gnf_kernel_args &a)
{
    return (float4 *)a.workspace;
}
GNF_DEV float4 *gnf_stats(const gnf_kernel_args &a)
{
    return (float4 *)a.workspace + a.samples * gnf_groups(a) * a.chunks;
}
GNF_DEV gnf_stat gnf_group_stat(const gnf_kernel_args &a, long long unit)
{
    const float4 f = gnf_read(gnf_stats(a) + unit);
    gnf_stat s = {f.x, f.y, f.z};
    return s;
}
// The share of one of `parts` in `vectors`.
struct gnf_range {
    gnf_index begin, end;
};
GNF_DEV gnf_range gnf_share(gnf_index vectors, gnf_index parts, gnf_index part)
{
    const gnf_index length = gnf_divide(vectors + parts - 1, parts);
    gnf_range r = {part * length, (part + 1) * length};
    if (r.begin > vectors)
        r.begin = vectors;
    if (r.end > vectors)
        r.end = vectors;
    return r;
}
// The first value of a chunk that starts `inside` elements into a group; a chunk may be empty.
GNF_DEV float gnf_chunk_pivot(const gnf_kernel_args &a, long long sample, gnf_index group, gnf_index inside)
{
    return inside < gnf_group_size(a) ? gnf_pivot(a, sample, group, inside) : 0.0f;
}
