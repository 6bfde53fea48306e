#include "reference.h"

#include "halves.h"
#include "parallel.h"
#include "product.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One unit of work: channels [channel, channel + channels) of one sample, a row of `spatial` values each. */
struct unit {
    const struct tensors *tensors;
    int64_t sample, channel, channels, spatial;
    double *value;
    double *label[GNF_MAX_STAGES + 1]; /* outputs kept for later stages; NULL where nobody asks */
};

struct work {
    const struct tensors *tensors;
    double *y;
    int64_t units_per_sample, unit_channels;
    const double *product; /* what linear or conv2d made of the samples from `first_sample` on, or NULL */
    int64_t first_sample;
    atomic_bool no_memory;
};

/* Pairwise: the error grows with the logarithm of the count, not with the count. */
static double sum_of(const double *value, int64_t count)
{
    if (count > 64)
        return sum_of(value, count / 2) + sum_of(value + count / 2, count - count / 2);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += value[i];
    return sum;
}

static double sum_of_squares(const double *value, int64_t count)
{
    if (count > 64)
        return sum_of_squares(value, count / 2) + sum_of_squares(value + count / 2, count - count / 2);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += value[i] * value[i];
    return sum;
}

static double channel_value(const struct tensors *tensors, int which, int64_t channel, double absent)
{
    const void *data = tensors->at[which].data;
    return data != NULL ? stored_load(tensors->problem->dtype, data, channel) : absent;
}

/* Two passes; the sum of the centred values corrects what rounding left in the mean. */
static void groupnorm(struct unit *unit, double eps)
{
    const struct gnf_problem *problem = unit->tensors->problem;
    int64_t group_channels = problem->channels / problem->groups, count = group_channels * unit->spatial;
    for (int64_t c0 = 0; c0 < unit->channels; c0 += group_channels) {
        double *value = unit->value + c0 * unit->spatial;
        double mean = sum_of(value, count) / (double)count;
        for (int64_t i = 0; i < count; i++)
            value[i] -= mean;
        double rest = sum_of(value, count) / (double)count;
        double variance = sum_of_squares(value, count) / (double)count - rest * rest;
        double scale = 1 / sqrt(variance + eps);
        for (int64_t c = 0; c < group_channels; c++) {
            double gamma = channel_value(unit->tensors, TENSOR_GAMMA, unit->channel + c0 + c, 1);
            double beta = channel_value(unit->tensors, TENSOR_BETA, unit->channel + c0 + c, 0);
            for (int64_t s = 0; s < unit->spatial; s++, value++)
                *value = (*value - rest) * scale * gamma + beta;
        }
    }
}

static void combine(double *value, const double *other, int64_t count, bool product)
{
    for (int64_t i = 0; i < count; i++)
        value[i] = product ? value[i] * other[i] : value[i] + other[i];
}

/* add and mul of a label or of a further tensor, a row of one channel at a time. */
static void binary(struct unit *unit, const struct gnf_stage *stage, double *row)
{
    const struct tensors *tensors = unit->tensors;
    enum gnf_dtype dtype = tensors->problem->dtype;
    bool product = strcmp(stage->op->name, "mul") == 0;
    const struct tensor *other = &tensors->at[stage->label == 0 ? TENSOR_X : TENSOR_OPERAND + stage->operand];
    for (int64_t c = 0; c < unit->channels; c++) {
        double *value = unit->value + c * unit->spatial;
        int64_t channel = unit->channel + c;
        if (stage->label > 0) {
            combine(value, unit->label[stage->label] + c * unit->spatial, unit->spatial, product);
        } else if (other->broadcast == GNF_FULL) {
            int64_t at = (unit->sample * tensors->problem->channels + channel) * unit->spatial;
            stored_load_many(dtype, other->data, at, unit->spatial, row);
            combine(value, row, unit->spatial, product);
        } else {
            double one = stored_load(dtype, other->data, other->broadcast == GNF_CHANNEL ? channel : 0);
            for (int64_t s = 0; s < unit->spatial; s++)
                value[s] = product ? value[s] * one : value[s] + one;
        }
    }
}

static void elementwise(struct unit *unit, const struct gnf_stage *stage)
{
    gnf_reference_fn function = gnf_op_references[stage->op - gnf_ops];
    double scalars[GNF_MAX_PARAMS];
    int next = stage->scalar_at;
    /* Kernels get their scalars as floats, so the reference takes the rounded ones. */
    for (int i = 0; i < stage->op->param_count; i++)
        scalars[i] =
            stage->op->param[i].type == 'f' ? unit->tensors->problem->scalar[next++] : stage->value[i];
    int64_t count = unit->channels * unit->spatial;
    for (int64_t i = 0; i < count; i++)
        unit->value[i] = function(unit->value[i], scalars);
}

/* Keeps a NaN whichever side it is on. */
static double larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

static double smaller(double a, double b)
{
    return a < b || isnan(a) ? a : b;
}

static double logsumexp(const double *value, int64_t count, int64_t stride)
{
    double top = value[0], sum = 0;
    for (int64_t i = 1; i < count; i++)
        top = larger(top, value[i * stride]);
    if (isnan(top) || isinf(top)) /* top - top would make a NaN of what is plainly -inf or +inf */
        return top;
    for (int64_t i = 0; i < count; i++)
        sum += exp(value[i * stride] - top);
    return top + log(sum);
}

static void reduction(struct unit *unit, const char *name)
{
    int64_t spatial = unit->spatial;
    double *value = unit->value;
    if (strcmp(name, "logsumexp") == 0) {
        for (int64_t s = 0; s < spatial; s++)
            value[s] = logsumexp(value + s, unit->channels, spatial);
    } else if (strcmp(name, "max") == 0 || strcmp(name, "min") == 0) {
        double (*pick)(double, double) = name[1] == 'a' ? larger : smaller;
        for (int64_t c = 1; c < unit->channels; c++)
            for (int64_t s = 0; s < spatial; s++)
                value[s] = pick(value[s], value[c * spatial + s]);
    } else { /* sum, mean */
        for (int64_t c = 1; c < unit->channels; c++)
            for (int64_t s = 0; s < spatial; s++)
                value[s] += value[c * spatial + s];
        for (int64_t s = 0; s < spatial && name[0] == 'm'; s++)
            value[s] /= (double)unit->channels;
    }
    unit->channels = 1;
}

/* mean(all): one value a sample. */
static void mean_of_all(struct unit *unit)
{
    int64_t count = unit->channels * unit->spatial;
    unit->value[0] = sum_of(unit->value, count) / (double)count;
    unit->channels = unit->spatial = 1;
}

/* In place: a pixel's window begins at or behind its own place. */
static void maxpool2d(struct unit *unit)
{
    const struct gnf_window *pool = &unit->tensors->problem->pool;
    int64_t spatial = pool->output[0] * pool->output[1];
    for (int64_t i = 0; i < unit->channels * spatial; i++) {
        int64_t y = i % spatial / pool->output[1] * pool->stride, x = i % pool->output[1] * pool->stride;
        const double *from = unit->value + (i / spatial * pool->input[0] + y) * pool->input[1] + x;
        double most = -INFINITY;
        for (int64_t k = 0; k < pool->kernel * pool->kernel; k++)
            most = larger(from[k / pool->kernel * pool->input[1] + k % pool->kernel], most);
        unit->value[i] = most;
    }
    unit->spatial = spatial;
}

static void run_stages(struct unit *unit, double *row)
{
    const struct gnf_problem *problem = unit->tensors->problem;
    for (int k = 0; k < problem->stage_count; k++) {
        const struct gnf_stage *stage = &problem->stage[k];
        switch (stage->op->kind) {
        case GNF_OP_GROUPNORM:
            groupnorm(unit, problem->scalar[stage->scalar_at]);
            break;
        case GNF_OP_BINARY:
            binary(unit, stage, row);
            break;
        case GNF_OP_REDUCTION:
            if (problem->reduces_all)
                mean_of_all(unit);
            else
                reduction(unit, stage->op->name);
            break;
        case GNF_OP_MAXPOOL2D:
            maxpool2d(unit);
            break;
        case GNF_OP_LINEAR: /* the unit began with its output */
        case GNF_OP_CONV2D:
            break;
        default:
            elementwise(unit, stage);
        }
        if (unit->label[k + 1] != NULL)
            memcpy(unit->label[k + 1], unit->value,
                   (size_t)(unit->channels * unit->spatial) * sizeof(double));
    }
}

static bool label_used(const struct gnf_problem *problem, int label)
{
    for (int k = 0; k < problem->stage_count; k++)
        if (problem->stage[k].op->kind == GNF_OP_BINARY && problem->stage[k].label == label)
            return true;
    return false;
}

static void load_unit(const struct work *work, struct unit *unit)
{
    const struct gnf_problem *problem = work->tensors->problem;
    int64_t sample = unit->sample - work->first_sample, count = unit->channels * unit->spatial;
    if (work->product != NULL)
        memcpy(unit->value, work->product + (sample * problem->channels + unit->channel) * unit->spatial,
               (size_t)count * sizeof(double));
    else
        stored_load_many(problem->dtype, work->tensors->at[TENSOR_X].data,
                         (unit->sample * problem->channels + unit->channel) * unit->spatial, count,
                         unit->value);
}

static void run_units(void *user, int64_t begin, int64_t end)
{
    struct work *work = user;
    const struct gnf_problem *problem = work->tensors->problem;
    size_t size = (size_t)(work->unit_channels * problem->spatial) * sizeof(double);
    double *row = malloc((size_t)problem->spatial * sizeof(double));
    struct unit unit = {.tensors = work->tensors, .value = malloc(size)};
    bool memory = row != NULL && unit.value != NULL;
    for (int label = 1; label <= problem->stage_count; label++) {
        if (!label_used(problem, label))
            continue;
        unit.label[label] = malloc(size);
        memory &= unit.label[label] != NULL;
    }
    if (!memory)
        atomic_store(&work->no_memory, true);
    for (int64_t i = begin; i < end && memory; i++) {
        unit.sample = work->first_sample + i / work->units_per_sample;
        unit.channel = i % work->units_per_sample * work->unit_channels;
        unit.channels = work->unit_channels;
        unit.spatial = problem->spatial;
        load_unit(work, &unit);
        run_stages(&unit, row);
        int64_t first = problem->reduction >= 0 ? 0 : unit.channel;
        int64_t at = (unit.sample * problem->y_channels + first) * problem->y_spatial;
        memcpy(work->y + at, unit.value, (size_t)(unit.channels * unit.spatial) * sizeof(double));
    }
    for (int label = 1; label <= problem->stage_count; label++)
        free(unit.label[label]);
    free(unit.value);
    free(row);
}

/* The first stage's output of so many samples at a time, or a reduction of a large batch would need memory
 * for all; fewer where they are large, but some for every thread. */
enum { SLAB_SAMPLES = 1024, SLAB_ELEMENTS = 1 << 25 };

static int64_t slab_of(const struct tensors *tensors)
{
    int64_t sample = tensors->problem->channels * tensors->problem->spatial, slab = SLAB_ELEMENTS / sample;
    slab = slab < 1 ? 1 : slab < SLAB_SAMPLES ? slab : SLAB_SAMPLES;
    return slab < tensors->samples ? slab : tensors->samples;
}

static gnf_status run_slabs(struct work *work, int64_t grain)
{
    const struct tensors *tensors = work->tensors;
    const struct gnf_problem *problem = tensors->problem;
    int64_t samples = tensors->samples, slab = samples;
    double *product = NULL;
    gnf_status status = GNF_OK;
    if (tensors->weight >= 0) {
        slab = slab_of(tensors);
        product = malloc((size_t)(slab * problem->channels * problem->spatial) * sizeof *product);
        if (product == NULL)
            return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for the reference of %s",
                            problem->stage[0].op->name);
    }
    work->product = product;
    for (int64_t first = 0; first < samples && status == GNF_OK; first += slab) {
        int64_t count = samples - first < slab ? samples - first : slab;
        work->first_sample = first;
        if (product != NULL)
            status = product_run(tensors, first, count, product);
        if (status == GNF_OK)
            parallel_for(count * work->units_per_sample, grain, run_units, work);
    }
    free(product);
    return status;
}

gnf_status reference_run(const struct tensors *tensors, double *y)
{
    const struct gnf_problem *problem = tensors->problem;
    if (tensors->y_elements == 0)
        return GNF_OK;
    /* A reduction needs all channels of a sample at once; without one a group is work enough, and less
     * memory. */
    int64_t units = problem->reduction >= 0 ? 1 : problem->groups;
    struct work work = {
        .tensors = tensors, .y = y, .units_per_sample = units, .unit_channels = problem->channels / units};
    int64_t unit_elements = work.unit_channels * problem->spatial;
    GNF_TRY(run_slabs(&work, 1 + 65536 / unit_elements));
    if (atomic_load(&work.no_memory))
        return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for the reference's %lld doubles",
                        (long long)unit_elements);
    return GNF_OK;
}
