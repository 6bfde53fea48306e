// What every kernel stands on: fixed-width types, the shared arena, loads and stores of 1 to 8 elements.
// A block of this folder that needs more than plain CUDA C has its CPU twin beside it, under GNF_SIM.
#ifdef GNF_SIM
#define GNF_DEV static inline
#define GNF_AT , SIMT_AT
#define GNF_HERE , SIMT_HERE
#else
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define GNF_DEV __device__ __forceinline__
#define GNF_AT
#define GNF_HERE
#endif

// The one dynamic arena; a kernel lays its tables out in it by hand.
#ifdef GNF_SIM
GNF_DEV unsigned char *gnf_shared()
{
    return simt_self->block->shared;
}
#else
GNF_DEV unsigned char *gnf_shared()
{
    extern __shared__ __align__(1024) unsigned char gnf_shared_arena[];
    return gnf_shared_arena;
}
#endif

// One access of 2, 4, 8 or 16 bytes. The twin checks the alignment, which a CPU would forgive.
#ifdef GNF_SIM
template <class W> GNF_DEV void gnf_aligned(const W *p, SIMT_AT)
{
    if ((uintptr_t)p % sizeof(W))
        simt_fault(716, "misaligned vector access", SIMT_HERE);
}
#else
template <class W> GNF_DEV void gnf_aligned(const W *)
{
}
#endif
template <class W> GNF_DEV W gnf_read(const W *p GNF_AT)
{
    gnf_aligned(p GNF_HERE);
    return *p;
}
// For data that nobody reads again: it leaves the caches first.
template <class W> GNF_DEV W gnf_read_once(const W *p GNF_AT)
{
    gnf_aligned(p GNF_HERE);
    return __ldcs(p);
}
template <class W> GNF_DEV void gnf_write(W *p, W v GNF_AT)
{
    gnf_aligned(p GNF_HERE);
    __stcs(p, v);
}

GNF_DEV float gnf_infinity()
{
    return __uint_as_float(0x7f800000u);
}

template <int BYTES> struct gnf_word;
template <> struct gnf_word<2> {
    typedef uint16_t type;
};
template <> struct gnf_word<4> {
    typedef uint32_t type;
};
template <> struct gnf_word<8> {
    typedef uint2 type;
};
template <> struct gnf_word<16> {
    typedef uint4 type;
};
// A word as up to four 32-bit lanes, which is how elements are taken out of it and put in.
GNF_DEV void gnf_split(uint32_t (&w)[1], uint16_t v)
{
    w[0] = v;
}
GNF_DEV void gnf_split(uint32_t (&w)[1], uint32_t v)
{
    w[0] = v;
}
GNF_DEV void gnf_split(uint32_t (&w)[2], uint2 v)
{
    w[0] = v.x, w[1] = v.y;
}
GNF_DEV void gnf_split(uint32_t (&w)[4], uint4 v)
{
    w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
}
GNF_DEV void gnf_join(uint16_t &v, const uint32_t (&w)[1])
{
    v = (uint16_t)w[0];
}
GNF_DEV void gnf_join(uint32_t &v, const uint32_t (&w)[1])
{
    v = w[0];
}
GNF_DEV void gnf_join(uint2 &v, const uint32_t (&w)[2])
{
    v = make_uint2(w[0], w[1]);
}
GNF_DEV void gnf_join(uint4 &v, const uint32_t (&w)[4])
{
    v = make_uint4(w[0], w[1], w[2], w[3]);
}
