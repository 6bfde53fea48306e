// One wrong program for each kind: the simulator must catch it; those named RIGHT are the next one's correct form. p has n floats, q is scratch; 256 threads.
#include "../../../templates/lib/base.cuh"
#include "../../../templates/lib/f16.cuh"
#include "../../../templates/lib/tiles.cuh"
#include "../../../templates/lib/wgmma.cuh"
#include "../../../templates/lib/wgmma_pixels.cuh"
#include "../../../templates/lib/warpgroup.cuh"
#include "../../../templates/lib/words.cuh"
#include "blocks.h"

enum {
    PAST_THE_END,
    BEFORE_THE_START,
    MISALIGNED,
    PAST_THE_ARENA,
    TWO_BARRIERS,
    HALF_A_SHUFFLE,
    ARRIVAL_SHORT,
    READ_BEFORE_WAIT,
    FLAG_NOBODY_SETS,
    SOURCE_TOO_SHORT,
    SHARED_NEVER_WRITTEN,
    NO_BARRIER_BETWEEN,
    SHUFFLE_AS_BARRIER,
    BLOCKS_RACE,
    LOCAL_NEVER_WRITTEN,
    SLOT_REFILLED_EARLY,
    PEER_NOT_STARTED,
    PEER_HAS_EXITED,
    BARE_SPIN,
    DIFFERENT_OPERATIONS,
    EXIT_WITH_COPY,
    TWO_COUNTS,
    NEVER_INITIALISED,
    STACK_OVERFLOW,
    FIRST_BARRIER_MISSING,
    SECOND_BARRIER_MISSING,
    DIVISION_BY_ZERO,
    FREED_MEMORY,
    HALF_WAIT_FOR_PREVIOUS,
    WORDS_RIGHT,
    WORDS_BEFORE_WAIT,
    WORDS_NEVER_AWAITED,
    PUBLISHED_RIGHT,
    NOT_PUBLISHED,
    PUBLISHED_TOO_EARLY,
    PREVIOUS_RIGHT,
    PREVIOUS_READ_EARLY,
    PREVIOUS_WRITTEN_EARLY,
    WRITER,
    FAULT_BEFORE_WAIT,
    PREVIOUS_COPIED_EARLY,
};
enum { SUM = 97920 }; // what a right form leaves
// Who reads the zeros that all threads wrote.
enum { WGMMA, PIXELS, BULK_COPY };

__attribute__((noinline)) static float deep(int t)
{
    volatile float big[80000];
    big[t] = 1;
    big[79999 - t] = 2;
    return big[t];
}
static float block_sum(float v, float *red, int kind)
{
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(~0u, v, o);
    if ((threadIdx.x & 31) == 0)
        red[threadIdx.x >> 5] = v;
    if (kind != FIRST_BARRIER_MISSING)
        __syncthreads();
    float s = 0;
    for (int w = 0; w < 8; w++)
        s += red[w];
    if (kind != SECOND_BARRIER_MISSING)
        __syncthreads(); // red is written again by the next call
    return s;
}
static void fetch(float *to, const float *from, uint64_t *bar)
{
    mbar_expect(bar, 1024);
    bulk_load(to, from, 1024, bar);
}

static float words(const float *p, float *s, int kind)
{
    const int t = (int)threadIdx.x;
    s[t] = 0;
    __syncthreads();
    for (int i = 0; i < 3; i++) // more than once to one place and more than the twin keeps
        for (int k = 0; k < 30; k++)
            gnf_copy_word(s + t + 256 * (k % 3), p + t);
    if (kind == WORDS_RIGHT)
        gnf_copied_words();
    __syncthreads();
    const float v = s[(t + 1) % 256];
    if (kind == WORDS_BEFORE_WAIT)
        gnf_copied_words();
    return v - p[(t + 1) % 256];
}
static float zeros(const float *p, uint64_t *bar, int kind, int reader)
{
    float d[64] = {};
    float *s = (float *)shared();
    for (int round = 0; round < 2; round++) {
        if (kind == PUBLISHED_TOO_EARLY)
            gnf_publish_to_tensor_cores();
        for (int i = (int)threadIdx.x; i < 4096; i += 256)
            s[i] = (float)-round;
        if (kind == PUBLISHED_RIGHT)
            gnf_publish_to_tensor_cores();
        __syncthreads();
        if (reader == BULK_COPY) {
            if (threadIdx.x == 0)
                fetch(s + 32, p, bar);
            mbar_wait(bar, round);
            d[0] = s[32 + threadIdx.x] - p[threadIdx.x];
        } else {
            const uint32_t none[4] = {};
            gnf_wgmma_fence();
            if (reader == WGMMA)
                gnf_wgmma(d, gnf_wgmma_operand(s), gnf_wgmma_operand(s), false);
            else
                gnf_wgmma_pixels(d, none, gnf_pixels(s + 32), 128, false);
            gnf_wgmma_commit();
            if (reader == WGMMA)
                gnf_wgmma_wait<0>();
            else
                gnf_wgmma_pixels_wait<0>();
            gnf_wgmma_settle(d);
        }
        __syncthreads();
    }
    return d[threadIdx.x % 64] * 0.0f;
}

extern "C" __global__ void __launch_bounds__(256) faulty(int kind, float *p, int n, float *q)
{
    float *s = (float *)shared();
    const int t = (int)threadIdx.x;
    uint64_t *bar = (uint64_t *)(s + (kind >= PUBLISHED_RIGHT && kind <= PUBLISHED_TOO_EARLY ? 4096 : 512));
    if (t == 0 && kind != NEVER_INITIALISED)
        mbar_init(bar, kind == ARRIVAL_SHORT ? 2 : 1);
    switch (kind) {
    case PAST_THE_END:
        p[t + n - 255] = 1; // by the last thread
        break;
    case BEFORE_THE_START:
        p[-1 - t] = 1;
        break;
    case MISALIGNED:
        q[t] = ((const float4 *)(p + 1 + t))->x;
        break;
    case PAST_THE_ARENA:
        s[1024 + t] = 1;
        break;
    case TWO_BARRIERS:
        if (t < 128)
            __syncthreads();
        else
            bar_sync(1, 256);
        break;
    case HALF_A_SHUFFLE:
        if (t & 1)
            q[t] = __shfl_xor_sync(~0u, (float)t, 1);
        break;
    case ARRIVAL_SHORT:
        __syncthreads();
        if (t == 1)
            mbar_arrive(bar);
        mbar_wait(bar, 0);
        break;
    case READ_BEFORE_WAIT:
        if (t == 0)
            fetch(s, p, bar);
        __syncthreads();
        q[t] = s[t];
        mbar_wait(bar, 0);
        break;
    case FLAG_NOBODY_SETS:
        while (load_acquire((const unsigned *)q) != 7u) {
        }
        break;
    case SOURCE_TOO_SHORT:
        if (t == 0)
            fetch(s, p + (n & ~3), bar);
        __syncthreads();
        mbar_wait(bar, 0);
        break;
    case SHARED_NEVER_WRITTEN:
        q[t] = p[t] + s[t + 600];
        break;
    case NO_BARRIER_BETWEEN:
        s[t] = (float)t;
        q[t] = s[t ^ 32];
        break;
    case SHUFFLE_AS_BARRIER:
        s[t] = (float)t;
        __shfl_sync(~0u, t, 0);
        q[t] = s[t ^ 1];
        break;
    case BLOCKS_RACE:
        q[0] = (float)blockIdx.x;
        break;
    case LOCAL_NEVER_WRITTEN: {
        float a[4];
        a[t & 3] = 1;
        q[t] = a[(t + 1) & 3];
        break;
    }
    case SLOT_REFILLED_EARLY:
        __syncthreads();
        if (t == 0)
            fetch(s, p, bar);
        mbar_wait(bar, 0);
        q[t] = s[t];
        if (t == 0)
            fetch(s, p + 256, bar); // others may still read
        mbar_wait(bar, 1);
        q[t] += s[t];
        break;
    case PEER_NOT_STARTED:
        if (t == 0)
            *cluster_map(s, cluster_rank() ^ 1) = 1;
        cluster_sync();
        break;
    case PEER_HAS_EXITED:
        s[t] = (float)t;
        cluster_sync();
        q[t] = *cluster_map(s + t, cluster_rank() ^ 1);
        break;
    case BARE_SPIN:
        while (*(volatile float *)q != 7) {
        }
        break;
    case DIFFERENT_OPERATIONS:
        if (t < 16)
            q[t] = __shfl_sync(~0u, (float)t, 0);
        else if (t < 32)
            __syncwarp();
        break;
    case EXIT_WITH_COPY:
        if (t == 0)
            fetch(s, p, bar);
        break;
    case TWO_COUNTS:
        if (t < 64)
            bar_sync(1, 64);
        else
            bar_sync(1, 192);
        break;
    case NEVER_INITIALISED:
        mbar_wait(bar, 0);
        break;
    case STACK_OVERFLOW:
        q[t] = deep(t);
        break;
    case FIRST_BARRIER_MISSING:
    case SECOND_BARRIER_MISSING: {
        float a = block_sum((float)t, s, kind);
        q[t] = a + block_sum((float)(2 * t), s, kind); // 3 * 32640
        __syncthreads();
        break;
    }
    case DIVISION_BY_ZERO:
        q[t] = (float)(t / (int)q[0]);
        break;
    case FREED_MEMORY:
        p[t] = 1;
        break;
    case WORDS_RIGHT:
    case WORDS_BEFORE_WAIT:
    case WORDS_NEVER_AWAITED:
        q[t] = SUM + words(p, s, kind);
        break;
    case PUBLISHED_RIGHT:
    case NOT_PUBLISHED:
    case PUBLISHED_TOO_EARLY: // n says who reads
        __syncthreads();
        q[t] = SUM + zeros(p, bar, kind, n - 1024);
        break;
    case PREVIOUS_RIGHT:
    case PREVIOUS_READ_EARLY: {
        float *own = q + blockIdx.x * 256 + t;
        if (kind == PREVIOUS_RIGHT)
            wait_for_previous();
        const float v = *own;
        if (kind == PREVIOUS_READ_EARLY)
            wait_for_previous();
        *own = v;
        break;
    }
    case PREVIOUS_WRITTEN_EARLY: // which the kernel before writes over
        q[blockIdx.x * 256 + t] = SUM;
        wait_for_previous();
        break;
    case WRITER: // a block writes another's, of which more than one begin early
        wait_for_previous();
        q[(gridDim.x - 1 - blockIdx.x) * 256 + t] = n == 1024 ? 1 : SUM;
        break;
    case PREVIOUS_COPIED_EARLY: // and what came is not looked at
        __syncthreads();
        if (t == 0)
            fetch(s, q + blockIdx.x * 256, bar);
        mbar_wait(bar, 0);
        wait_for_previous();
        break;
    case FAULT_BEFORE_WAIT:
        p[-1 - t] = 1;
        wait_for_previous();
        break;
    case HALF_WAIT_FOR_PREVIOUS:
        if (t < 128)
            wait_for_previous();
        break;
    }
}
