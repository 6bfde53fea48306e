// Included before each kernel source by the host compiler: CUDA's words in terms of a dozen engine calls.
// The subset: no __shared__ or __constant__ variables, no inline PTX, no bare spins. Do not define
// __noinline__ here: the C++ library uses that word.
#pragma once
#include "simt_abi.h"
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <math.h>
#include <type_traits>
#include <utility>

#define GNF_SIM 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __shared__   static_assert(false, "no __shared__ variables: take memory from gnf_shared()");
#define __constant__ static_assert(false, "no __constant__ variables: pass kernel arguments");

// Last parameters of a building block, so that a report names the line of its caller.
#define SIMT_AT   int line = __builtin_LINE(), const char *file = __builtin_FILE()
#define SIMT_HERE line, file
// For code that touches other lanes' arguments: the engine's data, not the kernel's.
#define SIMT_UNCHECKED __attribute__((no_sanitize("thread")))

// ---- vector types
// clang-format off
struct alignas(2) uchar2 { unsigned char x, y; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(4) ushort2 { unsigned short x, y; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) longlong2 { long long x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
struct alignas(8) float2 { float x, y; };
struct float3 { float x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };

inline ushort2 make_ushort2(unsigned short x, unsigned short y) { return {x, y}; }
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w)
{ return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
// clang-format on

// ---- where a thread is
#define threadIdx (simt_self->tid)
#define blockIdx  (simt_self->block->bid)
#define blockDim  (simt_self->block->bdim)
#define gridDim   (simt_self->block->gdim)
static const int warpSize = 32;

// ---- barriers
inline void __syncthreads(SIMT_AT)
{
    simt_barrier(0, 0, SIMT_HERE);
}
inline void __syncwarp(unsigned mask = ~0u, SIMT_AT)
{
    simt_warp(mask, nullptr, nullptr, "__syncwarp", SIMT_HERE);
}
inline void __threadfence_block() {}
inline void __threadfence()
{
#ifndef __SANITIZE_THREAD__ // ThreadSanitizer knows no fences: the atomics below order instead
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
inline void __nanosleep(unsigned, SIMT_AT)
{
    simt_poll(nullptr, 0, SIMT_HERE);
}
inline void __trap(SIMT_AT)
{
    simt_fault(719, "__trap", SIMT_HERE);
}

// ---- warp collectives: each lane's argument lies on its own stack
template <class T> struct simt_shuffle_argument {
    T value, result;
    int source;
};
template <class T> SIMT_UNCHECKED void simt_shuffle_all(unsigned mask, void *const *args)
{
    for (unsigned m = mask; m; m &= m - 1) {
        auto *p = (simt_shuffle_argument<T> *)args[__builtin_ctz(m)];
        // a lane outside the mask gives an undefined value in CUDA: here a NaN or a large number
        if (mask >> p->source & 1)
            p->result = ((simt_shuffle_argument<T> *)args[p->source])->value;
        else
            memset((void *)&p->result, 0xff, sizeof p->result);
    }
}
template <class T>
T simt_shuffle(unsigned mask, T value, int source, const char *what, int line, const char *file)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    simt_shuffle_argument<T> a{value, value, source};
    simt_warp(mask, simt_shuffle_all<T>, &a, what, line, file);
    return a.result;
}
template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_AT)
{
    int lane = simt_self->lane;
    return simt_shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), "__shfl_sync",
                        SIMT_HERE);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int x, int width = 32, SIMT_AT)
{
    int lane = simt_self->lane, source = lane ^ x;
    return simt_shuffle(mask, value, source <= (lane | (width - 1)) ? source : lane, "__shfl_xor_sync",
                        SIMT_HERE);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_AT)
{
    int lane = simt_self->lane, source = lane + (int)delta;
    return simt_shuffle(mask, value, source <= (lane | (width - 1)) ? source : lane, "__shfl_down_sync",
                        SIMT_HERE);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_AT)
{
    int lane = simt_self->lane, source = lane - (int)delta;
    return simt_shuffle(mask, value, source >= (lane & ~(width - 1)) ? source : lane, "__shfl_up_sync",
                        SIMT_HERE);
}

struct simt_vote_argument {
    int predicate;
    unsigned result;
};
SIMT_UNCHECKED inline void simt_ballot_all(unsigned mask, void *const *args)
{
    unsigned r = 0;
    for (unsigned m = mask; m; m &= m - 1)
        r |= (unsigned)(((simt_vote_argument *)args[__builtin_ctz(m)])->predicate != 0) << __builtin_ctz(m);
    for (unsigned m = mask; m; m &= m - 1)
        ((simt_vote_argument *)args[__builtin_ctz(m)])->result = r;
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_AT)
{
    simt_vote_argument a{predicate, 0};
    simt_warp(mask, simt_ballot_all, &a, "vote", SIMT_HERE);
    return a.result;
}
inline int __any_sync(unsigned mask, int predicate, SIMT_AT)
{
    return __ballot_sync(mask, predicate, SIMT_HERE) != 0;
}
inline int __all_sync(unsigned mask, int predicate, SIMT_AT)
{
    return __ballot_sync(mask, predicate, SIMT_HERE) == mask;
}

// ---- whole numbers
template <class A, class B> inline typename std::common_type<A, B>::type max(A a, B b)
{
    typedef typename std::common_type<A, B>::type T;
    if constexpr (std::is_floating_point<T>::value)
        return std::fmax((T)a, (T)b);
    else
        return (T)a > (T)b ? (T)a : (T)b;
}
template <class A, class B> inline typename std::common_type<A, B>::type min(A a, B b)
{
    typedef typename std::common_type<A, B>::type T;
    if constexpr (std::is_floating_point<T>::value)
        return std::fmin((T)a, (T)b);
    else
        return (T)a < (T)b ? (T)a : (T)b;
}
// clang-format off
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{ __extension__ typedef unsigned __int128 wide; return (unsigned long long)((wide)a * b >> 64); }

// ---- floating point; the approximate functions are exact here unless templates/lib says otherwise
inline unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
inline int __float_as_int(float f) { int i; memcpy(&i, &f, 4); return i; }
inline float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1.0f : 0.0f; }
using std::fabs; using std::fma; using std::isfinite; using std::isinf; using std::isnan;

// ---- cached loads and stores
template <class T> inline T __ldg(const T *p) { return *p; }
template <class T> inline T __ldcs(const T *p) { return *p; }
template <class T> inline T __ldcg(const T *p) { return *p; }
template <class T, class U> inline void __stcs(T *p, U v) { *p = v; }
template <class T, class U> inline void __stcg(T *p, U v) { *p = v; }
// clang-format on

// ---- atomics: acq_rel rather than relaxed, as kernels order them with __threadfence (see there)
template <class T> inline T simt_atomic_update(T *p, T (*step)(T, T), T v)
{
    T was, next;
    __atomic_load(p, &was, __ATOMIC_ACQUIRE);
    do
        next = step(was, v);
    while (!__atomic_compare_exchange(p, &was, &next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return was;
}
template <class T, class U> inline T atomicAdd(T *p, U v)
{
    return simt_atomic_update<T>(
        p, [](T a, T b) { return (T)(a + b); }, (T)v);
}
template <class T, class U> inline T atomicMax(T *p, U v)
{
    return simt_atomic_update<T>(
        p, [](T a, T b) { return a > b ? a : b; }, (T)v);
}
template <class T, class U> inline T atomicMin(T *p, U v)
{
    return simt_atomic_update<T>(
        p, [](T a, T b) { return a < b ? a : b; }, (T)v);
}
template <class T, class U> inline T atomicExch(T *p, U v)
{
    return simt_atomic_update<T>(
        p, [](T, T b) { return b; }, (T)v);
}
template <class T> inline T atomicCAS(T *p, T expected, T v)
{
    __atomic_compare_exchange(p, &expected, &v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
}

// ---- the bridge from the driver's void ** to a typed call
template <class F> struct simt_bridge;
template <class... A> struct simt_bridge<void (*)(A...)> {
    template <void (*F)(A...), size_t... I> static void go(void **params, std::index_sequence<I...>)
    {
        F(*(typename std::remove_reference<A>::type *)params[I]...);
    }
    template <void (*F)(A...)> static void call(void **params)
    {
        go<F>(params, std::index_sequence_for<A...>());
    }
    static constexpr unsigned sizes[sizeof...(A) + 1] = {(unsigned)sizeof(A)..., 0};
    static constexpr unsigned count = sizeof...(A);
};
// `function` is the kernel, `name` its entry name. The zero-initialised struct in between keeps C linkage.
#define SIMT_ENTRY(name, function)                                                                           \
    extern "C" __attribute__((visibility("default"))) const simt_entry simt_entry_##name;                    \
    const simt_entry simt_entry_##name = {simt_bridge<decltype(&function)>::call<function>,                  \
                                          simt_bridge<decltype(&function)>::sizes,                           \
                                          simt_bridge<decltype(&function)>::count};
