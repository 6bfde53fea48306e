/* `gnfuse worker measure`: the child of measurer.c. Requests are
 *   {"request":"open","problem":TEXT,"samples":N}     {"ok":true}, or {"ok":true,"restart":true}: in a fresh
 * child
 *   {"request":"check","variant":NAME}                {"ok":true,"measured":{...}}
 *   {"request":"time","variants":[...],"rounds":N,"hot":B,"quick":B}
 *                                                     {"ok":true,"sample":[...]} or
 * {"ok":true,"failed":I,"measured":{...}}
 *   {"request":"copy"}                                {"ok":true,"copy_us":T,"bytes":N}
 *   {"request":"device"} {"request":"clock"} {"request":"cublaslt"}
 * An answer with "broken":true is the last one: the context or the inputs are lost. */
#include "measuring.h"

#include "../runtime/cli/copy.h"
#include "../runtime/cli/reference.h"
#include "../runtime/gemm.h"
#include "../runtime/monotonic.h"
#include "clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void measuring_inspect(struct measuring *m)
{
    m->broken = m->broken || m->session.context->driver.cuCtxSynchronize() != CUDA_SUCCESS;
}

/* Compiles are counted, and shown by the parent; what else there is to say goes to standard error. */
static void log_line(void *user, gnf_log_level level, const char *line)
{
    struct measuring *m = user;
    m->compiles += strncmp(line, "compiling ", 10) == 0;
    if (level <= GNF_LOG_WARNING || m->args.verbose)
        fprintf(stderr, "gnfuse: %s%s\n", level <= GNF_LOG_WARNING ? "warning: " : "", line);
}

static gnf_status open_session(struct measuring *m, const struct gnf_problem *problem)
{
    if (m->open)
        return problem != NULL ? session_require(&m->session, problem) : GNF_OK;
    GNF_TRY(session_open(&m->session, &m->args, problem));
    m->open = true;
    struct gnf_log *log = &m->session.context->options.log;
    log->callback = log_line;
    log->user = m;
    log->level = m->args.verbose ? GNF_LOG_DEBUG : GNF_LOG_INFO;
    return GNF_OK;
}

static void drop_problem(struct measuring *m)
{
    for (int i = 0; i < m->subject_count; i++) {
        timing_release(&m->session, &m->subjects[i]->cold);
        timing_release(&m->session, &m->subjects[i]->hot);
        gnf_plan_destroy(&m->subjects[i]->plan);
        free(m->subjects[i]->gemm);
        free(m->subjects[i]);
    }
    free(m->subjects);
    m->subjects = NULL;
    m->subject_count = 0;
    m->picked_count = 0;
    rotation_free(&m->rotation);
    bindings_free(&m->bindings);
    timing_close(&m->clock);
    tensors_free(&m->tensors);
    free(m->reference);
    free(m->y);
    free(m->logical);
    m->reference = NULL;
    m->y = m->logical = NULL;
    m->ready = false;
}

static gnf_status make_tensors(struct measuring *m)
{
    const struct tensors_recipe uniform = {.affine = true};
    const struct gnf_problem *problem = &m->problem;
    GNF_TRY(tensors_create(&m->tensors, problem, problem->samples));
    size_t elements = (size_t)(m->tensors.y_elements > 0 ? m->tensors.y_elements : 1);
    size_t bytes = elements * gnf_dtype_size(problem->dtype);
    bool in_order = tensors_in_order(&m->tensors, TENSOR_Y);
    m->reference = malloc(elements * sizeof *m->reference);
    m->y = malloc(bytes);
    m->logical = in_order ? NULL : malloc(bytes);
    if (m->reference == NULL || m->y == NULL || (m->logical == NULL && !in_order))
        return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for results of %zu bytes", bytes);
    GNF_TRY(tensors_random(&m->tensors, &uniform, m->args.seed));
    GNF_TRY(reference_run(&m->tensors, m->reference));
    return bindings_create(&m->bindings, &m->session, &m->tensors, false, -1);
}

static gnf_status request_open(struct measuring *m, const json_t *request, json_t *answer)
{
    const char *text = json_string_value(json_object_get(request, "problem"));
    json_int_t samples = json_integer_value(json_object_get(request, "samples"));
    if (m->open && m->session.simulated) {
        json_object_set_new(answer, "restart", json_true());
        return GNF_OK;
    }
    drop_problem(m);
    GNF_TRY(gnf_problem_parse(text != NULL ? text : "", &m->problem));
    GNF_TRY(gnf_problem_set_samples(&m->problem, samples));
    m->args.operand = m->problem.text;
    GNF_TRY(open_session(m, &m->problem));
    m->ready = true;
    GNF_TRY(make_tensors(m));
    return timing_open(&m->clock, &m->session);
}

static gnf_status request_copy(struct measuring *m, const json_t *request, json_t *answer)
{
    enum { SAMPLES = 15 };
    struct copy copy;
    double us = 0;
    (void)request;
    int64_t bytes = tensors_bytes(&m->tensors, false);
    if (!m->session.simulated && copy_create(&copy, &m->session, bytes) == GNF_OK) {
        worker_host(m->worker, false);
        gnf_status status = copy_choose(&copy);
        struct timing_job job = copy_job(&copy);
        if (status == GNF_OK)
            status = timing_run(&m->session, &job, 1, SAMPLES);
        us = status == GNF_OK ? job.median_us : 0;
        copy_destroy(&copy);
        if (status != GNF_OK)
            measuring_inspect(m);
    }
    json_object_set_new(answer, "copy_us", json_real(us));
    json_object_set_new(answer, "bytes", json_integer(bytes));
    return GNF_OK;
}

static gnf_status request_device(struct measuring *m, const json_t *request, json_t *answer)
{
    struct gnf_target target = {0};
    int devices;
    (void)request;
    GNF_TRY(open_session(m, NULL));
    gnf_context *context = m->session.context;
    const struct gnf_device *device = &context->device;
    GNF_TRY(GNF_CU(&context->driver, cuDeviceGetCount, (&devices)));
    /* Without a compiler or a record of one nothing can be measured either, and that is said where it is
     * tried. */
    if (gnf_target_find(&target, context->cache, context->compiler, context->target_request,
                        device->capability, context->options.jit, 0) != GNF_OK)
        target.nvrtc = 0;
    json_t *object =
        json_pack("{s:i, s:o, s:i, s:i, s:i, s:i, s:I, s:i, s:b, s:i, s:i}", "ordinal", device->ordinal,
                  "gpu", worker_words(device->name), "capability", device->capability, "multiprocessors",
                  device->multiprocessors, "shared_block", device->shared_block, "l2_bytes", device->l2_bytes,
                  "memory", (json_int_t)device->memory, "driver_version", device->driver_version, "simulated",
                  (int)m->session.simulated, "nvrtc", target.nvrtc, "devices", devices);
    json_object_set_new(answer, "device", object);
    return GNF_OK;
}

/* Version 0: there is none. */
static gnf_status request_cublaslt(struct measuring *m, const json_t *request, json_t *answer)
{
    int version;
    (void)request;
    GNF_TRY(open_session(m, NULL));
    if (gnf_cublaslt_version(m->session.context->cublaslt, &version, NULL) != GNF_OK)
        version = 0;
    json_object_set_new(answer, "version", json_integer(version));
    return GNF_OK;
}

static gnf_status request_clock(struct measuring *m, const json_t *request, json_t *answer)
{
    (void)request;
    GNF_TRY(open_session(m, NULL));
    int mhz = m->clock_mhz;
    if (mhz == 0 && !m->session.simulated)
        mhz = clock_mhz(&m->session.context->driver, m->session.context->device.ordinal);
    json_object_set_new(answer, "mhz", json_integer(mhz));
    return GNF_OK;
}

static json_t *answer_to(struct measuring *m, const json_t *request)
{
    static const struct {
        const char *name;
        bool needs_problem;
        measuring_request function;
    } requests[] = {
        {"open", false, request_open},         {"check", true, measuring_check},
        {"time", true, measuring_time},        {"copy", true, request_copy},
        {"device", false, request_device},     {"clock", false, request_clock},
        {"cublaslt", false, request_cublaslt},
    };
    const char *name = json_string_value(json_object_get(request, "request"));
    json_t *answer = json_pack("{s:b}", "ok", 1);
    gnf_status status = gnf_fail(GNF_INVALID_ARGUMENT, "worker: '%s' is not a request", name ? name : "");
    for (size_t i = 0; i < sizeof requests / sizeof requests[0] && name != NULL; i++) {
        if (strcmp(requests[i].name, name) != 0)
            continue;
        worker_host(m->worker, true);
        status = !requests[i].needs_problem || m->ready
                     ? requests[i].function(m, request, answer)
                     : gnf_fail(GNF_INVALID_ARGUMENT, "worker: %s before a problem is open", name);
        worker_host(m->worker, false);
    }
    if (status != GNF_OK) {
        json_decref(answer);
        answer = worker_failure(status);
        if (m->open)
            measuring_inspect(m);
    }
    if (m->broken)
        json_object_set_new(answer, "broken", json_true());
    return answer;
}

gnf_status worker_measure(struct worker *worker, const struct args *args)
{
    struct measuring m = {.worker = worker, .args = *args, .shuffle = 1};
    json_t *request;
    /* Variants are planned by name: no database is asked, and what is wrong with one its reader says once. */
    m.args.db = "/dev/null/none";
    while (!m.broken && (request = worker_read(worker)) != NULL) {
        worker_send(worker, answer_to(&m, request));
        json_decref(request);
    }
    drop_problem(&m);
    if (m.open)
        session_close(&m.session);
    return GNF_OK;
}
