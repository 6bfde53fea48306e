// mbarriers, and copies into shared memory that complete on them: done as late as possible or at a random
// earlier moment.
#include "unit.h"
#include <cstdio>
#include <cstring>

using namespace sim;

namespace sim
{
namespace
{
enum { MBAR_MAGIC = 0x2a };
struct Mbar {
    uint64_t phase : 1, magic : 7, count : 14, pending : 14;
    int64_t bytes : 28;
};
static_assert(sizeof(Mbar) == 8, "an mbarrier is one 64-bit word");

Mbar *mbar_at(uint64_t *p, Where at)
{
    Mbar *m = (Mbar *)p;
    if ((uintptr_t)p & 7)
        fail_here(716, at, "misaligned mbarrier");
    if (m->magic != MBAR_MAGIC)
        fail_here(700, at, "mbarrier used before it was initialised, or overwritten");
    return m;
}
void mbar_settle(uint64_t *p)
{
    Mbar *m = (Mbar *)p;
    Unit &u = me->unit;
    if (m->pending || m->bytes)
        return;
    m->phase = !m->phase;
    m->pending = m->count;
    for (size_t i = 0; i < u.mbar.size();) {
        if (u.mbar[i].bar != p) {
            i++;
            continue;
        }
        make_ready(u.mbar[i].thread);
        u.mbar[i] = u.mbar.back();
        u.mbar.pop_back();
    }
}
uint64_t sum_of(const void *p, size_t n) // n is a multiple of 16
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n / 8; i++)
        sum = (sum ^ ((const uint64_t *)p)[i]) * 0x9e3779b97f4a7c15ull + i;
    return sum;
}
void start(void *target, const void *source, const void *value, unsigned bytes, uint64_t *bar, Where at)
{
    Unit &u = me->unit;
    Thread *t = me->current;
    if (((uintptr_t)target | (uintptr_t)source | bytes) & 15)
        fail_here(716, at, "asynchronous copy not in multiples of 16 bytes");
    Block *b = block_with(u, target, bytes);
    if (!b)
        fail_here(700, at, "asynchronous copy: destination outside shared memory");
    if (source && !memory_contains(source, bytes))
        fail_here(700, at, "asynchronous copy: source not inside one allocation");
    mbar_at(bar, at);
    if (u.async.size() == u.async.capacity())
        async_finish(u, u.random.next() % u.async.size());
    for (Async &a : u.async)
        if ((char *)target < (char *)a.target + a.bytes && (char *)a.target < (char *)target + bytes)
            fail_here(719, at, "two asynchronous copies in flight to one place");
    if (source)
        publish_check(*b, target, bytes, at);
    Async a{target, source, bytes, bar, {}, t, at};
    if (value)
        copy_bytes(a.value, value, bytes);
    tsan_release(&t->fiber);
    // st.async targets stay readable: the peer may hold its own data beside them
    if (source)
        asan_poison(target, bytes);
    u.async.push_back(a);
}
} // namespace

void async_finish(Unit &u, size_t i)
{
    Async a = u.async[i];
    u.async[i] = u.async.back();
    u.async.pop_back();
    asan_unpoison(a.target, a.bytes);
    void *was = nullptr;
    if (me->copy_engine) { // a thread of its own: it follows only what the issuer had done
        was = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(me->copy_engine, TSAN_NO_SYNC);
        tsan_acquire(&a.by->fiber); // released at issue
        if (a.source)
            __tsan_read_range((void *)a.source, a.bytes);
        __tsan_write_range(a.target, a.bytes);
        tsan_release(a.bar);
    }
    copy_bytes(a.target, a.source ? a.source : a.value, a.bytes);
    if (a.source && !u.previous_done && u.early_reads.size() < u.early_reads.capacity())
        u.early_reads.push_back({a.source, a.bytes, sum_of(a.source, a.bytes), a.by, a.at});
    publish_copied(*block_with(u, a.target, a.bytes), a.target, a.bytes);
    if (was)
        __tsan_switch_to_fiber(was, TSAN_NO_SYNC);
    Mbar *m = (Mbar *)a.bar;
    m->bytes = m->bytes - (int)a.bytes;
    u.progress++;
    mbar_settle(a.bar);
}
void async_check_early_reads(Unit &u)
{
    for (const EarlyRead &r : u.early_reads)
        if (sum_of(r.source, r.bytes) != r.sum)
            return fail(u, 719,
                        "read before the wait for the kernel before what that kernel then wrote (%s, %s)",
                        place(r.by).c_str(), words(r.at).c_str());
}
bool async_any_into(Unit &u, const Block &b)
{
    for (const Async &a : u.async) {
        const unsigned char *p = (const unsigned char *)a.target;
        if (p < b.shared || p >= b.shared + b.shared_bytes)
            continue;
        fail(u, 719, "block (%u,%u,%u) exits with a copy into its shared memory in flight (%s, line %d)",
             b.bid.x, b.bid.y, b.bid.z, a.at.what, a.at.line);
        return true;
    }
    return false;
}
void mbar_words(const Thread &t, char *text, size_t size)
{
    const Mbar *m = (const Mbar *)t.mbar;
    snprintf(text, size, " (shared+%td parity %ld: %d arrivals, %d bytes missing)",
             (unsigned char *)t.mbar - t.home->shared, t.note1, (int)m->pending, (int)m->bytes);
}
} // namespace sim

extern "C" {
void simt_mbar_init(uint64_t *p, int count)
{
    Mbar m{};
    m.magic = MBAR_MAGIC;
    m.count = m.pending = (unsigned)count & 0x3fff;
    copy_bytes(p, &m, sizeof m);
    if (__tsan_write_range)
        __tsan_write_range(p, 8); // whoever uses it must be ordered after this
}
void simt_mbar_arrive(uint64_t *p, int count, int tx, int line, const char *file)
{
    Where at{"mbarrier arrive", file, line};
    Mbar *m = mbar_at(p, at);
    if (__tsan_read_range)
        __tsan_read_range(p, 8);
    if ((int)m->pending < count)
        fail_here(719, at, "more arrivals than the mbarrier expects");
    tsan_release(p);
    m->bytes = m->bytes + tx;
    m->pending = (m->pending - (unsigned)count) & 0x3fff;
    me->unit.progress++;
    mbar_settle(p);
}
void simt_mbar_wait(uint64_t *p, int parity, int line, const char *file)
{
    Thread *t = me->current;
    Where at{"mbarrier wait", file, line};
    if (__tsan_read_range)
        __tsan_read_range(p, 8);
    while (mbar_at(p, at)->phase == (unsigned)(parity & 1)) {
        me->unit.mbar.push_back({t, p});
        block_at(t, at, nullptr, parity, 0, p);
    }
    tsan_acquire(p);
}
void simt_async_copy(void *dst, const void *src, unsigned bytes, uint64_t *bar, int line, const char *file)
{
    start(dst, src, nullptr, bytes, bar, {"bulk copy", file, line});
}
void simt_async_store(void *dst, const void *value, unsigned bytes, uint64_t *bar, int line, const char *file)
{
    start(dst, nullptr, value, bytes, bar, {"st.async", file, line});
}
}
