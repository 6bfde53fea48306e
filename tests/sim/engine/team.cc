// The OS threads that share the units of a launch, and the watchdog over them.
#include "unit.h"
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
    std::atomic<uint64_t> next{0};
    std::atomic<bool> stop{false};
    std::mutex lock;
    Outcome outcome;
};

class Team
{
  public:
    Team()
        : count_((unsigned)std::max(
              1l, env_number("CUDASIM_THREADS", (long)std::thread::hardware_concurrency()))),
          patience_(std::max(1l, env_number("CUDASIM_TIMEOUT", 60)))
    {
        trap_install();
        for (unsigned i = 0; i < count_; i++) {
            workers_.emplace_back(new Worker);
            std::thread(&Team::loop, this, workers_[i].get(), i).detach();
        }
    }
    Outcome run(Job &job)
    {
        std::unique_lock<std::mutex> guard(lock_);
        job_ = &job;
        active_ = (unsigned)std::min<uint64_t>(count_, job.units);
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
                Worker &w = *workers_[i];
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
    void work(Worker *w, Job &job)
    {
        for (uint64_t i; !job.stop && (i = job.next++) < job.units;) {
            run_unit(*w, *job.launch, job.order(i) * job.per_unit, job.per_unit, job.seed);
            if (!w->unit.failed)
                continue;
            std::lock_guard<std::mutex> guard(job.lock);
            if (!job.outcome.result) {
                job.outcome.result = w->unit.result;
                job.outcome.message = job.launch->name + ": " + w->unit.message +
                                      " [CUDASIM_SEED=" + std::to_string(job.seed) + "]";
            }
            job.stop = true;
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
            work(w, *job);
            guard.lock();
            if (--busy_ == 0)
                done_.notify_all();
        }
    }

    const unsigned count_;
    const long patience_; // seconds
    std::vector<std::unique_ptr<Worker>> workers_;
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
Outcome engine_launch(const Launch &l)
{
    static std::mutex one;
    static Team *team = new Team; // never ends: its threads run as long as the process
    std::lock_guard<std::mutex> guard(one);
    uint64_t blocks = (uint64_t)l.grid.x * l.grid.y * l.grid.z, seed = seed_now;
    unsigned per_unit = l.cooperative ? (unsigned)blocks : l.cluster.x * l.cluster.y * l.cluster.z;
    uint64_t units = blocks / per_unit;
    // CUDA promises no order of blocks
    Job job{&l, units, per_unit, seed, Shuffle(units, seed ? mix(seed) : 0), {0}, {false}, {}, {}};
    return team->run(job);
}
} // namespace sim
