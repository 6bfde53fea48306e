// Thread-block clusters (compute capability 9.0): rank, barrier, and a pointer into another block's shared memory, on which
// plain loads and stores work between the barriers. A block must be known to have started before it is written to,
// and must not have exited: both are what the barriers are for.
#ifdef GNF_SIM
GNF_DEV unsigned gnf_cluster_rank()
{
    return simt_self->block->rank;
}
GNF_DEV void gnf_cluster_arrive(SIMT_AT)
{
    simt_cluster_arrive(SIMT_HERE);
}
GNF_DEV void gnf_cluster_wait(SIMT_AT)
{
    simt_cluster_wait(SIMT_HERE);
}
template <class T> GNF_DEV T *gnf_cluster_map(T *p, unsigned rank)
{
    return (T *)simt_cluster_map(p, rank);
}
#else
GNF_DEV unsigned gnf_cluster_rank()
{
    unsigned rank;
    asm volatile("mov.u32 %0,%%cluster_ctarank;" : "=r"(rank));
    return rank;
}
GNF_DEV void gnf_cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
GNF_DEV void gnf_cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
template <class T> GNF_DEV T *gnf_cluster_map(T *p, unsigned rank)
{
    uint64_t there;
    asm("mapa.u64 %0,%1,%2;" : "=l"(there) : "l"(p), "r"(rank));
    return (T *)there;
}
#endif
