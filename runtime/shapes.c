/* The sizes of each stage's output, and where a stage may stand. */
#include "parser.h"
#include <inttypes.h>
#include <string.h>

gnf_status gnf_stage_place(const struct gnf_parser *parser, const struct gnf_stage *stage)
{
    const struct gnf_problem *problem = parser->problem;
    const char *name = stage->op->name;
    enum gnf_op_kind kind = stage->op->kind;
    bool first = kind == GNF_OP_LINEAR || kind == GNF_OP_CONV2D, pool = kind == GNF_OP_MAXPOOL2D;
    if (problem->reduction >= 0 && kind != GNF_OP_ELEMENTWISE)
        return gnf_parser_bad(parser, stage->at,
                              "%s after a reduction\1allowed are elementwise operations of numbers only",
                              name);
    if (kind == GNF_OP_GROUPNORM && problem->norm >= 0)
        return gnf_parser_bad(parser, stage->at, "a second groupnorm\1allowed is exactly one");
    if (pool && problem->norm < 0)
        return gnf_parser_bad(parser, stage->at, "%s before groupnorm\1allowed is after it", name);
    if (pool && problem->pooling >= 0)
        return gnf_parser_bad(parser, stage->at, "a second %s\1allowed is one", name);
    if (first && problem->stage_count)
        return gnf_parser_bad(parser, stage->at, "%s after another stage\1allowed is the first place", name);
    int rank = kind == GNF_OP_LINEAR ? 0 : 2;
    if ((first || pool) && problem->spatial_rank != rank)
        return gnf_parser_bad(parser, stage->at, "x has %d spatial sizes\1allowed are %d",
                              problem->spatial_rank, rank);
    return GNF_OK;
}

static int64_t value(const struct gnf_stage *stage, const char *parameter, int64_t absent)
{
    int i = gnf_op_parameter(stage->op, parameter);
    return i < 0 ? absent : (int64_t)stage->value[i];
}

/* The tail sees linear's output as its input. */
static gnf_status apply_linear(const struct gnf_parser *parser, int64_t out, int at)
{
    struct gnf_problem *problem = parser->problem;
    int64_t most = INT64_MAX / (problem->channels * (int64_t)gnf_dtype_size(problem->dtype));
    if (out > most) {
        gnf_parser_bad(parser, at,
                       "out = %" PRId64 "\1allowed are 1 to %" PRId64 ": the weight's bytes must fit 63 bits",
                       out, most);
        return GNF_TOO_LARGE;
    }
    problem->inputs = problem->channels;
    problem->channels = out;
    return GNF_OK;
}

/* The window of conv2d or maxpool2d, which moves over the sizes of `shape` and changes them to those it
 * leaves. */
static gnf_status move_window(const struct gnf_parser *parser, const struct gnf_stage *stage, const int *at,
                              struct gnf_shape *shape, struct gnf_window *window)
{
    int kernel = gnf_op_parameter(stage->op, "kernel");
    window->kernel = value(stage, "kernel", 0);
    window->stride = value(stage, "stride", 0);
    window->padding = value(stage, "padding", 0);
    if (!window->stride)
        window->stride = window->kernel;
    if (!parser->problem->spatial)
        return gnf_parser_bad(parser, at[kernel], "x has no spatial element\1allowed are sizes from 1");
    for (int i = 0; i < 2; i++) {
        /* The bytes fit 63 bits, so the elements leave room for two paddings of 31. */
        int64_t padded = shape->size[i] + 2 * window->padding;
        if (window->kernel > padded)
            return gnf_parser_bad(parser, at[kernel],
                                  "kernel = %" PRId64 "\1allowed are 1 to %" PRId64 ", the padded size",
                                  window->kernel, padded);
        window->input[i] = shape->size[i];
        window->output[i] = (padded - window->kernel) / window->stride + 1;
        shape->size[i] = window->output[i];
    }
    return GNF_OK;
}

/* The largest OUT of which the bytes of weight and output fit 63 bits, those of the output for one sample. */
static int64_t most_outputs(const struct gnf_problem *problem, const struct gnf_window *window)
{
    int64_t weight = problem->channels, plane = window->output[0],
            size = (int64_t)gnf_dtype_size(problem->dtype);
    if (__builtin_mul_overflow(weight, window->kernel, &weight) ||
        __builtin_mul_overflow(weight, window->kernel, &weight) ||
        __builtin_mul_overflow(plane, window->output[1], &plane))
        return 0;
    return INT64_MAX / size / (weight > plane ? weight : plane);
}

/* The rest of the chain sees conv2d's output as its input. */
static gnf_status apply_conv2d(const struct gnf_parser *parser, const struct gnf_window *window, int64_t out,
                               int at)
{
    struct gnf_problem *problem = parser->problem;
    int64_t most = most_outputs(problem, window);
    if (out > most) {
        if (most)
            gnf_parser_bad(parser, at,
                           "out = %" PRId64 "\1allowed are 1 to %" PRId64
                           ": the bytes of weight and output must fit 63 bits",
                           out, most);
        else
            gnf_parser_bad(parser, at,
                           "the bytes of one output channel's weight or plane do not fit 63 bits\1allowed "
                           "are smaller sizes");
        return GNF_TOO_LARGE;
    }
    problem->conv = *window;
    problem->inputs = problem->channels;
    problem->channels = out;
    problem->spatial = window->output[0] * window->output[1];
    bool of_x = problem->x_spatial > 1 && problem->inputs > 1, of_y = problem->spatial > 1 && out > 1;
    problem->channels_last = parser->asked_channels_last && (of_x || of_y);
    return GNF_OK;
}

gnf_status gnf_stage_shape(struct gnf_parser *parser, const struct gnf_stage *stage, const int *at)
{
    struct gnf_problem *problem = parser->problem;
    struct gnf_shape *shape = &parser->shape[problem->stage_count + 1];
    struct gnf_window window = {0};
    int groups = gnf_op_parameter(stage->op, "groups"), out = gnf_op_parameter(stage->op, "out");
    *shape = parser->shape[problem->stage_count];
    switch (stage->op->kind) {
    case GNF_OP_GROUPNORM:
        problem->groups = value(stage, "groups", 0);
        if (shape->channels % problem->groups)
            return gnf_parser_bad(parser, at[groups],
                                  "groups = %" PRId64 "\1allowed are divisors of C = %" PRId64,
                                  problem->groups, shape->channels);
        break;
    case GNF_OP_LINEAR:
        shape->channels = value(stage, "out", 0);
        return apply_linear(parser, shape->channels, at[out]);
    case GNF_OP_CONV2D:
        GNF_TRY(move_window(parser, stage, at, shape, &window));
        shape->channels = value(stage, "out", 0);
        return apply_conv2d(parser, &window, shape->channels, at[out]);
    case GNF_OP_MAXPOOL2D:
        GNF_TRY(move_window(parser, stage, at, shape, &window));
        problem->pool = window;
        break;
    case GNF_OP_REDUCTION:
        problem->reduces_all = value(stage, "all", 0) > 0;
        if (problem->reduces_all && !problem->spatial)
            return gnf_parser_bad(parser, at[gnf_op_parameter(stage->op, "all")],
                                  "x has no spatial element\1allowed are sizes from 1");
        shape->channels = 1;
        for (int i = 0; i < problem->spatial_rank && problem->reduces_all; i++)
            shape->size[i] = 1;
        break;
    default:
        break;
    }
    return GNF_OK;
}
