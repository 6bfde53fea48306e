/* Runs one test kernel once and says what came of it: simcase KERNEL KIND [grid=N cluster=N cooperative=1
 * programmatic=1 target=N n=N shared=N seeds=N freed=1 before=N times=N graph=1], target of its PTX, before a
 * kind that is launched so many times before, graph to capture all that. Prints for each seed "seed S: result
 * R, after A, sum right|wrong, q ...". */
#include "sim.h"

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        CUresult r_ = sim.call;                                                                              \
        if (r_) {                                                                                            \
            fprintf(stderr, "%s: %d\n", #call, r_);                                                          \
            exit(4);                                                                                         \
        }                                                                                                    \
    } while (0)

static struct sim sim;
static struct {
    unsigned grid, cluster, cooperative, programmatic, target, n, shared, seeds, before, times, graph;
    int freed;
} option = {1, 1, 0, 0, 80, 1001, 4096, 0, 0, 0, 0, 0};

static void parse(int argc, char **argv)
{
    for (int i = 3; i < argc; i++) {
        char key[32];
        unsigned value;
        if (sscanf(argv[i], "%31[^=]=%u", key, &value) != 2)
            exit(2);
        if (!strcmp(key, "grid"))
            option.grid = value;
        else if (!strcmp(key, "cluster"))
            option.cluster = value;
        else if (!strcmp(key, "cooperative"))
            option.cooperative = value;
        else if (!strcmp(key, "programmatic"))
            option.programmatic = value;
        else if (!strcmp(key, "target"))
            option.target = value;
        else if (!strcmp(key, "n"))
            option.n = value;
        else if (!strcmp(key, "shared"))
            option.shared = value;
        else if (!strcmp(key, "seeds"))
            option.seeds = value;
        else if (!strcmp(key, "before"))
            option.before = value, option.times = 1;
        else if (!strcmp(key, "times"))
            option.times = value;
        else if (!strcmp(key, "graph"))
            option.graph = value;
        else if (!strcmp(key, "freed"))
            option.freed = 1;
        else
            exit(2);
    }
}
static void one(CUfunction f, CUdeviceptr p, CUdeviceptr q, int kind, float want)
{
    size_t outputs = (size_t)option.grid * 256, size = (outputs + option.grid + 1) * 4;
    float *out = malloc(size);
    CUdeviceptr more;
    TRY(cuMemsetD8Async(q, 0, size, NULL));
    int how = (option.cooperative ? SIM_COOPERATIVE : 0) | (option.programmatic ? SIM_PROGRAMMATIC : 0);
    struct sim_launch l = {option.grid, 256, option.shared, option.cluster, how, NULL};
    if (option.n * 4 + 1024 > 4096 && kind == 1)
        l.shared = 1024 + option.n * 4;
    CUresult result = CUDA_SUCCESS, after;
    if (option.graph) {
        TRY(cuStreamCreate(&l.stream, 0));
        TRY(cuStreamBeginCapture(l.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    }
    for (unsigned i = 0; i < option.times && !result; i++)
        result = sim_run(&sim, f, l, (int)option.before, p, (int)option.n, q);
    if (!result)
        result = sim_run(&sim, f, l, kind, p, (int)option.n, q);
    if (option.graph) {
        CUgraph graph;
        CUgraphExec exec;
        TRY(cuStreamEndCapture(l.stream, &graph));
        TRY(cuGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 2; i++)
            TRY(cuGraphLaunch(exec, l.stream));
    }
    if (!result)
        result = sim.cuCtxSynchronize();
    after = sim.cuMemAlloc(&more, 4);
    printf("result %d, after %d", result, after);
    if (!result) {
        TRY(cuMemcpyDtoH(out, q, size));
        int right = 1;
        for (size_t i = 0; i < outputs; i++)
            right &= out[i] == want;
        printf(", sum %s, q %g %g %g %g", right ? "right" : "wrong", out[0], out[1], out[2], out[3]);
    }
    printf("\n");
    free(out);
}
int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    CUfunction f;
    CUdeviceptr p, q;
    if (argc < 3)
        return 2;
    parse(argc, argv);
    sim_open(&sim);
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    char target[16];
    snprintf(target, sizeof target, "sm_%u", option.target);
    TRY(cuModuleLoadData(&module, sim_ptx(argv[1], target)));
    TRY(cuModuleGetFunction(&f, module, argv[1]));
    float *data = malloc(option.n * 4), sum = 0;
    for (unsigned i = 0; i < option.n; i++) // whole numbers: any order of adding gives the same
        sum += data[i] = (float)(i % 7);
    TRY(cuMemAlloc(&p, option.n * 4));
    TRY(cuMemAlloc(&q, ((size_t)option.grid * 257 + 1) * 4));
    TRY(cuMemcpyHtoD(p, data, option.n * 4));
    free(data);
    if (option.freed)
        TRY(cuMemFree(p));
    int kind = atoi(argv[2]);
    if (!strcmp(argv[1], "faulty"))
        sum = 3 * 255 * 128; // of the two reductions
    if (!option.seeds)
        one(f, p, q, kind, sum);
    for (unsigned s = 0; s < option.seeds; s++) {
        sim.seed(s);
        one(f, p, q, kind, sum);
    }
    return 0;
}
