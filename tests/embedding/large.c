/* H03: tensors on both sides of 2^31 elements, bf16, +1 and -1 in turn: each group's mean is 0 and its
 * variance 1, so the answer is the input. large [CASE...] runs the cases named, else those marked usual.
 * 0, 1 with the reason, or 77 where there is no device or too little memory (about 10 GB, the host's where
 * the device is simulated). */
#include "cuda_calls.h"
#include <gnfuse/gnfuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SKIPPED = 77, CHUNK = 64 << 20, ROOM = 4 /* unused bytes after a tensor, at least */ };

struct large_case {
    const char *name, *problem;
    const char *variant; /* NULL: the default rule's */
    int64_t elements;
    bool usual;
};
static const struct large_case cases[] = {
    {"offsets", "bf16[1,128,16128,1200] | groupnorm(32)", NULL, 128ll * 16128 * 1200, true},
    {"offsets-generic", "bf16[1,128,16128,1200] | groupnorm(32)", "generic.l1", 128ll * 16128 * 1200, false},
    /* a place inside the group and a step from it add up to more than 2^31; minutes in the simulator */
    {"group", "bf16[1,1,2147483647] | groupnorm(1)", NULL, 2147483647, false},
};
enum { CASES = sizeof cases / sizeof *cases, WORDS = 128 * 16128 * (1200 / 2) + ROOM / 4 };

static const uint32_t plus_minus = 0xbf803f80; /* +1 at the even index, -1 at the odd */
static const uint32_t untouched = 0xffffffff;

static struct cuda_calls cuda;

static double now(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* GB that the host can give. */
static double host_memory(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long long kilobytes = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return (double)kilobytes / 1e6;
}

/* Every element, so the last channel and both sides of flat index 2^31 too, and what follows the last. */
static bool check(CUdeviceptr y, int64_t elements)
{
    uint16_t *part = malloc(CHUNK), *want = malloc(CHUNK), after[ROOM / 2];
    const uint64_t bytes = 2 * (uint64_t)elements;
    bool ok = part && want;
    for (size_t i = 0; ok && i < CHUNK / sizeof *want; i++)
        want[i] = (uint16_t)(plus_minus >> i % 2 * 16);
    for (uint64_t at = 0; ok && at < bytes; at += CHUNK) {
        size_t size = bytes - at < CHUNK ? bytes - at : CHUNK, i = 0;
        ok = cuda.cuMemcpyDtoH(part, y + at, size) == CUDA_SUCCESS && !memcmp(part, want, size);
        while (!ok && i + 1 < size / sizeof *part && part[i] == want[i])
            i++;
        if (!ok)
            fprintf(stderr, "element %llu is %#x, want %#x\n", (unsigned long long)(at / 2 + i), part[i],
                    want[i]);
    }
    free(part);
    free(want);
    if (ok &&
        (cuda.cuMemcpyDtoH(after, y + bytes, sizeof after) || memcmp(after, &untouched, sizeof after))) {
        fprintf(stderr, "written past the end\n");
        ok = false;
    }
    return ok;
}

static bool execute(const struct large_case *row, const gnf_plan *plan, CUdeviceptr x, CUdeviceptr y)
{
    CUdeviceptr workspace = 0;
    size_t size = gnf_plan_workspace_size(plan);
    if (size && cuda.cuMemAlloc(&workspace, size))
        return fprintf(stderr, "%s: no workspace\n", row->name), false;
    gnf_arguments arguments = {
        .size = sizeof arguments, .x = x, .y = y, .workspace = workspace, .workspace_size = size};
    bool ok = cuda.cuMemsetD32(y, untouched, WORDS) == CUDA_SUCCESS;
    if (ok && gnf_execute(plan, &arguments, NULL) != GNF_OK) {
        fprintf(stderr, "%s: %s\n", row->name, gnf_error_message());
        ok = false;
    }
    ok = ok && cuda.cuCtxSynchronize() == CUDA_SUCCESS && check(y, row->elements);
    if (workspace)
        cuda.cuMemFree(workspace);
    return ok;
}

static bool run(const struct large_case *row, gnf_context *context, CUdeviceptr x, CUdeviceptr y)
{
    gnf_plan *plan;
    gnf_plan_options options = {.size = sizeof options, .variant = row->variant};
    gnf_plan_info info = {.size = sizeof info};
    double begin = now();
    if (gnf_plan_create(&plan, context, row->problem, &options) || gnf_plan_get_info(plan, &info))
        return fprintf(stderr, "%s: %s\n", row->name, gnf_error_message()), false;
    bool ok = info.x_elements == row->elements && info.y_elements == row->elements;
    ok = ok && execute(row, plan, x, y);
    printf("%s, %s (%s): %s, %.1f s\n", row->name, info.variant, info.match, ok ? "ok" : "failed",
           now() - begin);
    fflush(stdout);
    gnf_plan_destroy(&plan);
    return ok;
}

static bool is_wanted(const struct large_case *row, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], row->name))
            return true;
    return count == 0 && row->usual;
}

static int run_all(int count, char **names)
{
    gnf_context *context;
    CUdeviceptr x, y;
    if (cuda.cuMemAlloc(&x, 4ull * WORDS))
        return fprintf(stderr, "skipped: no device memory for 5 GB\n"), SKIPPED;
    if (cuda.cuMemAlloc(&y, 4ull * WORDS)) {
        cuda.cuMemFree(x);
        return fprintf(stderr, "skipped: no device memory for twice 5 GB\n"), SKIPPED;
    }
    if (gnf_context_create(&context, NULL) != GNF_OK)
        return fprintf(stderr, "%s\n", gnf_error_message()), 1;
    bool ok = cuda.cuMemsetD32(x, plus_minus, WORDS) == CUDA_SUCCESS;
    for (int i = 0; i < CASES; i++)
        if (is_wanted(&cases[i], count, names))
            ok = run(&cases[i], context, x, y) && ok;
    gnf_context_destroy(&context);
    cuda.cuMemFree(x);
    cuda.cuMemFree(y);
    return !ok;
}

int main(int argc, char **argv)
{
    CUcontext primary;
    int none = cuda_open(&cuda);
    if (none)
        return none;
    if (cuda.simulated_calls && host_memory() < 14)
        return fprintf(stderr, "skipped: %.1f GB of memory available, 14 needed\n", host_memory()), SKIPPED;
    if (cuda.cuDevicePrimaryCtxRetain(&primary, 0) || cuda.cuCtxSetCurrent(primary))
        return 1;
    int status = run_all(argc - 1, argv + 1);
    cuda.cuDevicePrimaryCtxRelease(0);
    return status;
}
