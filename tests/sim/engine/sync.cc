// Barriers, warp operations, clusters and polls: what kernels wait in.
#include "unit.h"
#include <cstring>

using namespace sim;

namespace sim
{
static bool barrier_complete(const Block &b, const Barrier &r)
{
    return r.arrived && r.arrived == (r.count ? r.count : b.live);
}
static void barrier_release(Block &b, Barrier &r)
{
    r.arrived = 0;
    r.sync.generation++;
    for (unsigned w = 0; w < b.nwarps; w++) {
        if (r.waiting[w])
            make_ready(b, w, r.waiting[w]);
        r.waiting[w] = 0;
    }
}
static void cluster_release(Unit &u, Cluster &c)
{
    c.arrived = 0;
    c.sync.generation++;
    for (unsigned k = 0; k < c.size; k++) {
        Block &b = u.blocks[c.first + k];
        for (unsigned i = 0; i < b.nthreads; i++) {
            Thread &t = b.threads[i];
            if (t.cluster_waits && t.cluster_generation + 1 == c.sync.generation) {
                t.cluster_waits = false;
                make_ready(&t);
            }
        }
    }
}
void barrier_thread_exits(Thread *t)
{
    Block &b = *t->home;
    Cluster &c = *b.cluster;
    if (barrier_complete(b, b.barriers[0])) // __syncthreads counts the threads that have not exited
        barrier_release(b, b.barriers[0]);
    if (c.arrived && c.arrived == c.live)
        cluster_release(me->unit, c);
}

static Barrier &barrier_of(Block &b, int id, int count, Where at)
{
    if (id < 0 || id >= BARRIERS || count < 0 || count & 31 || count > (int)b.nwarps * 32)
        fail_here(719, at, "bad named barrier: id %d, count %d", id, count);
    Barrier &r = b.barriers[id];
    if (r.arrived && r.count != count)
        fail_here(719, at, "barrier %d used with counts %d and %d", id, r.count, count);
    r.count = count;
    return r;
}
static Meeting &meeting_of(Warp &w, uint32_t mask, simt_warp_fn *fn, Where at)
{
    for (Meeting &m : w.meeting)
        if (m.here && m.mask == mask)
            return m;
    for (Meeting &m : w.meeting)
        if (!m.here) {
            m.mask = mask;
            m.fn = fn;
            m.at = at;
            return m;
        }
    fail_here(719, at, "more than %d different masks wait in one warp", MEETINGS);
}
static void check_mask(const Thread *t, uint32_t mask, Where at)
{
    if (!(mask & t->bit))
        fail_here(719, at, "a lane that is not in its own mask %08x", mask);
    unsigned n = t->home->nthreads - t->warp * 32;
    uint32_t exist = n >= 32 ? ~0u : (1u << n) - 1;
    if ((mask & t->home->warps[t->warp].exited) || (mask & ~exist))
        fail_here(719, at, "mask names a lane that has exited or does not exist: %08x", mask);
}
} // namespace sim

extern "C" {
void simt_wait_for_previous(int line, const char *file)
{
    Thread *t = me->current;
    Unit &u = me->unit;
    t->waited_for_previous = true;
    if (u.previous_done)
        return;
    u.parked.push_back(t);
    block_at(t, {"the wait for the kernel before", file, line});
}
void simt_barrier(int id, int count, int line, const char *file)
{
    Thread *t = me->current;
    Block &b = *t->home;
    Where at{id ? "bar.sync" : "__syncthreads", file, line};
    Barrier &r = barrier_of(b, id, count, at);
    void *round = r.sync.now();
    tsan_release(round);
    r.arrived++;
    r.waiting[t->warp] |= t->bit;
    if (barrier_complete(b, r)) {
        barrier_release(b, r);
        me->unit.progress++;
        give_way(t);
    } else {
        block_at(t, at, id ? " (barrier %ld, %ld threads)" : nullptr, id, count);
    }
    tsan_acquire(round);
}
void simt_barrier_arrive(int id, int count, int line, const char *file)
{
    Block &b = *me->current->home;
    Where at{"bar.arrive", file, line};
    Barrier &r = barrier_of(b, id, count, at);
    if (id == 0 || count == 0)
        fail_here(719, at, "bar.arrive: id %d, count %d; allowed are named barriers with a count", id, count);
    tsan_release(r.sync.now());
    r.arrived++;
    me->unit.progress++;
    if (barrier_complete(b, r))
        barrier_release(b, r);
}

void simt_warp(unsigned mask, simt_warp_fn *fn, void *arg, const char *what, int line, const char *file)
{
    Thread *t = me->current;
    Where at{what, file, line};
    check_mask(t, mask, at);
    Meeting &m = meeting_of(t->home->warps[t->warp], mask, fn, at);
    if (m.at.what != what && strcmp(m.at.what, what))
        fail_here(719, at, "lanes of a warp meet in different operations: others are in %s at line %d",
                  m.at.what, m.at.line);
    void *round = m.sync.now();
    if (!fn)
        tsan_release(round); // __syncwarp orders memory; shuffles and votes do not
    t->argument = arg;
    m.here |= t->bit;
    if (m.here == mask) {
        if (fn) {
            void *arguments[32];
            Thread *first = t - t->lane;
            for (uint32_t rest = mask; rest; rest &= rest - 1)
                arguments[__builtin_ctz(rest)] = first[__builtin_ctz(rest)].argument;
            fn(mask, arguments);
        }
        m.here = 0;
        m.sync.generation++;
        make_ready(*t->home, t->warp, mask);
        me->unit.progress++;
        give_way(t);
    } else {
        block_at(t, at, " (mask %08lx)", (long)mask);
    }
    if (!fn)
        tsan_acquire(round);
}

void simt_cluster_arrive(int line, const char *file)
{
    Thread *t = me->current;
    Cluster &c = *t->home->cluster;
    if (t->cluster_arrived)
        fail_here(719, {"cluster arrive", file, line}, "barrier.cluster.arrive twice without a wait");
    t->cluster_generation = c.sync.generation;
    t->cluster_arrived = true;
    tsan_release(c.sync.now());
    if (++c.arrived == c.live)
        cluster_release(me->unit, c);
}
void simt_cluster_wait(int line, const char *file)
{
    Thread *t = me->current;
    Cluster &c = *t->home->cluster;
    if (!t->cluster_arrived)
        fail_here(719, {"cluster wait", file, line}, "barrier.cluster.wait without an arrive");
    t->cluster_arrived = false;
    if (c.sync.generation == t->cluster_generation) {
        t->cluster_waits = true;
        block_at(t, {"cluster barrier", file, line});
    }
    tsan_acquire(&c.sync.address[t->cluster_generation & 1]);
}
void *simt_cluster_map(const void *p, unsigned rank)
{
    Block &b = *me->current->home;
    Cluster &c = *b.cluster;
    Where at{"cluster address", nullptr, 0};
    ptrdiff_t offset = (const unsigned char *)p - b.shared;
    if (rank >= c.size || offset < 0 || offset >= (ptrdiff_t)b.shared_bytes)
        fail_here(700, at, "cluster address: rank %u of %u, shared memory offset %td of %u", rank, c.size,
                  offset, b.shared_bytes);
    Block &peer = me->unit.blocks[c.first + rank];
    if (!peer.started)
        fail_here(
            700, at,
            "cluster address of a block that is not known to have started: a cluster barrier is missing");
    if (!peer.live)
        fail_here(700, at, "cluster address of a block that has exited: a cluster barrier is missing");
    return peer.shared + offset;
}

void simt_poll(const void *addr, unsigned long long seen, int line, const char *file)
{
    Thread *t = me->current;
    Unit &u = me->unit;
    if (addr && (t->poll_address != addr || t->poll_seen != seen)) {
        u.progress++;
        t->poll_address = addr;
        t->poll_seen = seen;
        if (u.random.next() & 7)
            return; // something new was seen: this is not yet a spin
    }
    t->state = State::Polling;
    t->at = {"a global flag", file, line};
    t->note = " (sees %ld)";
    t->note1 = (long)t->poll_seen;
    t->mbar = nullptr;
    u.pollers.push_back(t);
    give_way(t);
}
}
