// Rows of x and of weight. Where rows start at multiples of a vector it is one access, else one a element: the same
// elements for the same thread, so that what is done with them does not depend on it.
template <int V> GNF_DEV bool gnf_rows_aligned(const void *p, long long inputs)
{
    return (uint64_t)p % (V * sizeof(gnf_element)) == 0 && inputs % V == 0;
}
GNF_DEV uint32_t gnf_bits(float f)
{
    return __float_as_uint(f);
}
GNF_DEV uint32_t gnf_bits(uint16_t h)
{
    return h;
}
// How many elements of a row there are from k on, at most 2^30.
GNF_DEV int gnf_left(long long inputs, long long k)
{
    return (int)min(inputs - k, 1ll << 30);
}
// The V elements at p as the word that holds them; zeros from the `count`th on.
template <int V> GNF_DEV typename gnf_vector<V>::word gnf_gather(const gnf_element *p, int count)
{
    uint32_t w[gnf_vector<V>::LANES] = {};
#pragma unroll
    for (int j = 0; j < V; j++)
        if (j < count)
            w[j * sizeof(gnf_element) / 4] |= gnf_bits(p[j]) << (j * sizeof(gnf_element) * 8 % 32);
    typename gnf_vector<V>::word word;
    gnf_join(word, w);
    return word;
}
// ITEMS vectors at p, p + step, ...; zeros from element `count` on. ONCE where nobody reads them again.
template <bool ONCE, int V, int ITEMS>
GNF_DEV void gnf_load_row(typename gnf_vector<V>::word (&w)[ITEMS], const gnf_element *p, int step, int count,
                          bool aligned GNF_AT)
{
    typedef typename gnf_vector<V>::word word;
    if (aligned) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            w[i] = word();
            if (i * step < count) {
                const word *from = (const word *)(p + i * step);
                w[i] = ONCE ? gnf_read_once(from GNF_HERE) : gnf_read(from GNF_HERE);
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            w[i] = gnf_gather<V>(p + i * step, count - i * step);
    }
}
// The value as one that the compiler knows nothing about: what is quickly made from it again does not stay in registers all
// through a loop.
GNF_DEV int gnf_anew(int v)
{
#ifndef GNF_SIM
    asm volatile("" : "+r"(v));
#endif
    return v;
}
