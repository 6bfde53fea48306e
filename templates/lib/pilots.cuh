// What conv2d_wgmma's statistics leave its other kernel, behind gnf_stats(): what the convolution's output has of pilots
// and bias, [samples, OUT], as a float and what that leaves; and the pilots, [samples, 8], which are taken from x.
GNF_DEV float2 *gnf_offsets(const gnf_kernel_args &a)
{
    return (float2 *)(gnf_stats(a) + a.samples * gnf_groups(a));
}
GNF_DEV float *gnf_pilots(const gnf_kernel_args &a)
{
    return (float *)(gnf_offsets(a) + a.samples * gnf_groups(a) * gnf_group_channels(a));
}
