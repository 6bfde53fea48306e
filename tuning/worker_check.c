#include "measuring.h"

#include "../runtime/cli/compare.h"
#include "../runtime/monotonic.h"
#include "../runtime/plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every buffer here is aligned to more than any variant asks. */
enum { ALIGNMENT = 256 };

/* *out for a variant that has no plan. Other statuses are not the variant's doing. */
static gnf_status judge_failure(struct measuring *m, gnf_status status, struct measured *out)
{
    enum gnf_record_status record;
    switch (status) {
    case GNF_NOT_SUPPORTED:
    case GNF_TOO_LARGE:
    case GNF_NO_CUBLAS:
        record = GNF_RECORD_REFUSED;
        break;
    case GNF_COMPILE_FAILED:
    case GNF_NOT_COMPILED:
        record = GNF_RECORD_NOT_COMPILED;
        break;
    case GNF_DRIVER_ERROR:
    case GNF_OUT_OF_MEMORY:
        record = GNF_RECORD_FAILED;
        break;
    default:
        return status;
    }
    measured_fail(out, record, gnf_error_message());
    measuring_inspect(m);
    return GNF_OK;
}

static struct subject *add_subject(struct measuring *m, gnf_plan *plan)
{
    struct subject **more = realloc(m->subjects, (size_t)(m->subject_count + 1) * sizeof *m->subjects);
    struct subject *subject = calloc(1, sizeof *subject);
    if (more != NULL)
        m->subjects = more;
    if (more == NULL || subject == NULL) {
        free(subject);
        return NULL;
    }
    subject->plan = plan;
    subject->run = (struct rotation_run){.rotation = &m->rotation, .plan = plan};
    m->subjects[m->subject_count++] = subject;
    return subject;
}

gnf_status measuring_subject(struct measuring *m, const char *variant, struct subject **subject,
                             struct measured *out)
{
    const gnf_plan_options options = {
        .size = sizeof options,
        .alignment = ALIGNMENT,
        .variant = variant,
        .prepared = 1,
        .stream = m->session.stream,
    };
    gnf_plan *plan = NULL;
    *subject = NULL;
    for (int i = 0; i < m->subject_count; i++)
        if (strcmp(m->subjects[i]->plan->choice.variant->name, variant) == 0)
            *subject = m->subjects[i];
    if (*subject != NULL)
        return GNF_OK;
    gnf_status status = gnf_plan_create(&plan, m->session.context, m->problem.text, &options);
    if (status != GNF_OK)
        return judge_failure(m, status, out);
    *subject = add_subject(m, plan);
    if (*subject != NULL)
        return GNF_OK;
    gnf_plan_destroy(&plan);
    return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for one more variant");
}

static int largest(int a, int b)
{
    return a > b ? a : b;
}

/* Clusters of the kernel that the device can hold at once; -1 where it has none. */
static gnf_status resident_clusters(const struct gnf_driver *cuda, const struct gnf_launch *launch,
                                    int *clusters)
{
    int width = 0;
    const CUlaunchConfig config = {
        .gridDimX = launch->grid,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = launch->block,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = launch->shared_bytes,
    };
    *clusters = -1;
    /* A driver that does not know the attribute knows no clusters. */
    if (cuda->cuFuncGetAttribute(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, launch->function) !=
            CUDA_SUCCESS ||
        width == 0)
        return GNF_OK;
    CUresult result = cuda->cuOccupancyMaxActiveClusters(clusters, launch->function, &config);
    if (result == CUDA_ERROR_INVALID_CLUSTER_SIZE) {
        *clusters = 0;
        return GNF_OK;
    }
    return gnf_driver_check(cuda, result, "cuOccupancyMaxActiveClusters");
}

static gnf_status measure_kernel(struct measuring *m, const struct gnf_kernel *kernel,
                                 const struct gnf_launch *launch, int warps, struct measured *out)
{
    const struct gnf_driver *cuda = &m->session.context->driver;
    int registers, spills, most, blocks = 0, clusters = -1;
    char text[256];
    GNF_TRY(GNF_CU(cuda, cuFuncGetAttribute, (&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, launch->function)));
    GNF_TRY(
        GNF_CU(cuda, cuFuncGetAttribute, (&spills, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, launch->function)));
    GNF_TRY(
        GNF_CU(cuda, cuFuncGetAttribute, (&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, launch->function)));
    if (launch->block <= (unsigned)most) { /* else the driver does not even answer */
        GNF_TRY(GNF_CU(cuda, cuOccupancyMaxActiveBlocksPerMultiprocessor,
                       (&blocks, launch->function, (int)launch->block, launch->shared_bytes)));
        GNF_TRY(resident_clusters(cuda, launch, &clusters));
    }
    out->registers = largest(out->registers, registers);
    out->spills = largest(out->spills, spills);
    out->shared_bytes = largest(out->shared_bytes, (int)launch->shared_bytes);
    out->occupancy = (double)blocks * ((launch->block + 31) / 32) / warps;
    if (blocks > 0 && clusters != 0)
        return GNF_OK;
    snprintf(text, sizeof text,
             "kernel %s: the device cannot hold one %s of it (%u threads of %d registers, %u bytes of shared "
             "memory a block)",
             kernel->entry, blocks == 0 ? "block" : "cluster", launch->block, registers,
             launch->shared_bytes);
    out->status = GNF_RECORD_REFUSED;
    snprintf(out->error, sizeof out->error, "%s", text);
    return GNF_OK;
}

static gnf_status measure_kernels(struct measuring *m, const struct gnf_plan *plan, struct measured *out)
{
    const struct gnf_driver *cuda = &m->session.context->driver;
    const struct gnf_choice *choice = &plan->choice;
    CUdevice device;
    int threads;
    GNF_TRY(GNF_CU(cuda, cuCtxGetDevice, (&device)));
    GNF_TRY(GNF_CU(cuda, cuDeviceGetAttribute,
                   (&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device)));
    for (int i = 0; i < choice->variant->kernel_count && out->status == GNF_RECORD_OK; i++)
        GNF_TRY(measure_kernel(m, &choice->variant->kernel[i], &choice->launch[i], largest(threads / 32, 1),
                               out));
    return GNF_OK;
}

static gnf_status compare(struct measuring *m, struct measured *out)
{
    struct comparison comparison;
    const void *y = m->y;
    if (m->logical != NULL) {
        tensors_from_memory(&m->tensors, m->y, m->logical);
        y = m->logical;
    }
    GNF_TRY(compare_run(&m->tensors, y, m->reference, &comparison));
    out->max_error = comparison.worst < 0 ? 0 : comparison.max_error;
    if (comparison.ok)
        return GNF_OK;
    out->status = GNF_RECORD_WRONG;
    compare_text(&m->tensors, &comparison, out->error, sizeof out->error);
    return GNF_OK;
}

/* Once, under guards, on a poisoned y. What wrote elsewhere has spoilt what the next ones would be judged by:
 * the inputs, or their guards. */
static gnf_status run_once(struct measuring *m, const gnf_plan *plan, struct measured *out)
{
    char fault[256];
    GNF_TRY(bindings_run(&m->bindings, plan));
    m->worked_ms = 1e3 * gnf_now(); /* what follows may take the host so long that clocks go down */
    worker_host(m->worker, true);
    GNF_TRY(bindings_result(&m->bindings, m->y));
    GNF_TRY(bindings_inspect(&m->bindings, true, fault, sizeof fault));
    GNF_TRY(compare(m, out));
    if (fault[0] != '\0') {
        out->status = GNF_RECORD_WRONG;
        snprintf(out->error, sizeof out->error, "%s", fault);
        m->broken = true;
    }
    return GNF_OK;
}

/* What was right with the algorithms that came first has to be right with those that are taken. */
static gnf_status pick(struct measuring *m, struct subject *subject, struct measured *out)
{
    GNF_TRY(measuring_pick(m, subject, 0));
    worker_host(m->worker, false);
    if (subject->repicked)
        GNF_TRY(run_once(m, subject->plan, out));
    if (subject->gemm != NULL && out->status == GNF_RECORD_OK)
        snprintf(out->gemm, sizeof out->gemm, "%s", subject->gemm);
    return GNF_OK;
}

gnf_status measuring_check(struct measuring *m, const json_t *request, json_t *answer)
{
    const char *variant = json_string_value(json_object_get(request, "variant"));
    struct measured out = {.status = GNF_RECORD_OK, .max_error = NAN};
    struct subject *subject;
    double start = 1e3 * gnf_now();
    int compiles = m->compiles;
    gnf_status status = measuring_subject(m, variant != NULL ? variant : "", &subject, &out);
    if (status != GNF_OK)
        return status;
    if (m->compiles > compiles)
        out.compile_ms = 1e3 * gnf_now() - start;
    worker_host(m->worker, false);
    if (subject != NULL) {
        if (!subject->plan->empty)
            status = measure_kernels(m, subject->plan, &out);
        if (status == GNF_OK && out.status == GNF_RECORD_OK)
            status = run_once(m, subject->plan, &out);
        if (status == GNF_OK && out.status == GNF_RECORD_OK)
            status = pick(m, subject, &out);
        if (status != GNF_OK) {
            struct measured known = out;
            GNF_TRY(judge_failure(m, status, &out));
            known.status = out.status;
            memcpy(known.error, out.error, sizeof known.error);
            out = known;
        }
    }
    json_object_set_new(answer, "measured", measured_write(&out));
    return GNF_OK;
}
