#include "compare.h"

#include "halves.h"
#include "parallel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST_GROUP = 64 };

double compare_tolerance(const struct gnf_problem *problem)
{
    enum gnf_dtype dtype = problem->dtype;
    return problem->tf32 ? 1e-2 : dtype == GNF_F32 ? 1e-4 : dtype == GNF_F16 ? 2e-3 : 1.6e-2;
}

static bool is_poison(enum gnf_dtype dtype, const void *y, int64_t i)
{
    if (dtype == GNF_F32) {
        uint32_t bits;
        memcpy(&bits, (const char *)y + 4 * i, sizeof bits);
        return bits == COMPARE_POISON;
    }
    return ((const uint16_t *)y)[i] == COMPARE_POISON_WORD;
}

/* NaN for a NaN or infinity on one side only. A reference that the dtype cannot hold may be stored as
 * infinity. */
static double error_of(double got, double wanted, double largest, double tolerance)
{
    if (isnan(wanted) || isnan(got))
        return isnan(wanted) && isnan(got) ? 0 : NAN;
    if (fabs(wanted) > largest * (1 - tolerance)) {
        if (isinf(got))
            return (got > 0) == (wanted > 0) ? 0 : NAN;
        if (isinf(wanted) || fabs(wanted) > largest * (1 + tolerance))
            return NAN;
    }
    if (isinf(got))
        return NAN;
    double size = fabs(wanted);
    return fabs(got - wanted) / (size > 1 ? size : 1);
}

struct moments {
    double sum, squares;
};

static void add_moment(struct moments *m, double value, double shift)
{
    m->sum += value - shift;
    m->squares += (value - shift) * (value - shift);
}

static double deviation_of(const struct moments *m, double count)
{
    double mean = m->sum / count, variance = m->squares / count - mean * mean;
    return variance > 0 ? sqrt(variance) : 0;
}

static double larger(double a, double b)
{
    return b > a ? b : a;
}

/* A group's elements, or some of a large one's. */
struct part {
    struct comparison result; /* but for its verdict and the groups' errors */
    struct moments got, wanted;
    double total; /* sum of the reference's squares */
};

struct comparing {
    const struct tensors *tensors;
    const void *y;
    const double *reference;
    int64_t length, parts; /* of a group */
    struct part *part;
};

enum { PART = 1 << 16, ROW = 256 };

static double shift_of(const struct comparing *work, int64_t group)
{
    /* Moments are taken about the group's first value, or a mean of 1e4 would drown them. */
    double first = work->reference[group * work->length];
    return isfinite(first) ? first : 0;
}

static void compare_row(const struct comparing *work, int64_t at, int64_t count, double shift,
                        struct part *part)
{
    enum gnf_dtype dtype = work->tensors->problem->dtype;
    double largest = stored_max(dtype), tolerance = compare_tolerance(work->tensors->problem), values[ROW];
    const double *reference = work->reference + at;
    struct comparison *result = &part->result;
    stored_load_many(dtype, work->y, at, count, values);
    for (int64_t i = 0; i < count; i++) {
        double value = values[i], error = error_of(value, reference[i], largest, tolerance);
        if (isnan(value))
            result->unwritten += is_poison(dtype, work->y, at + i);
        result->not_matching += isnan(error);
        if (result->worst < 0 || (isnan(error) && !isnan(result->max_error)) || error > result->max_error) {
            result->worst = at + i;
            result->max_error = isnan(error) ? NAN : error;
            result->got = isnan(value) ? NAN : value; /* without a sign, in print */
            result->wanted = isnan(reference[i]) ? NAN : reference[i];
        }
        add_moment(&part->got, value, shift);
        add_moment(&part->wanted, reference[i], shift);
        part->total += reference[i] * reference[i];
    }
}

static void compare_parts(void *user, int64_t begin, int64_t end)
{
    const struct comparing *work = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t group = i / work->parts, from = i % work->parts * PART;
        int64_t to = from + PART < work->length ? from + PART : work->length;
        double shift = shift_of(work, group);
        struct part part = {.result = {.worst = -1}};
        for (; from < to; from += ROW)
            compare_row(work, group * work->length + from, to - from < ROW ? to - from : ROW, shift, &part);
        work->part[i] = part;
    }
}

static void add_errors(struct comparison *result, const struct comparison *part)
{
    result->unwritten += part->unwritten;
    result->not_matching += part->not_matching;
    if (result->worst < 0 || (isnan(part->max_error) && !isnan(result->max_error)) ||
        part->max_error > result->max_error) {
        result->worst = part->worst;
        result->max_error = part->max_error;
        result->got = part->got;
        result->wanted = part->wanted;
    }
}

/* In the order of the elements, so that the threads' luck decides nothing. */
static void add_group(const struct comparing *work, int64_t group, struct comparison *result)
{
    struct moments got = {0}, wanted = {0};
    double total = 0, n = (double)work->length;
    for (int64_t i = 0; i < work->parts; i++) {
        const struct part *part = &work->part[group * work->parts + i];
        add_errors(result, &part->result);
        got.sum += part->got.sum;
        got.squares += part->got.squares;
        wanted.sum += part->wanted.sum;
        wanted.squares += part->wanted.squares;
        total += part->total;
    }
    if (work->length < SMALLEST_GROUP || !isfinite(total) || !isfinite(got.squares))
        return;
    double scale = larger(1, sqrt(total / n));
    result->mean_error = larger(result->mean_error, fabs(got.sum - wanted.sum) / n / scale);
    result->std_error =
        larger(result->std_error, fabs(deviation_of(&got, n) - deviation_of(&wanted, n)) / scale);
}

gnf_status compare_run(const struct tensors *tensors, const void *y, const double *reference,
                       struct comparison *result)
{
    const struct gnf_problem *problem = tensors->problem;
    int64_t groups = problem->reduction >= 0 ? 1 : problem->groups;
    struct comparing work = {.tensors = tensors, .y = y, .reference = reference};
    work.length = problem->y_channels / groups * problem->y_spatial;
    work.parts = (work.length + PART - 1) / PART;
    memset(result, 0, sizeof *result);
    result->worst = -1;
    groups = work.length > 0 ? tensors->samples * groups : 0;
    if (groups > 0) {
        work.part = malloc((size_t)(groups * work.parts) * sizeof *work.part);
        if (work.part == NULL)
            return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory to compare %lld groups", (long long)groups);
        int64_t most = work.length < PART ? work.length : PART;
        parallel_for(groups * work.parts, 1 + PART / most, compare_parts, &work);
        for (int64_t g = 0; g < groups; g++)
            add_group(&work, g, result);
        free(work.part);
    }
    double tolerance = compare_tolerance(problem);
    result->ok = result->unwritten == 0 && result->not_matching == 0 && result->max_error <= tolerance &&
                 result->mean_error <= tolerance / 2 && result->std_error <= tolerance / 2;
    return GNF_OK;
}

void compare_text(const struct tensors *tensors, const struct comparison *result, char *out, size_t size)
{
    if (result->worst < 0) {
        snprintf(out, size, "nothing to compare");
        return;
    }
    int64_t shape[2 + GNF_MAX_SPATIAL], at[2 + GNF_MAX_SPATIAL], rest = result->worst;
    int rank = tensors_y_shape(tensors, shape);
    for (int i = rank - 1; i >= 0; i--) {
        at[i] = rest % shape[i];
        rest /= shape[i];
    }
    size_t used = (size_t)snprintf(out, size, "max error %.3g at [", result->max_error);
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, i ? ",%lld" : "%lld", (long long)at[i]);
    if (used < size)
        used += (size_t)snprintf(out + used, size - used, "]: got %.9g, wanted %.9g", result->got,
                                 result->wanted);
    if (result->unwritten > 0 && used < size)
        used += (size_t)snprintf(out + used, size - used, "; %lld elements not written",
                                 (long long)result->unwritten);
    if (result->not_matching > 0 && used < size)
        used += (size_t)snprintf(out + used, size - used, "; %lld NaN or infinity on one side only",
                                 (long long)result->not_matching);
    double limit = compare_tolerance(tensors->problem) / 2;
    if (!result->ok && (result->mean_error > limit || result->std_error > limit) && used < size)
        snprintf(out + used, size - used, "; a group's mean is off by %.3g, its deviation by %.3g",
                 result->mean_error, result->std_error);
}
