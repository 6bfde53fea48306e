// Launches: the checks that the driver makes, then the arguments are taken and the work waits in its stream.
#include "clock.h"
#include "state.h"

using namespace sim;

namespace sim
{
int blocks_per_sm(const Function &f, const Device &d, int threads, size_t shared)
{
    enum { QUARTERS = 4, QUARTER_REGISTERS = 16384, SHARED_UNIT = 128 };
    int warps = (threads + 31) / 32;
    // registers are granted to warps by 8 a thread, out of the quarter of a multiprocessor that runs the warp
    int registers = (f.kernel.registers + 7) / 8 * 8 * 32;
    size_t reserved = d.major >= 8 ? 1024 : 0;
    size_t bytes =
        (shared + (size_t)f.kernel.shared + reserved + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT;
    int n = std::min(d.blocks_sm, d.threads_sm / (warps * 32));
    if (registers)
        n = std::min(n, QUARTER_REGISTERS / registers * QUARTERS / warps);
    if (bytes)
        n = std::min(n, (int)((size_t)d.shared_sm / bytes));
    return shared + (size_t)f.kernel.shared > (size_t)d.shared_block ? 0 : n;
}
// A cluster's blocks lie in one group of multiprocessors.
static int clusters(int blocks_sm, int sms, int size)
{
    enum { GROUP = 16 };
    return sms / GROUP * (GROUP * blocks_sm / size) + sms % GROUP * blocks_sm / size;
}

enum { PROGRAMMATIC_ARCH = 90 }; // the first with griddepcontrol

struct Attributes {
    dim3 cluster{1, 1, 1};
    bool cooperative = false, programmatic = false;
};
static Attributes attributes_of(const CUlaunchConfig *c, const Function &f)
{
    Attributes a;
    if (f.kernel.cluster[0])
        a.cluster = {f.kernel.cluster[0], f.kernel.cluster[1], f.kernel.cluster[2]};
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttribute &one = c->attrs[i];
        if (one.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            a.cluster = {one.value.clusterDim.x, one.value.clusterDim.y, one.value.clusterDim.z};
        else if (one.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            a.cooperative = one.value.cooperative;
        else if (one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            a.programmatic = one.value.programmaticStreamSerializationAllowed;
    }
    return a;
}
static CUresult check(const CUlaunchConfig *c, const Function &f, const Attributes &a)
{
    const Device &d = driver().devices[(size_t)current->device];
    uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    uint64_t size = (uint64_t)a.cluster.x * a.cluster.y * a.cluster.z;
    uint64_t blocks = (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ;
    REQUIRE(threads && threads <= (uint64_t)f.kernel.max_threads, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(c->gridDimX && c->gridDimX <= 0x7fffffff, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(c->gridDimY && c->gridDimY <= 65535 && c->gridDimZ && c->gridDimZ <= 65535,
            CUDA_ERROR_INVALID_VALUE);
    REQUIRE(f.kernel.registers * 32 * (int)((threads + 31) / 32) <= 65536,
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    REQUIRE((int64_t)c->sharedMemBytes <= f.shared_max, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(size, CUDA_ERROR_INVALID_VALUE);
    if (size > 1) {
        REQUIRE(d.major >= 9 && size <= (f.nonportable ? 16 : 8), CUDA_ERROR_INVALID_CLUSTER_SIZE);
        REQUIRE(c->gridDimX % a.cluster.x == 0 && c->gridDimY % a.cluster.y == 0 &&
                    c->gridDimZ % a.cluster.z == 0,
                CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    if (a.cooperative) {
        uint64_t most = (uint64_t)d.sms * (uint64_t)blocks_per_sm(f, d, (int)threads, c->sharedMemBytes);
        REQUIRE(blocks <= most, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    return CUDA_SUCCESS;
}

struct Arguments {
    std::vector<std::vector<unsigned char>> values;
    std::vector<void *> pointers;
};
static std::shared_ptr<Arguments> take_arguments(const simt_entry *entry, void **params)
{
    auto a = std::make_shared<Arguments>();
    for (unsigned i = 0; i < entry->param_count; i++) {
        const unsigned char *p = (const unsigned char *)params[i];
        // operator new aligns to 16, which is what any parameter may need
        a->values.emplace_back(p, p + entry->param_sizes[i]);
    }
    for (auto &v : a->values)
        a->pointers.push_back(v.data());
    return a;
}
// More threads take longer, more multiprocessors less: enough for a tuner to have something to order.
static double made_up_microseconds(const Launch &l, const Device &d)
{
    double blocks = (double)l.grid.x * l.grid.y * l.grid.z,
           threads = (double)l.block.x * l.block.y * l.block.z;
    return 2 + blocks * threads / ((double)d.sms * d.threads_sm) + blocks / d.sms * 0.1;
}
static Fate pass_time(const std::string &name, const std::string &grid, double microseconds)
{
    if (clock_set())
        return clock_launch(name, grid, &driver().clock);
    driver().clock += microseconds;
    return {};
}
CUresult execute(Context *context, const std::string &name, const std::string &grid, double microseconds,
                 const std::function<Outcome()> &run)
{
    Outcome o;
    Fate fate = pass_time(name, grid, microseconds);
    if ((o.result = injected_fault()))
        o.message = name + ": injected fault";
    else if ((o.result = fate.result))
        o.message = name + ": a fault that CUDASIM_CLOCK asked for";
    else if (fate.skipped)
        return CUDA_SUCCESS;
    else
        o = run();
    std::string slack = o.result ? "" : memory_check_slack();
    if (!slack.empty())
        o = {CUDA_ERROR_ILLEGAL_ADDRESS, name + " or a copy before it: " + slack};
    if (!o.result)
        return CUDA_SUCCESS;
    say(o.message);
    return context->sticky = (CUresult)o.result;
}
static std::string words(const dim3 &v)
{
    return std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z);
}
static CUresult launch(const CUlaunchConfig *c, Function *f, void **params)
{
    REQUIRE(c && f && params, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(live<Function>(f) && f->module->context == current, CUDA_ERROR_INVALID_HANDLE);
    Stream *s;
    RETURN_IF(stream_of(c->hStream, &s));
    Attributes a = attributes_of(c, *f);
    RETURN_IF(check(c, *f, a));
    if (!f->entry) {
        say(f->kernel.name + ": no host-compiled kernel of this name in CUDASIM_KERNELS");
        return CUDA_ERROR_NOT_FOUND;
    }
    // Older devices take the attribute and overlap nothing; older code on a newer device would overlap.
    if (a.programmatic && f->arch >= PROGRAMMATIC_ARCH && f->target < PROGRAMMATIC_ARCH) {
        say(f->kernel.name + ": a programmatic launch of code for sm_" + std::to_string(f->target) +
            ", in which nothing waits for the kernel before it");
        return current->sticky = CUDA_ERROR_LAUNCH_FAILED;
    }
    auto arguments = take_arguments(f->entry, params);
    Launch l{f->kernel.name,
             f->entry,
             arguments->pointers.data(),
             {c->gridDimX, c->gridDimY, c->gridDimZ},
             {c->blockDimX, c->blockDimY, c->blockDimZ},
             a.cluster,
             c->sharedMemBytes,
             a.cooperative,
             a.programmatic && f->arch >= PROGRAMMATIC_ARCH};
    Context *context = current;
    auto loaded = f->module->loaded;
    double microseconds = made_up_microseconds(l, driver().devices[(size_t)context->device]);
    auto begun = std::make_shared<std::shared_ptr<Early>>();
    Work work([l, arguments, context, loaded, microseconds, begun] {
        const std::shared_ptr<Early> early =
            std::move(*begun); // given up where the kernel does not run after all
        if (*loaded)
            return execute(context, l.name, words(l.grid), microseconds,
                           [&] { return engine_launch(l, early); });
        say(l.name + ": its module was unloaded before the kernel ran");
        return context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    });
    work.kernel = true;
    if (l.programmatic)
        work.begin = [l, arguments, loaded, begun](bool start) {
            *begun = start && *loaded ? engine_begin(l) : nullptr;
        };
    return submit(s, std::move(work));
}
} // namespace sim

extern "C" {
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **)
{
    ENTER(cuLaunchKernelEx, NEEDS_CONTEXT);
    return launch(config, (Function *)function, params);
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **params, void **)
{
    ENTER(cuLaunchKernel, NEEDS_CONTEXT);
    CUlaunchConfig config{gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0};
    return launch(&config, (Function *)function, params);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared)
{
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, NEEDS_CONTEXT);
    const Function *f = live<Function>(function);
    REQUIRE(f, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(threads > 0 && threads <= f->kernel.max_threads, CUDA_ERROR_INVALID_VALUE);
    *blocks = blocks_per_sm(*f, driver().devices[(size_t)current->device], threads, shared);
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    ENTER(cuOccupancyMaxActiveClusters, NEEDS_CONTEXT);
    const Function *f = live<Function>(function);
    REQUIRE(f, CUDA_ERROR_INVALID_HANDLE);
    const Device &d = driver().devices[(size_t)current->device];
    Attributes a = attributes_of(config, *f);
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    uint64_t size = (uint64_t)a.cluster.x * a.cluster.y * a.cluster.z;
    REQUIRE(threads && threads <= (uint64_t)f->kernel.max_threads, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(d.major >= 9 && size && size <= (f->nonportable ? 16 : 8), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    int blocks = blocks_per_sm(*f, d, (int)threads, config->sharedMemBytes);
    *clusters = sim::clusters(blocks, d.sms, (int)size);
    return CUDA_SUCCESS;
}
}
