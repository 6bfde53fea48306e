// Who runs next. Ready sets are bit masks; a thread that waits picks its successor and switches straight to
// it.
#include "unit.h"

namespace sim
{
__thread Worker *me;

void make_ready(Block &b, unsigned warp, uint32_t lanes)
{
    b.warps[warp].ready |= lanes;
    b.ready_warps |= 1u << warp;
    me->unit.ready_blocks[b.index >> 6] |= 1ull << (b.index & 63);
}
void make_ready(Thread *t)
{
    make_ready(*t->home, t->warp, t->bit);
}

static unsigned pick_bit(uint32_t mask, Unit &u)
{
    if (u.linear)
        return (unsigned)__builtin_ctz(mask);
    uint32_t above = mask & (~0u << (u.random.next() & 31));
    return (unsigned)__builtin_ctz(above ? above : mask);
}
static Block *pick_block(Unit &u)
{
    size_t n = u.ready_blocks.size(), start = u.linear ? 0 : u.random.next() % n;
    for (size_t k = 0; k < n; k++) {
        size_t word = (start + k) % n;
        uint64_t mask = u.ready_blocks[word];
        if (!mask)
            continue;
        uint64_t above = u.linear ? mask : mask & (~0ull << (u.random.next() & 63));
        return &u.blocks[word * 64 + (unsigned)__builtin_ctzll(above ? above : mask)];
    }
    return nullptr;
}
Thread *pick(Unit &u)
{
    if (u.failed)
        return nullptr;
    Block *b = u.block;
    uint32_t dice = u.linear ? ~0u : u.random.next();
    if (!b || !b->ready_warps || (u.blocks.size() > 1 && (dice & 255) >= u.stay_block)) {
        b = pick_block(u);
        if (!b)
            return nullptr;
        u.block = b;
        u.warp = pick_bit(b->ready_warps, u);
    } else if (!(b->ready_warps >> u.warp & 1) || (dice >> 8 & 255) >= u.stay_warp) {
        u.warp = pick_bit(b->ready_warps, u);
    }
    Warp &w = b->warps[u.warp];
    unsigned lane = pick_bit(w.ready, u);
    w.ready &= ~(1u << lane);
    if (!w.ready) {
        b->ready_warps &= ~(1u << u.warp);
        if (!b->ready_warps)
            u.ready_blocks[b->index >> 6] &= ~(1ull << (b->index & 63));
    }
    b->started = true;
    Thread *t = &b->threads[u.warp * 32 + lane];
    t->state = State::Runnable;
    return t;
}

void run(Thread *t, Fiber &from)
{
    me->current = t;
    simt_self = t;
    me->switches.store(me->switches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    fiber_switch(from, t->fiber);
}
void give_way(Thread *t)
{
    Thread *next = pick(me->unit);
    if (next == t)
        return;
    if (next)
        run(next, t->fiber);
    else
        fiber_switch(t->fiber, me->main);
}
void block_at(Thread *t, Where at, const char *note, long n1, long n2, uint64_t *mbar)
{
    t->state = State::Blocked;
    t->at = at;
    t->note = note;
    t->note1 = n1;
    t->note2 = n2;
    t->mbar = mbar;
    t->poll_address = nullptr;
    me->unit.progress++;
    give_way(t);
}

[[noreturn]] static void thread_exit(Thread *t)
{
    Unit &u = me->unit;
    Block &b = *t->home;
    if (t->deferred_count)
        fail_here(719, {"exit", nullptr, 0}, "a thread exits with a wgmma in flight");
    if (t->word_count)
        fail_here(719, {"exit", nullptr, 0}, "a thread exits with a copy of a word in flight");
    if (u.launch->programmatic && !t->waited_for_previous)
        fail_here(719, {"exit", nullptr, 0},
                  "a programmatic launch, and a thread exits without having waited for the kernel before");
    t->state = State::Exited;
    b.live--;
    u.live--;
    b.cluster->live--;
    u.progress++;
    b.warps[t->warp].exited |= t->bit;
    tsan_release(&u.live); // every thread comes before what follows the unit
    barrier_thread_exits(t);
    if (!b.live && !async_any_into(u, b)) {
        if (!arena_slack_ok(b))
            fail(u, 700, "shared memory written past its %u bytes (block (%u,%u,%u))", b.shared_bytes,
                 b.bid.x, b.bid.y, b.bid.z);
        if (b.cluster->size > 1)
            arena_close(b, false); // a late access from another block of the cluster traps
    }
    Thread *next = pick(u);
    if (next)
        run(next, t->fiber);
    else
        fiber_switch(t->fiber, me->main);
    __builtin_trap(); // nobody resumes a thread that has exited
}
void thread_main()
{
    fiber_entered();
    Thread *t = me->current;
    const Launch *l = me->unit.launch;
    tsan_acquire(&me->unit.launch); // the launch comes before all threads
    l->entry->call(l->params);
    thread_exit(t);
}
} // namespace sim
