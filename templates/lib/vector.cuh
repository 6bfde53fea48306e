// V elements in one access, as floats in registers.
template <int V> struct gnf_vector {
    typedef typename gnf_word<V * sizeof(gnf_element)>::type word;
    enum { LANES = V * sizeof(gnf_element) < 4 ? 1 : V * sizeof(gnf_element) / 4 };
};
template <int V> GNF_DEV void gnf_from_word(float (&v)[V], typename gnf_vector<V>::word word)
{
    uint32_t w[gnf_vector<V>::LANES];
    gnf_split(w, word);
    gnf_decode(v, w);
}
template <int V> GNF_DEV void gnf_load(float (&v)[V], const gnf_element *p GNF_AT)
{
    gnf_from_word(v, gnf_read((const typename gnf_vector<V>::word *)p GNF_HERE));
}
template <int V> GNF_DEV void gnf_load_once(float (&v)[V], const gnf_element *p GNF_AT)
{
    gnf_from_word(v, gnf_read_once((const typename gnf_vector<V>::word *)p GNF_HERE));
}
template <int V> GNF_DEV void gnf_store(gnf_element *p, const float (&v)[V] GNF_AT)
{
    uint32_t w[gnf_vector<V>::LANES];
    typename gnf_vector<V>::word word;
    gnf_encode(w, v);
    gnf_join(word, w);
    gnf_write((typename gnf_vector<V>::word *)p, word GNF_HERE);
}
template <int V> GNF_DEV void gnf_copy(float (&to)[V], const float (&from)[V])
{
#pragma unroll
    for (int j = 0; j < V; j++)
        to[j] = from[j];
}
