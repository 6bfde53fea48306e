#include "fixture.h"
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda_calls cuda;
CUcontext device_context;
char scratch[256];

int check_device(void)
{
    struct cuda_calls calls;
    return cuda_open(&calls);
}

int group_setup(void **state)
{
    const char *parent = getenv("TMPDIR");
    (void)state;
    snprintf(scratch, sizeof scratch, "%s/gnfuse-embedding-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(scratch) || cuda_open(&cuda))
        return -1;
    return cuda.cuDevicePrimaryCtxRetain(&device_context, 0) || cuda.cuCtxSetCurrent(device_context) ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

int group_teardown(void **state)
{
    (void)state;
    cuda.cuCtxSetCurrent(NULL);
    cuda.cuDevicePrimaryCtxRelease(0);
    return nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- contexts and their logs ---- */

void log_line(void *user, gnf_log_level level, const char *line)
{
    struct log *log = user;
    pthread_mutex_lock(&log->lock);
    log->lines++;
    log->warnings += level <= GNF_LOG_WARNING;
    log->compiles += strncmp(line, "compiling ", 10) == 0;
    snprintf(log->last, sizeof log->last, "%s", line);
    pthread_mutex_unlock(&log->lock);
}

const char *scratch_path(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

gnf_context *open_context(CUcontext cuda_context, const char *cache, struct log *log)
{
    gnf_context *context;
    gnf_context_options options = {
        .size = sizeof options,
        .cuda_context = cuda_context,
        .cache_dir = scratch_path(cache),
        .log = log ? log_line : NULL,
        .log_user = log,
        .log_level = log ? GNF_LOG_INFO : 0,
    };
    assert_ok(gnf_context_create(&context, &options));
    return context;
}

gnf_plan *make_plan(gnf_context *context, const char *problem, int64_t samples, const char *variant)
{
    gnf_plan *plan;
    gnf_plan_options options = {.size = sizeof options, .samples = samples, .variant = variant};
    assert_ok(gnf_plan_create(&plan, context, problem, &options));
    return plan;
}

gnf_plan_info plan_info(const gnf_plan *plan)
{
    gnf_plan_info info = {.size = sizeof info};
    assert_ok(gnf_plan_get_info(plan, &info));
    return info;
}

int list_variants(gnf_context *context, const char *problem, int64_t samples, char names[][64], int room)
{
    gnf_plan *plan;
    gnf_plan_options options = {.size = sizeof options, .samples = samples, .variant = "none"};
    int count = 0;
    assert_int_equal(gnf_plan_create(&plan, context, problem, &options), GNF_INVALID_ARGUMENT);
    const char *list = strstr(gnf_error_message(), "' has ");
    assert_non_null(list);
    for (list += strlen("' has "); count < room && sscanf(list, "%63[^,]", names[count]) == 1; count++) {
        list += strlen(names[count]);
        list += *list ? strlen(", ") : 0;
    }
    assert_true(count > 0 && count < room);
    return count;
}

/* ---- tensors ---- */

static void fill_guarded(unsigned char *all, size_t bytes, size_t offset)
{
    memset(all, 0xa5, 2 * GUARD + offset + bytes);
    memset(all + GUARD + offset, 0xff, bytes);
}

struct tensor tensor_new(size_t bytes, size_t offset)
{
    size_t size = 2 * GUARD + offset + bytes;
    unsigned char *all = malloc(size);
    CUdeviceptr base;
    fill_guarded(all, bytes, offset);
    assert_int_equal(cuda.cuMemAlloc(&base, size), CUDA_SUCCESS);
    assert_int_equal(cuda.cuMemcpyHtoD(base, all, size), CUDA_SUCCESS);
    free(all);
    return (struct tensor){base + GUARD + offset, bytes, offset};
}

struct tensor tensor_of(const void *data, size_t bytes, size_t offset)
{
    struct tensor tensor = tensor_new(bytes, offset);
    tensor_write(&tensor, data);
    return tensor;
}

void tensor_read(const struct tensor *tensor, void *data)
{
    assert_int_equal(cuda.cuMemcpyDtoH(data, tensor->at, tensor->bytes), CUDA_SUCCESS);
}

void tensor_write(const struct tensor *tensor, const void *data)
{
    assert_int_equal(cuda.cuMemcpyHtoD(tensor->at, data, tensor->bytes), CUDA_SUCCESS);
    synchronise(); /* the copy of a small buffer may still be under way, and other streams do not wait for it
                    */
}

void tensor_check_guards(const struct tensor *tensor)
{
    size_t before = GUARD + tensor->offset, size = before + tensor->bytes + GUARD;
    unsigned char *all = malloc(size);
    assert_int_equal(cuda.cuMemcpyDtoH(all, tensor->at - before, size), CUDA_SUCCESS);
    for (size_t i = 0; i < size; i++)
        if ((i < before || i >= before + tensor->bytes) && all[i] != 0xa5)
            fail_msg("byte %zd of a tensor of %zu bytes is written", (ssize_t)i - (ssize_t)before,
                     tensor->bytes);
    free(all);
}

void tensor_free(struct tensor *tensor)
{
    if (!tensor->at)
        return;
    tensor_check_guards(tensor);
    assert_int_equal(cuda.cuMemFree(tensor->at - GUARD - tensor->offset), CUDA_SUCCESS);
    tensor->at = 0;
}

/* ---- numbers ---- */

void fill_random(float *data, size_t count, unsigned seed)
{
    uint32_t state = seed * 2654435761u + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(state >> 8) / (float)(1 << 22) - 2.0f;
    }
}

void reference(const float *x, double *y, int samples, int channels, int spatial, int groups)
{
    size_t length = (size_t)(channels / groups) * (size_t)spatial;
    for (size_t g = 0; g < (size_t)samples * (size_t)groups; g++) {
        const float *in = x + g * length;
        double mean = 0, variance = 0;
        for (size_t i = 0; i < length; i++)
            mean += in[i] / (double)length;
        for (size_t i = 0; i < length; i++)
            variance += (in[i] - mean) * (in[i] - mean) / (double)length;
        for (size_t i = 0; i < length; i++)
            y[g * length + i] = (in[i] - mean) / sqrt(variance + 1e-5);
    }
}

void check_close(const float *got, const double *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-4 * fmax(1, fabs(want[i]))))
            fail_msg("element %zu is %.9g, want %.9g", i, got[i], want[i]);
}

/* ---- executing ---- */

void assert_status(gnf_status got, gnf_status want, const char *file, int line)
{
    if (got != want)
        fail_msg("%s:%d: %s, want %s: %s", file, line, gnf_status_name(got), gnf_status_name(want),
                 got == GNF_OK ? "" : gnf_error_message());
}

void check_refused(gnf_status got, gnf_status want, const char *part, const char *file, int line)
{
    assert_status(got, want, file, line);
    if (!strstr(gnf_error_message(), part))
        fail_msg("%s:%d: \"%s\" does not contain \"%s\"", file, line, gnf_error_message(), part);
}

void synchronise(void)
{
    assert_int_equal(cuda.cuCtxSynchronize(), CUDA_SUCCESS);
}

/* ---- whole layers ---- */

gnf_arguments layer_arguments(struct layer *layer, const gnf_plan *plan)
{
    const gnf_plan_info info = plan_info(plan);
    tensor_free(&layer->work);
    tensor_free(&layer->prepared);
    if (info.workspace_size)
        layer->work = tensor_new(info.workspace_size, 0);
    if (info.prepared_size)
        layer->prepared = tensor_new(info.prepared_size, 0);
    return (gnf_arguments){
        .size = sizeof(gnf_arguments),
        .x = layer->x.at,
        .y = layer->y.at,
        .operand = {layer->operand.at},
        .weight = layer->weight.at,
        .bias = layer->bias.at,
        .workspace = layer->work.at,
        .workspace_size = info.workspace_size,
        .prepared = layer->prepared.at,
    };
}

gnf_arguments layer_bind(struct layer *layer, const gnf_plan *plan)
{
    const gnf_arguments arguments = layer_arguments(layer, plan);
    size_t size = layer->prepared.at ? layer->prepared.bytes : 0;
    assert_ok(gnf_prepare_weight(plan, arguments.weight, arguments.prepared, size, NULL));
    return arguments;
}

void layer_free(struct layer *layer)
{
    struct tensor *const all[] = {&layer->x,    &layer->y,    &layer->operand, &layer->weight,
                                  &layer->bias, &layer->work, &layer->prepared};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

/* ---- graphs ---- */

CUgraphExec end_capture(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    assert_int_equal(cuda.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    return exec;
}

void check_replays(struct layer *layer, const gnf_plan *plan, size_t elements, const struct replays *replays)
{
    float *replayed = malloc(layer->y.bytes), *eager = malloc(layer->y.bytes);
    const gnf_arguments arguments = layer_bind(layer, plan);
    size_t before, after, total;
    CUstreamCaptureStatus capture;
    CUstream stream;
    assert_int_equal(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    synchronise();
    if (replays->run_before)
        assert_ok(gnf_execute(plan, &arguments, stream));
    assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(cuda.cuMemGetInfo(&before, &total), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(gnf_execute(plan, &arguments, stream));
    assert_int_equal(cuda.cuStreamIsCapturing(stream, &capture), CUDA_SUCCESS);
    assert_int_equal(capture, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUgraphExec exec = end_capture(stream);
    for (int i = 0; i < replays->count; i++) {
        const double *want = replays->next((unsigned)i);
        assert_int_equal(cuda.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
        if (i % replays->every && i != replays->count - 1)
            continue;
        tensor_read(&layer->y, replayed);
        assert_false(isnan(replayed[0]));
        if (want)
            check_close(replayed, want, elements);
        memset(eager, 0xff, layer->y.bytes);
        tensor_write(&layer->y, eager);
        assert_ok(gnf_execute(plan, &arguments, stream));
        assert_int_equal(cuda.cuStreamSynchronize(stream), CUDA_SUCCESS);
        tensor_read(&layer->y, eager);
        assert_memory_equal(replayed, eager, elements * sizeof(float));
    }
    assert_int_equal(cuda.cuMemGetInfo(&after, &total), CUDA_SUCCESS);
    if (cuda.simulated_calls) /* a real driver keeps memory for graphs */
        assert_int_equal(after, before);
    assert_int_equal(cuda.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuda.cuStreamDestroy(stream), CUDA_SUCCESS);
    free(replayed);
    free(eager);
}
