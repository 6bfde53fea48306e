// One unit from its start to its end.
#include "unit.h"
#include <cstdio>
#include <cstring>

namespace sim
{
uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (x ^ x >> 31) | 1;
}

static unsigned volume(const dim3 &d)
{
    return d.x * d.y * d.z;
}
static void begin_block(Unit &u, Block &b, unsigned index, uint64_t number)
{
    const Launch &l = *u.launch;
    unsigned size = volume(l.cluster), rank = (unsigned)(number % size);
    uint64_t c = number / size;
    // blocks are numbered cluster by cluster; inside a cluster x runs fastest
    uint64_t nx = l.grid.x / l.cluster.x, ny = l.grid.y / l.cluster.y;
    b.bid = {(unsigned)(c % nx) * l.cluster.x + rank % l.cluster.x,
             (unsigned)(c / nx % ny) * l.cluster.y + rank / l.cluster.x % l.cluster.y,
             (unsigned)(c / nx / ny) * l.cluster.z + rank / l.cluster.x / l.cluster.y};
    b.bdim = l.block;
    b.gdim = l.grid;
    b.rank = rank;
    b.cluster_size = size;
    b.index = index;
    b.cluster = &u.clusters[index / size];
    b.nthreads = volume(l.block);
    b.nwarps = (b.nthreads + 31) / 32;
    b.live = (int)b.nthreads;
    b.ready_warps = 0;
    b.started = false;
    publish_begin(b);
    memset((void *)b.warps, 0, b.nwarps * sizeof *b.warps);
    memset((void *)b.barriers, 0, sizeof b.barriers);
    if (rank == 0)
        *b.cluster = Cluster{(int)(size * b.nthreads), 0, {}, index, size};
}
static void begin_thread(Unit &u, Block &b, Thread &t, unsigned k, const Fiber &fiber)
{
    const dim3 &d = u.launch->block;
    t.tid = {k % d.x, k / d.x % d.y, k / d.x / d.y};
    t.lane = k & 31;
    t.block = &b;
    t.deferred_count = t.deferred_group = t.word_count = 0;
    t.publish_round = 0;
    t.home = &b;
    t.warp = k >> 5;
    t.bit = 1u << (k & 31);
    t.at = {"start", nullptr, 0};
    t.note = nullptr;
    t.note1 = t.note2 = 0;
    t.mbar = nullptr;
    t.poll_address = nullptr;
    t.cluster_arrived = t.cluster_waits = t.waited_for_previous = false;
    t.fiber = fiber;
    fiber_make(t.fiber, thread_main);
    if (t.fiber.tsan) {
        char name[64];
        snprintf(name, sizeof name, "block (%u,%u,%u) thread %u", b.bid.x, b.bid.y, b.bid.z, k);
        __tsan_set_fiber_name(t.fiber.tsan, name);
    }
    make_ready(&t);
}
static void begin(Worker &w, const Launch &l, uint64_t first_block, unsigned nblocks, uint64_t seed,
                  bool early)
{
    Unit &u = w.unit;
    unsigned nthreads = volume(l.block);
    size_t all = (size_t)nblocks * nthreads;
    // from lane-by-lane mixing to a warp that runs as far as it can, which is what exposes missing barriers
    static const unsigned stay[4] = {0, 128, 240, 256};
    u.launch = &l;
    u.seed = seed;
    u.linear = seed == 0;
    u.random = {mix(seed ^ first_block << 20)};
    u.stay_warp = u.linear ? 256 : stay[u.random.next() & 3];
    u.stay_block = u.linear ? 256 : stay[u.random.next() & 3];
    u.blocks.resize(nblocks);
    u.clusters.resize(nblocks / volume(l.cluster));
    u.ready_blocks.assign((nblocks + 63) / 64, 0);
    u.block = nullptr;
    u.warp = 0;
    u.progress = 0;
    u.failed = false;
    u.live = (int64_t)all;
    u.async.clear();
    u.mbar.clear();
    u.pollers.clear();
    u.parked.clear();
    u.early_reads.clear();
    u.previous_done = !early;
    u.async.reserve(all); // nothing may grow while a fiber runs
    u.mbar.reserve(all);
    u.pollers.reserve(all);
    if (early) {
        u.parked.reserve(all);
        u.early_reads.reserve(all);
    }
    if (__tsan_create_fiber && !w.copy_engine) {
        w.copy_engine = __tsan_create_fiber(0);
        __tsan_set_fiber_name(w.copy_engine, "copy engine");
    }
    fiber_of(w, all - 1);
    if (w.threads.size() < nblocks)
        w.threads.resize(nblocks);
    for (unsigned i = 0; i < nblocks; i++) {
        Block &b = u.blocks[i];
        begin_block(u, b, i, first_block + i);
        arena_give(w, i, b, l.shared);
        if (w.threads[i].size() < nthreads)
            w.threads[i].resize(nthreads);
        b.threads = w.threads[i].data();
        for (unsigned k = 0; k < nthreads; k++)
            begin_thread(u, b, b.threads[k], k, w.fibers[(size_t)i * nthreads + k]);
    }
}

// Until all have exited, or nothing goes on before the kernel before has ended.
static void go(Worker &w)
{
    Unit &u = w.unit;
    tsan_release(&u.launch);
    w.busy = true;
    uint64_t seen = ~0ull;
    int idle = 0;
    while (u.live && !u.failed) {
        if (!u.linear && !u.async.empty() && (u.random.next() & 63) == 0)
            async_finish(u, u.random.next() % u.async.size());
        if (Thread *t = pick(u)) {
            run(t, w.main);
            Thread *last = w.current;
            w.current = nullptr;
            if (w.trap.signal)
                trap_explain(u, last);
        } else if (u.failed) {
            break;
        } else if (!u.async.empty()) { // as late as can be
            async_finish(u, u.linear ? 0 : u.random.next() % u.async.size());
        } else if (!u.pollers.empty() && (u.progress != seen || ++idle <= 2)) {
            // polls count as progress only when an address or a value changed, so a spin for nothing ends
            // here
            if (u.progress != seen)
                idle = 0;
            seen = u.progress;
            for (Thread *t : u.pollers)
                make_ready(t);
            u.pollers.clear();
        } else if (!u.parked.empty()) {
            break;
        } else {
            fail(u, 702, "%s", deadlock_words(u).c_str());
        }
    }
    w.busy = false;
    simt_self = nullptr;
}
static void end(Worker &w)
{
    Unit &u = w.unit;
    if (volume(u.launch->cluster) > 1)
        for (Block &b : u.blocks)
            arena_close(b, true);
    if (u.failed)
        fibers_drop(w, u);
    tsan_acquire(&u.live);
}
void run_unit(Worker &w, const Launch &l, uint64_t first_block, unsigned nblocks, uint64_t seed)
{
    begin(w, l, first_block, nblocks, seed, false);
    go(w);
    end(w);
}
void begin_unit(Worker &w, const Launch &l, uint64_t first_block, unsigned nblocks, uint64_t seed)
{
    begin(w, l, first_block, nblocks, seed, true);
    go(w);
}
void finish_unit(Worker &w)
{
    Unit &u = w.unit;
    u.previous_done = true;
    async_check_early_reads(u);
    for (Thread *t : u.parked)
        make_ready(t);
    u.parked.clear();
    go(w);
    end(w);
}
void drop_unit(Worker &w)
{
    w.unit.failed = true; // its fibers are abandoned as after a fault
    end(w);
}
} // namespace sim
