// One wrong program for each kind: the simulator must catch it. p has n floats, q is scratch; 256 threads.
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
};

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

extern "C" __global__ void __launch_bounds__(256) faulty(int kind, float *p, int n, float *q)
{
    float *s = (float *)shared();
    const int t = (int)threadIdx.x;
    uint64_t *bar = (uint64_t *)(s + 512);
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
    case HALF_WAIT_FOR_PREVIOUS:
        if (t < 128)
            wait_for_previous();
        break;
    }
}
