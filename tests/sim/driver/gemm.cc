// Products in tiles: both operands of a tile are packed as floats, so that a few rows times a few columns run
// from registers.
#include "gemm.h"
#include "../engine/engine.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sim
{
namespace
{
// TILE: rows and columns of d, DEPTH: of k, that are packed at a time; M, N: of a step in registers.
enum { TILE = 128, DEPTH = 256, M = 4, N = 16 };

float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
float of_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = (uint32_t)(h & 0x7fff) << 13;
    if (magnitude >= 0x0f800000) // infinities and NaN
        return of_bits(sign | magnitude | 0x7f800000);
    return of_bits(sign | bits_of(of_bits(magnitude) * 0x1p112f)); // denormals too
}
template <Element E> float load(const void *p, int64_t i)
{
    if constexpr (E == Element::F16)
        return of_half(((const uint16_t *)p)[i]);
    else if constexpr (E == Element::BF16)
        return of_bits((uint32_t)((const uint16_t *)p)[i] << 16);
    else if constexpr (E == Element::TF32)
        return to_tf32(((const float *)p)[i]);
    else
        return ((const float *)p)[i];
}

// Packs `lines` lines of `depth` elements for steps of WIDTH lines: element i of line l is at
// to[l / WIDTH][i][l % WIDTH], zeros where there is no such line.
template <Element E, int WIDTH>
void pack_as(const void *p, int64_t line, int64_t along, int lines, int depth, float *to)
{
    for (int l0 = 0; l0 < lines; l0 += WIDTH, to += depth * WIDTH)
        for (int l = 0; l < WIDTH; l++)
            for (int i = 0; i < depth; i++)
                to[i * WIDTH + l] = l0 + l < lines ? load<E>(p, (l0 + l) * line + i * along) : 0;
}
// `line`, `along`: elements from a line of op(x) that d's rows or columns come from to the next one, and
// along k.
template <int WIDTH>
void pack(const Matrix &x, const void *p, int64_t line, int64_t along, int64_t l0, int64_t k0, int lines,
          int depth, float *to)
{
    const void *from = (const char *)p + (size_t)(l0 * line + k0 * along) * x.element_size();
    switch (x.element) {
    case Element::F32:
        return pack_as<Element::F32, WIDTH>(from, line, along, lines, depth, to);
    case Element::F16:
        return pack_as<Element::F16, WIDTH>(from, line, along, lines, depth, to);
    case Element::BF16:
        return pack_as<Element::BF16, WIDTH>(from, line, along, lines, depth, to);
    case Element::TF32:
        return pack_as<Element::TF32, WIDTH>(from, line, along, lines, depth, to);
    }
}

// sum[i * TILE + j] goes on over `depth` of k.
typedef void Step(const float *a, const float *b, int depth, float *sum);
void step_anywhere(const float *a, const float *b, int depth, float *sum)
{
    for (int k = 0; k < depth; k++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++)
                sum[i * TILE + j] = std::fmaf(a[k * M + i], b[k * N + j], sum[i * TILE + j]);
}
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void step_fma(const float *a, const float *b, int depth, float *sum)
{
    __m256 s[M][2];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < 2; j++)
            s[i][j] = _mm256_loadu_ps(sum + i * TILE + j * 8);
    for (int k = 0; k < depth; k++) {
        __m256 b0 = _mm256_loadu_ps(b + k * N), b1 = _mm256_loadu_ps(b + k * N + 8);
#pragma GCC unroll 4
        for (int i = 0; i < M; i++) {
            __m256 ai = _mm256_broadcast_ss(a + k * M + i);
            s[i][0] = _mm256_fmadd_ps(ai, b0, s[i][0]);
            s[i][1] = _mm256_fmadd_ps(ai, b1, s[i][1]);
        }
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < 2; j++)
            _mm256_storeu_ps(sum + i * TILE + j * 8, s[i][j]);
}
#endif
Step *best_step()
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return step_fma;
#endif
    return step_anywhere;
}

struct Room { // of one thread
    std::vector<float> a = std::vector<float>(TILE * DEPTH), b = a, sum = std::vector<float>(TILE * TILE);
};
void tile(const Gemm &g, const void *a, const void *b, float *d, int64_t m0, int64_t n0, Step *step,
          Room &room)
{
    int rows = (int)std::min<int64_t>(TILE, g.m - m0), cols = (int)std::min<int64_t>(TILE, g.n - n0);
    std::fill(room.sum.begin(), room.sum.end(), 0.0f);
    for (int64_t k0 = 0; k0 < g.k; k0 += DEPTH) {
        int depth = (int)std::min<int64_t>(DEPTH, g.k - k0);
        int64_t a_line = g.a.transposed ? g.a.ld : 1, b_line = g.b.transposed ? 1 : g.b.ld;
        pack<M>(g.a, a, a_line, g.a.ld + 1 - a_line, m0, k0, rows, depth, room.a.data());
        pack<N>(g.b, b, b_line, g.b.ld + 1 - b_line, n0, k0, cols, depth, room.b.data());
        for (int i = 0; i < rows; i += M)
            for (int j = 0; j < cols; j += N)
                step(&room.a[(size_t)(i * depth)], &room.b[(size_t)(j * depth)], depth,
                     &room.sum[(size_t)(i * TILE + j)]);
    }
    for (int j = 0; j < cols; j++)
        for (int i = 0; i < rows; i++) {
            float v = g.alpha * room.sum[(size_t)(i * TILE + j)], *to = d + (n0 + j) * g.d.ld + m0 + i;
            *to = g.beta != 0 ? std::fmaf(g.beta, *to, v) : v;
        }
}
} // namespace

float to_tf32(float v)
{
    uint32_t u = bits_of(v);
    if ((u & 0x7f800000) == 0x7f800000)
        return v;
    return of_bits((u + 0xfff + (u >> 13 & 1)) & ~0x1fffu);
}

void gemm(const Gemm &g, const void *a, const void *b, float *d)
{
    static Step *const step = best_step();
    const int64_t down = (g.m + TILE - 1) / TILE, across = (g.n + TILE - 1) / TILE,
                  tiles = down * across * g.batch;
    std::atomic<int64_t> next{0};
    auto work = [&] {
        Room room;
        for (int64_t t; (t = next++) < tiles;) {
            int64_t i = t / (down * across);
            tile(g, (const char *)a + (size_t)(i * g.a.stride) * g.a.element_size(),
                 (const char *)b + (size_t)(i * g.b.stride) * g.b.element_size(), d + i * g.d.stride,
                 t % down * TILE, t / down % across * TILE, step, room);
        }
    };
    const double ENOUGH = 1e7; // multiply-adds that are worth a thread
    int64_t most = std::max(1l, env_number("CUDASIM_THREADS", (long)std::thread::hardware_concurrency()));
    most = std::min(most, tiles);
    most = (int64_t)std::min((double)most,
                             1 + (double)g.m * (double)g.n * (double)g.k * (double)g.batch / ENOUGH);
    std::vector<std::thread> others;
    for (int64_t i = 1; i < most; i++)
        others.emplace_back(work);
    work();
    for (std::thread &t : others)
        t.join();
}
} // namespace sim
