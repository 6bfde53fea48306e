// What the engine and the host-compiled kernels agree on. The engine is never sanitised; kernels may be.
#pragma once
#include <cstdint>

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};

struct simt_block {
    uint3 bid;
    dim3 bdim, gdim;
    unsigned rank, cluster_size; // in its cluster
    unsigned char *shared;
    unsigned shared_bytes;
};
// A matrix step that was issued and not yet waited for.
struct simt_deferred {
    float *d;
    uint64_t a, b;
    int keep, group;
    uint64_t a_rest = 0; // where a is in registers
};
// A copy of one word into shared memory that was issued and not yet waited for.
struct simt_word {
    float *to;
    const float *from;
};
struct simt_thread {
    uint3 tid;
    unsigned lane;
    simt_block *block;
    simt_deferred *deferred = nullptr;
    int deferred_count, deferred_group;
    simt_word *words = nullptr;
    int word_count;
};

// How the engine calls a kernel by the driver's void **parameters; param_sizes are compared with the cubin's.
struct simt_entry {
    void (*call)(void **params);
    const unsigned *param_sizes;
    unsigned param_count;
};

extern "C" {
// initial-exec is safe: a fiber never changes its OS thread. Not thread_local: that asks for an initialiser.
extern __attribute__((tls_model("initial-exec"))) __thread simt_thread *simt_self;

// `count` 0 is all threads of the block that have not exited.
void simt_barrier(int id, int count, int line, const char *file);
// Counts for it without waiting.
void simt_barrier_arrive(int id, int count, int line, const char *file);
// Runs `fn` once, in the last lane to come, over the arguments of all lanes of `mask`; null `fn` is
// __syncwarp.
typedef void simt_warp_fn(unsigned mask, void *const *args);
void simt_warp(unsigned mask, simt_warp_fn *fn, void *arg, const char *what, int line, const char *file);

void simt_cluster_arrive(int line, const char *file);
void simt_cluster_wait(int line, const char *file);
void *simt_cluster_map(const void *p, unsigned rank);

// For the kernel before in the stream, where the launch is programmatic: nothing to wait for, but to be seen.
void simt_wait_for_previous(int line, const char *file);

// A load of a flag that another block will change saw `seen`; null `addr` only yields.
void simt_poll(const void *addr, unsigned long long seen, int line, const char *file);

void simt_mbar_init(uint64_t *bar, int count);
void simt_mbar_arrive(uint64_t *bar, int count, int tx, int line, const char *file);
void simt_mbar_wait(uint64_t *bar, int parity, int line, const char *file);
// Both complete `bytes` on `bar`, as late as the schedule allows.
void simt_async_copy(void *dst, const void *src, unsigned bytes, uint64_t *bar, int line, const char *file);
void simt_async_store(void *dst, const void *value, unsigned bytes, uint64_t *bar, int line,
                      const char *file);

// What threads wrote to shared memory is from here on for tensor cores and bulk copies: of this thread, and
// of the block's others as far as it has come by now.
void simt_publish_shared();
// Tensor cores read these bytes of the block's shared memory: a fault where threads wrote and nobody
// published.
void simt_check_published(const void *p, unsigned bytes, int line, const char *file);

// Ends the launch with a driver error (700 illegal address, 716 misaligned, 719 anything else).
void simt_fault(int result, const char *message, int line, const char *file) __attribute__((noreturn));
}
