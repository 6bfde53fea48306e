// Matrix products on the CPU, as cuBLASLt makes them on a GPU.
#pragma once
#include <cstddef>
#include <cstdint>

namespace sim
{
enum class Element { F32, F16, BF16, TF32 }; // TF32: floats in memory, rounded when they are read

// A column-major matrix in memory, one of `batch` that are `stride` elements apart.
struct Matrix {
    Element element;
    bool transposed; // op(X) is what the product sees
    int64_t rows, cols, ld, stride;

    size_t element_size() const { return element == Element::F16 || element == Element::BF16 ? 2 : 4; }
    // From the first element to behind the last one, of all the batch.
    size_t bytes(int64_t batch) const
    {
        return (size_t)((batch - 1) * stride + (cols - 1) * ld + rows) * element_size();
    }
};
struct Gemm {
    Matrix a, b, d; // op(a) is m x k, op(b) k x n, d m x n and not transposed
    int64_t m, n, k, batch;
    float alpha, beta;
};

// d = alpha * op(a) * op(b) + beta * d. Each sum is a chain of fmaf in the order of k, whatever the machine
// and the number of threads. With beta 0, d is not read.
void gemm(const Gemm &g, const void *a, const void *b, float *d);

// The nearest TF32 number, of two the one that is even.
float to_tf32(float v);
} // namespace sim
