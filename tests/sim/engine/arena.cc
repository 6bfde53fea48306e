// What a worker keeps from unit to unit: stacks, and shared memory between guard pages.
#include "unit.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace sim
{
Fiber &fiber_of(Worker &w, size_t i)
{
    // ASan's red zones make frames several times larger
    static const size_t size =
        (size_t)env_number("CUDASIM_STACK", __asan_poison_memory_region ? 256 : 64) * 1024;
    enum { SLAB = 256, GUARDED = 8192 }; // each guard splits a mapping, and Linux allows 65530
    while (w.fibers.size() <= i) {
        char *m = (char *)mmap(nullptr, SLAB * size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED) {
            perror("cudasim: stacks");
            abort();
        }
        bool guard = w.fibers.size() < GUARDED;
        for (int k = 0; k < SLAB; k++) {
            char *stack = m + (size_t)k * size;
            if (guard)
                mprotect(stack, PAGE, PROT_NONE);
            Fiber f;
            f.stack = stack + PAGE;
            f.stack_size = size - PAGE - w.fibers.size() % 61 * 64; // or all stacks share their cache sets
            if (__tsan_create_fiber)
                f.tsan = __tsan_create_fiber(0);
            w.fibers.push_back(f);
        }
    }
    return w.fibers[i];
}
// After a fault the abandoned stacks hold poisoned frames and open TSan call stacks.
void fibers_drop(Worker &w, Unit &u)
{
    for (Fiber &f : w.fibers) {
        asan_unpoison(f.stack, f.stack_size);
        if (!f.tsan)
            continue;
        __tsan_switch_to_fiber(f.tsan, TSAN_NO_SYNC);
        tsan_release(&u.live);
        __tsan_switch_to_fiber(w.main.tsan, TSAN_NO_SYNC);
        __tsan_destroy_fiber(f.tsan);
        f.tsan = __tsan_create_fiber(0);
    }
}

void arena_give(Worker &w, size_t i, Block &b, unsigned bytes)
{
    size_t room = (bytes + 1023) / 1024 * 1024, body = (room + PAGE - 1) / PAGE * PAGE;
    while (w.arenas.size() <= i)
        w.arenas.push_back({nullptr, 0, nullptr});
    Arena &a = w.arenas[i];
    if (a.size != body + 2 * PAGE) {
        if (a.map) {
            asan_unpoison(a.map, a.size);
            munmap(a.map, a.size);
            if (a.published)
                munmap(a.published, a.size - 2 * PAGE);
        }
        a.size = body + 2 * PAGE;
        a.map = (char *)mmap(nullptr, a.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (a.map == MAP_FAILED) {
            perror("cudasim: shared memory");
            abort();
        }
        void *published = nullptr;
        if (body) {
            mprotect(a.map + PAGE, body, PROT_READ | PROT_WRITE);
            published = mmap(nullptr, body, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (published == MAP_FAILED) {
                perror("cudasim: shared memory");
                abort();
            }
        }
        a.published = (unsigned char *)published;
    }
    char *p = a.map + PAGE + body - room; // ends at the guard, and begins at a multiple of 1024
    asan_unpoison(a.map + PAGE, body);
    memset(a.map + PAGE, SLACK, (size_t)(p - (a.map + PAGE)));
    memset(p, FRESH, bytes);
    memset(p + bytes, SLACK, room - bytes);
    asan_poison(a.map, (size_t)(p - a.map));
    asan_poison(p + bytes, room - bytes + PAGE);
    b.shared = (unsigned char *)p;
    b.shared_bytes = bytes;
    b.published = a.published;
    b.arena_map = a.map;
    b.arena_size = a.size;
}
bool arena_slack_ok(Block &b)
{
    const unsigned char *p = b.shared + b.shared_bytes,
                        *end = (unsigned char *)b.arena_map + b.arena_size - PAGE;
    asan_unpoison(p, (size_t)(end - p));
    bool ok = true;
    for (; p < end; p++)
        ok &= *p == SLACK;
    return ok;
}
void arena_close(Block &b, bool open)
{
    mprotect(b.arena_map + PAGE, b.arena_size - 2 * PAGE, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}
} // namespace sim
