#define _POSIX_C_SOURCE 200809L /* strnlen */
#include "number.h"
#include "parser.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const dtype_names[] = {"f32", "f16", "bf16"};
static const char *const broadcast_names[] = {"full", "channel", "scalar"};
static const char *const size_names[] = {"N", "C", "size 3", "size 4", "size 5"};

/* ---- the input ---- */

static gnf_status parse_size(struct gnf_parser *parser, int i, int64_t *size)
{
    int64_t least = i == 1;
    if (gnf_parser_skip(parser, '*')) {
        *size = -1;
        if (i == 0)
            return GNF_OK;
        return gnf_parser_bad(parser, parser->at - 1, "%s = *\1allowed are whole numbers from %d",
                              size_names[i], (int)least);
    }
    struct gnf_token token = gnf_parser_take(parser, gnf_is_number);
    enum gnf_number number = gnf_number_whole(parser->text + token.at, (size_t)token.length, size);
    if (number == GNF_NUMBER_OK && *size >= least)
        return GNF_OK;
    gnf_status status =
        gnf_parser_bad(parser, token.at, "%s = %s\1allowed are whole numbers from %d%s", size_names[i],
                       gnf_token_or_empty(&token), (int)least, i == 0 ? ", and * for any" : "");
    return number == GNF_NUMBER_RANGE ? GNF_TOO_LARGE : status;
}

static gnf_status parse_sizes(struct gnf_parser *parser)
{
    struct gnf_problem *problem = parser->problem;
    int64_t size[5], bytes = (int64_t)gnf_dtype_size(problem->dtype);
    int count = 0;
    do {
        gnf_parser_peek(parser);
        int at = parser->at;
        if (count == 5)
            return gnf_parser_bad(parser, at, "6 sizes\1allowed are 2 to 5: N, C and up to 3 spatial ones");
        GNF_TRY(parse_size(parser, count, &size[count]));
        if (size[count] > 0 && __builtin_mul_overflow(bytes, size[count], &bytes)) {
            gnf_parser_bad(
                parser, at,
                "the tensor's bytes do not fit 63 bits\1allowed are sizes of a product up to %" PRId64,
                INT64_MAX / (int64_t)gnf_dtype_size(problem->dtype));
            return GNF_TOO_LARGE;
        }
        count++;
    } while (gnf_parser_skip(parser, ','));
    int at = parser->at;
    if (!gnf_parser_skip(parser, ']'))
        return gnf_parser_unexpected(parser, "allowed are ',' and ']'");
    if (count < 2)
        return gnf_parser_bad(parser, at, "1 size\1allowed are 2 to 5: N, C and up to 3 spatial ones");
    problem->samples = size[0];
    problem->channels = size[1];
    problem->spatial_rank = count - 2;
    problem->x_spatial = 1;
    for (int i = 2; i < count; i++) {
        problem->size[i - 2] = size[i];
        problem->x_spatial *= size[i];
    }
    problem->spatial = problem->x_spatial;
    return GNF_OK;
}

static gnf_status parse_input(struct gnf_parser *parser)
{
    struct gnf_problem *problem = parser->problem;
    snprintf(parser->where, sizeof parser->where, "input");
    struct gnf_token token = gnf_parser_take(parser, gnf_is_word);
    int dtype = 0;
    while (dtype < 3 && !gnf_token_is(parser, &token, dtype_names[dtype]))
        dtype++;
    if (dtype == 3)
        return gnf_parser_bad(parser, token.at, "unknown dtype '%s'\1allowed are f32, f16, bf16",
                              token.quoted);
    problem->dtype = (enum gnf_dtype)dtype;
    if (gnf_parser_peek(parser) != '[')
        return gnf_parser_bad(parser, parser->at,
                              "expected '['\1allowed is %s[N,C,...], %s[2,64,32,32] for instance",
                              token.quoted, token.quoted);
    parser->at++;
    GNF_TRY(parse_sizes(parser));
    if (gnf_parser_skip(parser, ':')) {
        token = gnf_parser_take(parser, gnf_is_word);
        if (!gnf_token_is(parser, &token, "nhwc"))
            return gnf_parser_bad(parser, token.at, "unknown layout '%s'\1allowed is nhwc", token.quoted);
        parser->asked_channels_last = true;
        problem->channels_last = problem->spatial > 1 && problem->channels > 1;
    }
    parser->shape[0].channels = problem->channels;
    memcpy(parser->shape[0].size, problem->size, sizeof problem->size);
    return GNF_OK;
}

/* ---- labels and tensors ---- */

static const struct gnf_op *find_op(const struct gnf_parser *parser, const struct gnf_token *token)
{
    const struct gnf_op *op = gnf_ops;
    while (op->name && !gnf_token_is(parser, token, op->name))
        op++;
    return op->name ? op : NULL;
}

static int find_label(const struct gnf_parser *parser, const struct gnf_token *token)
{
    if (gnf_token_is(parser, token, "x"))
        return 0;
    for (int i = 0; i < parser->problem->stage_count; i++)
        if (gnf_token_is(parser, token, parser->problem->stage[i].name))
            return i + 1;
    return -1;
}

static int find_operand(const struct gnf_parser *parser, const struct gnf_token *token)
{
    for (int i = 0; i < parser->problem->operand_count; i++)
        if (gnf_token_is(parser, token, parser->problem->operand[i].name))
            return i;
    return -1;
}

static bool is_name(const struct gnf_parser *parser, const struct gnf_token *token)
{
    if (!token->length || token->length > 31 || !gnf_is_lower(parser->text[token->at]) ||
        find_op(parser, token))
        return false;
    for (int i = 0; i < token->length; i++)
        if (!gnf_is_lower(parser->text[token->at + i]) && !gnf_is_digit(parser->text[token->at + i]))
            return false;
    return true;
}

/* Elements of a channel, up to a reduction. */
static int64_t spatial_here(const struct gnf_problem *problem)
{
    const int64_t *pooled = problem->pool.output;
    return problem->pooling >= 0 ? pooled[0] * pooled[1] : problem->spatial;
}

/* A full tensor has the sizes of the value that it meets first, which only a maxpool2d behind it changes. */
static gnf_status check_full(const struct gnf_parser *parser, const struct gnf_operand *operand,
                             const struct gnf_token *token)
{
    const struct gnf_window *pool = &parser->problem->pool;
    if (operand->spatial == spatial_here(parser->problem))
        return GNF_OK;
    return gnf_parser_bad(parser, token->at,
                          "tensor '%s' with the spatial sizes %" PRId64 ", %" PRId64 "\1allowed are %" PRId64
                          ", %" PRId64 ", as before maxpool2d, or another name",
                          token->quoted, pool->output[0], pool->output[1], pool->input[0], pool->input[1]);
}

static gnf_status parse_tensor(struct gnf_parser *parser, struct gnf_stage *stage,
                               const struct gnf_token *token)
{
    static const char *const reserved[] = {"x", "y", "gamma", "beta", "weight", "bias"};
    struct gnf_problem *problem = parser->problem;
    bool free_name = is_name(parser, token) && find_label(parser, token) < 0;
    for (int i = 0; i < 6; i++)
        free_name = free_name && !gnf_token_is(parser, token, reserved[i]);
    if (!free_name)
        return gnf_parser_bad(
            parser, token->at,
            "tensor name '%s'\1allowed are names other than labels, operations, x, y, gamma, beta, "
            "weight and bias: "
            "a-z, 0-9 and _, at most 31, no digit first",
            token->quoted);
    struct gnf_token word = gnf_parser_take(parser, gnf_is_word);
    int kind = 0, i = find_operand(parser, token);
    while (kind < 3 && !gnf_token_is(parser, &word, broadcast_names[kind]))
        kind++;
    if (kind == 3)
        return gnf_parser_bad(parser, word.at, "unknown kind '%s'\1allowed are full, channel, scalar",
                              word.quoted);
    if (i < 0) {
        if (problem->operand_count == GNF_MAX_OPERANDS)
            return gnf_parser_bad(parser, token->at, "%d tensors\1allowed are %d", GNF_MAX_OPERANDS + 1,
                                  GNF_MAX_OPERANDS);
        i = problem->operand_count++;
        memcpy(problem->operand[i].name, parser->text + token->at, (size_t)token->length);
        problem->operand[i].broadcast = (enum gnf_broadcast)kind;
        problem->operand[i].spatial = spatial_here(problem);
    }
    if (problem->operand[i].broadcast != (enum gnf_broadcast)kind)
        return gnf_parser_bad(parser, word.at, "tensor '%s' is %s\1allowed is %s, as before", token->quoted,
                              broadcast_names[kind], broadcast_names[problem->operand[i].broadcast]);
    stage->operand = i;
    return kind == GNF_FULL ? check_full(parser, &problem->operand[i], token) : GNF_OK;
}

static gnf_status parse_label_use(struct gnf_parser *parser, struct gnf_stage *stage,
                                  const struct gnf_token *token)
{
    const struct gnf_problem *problem = parser->problem;
    stage->label = find_label(parser, token);
    if (stage->label < 0) {
        char labels[640] = "x";
        size_t length = 1;
        for (int i = 0; i < problem->stage_count; i++)
            if (problem->stage[i].name[0] && length < sizeof labels - 40)
                length +=
                    (size_t)snprintf(labels + length, sizeof labels - length, ", %s", problem->stage[i].name);
        return gnf_parser_bad(
            parser, token->at,
            "unknown label '%s'\1allowed are %s, or a tensor: %s(name: full|channel|scalar)", token->quoted,
            labels, stage->op->name);
    }
    /* Even one of the same sizes, as a window of 1 leaves them: strategies keep no values beyond the pool. */
    if (stage->label <= problem->pooling)
        return gnf_parser_bad(parser, token->at,
                              "label '%s' is of before maxpool2d\1allowed are labels made after it",
                              token->quoted);
    if (memcmp(&parser->shape[stage->label], &parser->shape[problem->stage_count], sizeof parser->shape[0]))
        return gnf_parser_bad(parser, token->at,
                              "label '%s' has other sizes\1allowed are labels of the sizes at this stage",
                              token->quoted);
    return GNF_OK;
}

static gnf_status parse_binary(struct gnf_parser *parser, struct gnf_stage *stage)
{
    const char *op = stage->op->name;
    bool open = gnf_parser_skip(parser, '(');
    struct gnf_token token = {.at = stage->at};
    if (open)
        token = gnf_parser_take(parser, gnf_is_word);
    if (!token.length)
        return gnf_parser_bad(
            parser, token.at,
            "a label or tensor is missing\1allowed are %s(label) and %s(name: full|channel|scalar)", op, op);
    if (gnf_parser_skip(parser, ':'))
        GNF_TRY(parse_tensor(parser, stage, &token));
    else
        GNF_TRY(parse_label_use(parser, stage, &token));
    return gnf_parser_skip(parser, ')') ? GNF_OK : gnf_parser_unexpected(parser, "allowed is ')'");
}

/* ---- stages ---- */

static gnf_status parse_label(struct gnf_parser *parser, struct gnf_stage *stage,
                              const struct gnf_token *token)
{
    if (!is_name(parser, token) || find_label(parser, token) >= 0 || find_operand(parser, token) >= 0)
        return gnf_parser_bad(
            parser, token->at,
            "label '%s'\1allowed are names not taken by x, a label, a tensor or an operation: a-z, "
            "0-9 and _, at "
            "most 31, no digit first",
            token->quoted);
    memcpy(stage->name, parser->text + token->at, (size_t)token->length);
    return GNF_OK;
}

static gnf_status parse_operation(struct gnf_parser *parser, struct gnf_stage *stage)
{
    struct gnf_token token = gnf_parser_take(parser, gnf_is_word);
    if (gnf_parser_peek(parser) == '=') {
        parser->at++;
        GNF_TRY(parse_label(parser, stage, &token));
        token = gnf_parser_take(parser, gnf_is_word);
    }
    stage->at = token.at;
    stage->op = find_op(parser, &token);
    if (stage->op) {
        snprintf(parser->where, sizeof parser->where, "stage '%s'", stage->op->name);
        return GNF_OK;
    }
    char names[640] = "";
    size_t length = 0;
    for (const struct gnf_op *op = gnf_ops; op->name && length < sizeof names - 40; op++)
        length +=
            (size_t)snprintf(names + length, sizeof names - length, "%s%.36s", length ? ", " : "", op->name);
    return gnf_parser_bad(parser, token.at, "unknown operation '%s'\1allowed are %s", token.quoted, names);
}

static gnf_status parse_stage(struct gnf_parser *parser)
{
    struct gnf_problem *problem = parser->problem;
    struct gnf_stage stage = {.label = -1, .operand = -1, .scalar_at = problem->scalar_count};
    int at[GNF_MAX_PARAMS];
    snprintf(parser->where, sizeof parser->where, "stage %d", problem->stage_count + 1);
    GNF_TRY(parse_operation(parser, &stage));
    if (problem->stage_count == GNF_MAX_STAGES)
        return gnf_parser_bad(parser, stage.at, "%d stages\1allowed are %d", GNF_MAX_STAGES + 1,
                              GNF_MAX_STAGES);
    GNF_TRY(gnf_stage_place(parser, &stage));
    if (stage.op->kind == GNF_OP_BINARY) {
        GNF_TRY(parse_binary(parser, &stage));
    } else {
        GNF_TRY(gnf_parse_arguments(parser, &stage, at));
    }
    GNF_TRY(gnf_stage_shape(parser, &stage, at));
    for (int i = 0; i < stage.op->param_count; i++) {
        if (stage.op->param[i].type != 'f')
            continue;
        if (problem->scalar_count == GNF_MAX_SCALARS)
            return gnf_parser_bad(parser, stage.at, "%d run-time numbers\1allowed are %d",
                                  GNF_MAX_SCALARS + 1, GNF_MAX_SCALARS);
        problem->scalar[problem->scalar_count++] = (float)stage.value[i];
    }
    if (stage.op->kind == GNF_OP_GROUPNORM)
        problem->norm = problem->stage_count;
    if (stage.op->kind == GNF_OP_REDUCTION)
        problem->reduction = problem->stage_count;
    if (stage.op->kind == GNF_OP_MAXPOOL2D)
        problem->pooling = problem->stage_count;
    problem->stage[problem->stage_count++] = stage;
    return GNF_OK;
}

gnf_status gnf_problem_parse(const char *text, struct gnf_problem *problem)
{
    struct gnf_parser parser = {.text = text, .problem = problem};
    if (!text)
        return gnf_fail(GNF_INVALID_ARGUMENT, "problem is null: allowed is a problem text");
    *problem = (struct gnf_problem){.norm = -1, .reduction = -1, .pooling = -1};
    /* offsets are ints, and no problem text is longer */
    if (strnlen(text, 1 << 20) == 1 << 20)
        return gnf_fail(GNF_INVALID_PROBLEM, "problem text of 1 MiB or more: allowed are %d bytes",
                        GNF_MAX_TEXT);
    GNF_TRY(parse_input(&parser));
    while (gnf_parser_peek(&parser)) {
        if (!gnf_parser_skip(&parser, '|'))
            return gnf_parser_unexpected(&parser, "allowed is '|'");
        GNF_TRY(parse_stage(&parser));
    }
    if (problem->norm < 0) {
        snprintf(parser.where, sizeof parser.where, "end of the text");
        return gnf_parser_bad(&parser, parser.at, "no groupnorm\1allowed is exactly one");
    }
    const struct gnf_shape *last = &parser.shape[problem->stage_count];
    problem->y_channels = last->channels;
    problem->y_spatial = 1;
    for (int i = 0; i < problem->spatial_rank; i++)
        problem->y_spatial *= last->size[i];
    int length;
    snprintf(parser.where, sizeof parser.where, "canonical text");
    if (!gnf_problem_spell(problem, &length))
        return gnf_parser_bad(&parser, 0, "problem of %d bytes\1allowed are %d", length, GNF_MAX_TEXT);
    return GNF_OK;
}

gnf_status gnf_problem_set_samples(struct gnf_problem *problem, int64_t samples)
{
    int64_t x, y;
    int length;
    GNF_TRY(gnf_problem_elements(problem, samples, &x, &y));
    problem->samples = samples;
    gnf_problem_spell(problem, &length);
    return GNF_OK;
}

gnf_status gnf_problem_take_samples(struct gnf_problem *problem, int64_t given)
{
    int64_t samples = problem->samples >= 0 ? problem->samples : given;
    if (problem->samples < 0 && given <= 0)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "samples = %" PRId64 ": the problem leaves N open, so allowed are 1 and more", given);
    if (given && given != samples)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "samples = %" PRId64 ": the problem says N = %" PRId64 ", so allowed are 0 and that",
                        given, samples);
    return gnf_problem_set_samples(problem, samples);
}

gnf_status gnf_problem_elements(const struct gnf_problem *problem, int64_t samples, int64_t *x, int64_t *y)
{
    int64_t size = (int64_t)gnf_dtype_size(problem->dtype), bytes;
    int64_t inputs = problem->inputs ? problem->inputs : problem->channels;
    bool fits = !__builtin_mul_overflow(inputs * problem->x_spatial, samples, x) &&
                !__builtin_mul_overflow(*x, size, &bytes);
    fits = fits && !__builtin_mul_overflow(problem->y_channels, problem->y_spatial, y);
    fits = fits && !__builtin_mul_overflow(*y, samples, y) && !__builtin_mul_overflow(*y, size, &bytes);
    /* of the output of linear or conv2d, and of full operands */
    fits = fits && !__builtin_mul_overflow(problem->channels * problem->spatial, samples, &bytes) &&
           !__builtin_mul_overflow(bytes, size, &bytes);
    if (!fits)
        return gnf_fail(GNF_TOO_LARGE,
                        "N = %" PRId64 ": the bytes of x, of y or of what groupnorm sees do not fit 63 bits",
                        samples);
    return GNF_OK;
}

bool gnf_problem_in_place(const struct gnf_problem *problem, int i)
{
    if (problem->reduction >= 0)
        return false;
    /* linear, conv2d and maxpool2d read x for other places too, or after parts of y are written. */
    if (i < 0)
        return !problem->inputs && problem->pooling < 0;
    const struct gnf_operand *operand = &problem->operand[i];
    return operand->broadcast == GNF_FULL && operand->spatial == problem->y_spatial;
}

size_t gnf_dtype_size(enum gnf_dtype dtype)
{
    return dtype == GNF_F32 ? 4 : 2;
}

const char *gnf_dtype_name(enum gnf_dtype dtype)
{
    return dtype_names[dtype];
}
