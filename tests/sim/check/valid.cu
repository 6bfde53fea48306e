// Right programs: q[i] becomes the sum of p's n numbers, whatever the schedule. 256 threads a block, n a
// multiple of 1024.
#include "../../../templates/lib/base.cuh"
#include "../../../templates/lib/f16.cuh"
#include "../../../templates/lib/mma.cuh"
#include "blocks.h"

static float warp_sum(float v)
{
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}
static float block_sum(float v, float *red)
{
    v = warp_sum(v);
    if ((threadIdx.x & 31) == 0)
        red[threadIdx.x >> 5] = v;
    __syncthreads();
    float s = 0;
    for (int w = 0; w < 8; w++)
        s += red[w];
    __syncthreads();
    return s;
}
static float slice_sum(const float *p, int n)
{
    float s = 0;
    for (int i = (int)threadIdx.x; i < n; i += 256)
        s += p[i];
    return s;
}
// Each block of the cluster copies its slice in bulk and leaves its sum in all others.
static void cluster_exchange(const float *p, int n, float *q)
{
    uint64_t *loaded = (uint64_t *)shared(), *met = loaded + 1;
    float *red = (float *)(shared() + 64), *sums = red + 16, *data = red + 128;
    unsigned blocks = simt_self->block->cluster_size, rank = cluster_rank();
    int mine = n / (int)blocks;
    if (threadIdx.x == 0) {
        mbar_init(loaded, 1);
        mbar_init(met, 1);
        mbar_expect(loaded, mine * 4);
        bulk_load(data, p + (int)rank * mine, mine * 4, loaded);
        mbar_expect(met, (int)blocks * 16);
    }
    cluster_sync(); // barriers are ready, all blocks have started
    mbar_wait(loaded, 0);
    float s = block_sum(slice_sum(data, mine), red), all = 0;
    if (threadIdx.x < blocks)
        cluster_store((float4 *)sums + rank, met, threadIdx.x, make_float4(s, 0, 0, 0));
    mbar_wait(met, 0);
    for (unsigned k = 0; k < blocks; k++)
        all += sums[4 * k];
    q[blockIdx.x * 256 + threadIdx.x] = all;
    cluster_sync(); // no block leaves while stores to it may be in flight
}
// The blocks of a cooperative grid meet in global memory: a counter behind the sums.
static void team(const float *p, int n, float *q)
{
    int mine = n / (int)gridDim.x;
    float *sums = q + gridDim.x * 256,
          s = block_sum(slice_sum(p + blockIdx.x * mine, mine), (float *)shared()), all = 0;
    unsigned *count = (unsigned *)(sums + gridDim.x);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = s;
        atomicAdd(count, 1u);
    }
    while (load_acquire(count) != gridDim.x) {
    }
    for (unsigned k = 0; k < gridDim.x; k++)
        all += sums[k];
    q[blockIdx.x * 256 + threadIdx.x] = all;
}
static void named_barriers(const float *p, int n, float *q)
{
    float *red = (float *)shared(), s = warp_sum(slice_sum(p, n));
    int half = threadIdx.x >> 7, w = threadIdx.x >> 5;
    if ((threadIdx.x & 31) == 0)
        red[w] = s;
    bar_sync(1 + half, 128);
    if ((threadIdx.x & 127) == 0)
        red[8 + half] = red[4 * half] + red[4 * half + 1] + red[4 * half + 2] + red[4 * half + 3];
    bar_sync(3, 256);
    q[blockIdx.x * 256 + threadIdx.x] = red[8] + red[9];
}
// Matrices of small whole numbers, by each warp on tensor cores and in plain loops, which must agree.
static int row_of(int row, int k)
{
    return (row * 7 + k * 3) % 11 - 5;
}
static int column_of(int column, int k)
{
    return (column * 5 + k * k) % 7 - 3;
}
static bool products_agree()
{
    // 16 bytes a row or column and half of K: rows at 0, columns at 512
    const int lane = threadIdx.x % 32, half = lane / 16, own = lane % 16;
    uint32_t *to = (uint32_t *)shared() + lane * 4;
    for (int j = 0; j < 8 && threadIdx.x < 32; j += 2) {
        const int k = half * 8 + j;
        to[j / 2] = gnf_pack((float)row_of(own, k), (float)row_of(own, k + 1));
        to[128 + j / 2] = gnf_pack((float)column_of(own, k), (float)column_of(own, k + 1));
    }
    __syncthreads();
    uint32_t a[4], b[4];
    gnf_ldmatrix(a, gnf_shared_offset(shared()) + lane * 16);
    gnf_ldmatrix(b, gnf_shared_offset(shared()) + 512 + (lane / 8 % 2 * 16 + lane / 16 * 8 + lane % 8) * 16);
    bool agree = true;
    for (int tile = 0; tile < 2; tile++) {
        float d[4] = {1, 2, 3, 4};
        gnf_mma_f16(d, a, b[2 * tile], b[2 * tile + 1]);
        for (int j = 0; j < 4; j++) {
            int sum = j + 1;
            for (int k = 0; k < 16; k++)
                sum += row_of(lane / 4 + j / 2 * 8, k) * column_of(tile * 8 + lane % 4 * 2 + j % 2, k);
            agree = agree && d[j] == (float)sum;
        }
    }
    __syncthreads();
    return agree;
}
extern "C" __global__ void __launch_bounds__(256) valid(int kind, const float *p, int n, float *q)
{
    switch (kind) {
    case 0:
        q[blockIdx.x * 256 + threadIdx.x] = block_sum(slice_sum(p, n), (float *)shared());
        break;
    case 1:
        cluster_exchange(p, n, q);
        break;
    case 2:
        team(p, n, q);
        break;
    case 3:
        named_barriers(p, n, q);
        break;
    case 4: // for very many blocks
        if (threadIdx.x == 0)
            atomicAdd((unsigned *)q, 1u);
        break;
    case 5:
        wait_for_previous();
        q[blockIdx.x * 256 + threadIdx.x] = block_sum(slice_sum(p, n), (float *)shared());
        break;
    case 7: { // what the kernel before of kind 5 leaves, by a kernel that has done much before it waits
        const float s = block_sum(slice_sum(p, n), (float *)shared());
        wait_for_previous();
        const int i = blockIdx.x * 256 + threadIdx.x;
        __syncthreads();
        const float other = q[blockIdx.x * 256 + (threadIdx.x ^ 128)];
        __syncthreads();
        q[i] = other == s ? s : NAN;
        break;
    }
    case 6: {
        const bool agree = products_agree();
        q[blockIdx.x * 256 + threadIdx.x] = agree ? block_sum(slice_sum(p, n), (float *)shared()) : NAN;
        break;
    }
    }
}
