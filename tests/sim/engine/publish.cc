// What of shared memory tensor cores and bulk copies may see. Ordinary stores cannot be watched, so each
// block keeps a second copy of its shared memory: what it is for them. Bulk copies write both, a fence brings
// the second up to date, and bytes that differ where they read or write are what threads wrote and nobody
// published.
#include "unit.h"

using namespace sim;

namespace sim
{
void copy_bytes(void *to, const void *from, size_t n)
{
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
#else
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = ((const volatile char *)from)[i];
#endif
}
Block *block_with(Unit &u, const void *p, size_t n)
{
    for (Block &b : u.blocks)
        if ((const unsigned char *)p >= b.shared && (const unsigned char *)p + n <= b.shared + b.shared_bytes)
            return &b;
    return nullptr;
}
static bool same(const void *a, const void *b, size_t n)
{
    const unsigned char *p = (const unsigned char *)a, *q = (const unsigned char *)b;
    uint64_t differ = 0;
    for (; n >= 8 && !differ; n -= 8, p += 8, q += 8)
        differ = *(const uint64_t *)p ^ *(const uint64_t *)q;
    for (; n; n--)
        differ |= *p++ ^ *q++;
    return !differ;
}
static void snapshot(Block &b)
{
    copy_bytes(b.published, b.shared, b.shared_bytes);
    b.publishing = true;
    b.behind = false;
}

void publish_begin(Block &b)
{
    b.publishing = b.behind = false;
    b.publishers = b.publish_round = 0;
    b.publishers_expected = b.nthreads;
}
// Most kernels use none of this: so only now.
static void publish_open(Block &b)
{
    if (b.publishing)
        return;
    b.publishing = true;
    for (unsigned i = 0; i < b.shared_bytes; i++)
        ((volatile unsigned char *)b.published)[i] = FRESH;
}
void publish_copied(Block &b, const void *p, size_t n)
{
    publish_open(b);
    copy_bytes(b.published + ((const unsigned char *)p - b.shared), p, n);
}
void publish_check(Block &b, const void *p, size_t n, Where at)
{
    publish_open(b);
    const size_t offset = (size_t)((const unsigned char *)p - b.shared);
    if (same(p, b.published + offset, n))
        return;
    if (b.behind) {
        snapshot(b);
        return;
    }
    size_t k = 0;
    while (((const unsigned char *)p)[k] == b.published[offset + k])
        k++;
    fail_here(719, at,
              "shared memory at offset %zu of block (%u,%u,%u) was written by threads and not published to "
              "tensor cores and "
              "bulk copies",
              offset + k, b.bid.x, b.bid.y, b.bid.z);
}
} // namespace sim

extern "C" {
void simt_publish_shared()
{
    Thread *t = me->current;
    Block &b = *t->home;
    // A snapshot a thread would take longer than the rest of the kernel. So only the last of a round of
    // fences takes one, by which what he writes after it shows; where the last is not known, who reads takes
    // it.
    if (t->publish_round == b.publish_round) {
        b.publish_round++;
        if (b.publishers)
            b.publishers_expected = b.publishers;
        b.publishers = 0;
    }
    t->publish_round = b.publish_round;
    b.behind = true;
    if (++b.publishers == b.publishers_expected)
        snapshot(b);
}
void simt_check_published(const void *p, unsigned bytes, int line, const char *file)
{
    Block &b = *me->current->home;
    const unsigned char *q = (const unsigned char *)p;
    if (q >= b.shared && q + bytes <= b.shared + b.shared_bytes) // else reading it is the fault
        publish_check(b, p, bytes, {"wgmma", file, line});
}
}
