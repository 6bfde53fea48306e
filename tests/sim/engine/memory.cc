// Device memory: each allocation ends at a guard, freed ones stay unmapped for a while, fresh ones hold
// NaN bits.
#include "unit.h"
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace sim
{
namespace
{
// GUARD: on each side, and nothing else may be mapped there: a kernel that strays by megabytes must not meet
// the host's own memory.
enum : size_t { ALIGN = 256, EAGER = 64 << 20, STENCIL = 16 << 20, KEPT = 4096, GUARD = 64 << 20 };
struct Region {
    char *map;
    size_t map_size, bytes;
    bool live;
    const void *owner;
};
std::map<char *, Region> regions; // by start
std::mutex lock;

// A file of NaN bits. Large allocations map it again and again, copy on write, so that they cost memory only
// where they are written: a test may then have a tensor of more than 2^31 elements.
int stencil()
{
    static int file = [] {
        int f = memfd_create("cudasim", MFD_CLOEXEC);
        if (f < 0 || ftruncate(f, STENCIL))
            return -1;
        void *p = mmap(nullptr, STENCIL, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
        if (p == MAP_FAILED)
            return -1;
        memset(p, FRESH, STENCIL);
        munmap(p, STENCIL);
        return f;
    }();
    return file;
}
bool map_body(char *body, size_t size)
{
    if (size <= EAGER)
        return mprotect(body, size, PROT_READ | PROT_WRITE) == 0;
    for (size_t at = 0; at < size; at += STENCIL) {
        size_t n = std::min<size_t>(STENCIL, size - at);
        if (mmap(body + at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, stencil(),
                 0) == MAP_FAILED)
            return false;
    }
    return true;
}
// Of the guards a page on each side is poisoned too; shadow memory for all of them would cost more than they
// are.
char *poisoned(const Region &r)
{
    return r.map + GUARD - PAGE;
}
size_t poisoned_size(const Region &r)
{
    return r.map_size - 2 * (GUARD - PAGE);
}
void release(Region &r)
{
    asan_unpoison(poisoned(r), poisoned_size(r));
    munmap(r.map, r.map_size);
}
// Makes every later access a fault.
void close(Region &r)
{
    r.live = false;
    mmap(r.map, r.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    asan_poison(poisoned(r), poisoned_size(r));
}
std::string slack_of(char *p, const Region &r)
{
    const unsigned char *slack = (unsigned char *)p + r.bytes,
                        *end = (unsigned char *)r.map + r.map_size - GUARD;
    size_t n = (size_t)(end - slack), bad = 0;
    asan_unpoison(slack, n);
    while (bad < n && slack[bad] == SLACK)
        bad++;
    asan_poison(slack, n);
    if (bad == n)
        return "";
    return "written " + std::to_string(bad) + " bytes past the end of an allocation of " +
           std::to_string(r.bytes) + " bytes";
}
} // namespace

void *memory_alloc(size_t bytes, const void *owner)
{
    std::lock_guard<std::mutex> guard(lock);
    size_t room = (bytes + ALIGN - 1) / ALIGN * ALIGN, body = (room + PAGE - 1) / PAGE * PAGE;
    char *m = (char *)mmap(nullptr, body + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                           -1, 0);
    if (m == MAP_FAILED)
        return nullptr;
    if (!map_body(m + GUARD, body)) {
        munmap(m, body + 2 * GUARD);
        return nullptr;
    }
    char *p = m + GUARD + body - room;
    memset(m + GUARD, SLACK, body - room);
    if (body <= EAGER)
        memset(p, FRESH, bytes);
    memset(p + bytes, SLACK, room - bytes);
    asan_poison(m + GUARD - PAGE, (size_t)(p - (m + GUARD - PAGE)));
    asan_poison(p + bytes, room - bytes + PAGE);
    regions[p] = {m, body + 2 * GUARD, bytes, true, owner};
    return p;
}
bool memory_free(void *v, std::string *complaint)
{
    std::lock_guard<std::mutex> guard(lock);
    auto it = regions.find((char *)v);
    if (it == regions.end() || !it->second.live)
        return false;
    *complaint = slack_of(it->first, it->second);
    close(it->second);
    if (regions.size() > KEPT)
        for (auto q = regions.begin(); q != regions.end();) {
            if (q->second.live) {
                ++q;
                continue;
            }
            release(q->second);
            q = regions.erase(q);
        }
    return true;
}
void memory_free_all(const void *owner)
{
    std::lock_guard<std::mutex> guard(lock);
    for (auto &r : regions)
        if (r.second.live && r.second.owner == owner)
            close(r.second);
}
std::string memory_check_slack()
{
    std::lock_guard<std::mutex> guard(lock);
    for (auto &r : regions) {
        std::string s = r.second.live ? slack_of(r.first, r.second) : "";
        if (!s.empty())
            return s;
    }
    return "";
}

static const Region *find(const char *p, char **start)
{
    auto it = regions.upper_bound((char *)p);
    if (it == regions.begin())
        return nullptr;
    --it;
    *start = it->first;
    return &it->second;
}
bool memory_contains(const void *v, size_t n)
{
    std::lock_guard<std::mutex> guard(lock);
    char *start;
    const Region *r = find((const char *)v, &start);
    size_t offset = r ? (size_t)((const char *)v - start) : 0;
    return r && r->live && offset <= r->bytes && n <= r->bytes - offset;
}
std::string memory_describe(const void *v)
{
    std::unique_lock<std::mutex> guard(lock, std::defer_lock);
    // Another thread, of another unit that faults as well, is soon done; this one, if it faulted inside,
    // never.
    for (int tries = 0; !guard.try_lock(); tries++) {
        if (tries == 3000)
            return "somewhere";
        usleep(100);
    }
    char text[200], *start;
    const char *p = (const char *)v;
    const Region *r = find(p, &start);
    if (r && p < r->map + r->map_size) {
        if (!r->live)
            snprintf(text, sizeof text, "in a freed allocation of %zu bytes", r->bytes);
        else
            snprintf(text, sizeof text, "%td bytes past the end of an allocation of %zu bytes",
                     p - start - (ptrdiff_t)r->bytes, r->bytes);
        return text;
    }
    for (auto &q : regions)
        if (p >= q.second.map && p < q.first) {
            snprintf(text, sizeof text, "%td bytes before an allocation of %zu bytes", q.first - p,
                     q.second.bytes);
            return text;
        }
    snprintf(text, sizeof text, "at %p, in no allocation", v);
    return text;
}
size_t memory_used(const void *owner)
{
    std::lock_guard<std::mutex> guard(lock);
    size_t sum = 0;
    for (auto &r : regions)
        sum += r.second.live && r.second.owner == owner ? r.second.bytes : 0;
    return sum;
}
size_t memory_count()
{
    std::lock_guard<std::mutex> guard(lock);
    size_t n = 0;
    for (auto &r : regions)
        n += r.second.live;
    return n;
}
} // namespace sim
