// V floats of the partial sums or of the scales.
template <bool ONCE, int V> GNF_DEV void gnf_load_floats(float (&v)[V], const float *p GNF_AT)
{
    constexpr int W = V < 4 ? V : 4;
    typedef typename gnf_word<W * 4>::type word;
#pragma unroll
    for (int j = 0; j < V; j += W) {
        uint32_t w[W];
        gnf_split(w, ONCE ? gnf_read_once((const word *)(p + j) GNF_HERE) : gnf_read((const word *)(p + j) GNF_HERE));
#pragma unroll
        for (int k = 0; k < W; k++)
            v[j + k] = __uint_as_float(w[k]);
    }
}
