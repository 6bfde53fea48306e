// Elements of f32.
typedef float gnf_element;
template <int V> GNF_DEV void gnf_decode(float (&v)[V], const uint32_t (&w)[V])
{
#pragma unroll
    for (int j = 0; j < V; j++)
        v[j] = __uint_as_float(w[j]);
}
template <int V> GNF_DEV void gnf_encode(uint32_t (&w)[V], const float (&v)[V])
{
#pragma unroll
    for (int j = 0; j < V; j++)
        w[j] = __float_as_uint(v[j]);
}
