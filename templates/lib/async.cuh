// Bulk copies into shared memory and the barriers in it that count arrivals and copied bytes (compute capability 9.0).
// Addresses are this block's own; a rank or a number of blocks names the same places in others of the cluster.
#ifdef GNF_SIM
GNF_DEV void gnf_mbarrier_init(uint64_t *barrier, int arrivals)
{
    simt_mbar_init(barrier, arrivals);
}
GNF_DEV void gnf_mbarrier_publish()
{
}
GNF_DEV void gnf_mbarrier_expect(uint64_t *barrier, int bytes, SIMT_AT)
{
    simt_mbar_arrive(barrier, 1, bytes, SIMT_HERE);
}
GNF_DEV void gnf_mbarrier_arrive_at(uint64_t *barrier, unsigned rank, SIMT_AT)
{
    simt_mbar_arrive((uint64_t *)simt_cluster_map(barrier, rank), 1, 0, SIMT_HERE);
}
GNF_DEV void gnf_mbarrier_wait(uint64_t *barrier, unsigned parity, SIMT_AT)
{
    simt_mbar_wait(barrier, (int)parity, SIMT_HERE);
}
GNF_DEV void gnf_bulk_copy(void *to, const void *from, int bytes, uint64_t *barrier, SIMT_AT)
{
    simt_async_copy(to, from, (unsigned)bytes, barrier, SIMT_HERE);
}
template <int BLOCKS> GNF_DEV void gnf_bulk_copy_to_all(void *to, const void *from, int bytes, uint64_t *barrier, SIMT_AT)
{
    for (unsigned rank = 0; rank < BLOCKS; rank++)
        simt_async_copy(simt_cluster_map(to, rank), from, (unsigned)bytes, (uint64_t *)simt_cluster_map(barrier, rank), SIMT_HERE);
}
#else
GNF_DEV uint32_t gnf_shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
GNF_DEV void gnf_mbarrier_init(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0],%1;" ::"r"(gnf_shared_address(barrier)), "r"(arrivals) : "memory");
}
// For other blocks and for copies, after the inits and before a barrier of the cluster.
GNF_DEV void gnf_mbarrier_publish()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and announces bytes.
GNF_DEV void gnf_mbarrier_expect(uint64_t *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(gnf_shared_address(barrier)), "r"(bytes) : "memory");
}
GNF_DEV void gnf_mbarrier_arrive_at(uint64_t *barrier, unsigned rank)
{
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there,%0,%1; mbarrier.arrive.shared::cluster.b64 _,[there];}" ::"r"(
                     gnf_shared_address(barrier)),
                 "r"(rank)
                 : "memory");
}
// Until the phase of that parity has ended: the first is 0, and before it, that of 1 has. Far beyond any honest wait the
// kernel fails, as a device that hangs serves nobody.
GNF_DEV void gnf_mbarrier_wait(uint64_t *barrier, unsigned parity)
{
    const uint32_t address = gnf_shared_address(barrier);
    for (uint32_t polls = 0;; polls++) {
        uint32_t done;
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p,[%1],%2; selp.b32 %0,1,0,p;}"
                     : "=r"(done)
                     : "r"(address), "r"(parity)
                     : "memory");
        if (done)
            return;
        if (polls > 1u << 21)
            __trap();
    }
}
// 16-byte multiples from global to shared memory; the bytes are counted on the barrier when they have arrived.
GNF_DEV void gnf_bulk_copy(void *to, const void *from, int bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(gnf_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(gnf_shared_address(barrier))
                 : "memory");
}
// To the first BLOCKS blocks of the cluster, each of which counts on its own barrier.
template <int BLOCKS> GNF_DEV void gnf_bulk_copy_to_all(void *to, const void *from, int bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0],[%1],%2,[%3],%4;" ::"r"(
                     gnf_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(gnf_shared_address(barrier)), "h"((uint16_t)((1 << BLOCKS) - 1))
                 : "memory");
}
#endif
