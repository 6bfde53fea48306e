// Warpgroups of one block with work of their own: barriers among some of a block's threads, named 1 to 15,
// and what makes shared memory written by threads good for wgmma and bulk copies (compute capability 9.0).
#ifdef GNF_SIM
GNF_DEV void gnf_barrier_sync(int name, int threads, SIMT_AT)
{
    simt_barrier(name, threads, SIMT_HERE);
}
GNF_DEV void gnf_barrier_arrive(int name, int threads, SIMT_AT)
{
    simt_barrier_arrive(name, threads, SIMT_HERE);
}
GNF_DEV void gnf_publish_to_tensor_cores()
{
    simt_publish_shared();
}
#else
// Waits until that many threads, this one among them, have come here or to gnf_barrier_arrive().
GNF_DEV void gnf_barrier_sync(int name, int threads)
{
    asm volatile("bar.sync %0,%1;" ::"r"(name), "r"(threads) : "memory");
}
// Counts for those who wait, without waiting.
GNF_DEV void gnf_barrier_arrive(int name, int threads)
{
    asm volatile("bar.arrive %0,%1;" ::"r"(name), "r"(threads) : "memory");
}
// By each thread that wrote to shared memory what wgmma or a bulk copy reads, before it tells of it.
GNF_DEV void gnf_publish_to_tensor_cores()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif
