// The engine's own structures. A unit (block, cluster, or whole cooperative grid) stays on one OS thread, so
// everything inside it is deterministic from the seed and needs no lock.
//
// Code that runs on a kernel's fiber must not allocate, lock or call memcpy: a sanitizer would see it as the
// kernel's.
#pragma once
#include "engine.h"
#include "fiber.h"
#include <atomic>
#include <pthread.h>
#include <vector>

namespace sim
{
enum : size_t { PAGE = 4096 };
enum : unsigned char { FRESH = 0xff, SLACK = 0xcb }; // fills: NaN as any float; what nobody writes

struct Where {
    const char *what, *file;
    int line;
};
enum class State : uint8_t { Runnable, Blocked, Polling, Exited };
struct Block;

struct Thread : simt_thread {
    Fiber fiber;
    Block *home;
    unsigned warp;
    uint32_t bit; // of its lane
    State state;
    Where at;
    // What it waits for, put into words only in a report: formatting at each wait would dominate the run
    // time.
    const char *note;
    long note1, note2;
    uint64_t *mbar;
    const void *poll_address;
    unsigned long long poll_seen;
    unsigned cluster_generation;
    bool cluster_arrived, cluster_waits;
    unsigned publish_round;
    bool waited_for_previous; // as each thread of a programmatic launch must
    void *argument;
};

// Two addresses in turn, so that a thread that leaves a round late does not acquire the next one.
struct SyncPoint {
    char address[2];
    unsigned generation;
    void *now() { return &address[generation & 1]; }
};
// Lanes of one mask on their way into a warp operation.
struct Meeting {
    uint32_t mask, here;
    simt_warp_fn *fn;
    Where at;
    SyncPoint sync;
};
enum { MEETINGS = 4, WARPS = 32, BARRIERS = 16 };
struct Warp {
    uint32_t ready, exited;
    Meeting meeting[MEETINGS];
};
struct Barrier {
    int arrived, count;
    uint32_t waiting[WARPS];
    SyncPoint sync;
};
struct Cluster {
    int live, arrived;
    SyncPoint sync;
    unsigned first, size; // blocks of the unit
};
struct Block : simt_block {
    Cluster *cluster;
    Thread *threads; // warp * 32 + lane
    unsigned index, nthreads, nwarps;
    uint32_t ready_warps;
    int live;
    bool started;
    Warp warps[WARPS];
    Barrier barriers[BARRIERS];
    char *arena_map;
    size_t arena_size;
    // Shared memory as tensor cores and bulk copies may see it: what they wrote and what threads published.
    unsigned char *published;
    bool publishing; // else all of that is fresh
    bool behind;     // a thread published since the last snapshot
    unsigned publishers, publishers_expected, publish_round;
};

// A copy into shared memory on its way; `value` for st.async, else `source`.
struct Async {
    void *target;
    const void *source;
    unsigned bytes;
    uint64_t *bar;
    unsigned char value[16];
    Thread *by;
    Where at;
};
// What a bulk copy read before its kernel's wait for the kernel before.
struct EarlyRead {
    const void *source;
    unsigned bytes;
    uint64_t sum;
    Thread *by;
    Where at;
};
struct MbarWaiter {
    Thread *thread;
    uint64_t *bar;
};
uint64_t mix(uint64_t x); // never 0
struct Random {
    uint64_t state;
    uint32_t next()
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (uint32_t)(state >> 16);
    }
};

struct Unit {
    const Launch *launch;
    std::vector<Block> blocks;
    std::vector<Cluster> clusters;
    std::vector<uint64_t> ready_blocks; // a bit a block
    int64_t live;                       // threads
    Block *block;                       // where the last thread ran
    unsigned warp;
    Random random;
    bool linear;
    unsigned stay_warp, stay_block; // chances of 256 to go on in the same warp and block
    std::vector<Async> async;
    std::vector<MbarWaiter> mbar;
    std::vector<Thread *> pollers;
    bool previous_done;           // the kernel before
    std::vector<Thread *> parked; // wait for it
    std::vector<EarlyRead> early_reads;
    uint64_t progress; // changes whenever anything happens
    uint64_t seed;
    bool failed;
    int result;
    char message[1024];
};
struct Arena {
    char *map;
    size_t size;
    unsigned char *published;
};
struct Trap {
    int signal;
    bool general_protection;
    const char *address;
};
// An OS thread that runs units.
struct Worker {
    Fiber main;
    Unit unit;
    bool busy = false; // with a unit
    Thread *volatile current = nullptr;
    std::atomic<uint64_t> switches{0};
    std::vector<Fiber> fibers;
    std::vector<Arena> arenas;
    std::vector<std::vector<Thread>> threads; // a table a block
    void *copy_engine = nullptr;              // a TSan fiber
    Trap trap{};
    std::vector<char> signal_stack; // a stack overflow leaves no other
    pthread_t id;
};
extern __attribute__((tls_model("initial-exec"), visibility("hidden"))) __thread Worker *me;

// schedule.cc
void make_ready(Block &b, unsigned warp, uint32_t lanes);
void make_ready(Thread *t);
Thread *pick(Unit &u); // who runs next; null when nobody is ready
void run(Thread *t, Fiber &from);
void give_way(Thread *t); // the calling thread waits until something makes it ready
void block_at(Thread *t, Where at, const char *note = nullptr, long n1 = 0, long n2 = 0,
              uint64_t *mbar = nullptr);
void thread_main(); // what a fiber runs

// sync.cc
void barrier_thread_exits(Thread *t);

// publish.cc
void copy_bytes(void *to, const void *from, size_t n); // that no sanitizer's interceptor sees
Block *block_with(Unit &u, const void *p, size_t n);   // in whose shared memory the bytes lie, or null
void publish_begin(Block &b);
void publish_copied(Block &b, const void *p, size_t n); // a bulk copy wrote there
void publish_check(Block &b, const void *p, size_t n, Where at);

// async.cc
void async_finish(Unit &u, size_t i);
void async_check_early_reads(Unit &u); // fails the unit where the kernel before has changed what was read
bool async_any_into(Unit &u, const Block &b); // fails the unit when a copy into `b` is still in flight
void mbar_words(const Thread &t, char *text, size_t size);

// trap.cc
std::string place(const Thread *t);
std::string words(const Where &w);
void fail(Unit &u, int result, const char *format, ...) __attribute__((format(printf, 3, 4)));
[[noreturn]] void fail_here(int result, Where at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
std::string deadlock_words(const Unit &u);
void trap_install();
void trap_on_this_thread(Worker &w);
void trap_interrupt(const Worker &w); // asks a kernel that never calls the engine to stop
void trap_explain(Unit &u, Thread *t);

// arena.cc: stacks and shared memory of a worker
Fiber &fiber_of(Worker &w, size_t i);
void fibers_drop(Worker &w, Unit &u);
void arena_give(Worker &w, size_t i, Block &b, unsigned bytes);
bool arena_slack_ok(Block &b);
void arena_close(Block &b, bool open);

// unit.cc
void run_unit(Worker &w, const Launch &l, uint64_t first_block, unsigned nblocks, uint64_t seed);
// The same in two: until all threads wait for the kernel before, or for those that do; then the rest. Or to
// give it up.
void begin_unit(Worker &w, const Launch &l, uint64_t first_block, unsigned nblocks, uint64_t seed);
void finish_unit(Worker &w);
void drop_unit(Worker &w);
} // namespace sim
