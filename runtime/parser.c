#include "parser.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WINDOW = 60 };

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool gnf_is_lower(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}
bool gnf_is_digit(char c)
{
    return c >= '0' && c <= '9';
}
bool gnf_is_word(char c)
{
    return gnf_is_lower(c) || gnf_is_digit(c) || (c >= 'A' && c <= 'Z');
}
bool gnf_is_number(char c)
{
    return gnf_is_word(c) || c == '+' || c == '-' || c == '.';
}
static char printable(char c)
{
    return c >= ' ' && c <= '~' ? c : is_space(c) ? ' ' : '?';
}

static gnf_status refuse(const char *text, int at, const char *message)
{
    char window[WINDOW + 1];
    int length = (int)strlen(text);
    int start = length <= WINDOW || at < WINDOW / 2 ? 0 : at - WINDOW / 2;
    if (length > WINDOW && start > length - WINDOW)
        start = length - WINDOW;
    int shown = length < WINDOW ? length : WINDOW;
    for (int i = 0; i < shown; i++) {
        bool cut = (start > 0 && i < 3) || (start + shown < length && i >= shown - 3);
        window[i] = cut ? '.' : printable(text[start + i]);
    }
    window[shown] = '\0';
    return gnf_fail(GNF_INVALID_PROBLEM, "%s\n  %s\n  %*s^", message, window, at - start, "");
}

gnf_status gnf_parser_bad(const struct gnf_parser *parser, int at, const char *format, ...)
{
    char both[1024], message[1152];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(both, sizeof both, format, arguments);
    va_end(arguments);
    char *allowed = strchr(both, '\1');
    if (allowed)
        *allowed++ = '\0';
    snprintf(message, sizeof message, "%s (%s): %s", both, parser->where, allowed ? allowed : "");
    return refuse(parser->text, at, message);
}

char gnf_parser_peek(struct gnf_parser *parser)
{
    while (is_space(parser->text[parser->at]))
        parser->at++;
    return parser->text[parser->at];
}

bool gnf_parser_skip(struct gnf_parser *parser, char c)
{
    if (gnf_parser_peek(parser) != c)
        return false;
    parser->at++;
    return true;
}

struct gnf_token gnf_parser_take(struct gnf_parser *parser, bool (*belongs)(char))
{
    struct gnf_token token = {0};
    gnf_parser_peek(parser);
    token.at = parser->at;
    while (belongs(parser->text[parser->at]))
        parser->at++;
    token.length = parser->at - token.at;
    int shown = token.length < GNF_QUOTE ? token.length : GNF_QUOTE;
    memcpy(token.quoted, parser->text + token.at, (size_t)shown);
    if (token.length > GNF_QUOTE)
        memcpy(token.quoted + shown, "...", 4);
    return token;
}

bool gnf_token_is(const struct gnf_parser *parser, const struct gnf_token *token, const char *word)
{
    return strlen(word) == (size_t)token->length && !memcmp(parser->text + token->at, word, strlen(word));
}

const char *gnf_token_or_empty(const struct gnf_token *token)
{
    return token->length ? token->quoted : "''";
}

gnf_status gnf_parser_unexpected(struct gnf_parser *parser, const char *allowed)
{
    gnf_parser_peek(parser);
    struct gnf_parser ahead = *parser;
    struct gnf_token token = gnf_parser_take(&ahead, gnf_is_word);
    if (!token.length)
        snprintf(token.quoted, sizeof token.quoted, "%c", printable(parser->text[parser->at]));
    if (!parser->text[parser->at])
        return gnf_parser_bad(parser, parser->at, "unexpected end\1%s", allowed);
    return gnf_parser_bad(parser, parser->at, "unexpected '%s'\1%s", token.quoted, allowed);
}
