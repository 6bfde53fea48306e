/* Canonical text, key and chain of a parsed problem. */
#include "number.h"
#include "problem.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum spelling { TEXT, KEY, CHAIN };

struct writer {
    char *out;
    int length; /* as if there were room for all */
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *writer, const char *format, ...)
{
    va_list arguments;
    int room = writer->length < GNF_KEY_SIZE ? GNF_KEY_SIZE - writer->length : 0;
    va_start(arguments, format);
    writer->length += vsnprintf(room ? writer->out + writer->length : NULL, (size_t)room, format, arguments);
    va_end(arguments);
}

static bool shows(const struct gnf_param *param, enum spelling spelling)
{
    return param->type == 'w' || spelling == TEXT || (spelling == KEY && param->type == 'i');
}

static void put_parameters(struct writer *writer, const struct gnf_stage *stage, enum spelling spelling)
{
    const struct gnf_op *op = stage->op;
    const char *before = "(";
    bool required = false;
    int last = -1; /* of the unnamed ones, where none is required */
    for (int i = 0; i < op->param_count; i++) {
        required = required || op->param[i].required;
        if (op->param[i].type != 'w' && (float)stage->value[i] != (float)op->param[i].value)
            last = i;
    }
    for (int i = 0; i < op->param_count; i++) {
        const struct gnf_param *param = &op->param[i];
        bool differs = (float)stage->value[i] != (float)param->value;
        if (!shows(param, spelling) || !(param->required || differs || (!required && i <= last)))
            continue;
        char number[32];
        if (param->type == 'i')
            snprintf(number, sizeof number, "%" PRId64, (int64_t)stage->value[i]);
        else
            gnf_number_format((float)stage->value[i], number);
        if (param->type == 'w')
            put(writer, "%s%s", before, param->name);
        else if (param->required || !required)
            put(writer, "%s%s", before, number);
        else
            put(writer, "%s%s=%s", before, param->name, number);
        before = ", ";
    }
    if (*before == ',')
        put(writer, ")");
}

static void put_stage(struct writer *writer, const struct gnf_problem *problem, const struct gnf_stage *stage,
                      enum spelling spelling)
{
    static const char *const kind[] = {"full", "channel", "scalar"};
    put(writer, " | ");
    if (spelling == TEXT && stage->name[0])
        put(writer, "%s = ", stage->name);
    put(writer, "%s", stage->op->name);
    if (stage->op->kind != GNF_OP_BINARY) {
        put_parameters(writer, stage, spelling);
    } else if (stage->operand >= 0) {
        const struct gnf_operand *operand = &problem->operand[stage->operand];
        if (spelling == TEXT)
            put(writer, "(%s: %s)", operand->name, kind[operand->broadcast]);
        else
            put(writer, "($%d:%s)", stage->operand, kind[operand->broadcast]);
    } else if (spelling == TEXT) {
        put(writer, "(%s)", stage->label ? problem->stage[stage->label - 1].name : "x");
    } else {
        put(writer, "(@%d)", stage->label);
    }
}

static int spell(const struct gnf_problem *problem, char *out, enum spelling spelling)
{
    struct writer writer = {out, 0};
    put(&writer, "%s", gnf_dtype_name(problem->dtype));
    if (spelling == TEXT && problem->samples >= 0)
        put(&writer, "[%" PRId64, problem->samples);
    else if (spelling != CHAIN)
        put(&writer, "[*");
    if (spelling != CHAIN)
        put(&writer, ",%" PRId64, problem->inputs ? problem->inputs : problem->channels);
    /* Of sizes that a window moves over, kernels depend on each. */
    bool each = spelling == TEXT || (spelling == KEY && (problem->conv.kernel || problem->pool.kernel));
    for (int i = 0; i < problem->spatial_rank && each; i++)
        put(&writer, ",%" PRId64, problem->size[i]);
    if (spelling == KEY && !each)
        put(&writer, ",%" PRId64, problem->spatial);
    put(&writer, "%s%s", spelling == CHAIN ? "" : "]", problem->channels_last ? ":nhwc" : "");
    for (int i = 0; i < problem->stage_count; i++)
        put_stage(&writer, problem, &problem->stage[i], spelling);
    return writer.length;
}

bool gnf_problem_spell(struct gnf_problem *problem, int *length)
{
    *length = spell(problem, problem->text, TEXT);
    spell(problem, problem->key, KEY);
    spell(problem, problem->chain, CHAIN);
    return *length <= GNF_MAX_TEXT;
}
