// The OS threads that share the units of a launch, and the watchdog over them.
#include "unit.h"
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>

__thread simt_thread *simt_self;

namespace sim
{
const char *env_text(const char *name)
{
    const char *v = getenv(name);
    return v ? v : "";
}
long env_number(const char *name, long otherwise)
{
    const char *v = env_text(name);
    return *v ? strtol(v, nullptr, 0) : otherwise;
}
void say(const std::string &message)
{
    fprintf(stderr, "cudasim: %s\n", message.c_str());
}

namespace
{
// A permutation of 0..n-1 that needs no table: a grid may have 2^31 blocks.
struct Shuffle {
    uint64_t n, seed;
    unsigned half; // bits
    explicit Shuffle(uint64_t count, uint64_t key) : n(count), seed(key), half(1)
    {
        while (half < 32 && (1ull << 2 * half) < n)
            half++;
    }
    uint64_t operator()(uint64_t i) const
    {
        if (!seed)
            return i;
        uint64_t mask = (1ull << half) - 1;
        do { // a Feistel network over the next power of four, walked until it lands inside
            uint64_t l = i >> half, r = i & mask;
            for (unsigned round = 0; round < 4; round++) {
                uint64_t next = l ^ (mix((seed + round) ^ r << 8) >> 7 & mask);
                l = r;
                r = next;
            }
            i = l << half | r;
        } while (i >= n);
        return i;
    }
};
struct Job {
    const Launch *launch;
    uint64_t units;
    unsigned per_unit; // blocks
    uint64_t seed;
    Shuffle order;
    Early *early; // units to begin, or that were begun
    bool begins;
    std::atomic<uint64_t> next{0};
    std::atomic<bool> stop{false};
    std::mutex lock;
    Outcome outcome;
};

} // namespace

struct Early {
    Launch launch;
    uint64_t seed;
    unsigned threads; // of the OS: of so many, the k-th modulo them has the k-th unit
    std::vector<uint64_t> units;
    std::vector<std::unique_ptr<Worker>> workers; // one a unit: its stacks and shared memory
    bool over = false;
    ~Early();
};

namespace
{
class Team
{
  public:
    Team()
        : count_((unsigned)std::max(
              1l, env_number("CUDASIM_THREADS", (long)std::thread::hardware_concurrency()))),
          patience_(std::max(1l, env_number("CUDASIM_TIMEOUT", 60)))
    {
        trap_install();
        acting_.reset(new std::atomic<Worker *>[count_]);
        for (unsigned i = 0; i < count_; i++) {
            workers_.emplace_back(new Worker);
            acting_[i] = workers_[i].get();
            std::thread(&Team::loop, this, workers_[i].get(), i).detach();
        }
    }
    unsigned threads(uint64_t units) const { return (unsigned)std::min<uint64_t>(count_, units); }
    Outcome run(Job &job)
    {
        std::unique_lock<std::mutex> guard(lock_);
        job_ = &job;
        active_ = threads(job.units);
        busy_ = active_;
        turn_++;
        go_.notify_all();
        watch(job, guard);
        tsan_acquire(&job);
        return job.outcome;
    }

  private:
    void watch(const Job &job, std::unique_lock<std::mutex> &guard)
    {
        std::vector<uint64_t> last(count_, ~0ull);
        std::vector<int> warned(count_, 0);
        while (!done_.wait_for(guard, std::chrono::seconds(patience_), [&] { return busy_ == 0; }))
            for (unsigned i = 0; i < count_; i++) {
                Worker &w = *acting_[i];
                uint64_t now = w.switches;
                if (!w.current || now != last[i]) {
                    last[i] = now;
                    warned[i] = 0;
                } else if (warned[i]++ == 0) {
                    trap_interrupt(w);
                } else { // a sanitizer holds signals back while code calls nothing
                    say(job.launch->name + ": does not stop (a bare spin loop?)");
                    abort();
                }
            }
    }
    void become_worker(Worker *w)
    {
        me = w;
        w->id = pthread_self();
        if (__tsan_get_current_fiber)
            w->main.tsan = __tsan_get_current_fiber();
        pthread_attr_t attributes;
        void *stack;
        pthread_getattr_np(pthread_self(), &attributes);
        pthread_attr_getstack(&attributes, &stack, &w->main.stack_size);
        pthread_attr_destroy(&attributes);
        w->main.stack = (char *)stack;
        trap_on_this_thread(*w);
    }
    static void settle(const Unit &unit, Job &job)
    {
        if (!unit.failed)
            return;
        std::lock_guard<std::mutex> guard(job.lock);
        if (!job.outcome.result) {
            job.outcome.result = unit.result;
            job.outcome.message =
                job.launch->name + ": " + unit.message + " [CUDASIM_SEED=" + std::to_string(job.seed) + "]";
        }
        job.stop = true;
    }
    // On the OS thread that begins a unit also its end: a fiber never changes it.
    void work_early(Worker *w, Job &job, unsigned index)
    {
        Early &early = *job.early;
        for (size_t k = index; k < early.workers.size() && index < early.threads; k += early.threads) {
            Worker &held = *early.workers[k];
            me = acting_[index] = &held;
            if (job.begins) {
                held.id = w->id;
                held.main = w->main;
                begin_unit(held, *job.launch, early.units[k] * job.per_unit, job.per_unit, job.seed);
            } else if (job.stop) {
                drop_unit(held);
            } else {
                finish_unit(held);
                settle(held.unit, job);
            }
            me = acting_[index] = w;
        }
    }
    void work(Worker *w, Job &job, unsigned index)
    {
        if (job.early)
            work_early(w, job, index);
        for (uint64_t i; !job.begins && !job.stop && (i = job.next++) < job.units;) {
            const uint64_t unit = job.order(i);
            if (job.early && std::count(job.early->units.begin(), job.early->units.end(), unit))
                continue;
            run_unit(*w, *job.launch, unit * job.per_unit, job.per_unit, job.seed);
            settle(w->unit, job);
        }
        tsan_release(&job);
    }
    void loop(Worker *w, unsigned index)
    {
        become_worker(w);
        for (unsigned seen = 0;;) {
            std::unique_lock<std::mutex> guard(lock_);
            go_.wait(guard, [&] { return turn_ != seen; });
            seen = turn_;
            if (index >= active_)
                continue;
            Job *job = job_;
            guard.unlock();
            work(w, *job, index);
            guard.lock();
            if (--busy_ == 0)
                done_.notify_all();
        }
    }

    const unsigned count_;
    const long patience_; // seconds
    std::vector<std::unique_ptr<Worker>> workers_;
    std::unique_ptr<std::atomic<Worker *>[]> acting_; // with whose units each is busy
    std::mutex lock_;
    std::condition_variable go_, done_;
    Job *job_ = nullptr;
    unsigned turn_ = 0, busy_ = 0, active_ = 0;
};

std::atomic<uint64_t> seed_now{[] {
    uint64_t s = (uint64_t)env_number("CUDASIM_SEED", -1);
    return s != ~0ull ? s : mix((uint64_t)time(nullptr) ^ (uint64_t)getpid() << 32) & 0xffffff;
}()};
} // namespace

void engine_seed(uint64_t seed)
{
    seed_now = seed;
}
static std::mutex one; // launch at a time
static Team &team()
{
    static Team *t = new Team; // never ends: its threads run as long as the process
    return *t;
}
static uint64_t blocks_of(const Launch &l)
{
    return (uint64_t)l.grid.x * l.grid.y * l.grid.z;
}
static unsigned blocks_per_unit(const Launch &l)
{
    return l.cooperative ? (unsigned)blocks_of(l) : l.cluster.x * l.cluster.y * l.cluster.z;
}

// Workers for units that were begun: those of the next launch and of the one after it, which may begin before
// that ends.
static std::vector<std::unique_ptr<Worker>> &spare()
{
    enum { LAUNCHES = 2, UNITS = 3 };
    static auto *all = new std::vector<std::unique_ptr<Worker>>(LAUNCHES * UNITS);
    return *all;
}
Early::~Early()
{
    std::lock_guard<std::mutex> guard(one);
    for (auto &w : workers) {
        if (!over)
            drop_unit(*w);
        spare().push_back(std::move(w));
    }
}
std::shared_ptr<Early> engine_begin(const Launch &l)
{
    enum { MOST_THREADS = 1024 }; // of a unit, so that stacks do not run out of mappings
    const unsigned per_unit = blocks_per_unit(l);
    const uint64_t units = blocks_of(l) / per_unit;
    // ThreadSanitizer's time grows with the square of the fibers.
    if (!l.programmatic || __tsan_create_fiber || per_unit * l.block.x * l.block.y * l.block.z > MOST_THREADS)
        return nullptr;
    auto early = std::make_shared<Early>();
    early->launch = l;
    early->units = {0, units / 2, units - 1};
    early->units.erase(std::unique(early->units.begin(), early->units.end()), early->units.end());
    const size_t n = early->units.size();
    std::lock_guard<std::mutex> guard(one);
    if (spare().size() < n)
        return nullptr;
    for (size_t k = 0; k < n; k++) {
        early->workers.push_back(std::move(spare().back()));
        spare().pop_back();
        if (!early->workers[k])
            early->workers[k].reset(new Worker);
    }
    early->seed = seed_now;
    early->threads = team().threads(n);
    Job job{&early->launch, n, per_unit, early->seed, Shuffle(n, 0), early.get(), true, {0}, {false}, {}, {}};
    team().run(job);
    return early;
}
Outcome engine_launch(const Launch &l, const std::shared_ptr<Early> &early)
{
    std::lock_guard<std::mutex> guard(one);
    const unsigned per_unit = blocks_per_unit(l);
    const uint64_t units = blocks_of(l) / per_unit, seed = early ? early->seed : (uint64_t)seed_now;
    // CUDA promises no order of blocks
    Job job{&l,  units,   per_unit, seed, Shuffle(units, seed ? mix(seed) : 0), early.get(), false,
            {0}, {false}, {},       {}};
    Outcome o = team().run(job);
    if (early)
        early->over = true;
    return o;
}
} // namespace sim
