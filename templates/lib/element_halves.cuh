// Two 16-bit elements lie in a 32-bit lane, or one where V is 1.
GNF_DEV void gnf_decode(float (&v)[1], const uint32_t (&w)[1])
{
    v[0] = gnf_unpack((uint16_t)w[0]);
}
GNF_DEV void gnf_encode(uint32_t (&w)[1], const float (&v)[1])
{
    w[0] = gnf_pack_one(v[0]);
}
template <int V> GNF_DEV void gnf_decode(float (&v)[V], const uint32_t (&w)[V / 2])
{
#pragma unroll
    for (int j = 0; j < V / 2; j++) {
        v[2 * j] = gnf_unpack((uint16_t)(w[j] & 0xffff));
        v[2 * j + 1] = gnf_unpack((uint16_t)(w[j] >> 16));
    }
}
template <int V> GNF_DEV void gnf_encode(uint32_t (&w)[V / 2], const float (&v)[V])
{
#pragma unroll
    for (int j = 0; j < V / 2; j++)
        w[j] = gnf_pack(v[2 * j], v[2 * j + 1]);
}
