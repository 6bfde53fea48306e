/* The cursor over a problem text: tokens, and messages that point into the text. For problem.c,
 * arguments.c and shapes.c. */
#ifndef GNF_PARSER_H
#define GNF_PARSER_H

#include "problem.h"

enum { GNF_QUOTE = 40 }; /* bytes of the text that a message quotes */

struct gnf_shape {
    int64_t channels;
    int64_t size[GNF_MAX_SPATIAL];
};
struct gnf_parser {
    const char *text;
    int at;
    char where[GNF_QUOTE + 16]; /* for messages: "stage 'add'" */
    struct gnf_problem *problem;
    bool asked_channels_last;                   /* whether or not it changes anything */
    struct gnf_shape shape[GNF_MAX_STAGES + 1]; /* of x and of each stage's output */
};
struct gnf_token {
    int at, length;
    char quoted[GNF_QUOTE + 8];
};

bool gnf_is_lower(char c); /* a-z and _ */
bool gnf_is_digit(char c);
bool gnf_is_word(char c);   /* letters, digits and _ */
bool gnf_is_number(char c); /* what a number, or a failed attempt at one, is made of */

/* The next character that is no space, 0 at the end; the cursor then stands on it. */
char gnf_parser_peek(struct gnf_parser *parser);
/* Steps over `c` if it is next. */
bool gnf_parser_skip(struct gnf_parser *parser, char c);
/* The next run of characters that belong; its length may be 0. */
struct gnf_token gnf_parser_take(struct gnf_parser *parser, bool (*belongs)(char));
bool gnf_token_is(const struct gnf_parser *parser, const struct gnf_token *token, const char *word);
const char *gnf_token_or_empty(const struct gnf_token *token); /* '' for an empty one */

/* GNF_INVALID_PROBLEM with "WHAT (WHERE): ALLOWED" and a caret under byte `at`; the format is
 * "WHAT\1ALLOWED". */
gnf_status gnf_parser_bad(const struct gnf_parser *parser, int at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What comes next does not belong there. */
gnf_status gnf_parser_unexpected(struct gnf_parser *parser, const char *allowed);

/* Index of the operation's parameter of this name, -1 for none. */
int gnf_op_parameter(const struct gnf_op *op, const char *name);
/* Fills in stage->value from what stands in parentheses, and at[i]: where the value of the i-th parameter
 * stands, or the word itself; -1 where it is not given. */
gnf_status gnf_parse_arguments(struct gnf_parser *parser, struct gnf_stage *stage, int *at);

/* Where in the chain the operation may stand. */
gnf_status gnf_stage_place(const struct gnf_parser *parser, const struct gnf_stage *stage);
/* The sizes of the stage's output, from its parsed parameters, which are checked against those of its input;
 * what the problem says of linear, conv2d, maxpool2d and mean(all). `at` as gnf_parse_arguments() left it. */
gnf_status gnf_stage_shape(struct gnf_parser *parser, const struct gnf_stage *stage, const int *at);

#endif
