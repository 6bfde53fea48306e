/* A product's cuBLASLt side: which matrix products a slab needs, their algorithms, and the text that records
 * them. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "gemm.h"
#include "linear.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 2 };

struct gnf_gemms {
    int version; /* of cuBLASLt */
    int count;   /* a slab: the main product, and the cross terms */
    struct gnf_gemm *whole[MOST];
    struct gnf_gemm *last[MOST]; /* NULL where the last slab is a whole one */
};

static bool is_direct(const struct gnf_choice *choice)
{
    enum gnf_method method = choice->variant->product.method;
    return method == GNF_METHOD_DIRECT || method == GNF_METHOD_TF32;
}

static struct gnf_gemm_shape shape_of(const struct gnf_choice *choice, const struct gnf_problem *problem,
                                      int64_t rows, int gemm)
{
    const struct gnf_product *product = &choice->variant->product;
    int64_t padded = choice->linear.padded, pitch = padded;
    struct gnf_gemm_shape shape = {
        .type = GNF_GEMM_F16,
        .rows = rows,
        .columns = problem->channels,
        .depth = padded,
        .batch = 1,
        .alignment = GNF_GEMM_ALIGNMENT,
    };
    if (is_direct(choice)) {
        shape.type = product->method == GNF_METHOD_TF32 ? GNF_GEMM_TF32
                     : problem->dtype == GNF_F32        ? GNF_GEMM_F32
                     : problem->dtype == GNF_F16        ? GNF_GEMM_F16
                                                        : GNF_GEMM_BF16;
        shape.depth = pitch = problem->inputs;
        shape.alignment = choice->alignment;
    } else if (product->method == GNF_METHOD_FP16X3) {
        pitch = 2 * padded;
        shape.depth = gemm == 0 ? padded / product->chunks : pitch;
        shape.batch = gemm == 0 ? product->chunks : 1;
        shape.x_stride = shape.weight_stride = shape.depth;
    }
    shape.x_pitch = shape.weight_pitch = pitch;
    return shape;
}

gnf_status gnf_linear_multiply(const struct gnf_choice *choice, const struct gnf_kernel_args *args, int gemm,
                               void *workspace, CUstream stream)
{
    const struct gnf_linear *linear = &choice->linear;
    const struct gnf_product *product = &choice->variant->product;
    const struct gnf_gemms *gemms = linear->gemms;
    bool last = args->samples != linear->rows;
    int64_t sum = args->samples * args->groups * args->group_channels;
    const void *x = args->split_x;
    const uint16_t *weight = args->split_weight;
    float *result = args->product;
    if (is_direct(choice)) {
        x = args->x;
        weight = args->weight;
    } else if (product->method == GNF_METHOD_FP16X3) {
        weight += gemm == 0 ? linear->padded : 0; /* hi stands second */
        result += gemm == 0 ? 0 : product->chunks * sum;
    }
    return gnf_gemm_run(last ? gemms->last[gemm] : gemms->whole[gemm], x, weight, result, workspace, stream);
}

/* ---- algorithms as text ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_algorithm(const char *text, unsigned char algorithm[GNF_GEMM_ALGORITHM])
{
    for (int i = 0; i < GNF_GEMM_ALGORITHM; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        algorithm[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* All of them or none. */
static bool read_text(const struct gnf_gemms *gemms, const char *text,
                      unsigned char algorithm[MOST][GNF_GEMM_ALGORITHM])
{
    char version[16];
    int length = snprintf(version, sizeof version, "%d:", gemms->version);
    if (strncmp(text, version, (size_t)length) != 0)
        return false;
    text += length;
    for (int i = 0; i < gemms->count; i++) {
        if (i > 0 && *text++ != ',')
            return false;
        if (!read_algorithm(text, algorithm[i]))
            return false;
        text += 2 * GNF_GEMM_ALGORITHM;
    }
    return !*text;
}

static void take_recorded(gnf_context *context, struct gnf_choice *choice)
{
    unsigned char algorithm[MOST][GNF_GEMM_ALGORITHM];
    struct gnf_gemms *gemms = choice->linear.gemms;
    /* They were measured with aligned pointers, and nothing would say that they need them. */
    if (!choice->gemm[0] || (is_direct(choice) && choice->alignment < GNF_GEMM_ALIGNMENT))
        return;
    bool good = read_text(gemms, choice->gemm, algorithm);
    for (int i = 0; i < gemms->count && good; i++)
        good = gnf_gemm_take_recorded(gemms->whole[i], algorithm[i]);
    if (!good)
        gnf_log_line(&context->options.log, GNF_LOG_DEBUG,
                     "variant '%s': what is recorded of its matrix products is not for this cuBLASLt (%d)",
                     choice->variant->name, gemms->version);
}

gnf_status gnf_plan_gemm_text(const struct gnf_plan *plan, char **text)
{
    const struct gnf_gemms *gemms = plan->choice.linear.gemms;
    char out[GNF_RECORD_GEMM_SIZE];
    *text = NULL;
    if (!gemms)
        return GNF_OK;
    int length = snprintf(out, sizeof out, "%d:", gemms->version);
    for (int i = 0; i < gemms->count; i++) {
        unsigned char algorithm[GNF_GEMM_ALGORITHM];
        gnf_gemm_taken(gemms->whole[i], algorithm);
        if (i > 0)
            out[length++] = ',';
        for (int j = 0; j < GNF_GEMM_ALGORITHM; j++, length += 2)
            snprintf(out + length, sizeof out - (size_t)length, "%02x", algorithm[j]);
    }
    *text = strdup(out);
    return *text ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "plan: no host memory");
}

/* ---- making ready ---- */

static gnf_status make_gemms(gnf_context *context, struct gnf_choice *choice,
                             const struct gnf_problem *problem)
{
    struct gnf_linear *linear = &choice->linear;
    struct gnf_gemms *gemms = linear->gemms = calloc(1, sizeof *gemms);
    if (!gemms)
        return gnf_fail(GNF_OUT_OF_MEMORY, "plan: no host memory");
    GNF_TRY(gnf_cublaslt_load(context->cublaslt));
    GNF_TRY(gnf_cublaslt_version(context->cublaslt, &gemms->version, NULL));
    gemms->count = gnf_linear_gemms(choice->variant->product.method);
    size_t workspace = 0;
    for (int i = 0; i < 2 * gemms->count; i++) {
        bool last = i >= gemms->count;
        struct gnf_gemm **gemm = last ? &gemms->last[i - gemms->count] : &gemms->whole[i];
        if (last && linear->last_rows == linear->rows)
            break;
        const struct gnf_gemm_shape shape =
            shape_of(choice, problem, last ? linear->last_rows : linear->rows, i % gemms->count);
        GNF_TRY(gnf_gemm_create(gemm, context->cublaslt, &shape));
    }
    take_recorded(context, choice);
    for (int i = 0; i < 2 * MOST; i++) {
        const struct gnf_gemm *gemm = i < MOST ? gemms->whole[i] : gemms->last[i - MOST];
        if (gemm && gnf_gemm_workspace(gemm) > workspace)
            workspace = gnf_gemm_workspace(gemm);
    }
    choice->workspace_size = linear->cublaslt + (workspace ? workspace + GNF_GEMM_SLACK : 0);
    return GNF_OK;
}

gnf_status gnf_linear_prepare(gnf_context *context, struct gnf_choice *choice,
                              const struct gnf_problem *problem, CUstream stream)
{
    CUcontext before;
    bool capturing;
    if (!gnf_linear_gemms(choice->variant->product.method))
        return GNF_OK;
    if (!gnf_cublaslt_is_loaded(context->cublaslt)) {
        GNF_TRY(gnf_context_capturing(context, stream, &capturing));
        if (capturing)
            return gnf_fail(
                GNF_NOT_PREPARED,
                "cuBLASLt is not loaded yet and the stream is capturing: create the plan before the capture");
    }
    GNF_TRY(gnf_current_enter(&context->driver, context->cuda, &before));
    gnf_status status = make_gemms(context, choice, problem);
    gnf_current_leave(&context->driver, before);
    if (status != GNF_OK)
        gnf_linear_release(choice);
    return status;
}

void gnf_linear_release(struct gnf_choice *choice)
{
    struct gnf_gemms *gemms = choice->linear.gemms;
    for (int i = 0; gemms && i < MOST; i++) {
        gnf_gemm_destroy(gemms->whole[i]);
        gnf_gemm_destroy(gemms->last[i]);
    }
    free(gemms);
    choice->linear.gemms = NULL;
}

/* ---- measuring ---- */

int gnf_plan_gemms(const struct gnf_plan *plan)
{
    const struct gnf_gemms *gemms = plan->choice.linear.gemms;
    return gemms ? gemms->count : 0;
}

int gnf_plan_gemm_candidates(const struct gnf_plan *plan, int gemm)
{
    return gnf_gemm_candidates(plan->choice.linear.gemms->whole[gemm]);
}

void gnf_plan_gemm_take(struct gnf_plan *plan, int gemm, int candidate)
{
    gnf_gemm_take(plan->choice.linear.gemms->whole[gemm], candidate);
}
