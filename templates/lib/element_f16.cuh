// Elements of f16, as bits: without CUDA's headers a source needs no include path.
typedef uint16_t gnf_element;
