// The driver's objects. Everything here is guarded by one lock, which each entry point takes.
//
// Work waits in its stream until a call that synchronises (CUDASIM_LAZY=0: it runs at once), so that a host
// program that forgets to synchronise sees fresh memory, all NaN.
#pragma once
#include "../engine/engine.h"
#include <cuda.h>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

namespace sim
{
struct Device {
    int major = 9, minor = 0, sms = 132;
    int shared_block = 0, shared_sm = 0; // bytes; 0: as the capability has
    int l2 = 50 << 20;
    size_t memory = 8ull << 30;
    std::string name;
    int threads_sm = 2048, blocks_sm = 32;
};

// What waits in a stream.
struct Work {
    template <class F> Work(F f) : run(std::move(f)) {}
    CUresult operator()() const { return run(); }
    std::function<CUresult()> run;
    bool kernel = false;
    // Of a programmatic launch: true begins it before the kernel before has run, false gives up what was
    // begun.
    std::function<void(bool)> begin;
};
struct Capture {
    std::vector<Work> work;
    CUstreamCaptureMode mode;
    std::thread::id thread;
    bool broken = false;
};
struct Context;
struct Stream {
    Context *context;
    bool blocking = true; // waits for, and is waited for by, the null stream
    std::deque<Work> waiting;
    std::shared_ptr<Capture> capture;
};
struct Mark { // one record of an event
    bool done = false;
    double time = 0; // microseconds
};
struct Event {
    Context *context;
    std::shared_ptr<Mark> mark; // of the last record; null before any
    Stream *stream = nullptr;
    bool captured = false;
};
struct Graph {
    std::vector<Work> work;
};
struct Context {
    int device;
    bool primary = false, alive = true;
    int retained = 0;
    CUresult sticky = CUDA_SUCCESS; // after a fault every call fails with it
    Stream null_stream{this, true, {}, nullptr};
    std::vector<Stream *> streams{&null_stream};
};

struct Kernel { // of an image
    std::string name;
    int registers = 32, max_threads = 1024;
    int local = 0, shared = 0; // bytes: of a thread, and of a block before what a launch adds
    unsigned cluster[3] = {0, 0, 0};
    std::vector<unsigned> param_sizes;
};
struct Module;
struct Function {
    Kernel kernel;
    Module *module;
    const simt_entry *entry; // null: no host-compiled kernel of that name
    int arch, target;
    int shared_max = 48 << 10;
    bool nonportable = false; // clusters of more than 8 blocks
};
struct Module {
    Context *context;
    std::vector<std::unique_ptr<Function>> functions;
    std::shared_ptr<bool> loaded;
};

struct Injection {
    std::string function;
    long nth; // 0: every call
    int result;
    bool sticky;
};
struct Driver {
    std::recursive_mutex lock;
    bool ready = false, lazy = true;
    int process = 0; // that called cuInit: a forked child may not go on
    int version = 13000;
    double clock = 0; // microseconds of a made-up time, the same in every run; it says nothing about a GPU
    std::vector<Device> devices;
    std::vector<Context *> contexts; // also dead ones, as handles to them may be used
    std::vector<Injection> injections;
    std::set<std::string> missing; // functions that this driver does not have
    std::map<const void *, const std::type_info *>
        handles; // live streams, events, graphs, modules and functions
};
Driver &driver();
extern thread_local Context *current;

enum Need { NEEDS_NOTHING, NEEDS_INIT, NEEDS_CONTEXT };
// Counts the call; a failure that is injected or that every call has.
CUresult enter(const char *function, Need need);
// The two by themselves: a failure that is injected, and one that every call has.
int injected(const char *function, Context *c);
CUresult usable(Need need);
// CUDASIM_FAIL's grammar: "cuMemAlloc:3=2,cuLaunchKernelEx:1=700*,kernel:2=719*"
void set_injections(const char *spec);
long calls_of(const char *function);
// For the n-th kernel that runs (as "kernel" in CUDASIM_FAIL).
CUresult injected_fault();

#define ENTER(function, need)                                                                                \
    std::lock_guard<std::recursive_mutex> guard_(driver().lock);                                             \
    if (CUresult entered_ = enter(#function, need))                                                          \
    return entered_
#define REQUIRE(condition, code)                                                                             \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return code;                                                                                     \
    } while (0)
#define RETURN_IF(call)                                                                                      \
    do {                                                                                                     \
        if (CUresult result_ = (call))                                                                       \
            return result_;                                                                                  \
    } while (0)

// device.cc
void devices_read(const char *spec, std::vector<Device> &devices);

// context.cc
Context *context_create(int device, bool primary);

// stream.cc
CUresult stream_of(CUstream handle, Stream **stream); // checks the handle and its context
CUresult submit(Stream *s, Work work);
CUresult drain(Stream *s);
CUresult drain_all(Context *c);
// For calls that a capture forbids: breaks the captures concerned.
CUresult refuse_in_capture();
// The same for a call that uses the null stream.
CUresult refuse_legacy_in_capture(Context *c);

// A handle that the program gives us, or null when it is not one of a live T.
template <class T> T *live(const void *handle)
{
    auto it = driver().handles.find(handle);
    return it != driver().handles.end() && *it->second == typeid(T) ? (T *)handle : nullptr;
}
template <class T> void enlist(const T *object)
{
    driver().handles[object] = &typeid(T);
}

// image.cc: names and properties of the kernels in a cubin or a PTX text
struct Image {
    int arch = 0;
    int target = 0; // that the source was compiled for: PTX of an older one runs too
    std::vector<Kernel> kernels;
};
CUresult image_read(const void *bytes, const Device &device, Image &image);

// launch.cc
// Work that takes the device's time: `run` after the clock and the injected faults have had their say. `name`
// and `grid` are for them, `microseconds` is how long it takes where no clock is set.
CUresult execute(Context *context, const std::string &name, const std::string &grid, double microseconds,
                 const std::function<Outcome()> &run);
int blocks_per_sm(const Function &f, const Device &d, int threads, size_t shared);
} // namespace sim
