// CPU twins of building blocks for the engine's own tests. No include guard: each kernel has its own
// namespace.
#define HERE SIMT_AT
static unsigned char *shared()
{
    return simt_self->block->shared;
}
static unsigned cluster_rank()
{
    return simt_self->block->rank;
}
static void bar_sync(int id, int count, HERE)
{
    simt_barrier(id, count, SIMT_HERE);
}
static void cluster_sync(HERE)
{
    simt_cluster_arrive(SIMT_HERE);
    simt_cluster_wait(SIMT_HERE);
}
template <class T> static T *cluster_map(T *p, unsigned rank)
{
    return (T *)simt_cluster_map(p, rank);
}
static void mbar_init(uint64_t *b, int n)
{
    simt_mbar_init(b, n);
}
static void mbar_arrive(uint64_t *b, HERE)
{
    simt_mbar_arrive(b, 1, 0, SIMT_HERE);
}
static void mbar_expect(uint64_t *b, int bytes, HERE)
{
    simt_mbar_arrive(b, 1, bytes, SIMT_HERE);
}
static void mbar_wait(uint64_t *b, int parity, HERE)
{
    simt_mbar_wait(b, parity, SIMT_HERE);
}
static void bulk_load(void *to, const void *from, int bytes, uint64_t *b, HERE)
{
    simt_async_copy(to, from, (unsigned)bytes, b, SIMT_HERE);
}
// `to` and `b` are this block's own addresses; the store goes to the same places in block `rank`.
static void cluster_store(float4 *to, uint64_t *b, unsigned rank, float4 v, HERE)
{
    simt_async_store(simt_cluster_map(to, rank), &v, 16, (uint64_t *)simt_cluster_map(b, rank), SIMT_HERE);
}
static void wait_for_previous(HERE)
{
    simt_wait_for_previous(SIMT_HERE);
}
static unsigned load_acquire(const unsigned *p, HERE)
{
    unsigned v = __atomic_load_n(p, __ATOMIC_ACQUIRE);
    simt_poll(p, v, SIMT_HERE);
    return v;
}
static void store_release(unsigned *p, unsigned v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
