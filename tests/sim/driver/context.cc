// Start-up, injected failures, and contexts.
#include "clock.h"
#include "state.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <unistd.h>

using namespace sim;

namespace sim
{
thread_local Context *current;

Driver &driver()
{
    static Driver *d = new Driver; // outlives whatever the program does at its exit
    return *d;
}
static std::map<std::string, long> &calls()
{
    static auto *m = new std::map<std::string, long>;
    return *m;
}
long calls_of(const char *function)
{
    return calls()[function];
}
void set_injections(const char *spec)
{
    driver().injections.clear();
    calls().clear();
    for (std::string rest = std::string(spec) + ","; !rest.empty();) {
        std::string one = rest.substr(0, rest.find(','));
        rest.erase(0, one.size() + 1);
        char function[64], nth[24];
        Injection i{};
        if (sscanf(one.c_str(), "%63[^:]:%23[^=]=%d", function, nth, &i.result) == 3) {
            i.function = function;
            i.nth = strcmp(nth, "*") ? strtol(nth, nullptr, 10) : 0;
            i.sticky = one.back() == '*';
            driver().injections.push_back(i);
        } else if (!one.empty()) {
            say("CUDASIM_FAIL: '" + one +
                "': want FUNCTION:NTH=RESULT, NTH a number or *, and * at the end for a "
                "context that stays broken");
        }
    }
}
int injected(const char *function, Context *c)
{
    long n = ++calls()[function];
    for (const Injection &i : driver().injections) {
        if (i.function != function || (i.nth && i.nth != n))
            continue;
        if (i.sticky && c) // cuBLASLt's results are no CUresult
            c->sticky = strncmp(function, "cublas", 6) ? (CUresult)i.result : CUDA_ERROR_LAUNCH_FAILED;
        return i.result;
    }
    return 0;
}
CUresult injected_fault()
{
    return (CUresult)injected("kernel", current);
}
CUresult enter(const char *function, Need need)
{
    RETURN_IF((CUresult)injected(function, current));
    return usable(need);
}
CUresult usable(Need need)
{
    if (need == NEEDS_NOTHING)
        return CUDA_SUCCESS;
    REQUIRE(driver().ready && driver().process == getpid(), CUDA_ERROR_NOT_INITIALIZED);
    if (need == NEEDS_INIT)
        return CUDA_SUCCESS;
    REQUIRE(current, CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(current->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return current->sticky;
}

Context *context_create(int device, bool primary)
{
    Context *c = new Context{device, primary};
    driver().contexts.push_back(c);
    return c;
}
static void context_end(Context *c)
{
    drain_all(c);
    c->alive = false;
    memory_free_all(c);
    for (Stream *s : c->streams)
        driver().handles.erase(s);
}
static Context *find(CUcontext handle)
{
    auto &all = driver().contexts;
    return std::find(all.begin(), all.end(), (Context *)handle) == all.end() ? nullptr : (Context *)handle;
}
static Context *primary_of(CUdevice device)
{
    for (Context *c : driver().contexts)
        if (c->primary && c->alive && c->device == device)
            return c;
    return nullptr;
}
static std::vector<Context *> &pushed()
{
    static thread_local std::vector<Context *> stack;
    return stack;
}
} // namespace sim

extern "C" {
CUresult cuInit(unsigned)
{
    std::lock_guard<std::recursive_mutex> guard(driver().lock);
    Driver &d = driver();
    if (!d.ready) {
        if (*env_text("CUDASIM_CLOCK") && !clock_read(env_text("CUDASIM_CLOCK")))
            return CUDA_ERROR_INVALID_VALUE;
        d.ready = true;
        d.process = getpid();
        d.lazy = env_number("CUDASIM_LAZY", 1);
        d.version = (int)env_number("CUDASIM_VERSION", d.version);
        const char *devices = getenv("CUDASIM_DEVICES");
        devices_read(devices ? devices : "cc=9.0", d.devices);
        set_injections(env_text("CUDASIM_FAIL"));
    }
    RETURN_IF(enter("cuInit", NEEDS_INIT));
    return d.devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version)
{
    ENTER(cuDriverGetVersion, NEEDS_NOTHING);
    *version = (int)env_number("CUDASIM_VERSION", driver().version);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(cuDevicePrimaryCtxRetain, NEEDS_INIT);
    REQUIRE(device >= 0 && device < (int)driver().devices.size(), CUDA_ERROR_INVALID_DEVICE);
    Context *c = primary_of(device);
    if (!c)
        c = context_create(device, true);
    c->retained++;
    *context = (CUcontext)c;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    ENTER(cuDevicePrimaryCtxRelease, NEEDS_INIT);
    Context *c = primary_of(device);
    REQUIRE(c, CUDA_ERROR_INVALID_CONTEXT);
    if (--c->retained == 0)
        context_end(c);
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    ENTER(cuDevicePrimaryCtxReset, NEEDS_INIT);
    if (Context *c = primary_of(device))
        context_end(c);
    return CUDA_SUCCESS;
}
CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *, unsigned, CUdevice device)
{
    ENTER(cuCtxCreate, NEEDS_INIT);
    REQUIRE(device >= 0 && device < (int)driver().devices.size(), CUDA_ERROR_INVALID_DEVICE);
    pushed().push_back(current);
    current = context_create(device, false);
    *context = (CUcontext)current;
    return CUDA_SUCCESS;
}
CUresult cuCtxDestroy(CUcontext context)
{
    ENTER(cuCtxDestroy, NEEDS_INIT);
    Context *c = find(context);
    REQUIRE(c && c->alive && !c->primary, CUDA_ERROR_INVALID_CONTEXT);
    context_end(c);
    if (current == c) {
        current = pushed().empty() ? nullptr : pushed().back();
        if (!pushed().empty())
            pushed().pop_back();
    }
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context)
{
    ENTER(cuCtxPushCurrent, NEEDS_INIT);
    REQUIRE(find(context), CUDA_ERROR_INVALID_CONTEXT);
    pushed().push_back(current);
    current = (Context *)context;
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext *context)
{
    ENTER(cuCtxPopCurrent, NEEDS_INIT);
    REQUIRE(current, CUDA_ERROR_INVALID_CONTEXT);
    if (context)
        *context = (CUcontext)current;
    current = pushed().empty() ? nullptr : pushed().back();
    if (!pushed().empty())
        pushed().pop_back();
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER(cuCtxSetCurrent, NEEDS_INIT);
    REQUIRE(!context || find(context), CUDA_ERROR_INVALID_CONTEXT);
    current = (Context *)context;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER(cuCtxGetCurrent, NEEDS_INIT);
    *context = (CUcontext)current;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER(cuCtxGetDevice, NEEDS_INIT);
    REQUIRE(current, CUDA_ERROR_INVALID_CONTEXT);
    *device = current->device;
    return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void)
{
    ENTER(cuCtxSynchronize, NEEDS_CONTEXT);
    for (Stream *s : current->streams)
        if (s->capture) {
            s->capture->broken = true;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return drain_all(current);
}
}
