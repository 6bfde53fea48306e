/* What a simulated clock shows and does: simclock N [graph|after]. N launches, each between two events, and a
 * line for each: "launch I: T us". `graph`: one graph of N launches of one block and N of two, launched
 * twice. `after`: another kernel runs before them. Then what became of it: "result R, after A, blocks B", A
 * of the next call, B the blocks that really ran. */
#include "sim.h"

static struct sim sim;
static CUresult result;
enum { COUNT = 4, NOTHING = 99 }; /* kinds of the kernels */

/* The first failure counts; nothing is called after it. */
#define TRY(call) (result = result ? result : sim.call)

static CUfunction kernel(const char *name)
{
    CUmodule m;
    CUfunction f = NULL;
    TRY(cuModuleLoadData(&m, sim_ptx(name, "sm_80")));
    TRY(cuModuleGetFunction(&f, m, name));
    return f;
}
static void start(CUfunction f, int kind, unsigned grid, CUstream s, CUdeviceptr count)
{
    struct sim_launch l = {grid, 32, 4096, 1, 0, s};
    if (!result)
        result = sim_run(&sim, f, l, kind, count, 0, count);
}
static void show(const char *what, int i, CUevent from, CUevent to)
{
    float ms;
    TRY(cuEventElapsedTime(&ms, from, to));
    if (!result)
        printf("%s %d: %.4f us\n", what, i, (double)ms * 1e3);
}
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1, graphs = argc > 2 && !strcmp(argv[2], "graph") ? 2 : 0;
    unsigned count = 0;
    CUcontext context;
    CUdeviceptr counter;
    CUstream s;
    CUevent event[2];
    CUgraph graph;
    CUgraphExec exec;
    sim_open(&sim);
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc(&counter, 4));
    TRY(cuMemsetD32Async(counter, 0, 1, NULL));
    TRY(cuCtxSynchronize());
    TRY(cuEventCreate(&event[0], 0));
    TRY(cuEventCreate(&event[1], 0));
    CUfunction f = kernel("valid");
    if (argc > 2 && !strcmp(argv[2], "after")) {
        start(kernel("faulty"), NOTHING, 1, s, counter);
        TRY(cuStreamSynchronize(s));
    }
    for (int i = 0; i < n && !graphs && !result; i++) {
        TRY(cuEventRecord(event[0], s));
        start(f, COUNT, 1, s, counter);
        TRY(cuEventRecord(event[1], s));
        TRY(cuStreamSynchronize(s));
        show("launch", i, event[0], event[1]);
    }
    if (graphs)
        TRY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < n && graphs; i++) {
        start(f, COUNT, 1, s, counter);
        start(f, COUNT, 2, s, counter);
    }
    if (graphs) {
        TRY(cuStreamEndCapture(s, &graph));
        TRY(cuGraphInstantiate(&exec, graph, 0));
    }
    for (int i = 0; i < graphs && !result; i++) {
        TRY(cuEventRecord(event[0], s));
        TRY(cuGraphLaunch(exec, s));
        TRY(cuEventRecord(event[1], s));
        TRY(cuStreamSynchronize(s));
        show("graph", i, event[0], event[1]);
    }
    CUresult first = result, after = sim.cuCtxSynchronize();
    if (!after)
        after = sim.cuMemcpyDtoH(&count, counter, 4);
    printf("result %d, after %d, blocks %u\n", first, after, count);
    return 0;
}
