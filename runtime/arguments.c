/* The arguments of a stage: numbers, and words that stand for themselves. */
#include "number.h"
#include "parser.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WHOLE_MAX = 2147483647 };

/* "groupnorm(groups, eps=1e-5)", "mean or mean(all)", "linear(out) or linear(out, tf32)" */
static void signature(const struct gnf_op *op, char *out, size_t size)
{
    char plain[128] = "", number[32];
    size_t length = 0;
    for (int i = 0; i < op->param_count && length < sizeof plain; i++) {
        const struct gnf_param *param = &op->param[i];
        if (param->type == 'w')
            continue;
        gnf_number_format((float)param->value, number);
        snprintf(plain + length, sizeof plain - length, "%s%s%s%s", length ? ", " : "", param->name,
                 param->required ? "" : "=", param->required ? "" : number);
        length += strlen(plain + length);
    }
    snprintf(out, size, "%s%s%s%s", op->name, length ? "(" : "", plain, length ? ")" : "");
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == 'w' && strlen(out) < size)
            snprintf(out + strlen(out), size - strlen(out), " or %s(%s%s%s)", op->name, plain,
                     length ? ", " : "", op->param[i].name);
}

__attribute__((format(printf, 4, 5))) static gnf_status
bad_argument(const struct gnf_parser *parser, int at, const struct gnf_op *op, const char *format, ...)
{
    char what[128], form[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    signature(op, form, sizeof form);
    return gnf_parser_bad(parser, at, "%s\1allowed is %s", what, form);
}

int gnf_op_parameter(const struct gnf_op *op, const char *name)
{
    for (int i = 0; i < op->param_count; i++)
        if (!strcmp(op->param[i].name, name))
            return i;
    return -1;
}

static gnf_status parse_value(struct gnf_parser *parser, const struct gnf_param *param, double *value)
{
    struct gnf_token token = gnf_parser_take(parser, gnf_is_number);
    const char *text = parser->text + token.at;
    if (param->type == 'i') {
        int64_t whole, least = param->required ? 1 : (int64_t)param->value;
        if (gnf_number_whole(text, (size_t)token.length, &whole) != GNF_NUMBER_OK || whole < least ||
            whole > WHOLE_MAX)
            return gnf_parser_bad(parser, token.at, "%s = %s\1allowed are whole numbers from %d to %d",
                                  param->name, gnf_token_or_empty(&token), (int)least, WHOLE_MAX);
        *value = (double)whole;
        return GNF_OK;
    }
    float number;
    bool positive = !strcmp(param->name, "eps");
    if (gnf_number_float(text, (size_t)token.length, &number) != GNF_NUMBER_OK || (positive && number <= 0))
        return gnf_parser_bad(parser, token.at, "%s = %s\1allowed are finite numbers%s", param->name,
                              gnf_token_or_empty(&token), positive ? " above 0" : "");
    *value = (double)number;
    return GNF_OK;
}

/* One argument; at[i] is where the value of the i-th parameter stands, -1 before it was given. */
static gnf_status parse_argument(struct gnf_parser *parser, struct gnf_stage *stage, int *at, bool *named)
{
    const struct gnf_op *op = stage->op;
    struct gnf_parser ahead = *parser;
    struct gnf_token token = gnf_parser_take(&ahead, gnf_is_word);
    bool name = token.length && gnf_is_lower(parser->text[token.at]);
    bool equals = name && gnf_parser_peek(&ahead) == '=';
    int i = 0;
    if (name)
        for (i = 0; i < op->param_count && !gnf_token_is(parser, &token, op->param[i].name);)
            i++;
    if (equals || (name && i < op->param_count)) {
        if (i == op->param_count)
            return bad_argument(parser, token.at, op, "unknown parameter '%s'", token.quoted);
        if (equals == (op->param[i].type == 'w'))
            return bad_argument(parser, token.at, op, "%s takes %s value", token.quoted, equals ? "no" : "a");
        if (at[i] >= 0)
            return bad_argument(parser, token.at, op, "%s is given twice", token.quoted);
        parser->at = ahead.at + equals;
        *named = true;
    } else {
        for (i = 0; i < op->param_count && (op->param[i].type == 'w' || at[i] >= 0);)
            i++;
        if (*named)
            return bad_argument(parser, token.at, op, "an unnamed argument after a named one");
        if (i == op->param_count && name && op->param_count)
            return bad_argument(parser, token.at, op, "unknown parameter '%s'", token.quoted);
        if (i == op->param_count)
            return bad_argument(parser, token.at, op, "too many arguments");
    }
    gnf_parser_peek(parser);
    at[i] = op->param[i].type == 'w' ? token.at : parser->at;
    stage->value[i] = 1;
    return op->param[i].type == 'w' ? GNF_OK : parse_value(parser, &op->param[i], &stage->value[i]);
}

static gnf_status parse_all(struct gnf_parser *parser, struct gnf_stage *stage, int *at)
{
    const struct gnf_op *op = stage->op;
    bool named = false;
    for (int i = 0; i < op->param_count; i++) {
        at[i] = -1;
        stage->value[i] = op->param[i].type == 'f' ? (double)(float)op->param[i].value : op->param[i].value;
    }
    if (gnf_parser_skip(parser, '(') && !gnf_parser_skip(parser, ')')) {
        do
            GNF_TRY(parse_argument(parser, stage, at, &named));
        while (gnf_parser_skip(parser, ','));
        if (!gnf_parser_skip(parser, ')'))
            return gnf_parser_unexpected(parser, "allowed are ',' and ')'");
    }
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].required && at[i] < 0)
            return bad_argument(parser, stage->at, op, "%s is missing", op->param[i].name);
    return GNF_OK;
}

static gnf_status check_bounds(struct gnf_parser *parser, const struct gnf_stage *stage, const int *at)
{
    int low = gnf_op_parameter(stage->op, "min"), high = gnf_op_parameter(stage->op, "max");
    char least[32], most[32];
    if (low < 0 || high < 0 || stage->value[low] <= stage->value[high])
        return GNF_OK;
    gnf_number_format((float)stage->value[low], least);
    gnf_number_format((float)stage->value[high], most);
    if (at[high] > at[low])
        return gnf_parser_bad(parser, at[high], "max = %s\1allowed are numbers from min = %s", most, least);
    return gnf_parser_bad(parser, at[low], "min = %s\1allowed are numbers up to max = %s", least, most);
}

static gnf_status check_precision(const struct gnf_parser *parser, const struct gnf_stage *stage,
                                  const int *at)
{
    int tf32 = gnf_op_parameter(stage->op, "tf32"), strict = gnf_op_parameter(stage->op, "strict");
    if (tf32 < 0 || strict < 0 || (at[tf32] < 0 && at[strict] < 0))
        return GNF_OK;
    if (at[tf32] >= 0 && at[strict] >= 0)
        return gnf_parser_bad(parser, at[at[tf32] > at[strict] ? tf32 : strict],
                              "tf32 and strict\1allowed is one of them");
    if (parser->problem->dtype != GNF_F32)
        return gnf_parser_bad(parser, at[at[tf32] >= 0 ? tf32 : strict], "%s for %s\1allowed is f32",
                              at[tf32] >= 0 ? "tf32" : "strict", gnf_dtype_name(parser->problem->dtype));
    parser->problem->tf32 = at[tf32] >= 0;
    return GNF_OK;
}

gnf_status gnf_parse_arguments(struct gnf_parser *parser, struct gnf_stage *stage, int *at)
{
    GNF_TRY(parse_all(parser, stage, at));
    GNF_TRY(check_bounds(parser, stage, at));
    return check_precision(parser, stage, at);
}
