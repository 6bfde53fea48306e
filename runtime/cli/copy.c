#include "copy.h"

#include "../image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
    "    gnf_copy(const uint4 *__restrict__ x, uint4 *__restrict__ y, unsigned long long count)\n"
    "{\n"
    "    unsigned long long at = (unsigned long long)blockIdx.x * (THREADS * ITEMS) + threadIdx.x;\n"
    "    uint4 v[ITEMS];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < ITEMS; i++)\n"
    "        if (at + i * THREADS < count)\n"
    "            v[i] = STREAM_LOADS ? __ldcs(x + at + i * THREADS) : x[at + i * THREADS];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < ITEMS; i++)\n"
    "        if (at + i * THREADS < count) {\n"
    "            if (STREAM_STORES)\n"
    "                __stcs(y + at + i * THREADS, v[i]);\n"
    "            else\n"
    "                y[at + i * THREADS] = v[i];\n"
    "        }\n"
    "}\n";

static const struct {
    unsigned threads, items;
    int stream_loads, stream_stores;
} forms[] = {
    {256, 4, 0, 0}, {256, 4, 0, 1}, {256, 4, 1, 1}, {256, 8, 0, 0}, {256, 8, 0, 1}, {256, 8, 1, 1},
    {512, 4, 0, 0}, {512, 4, 0, 1}, {512, 4, 1, 1}, {512, 8, 0, 0}, {512, 8, 0, 1}, {512, 8, 1, 1},
};
enum { FORMS = sizeof forms / sizeof forms[0], ITEM_BYTES = 16 };

static gnf_status load_form(struct copy *copy, int i, const struct gnf_target *target, bool *outdated)
{
    struct session *session = copy->session;
    const struct gnf_driver *cuda = &session->context->driver;
    char text[sizeof source + 256], *key;
    snprintf(text, sizeof text,
             "#define THREADS %u\n#define ITEMS %u\n#define STREAM_LOADS %d\n#define STREAM_STORES %d\n%s",
             forms[i].threads, forms[i].items, forms[i].stream_loads, forms[i].stream_stores, source);
    struct gnf_image_job job = {
        .cache = session->context->cache,
        .compiler = session->context->compiler,
        .entry = "gnf_copy",
        .source = text,
        .target = target,
        .jit = session->context->options.jit,
    };
    void *image = NULL;
    size_t size = 0;
    GNF_TRY(gnf_image_key(target, text, &key));
    gnf_status status = gnf_image_fetch(&job, key, &image, &size);
    free(key);
    *outdated = job.outdated;
    GNF_TRY(status);
    struct copy_form *form = &copy->form[i];
    status = GNF_CU(cuda, cuModuleLoadData, (&form->module, image));
    free(image);
    GNF_TRY(status);
    form->copy = copy;
    form->threads = forms[i].threads;
    form->per_thread = forms[i].items;
    return GNF_CU(cuda, cuModuleGetFunction, (&form->function, form->module, "gnf_copy"));
}

static gnf_status find_target(const struct session *session, int outdated, struct gnf_target *target)
{
    gnf_context *context = session->context;
    return gnf_target_find(target, context->cache, context->compiler, context->target_request,
                           context->device.capability, context->options.jit, outdated);
}

/* For the target recorded in the cache, so that NVRTC is loaded only where something must be compiled; once
 * more where that turns out to be another NVRTC's. */
static gnf_status load_forms(struct copy *copy)
{
    struct gnf_target target;
    bool outdated = false;
    GNF_TRY(find_target(copy->session, 0, &target));
    for (; copy->form_count < FORMS; copy->form_count++) {
        gnf_status status = load_form(copy, copy->form_count, &target, &outdated);
        if (outdated) {
            GNF_TRY(find_target(copy->session, target.nvrtc, &target));
            status = load_form(copy, copy->form_count, &target, &outdated);
        }
        GNF_TRY(status);
    }
    return GNF_OK;
}

static gnf_status prepare(struct copy *copy)
{
    struct session *session = copy->session;
    const struct gnf_driver *cuda = &session->context->driver;
    GNF_TRY(load_forms(copy));
    size_t bytes = (size_t)copy->sets * 2 * (size_t)copy->items * ITEM_BYTES;
    GNF_TRY(GNF_CU(cuda, cuMemAlloc, (&copy->memory, bytes)));
    /* Anything but zeros: memory that is all zero is cheaper to move. */
    return GNF_CU(cuda, cuMemsetD32Async, (copy->memory, 0x3f9d70a4u, bytes / 4, session->stream));
}

gnf_status copy_create(struct copy *copy, struct session *session, int64_t bytes)
{
    memset(copy, 0, sizeof *copy);
    copy->session = session;
    copy->items = (bytes / 2 + ITEM_BYTES - 1) / ITEM_BYTES;
    copy->sets = timing_sets(session, bytes, (int64_t)(session->context->device.memory / 4));
    copy->form = calloc(FORMS, sizeof *copy->form);
    if (copy->form == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for the copy kernels");
    gnf_status status = prepare(copy);
    if (status != GNF_OK)
        copy_destroy(copy);
    return status;
}

void copy_destroy(struct copy *copy)
{
    if (copy->session == NULL)
        return;
    const struct gnf_driver *cuda = &copy->session->context->driver;
    for (int i = 0; copy->form != NULL && i < FORMS; i++)
        if (copy->form[i].module != NULL)
            cuda->cuModuleUnload(copy->form[i].module);
    if (copy->memory != 0)
        cuda->cuMemFree(copy->memory);
    free(copy->form);
    memset(copy, 0, sizeof *copy);
}

static gnf_status launch_form(void *user, int set, CUstream stream)
{
    const struct copy_form *form = user;
    const struct copy *copy = form->copy;
    CUdeviceptr x = copy->memory + (CUdeviceptr)set * 2 * (CUdeviceptr)copy->items * ITEM_BYTES;
    CUdeviceptr y = x + (CUdeviceptr)copy->items * ITEM_BYTES;
    unsigned long long count = (unsigned long long)copy->items;
    void *arguments[] = {&x, &y, &count};
    unsigned long long block = (unsigned long long)form->threads * form->per_thread;
    CUlaunchConfig config = {
        .gridDimX = (unsigned)((count + block - 1) / block),
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = form->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .hStream = stream,
    };
    return GNF_CU(&copy->session->context->driver, cuLaunchKernelEx,
                  (&config, form->function, arguments, NULL));
}

static struct timing_job job_of(struct copy *copy, int form)
{
    return (struct timing_job){.launch = launch_form, .user = &copy->form[form], .sets = copy->sets};
}

gnf_status copy_choose(struct copy *copy)
{
    enum { SAMPLES = 7 };
    struct timing_job jobs[FORMS];
    for (int i = 0; i < FORMS; i++)
        jobs[i] = job_of(copy, i);
    GNF_TRY(timing_run(copy->session, jobs, FORMS, SAMPLES));
    for (int i = 0; i < FORMS; i++)
        if (jobs[i].median_us < jobs[copy->best].median_us)
            copy->best = i;
    return GNF_OK;
}

struct timing_job copy_job(struct copy *copy)
{
    return job_of(copy, copy->best);
}
