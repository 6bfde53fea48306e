/* The parser of the problem text, against the table that the generator's parser is held to as well.
 * usage: test_problem problems.txt */
#define _POSIX_C_SOURCE 200809L
#include "number.h"
#include "problem.h"
#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const char *table_path;

struct row {
    char *field[5];
    int fields;
};

static bool next_row(FILE *file, char **line, size_t *room, struct row *row)
{
    ssize_t length;
    while ((length = getline(line, room, file)) > 0) {
        char *c = *line;
        if (c[length - 1] == '\n')
            c[length - 1] = '\0';
        if (!*c || *c == '#')
            continue;
        row->fields = 0;
        for (char *field = c; field && row->fields < 5; row->fields++) {
            row->field[row->fields] = field;
            if ((field = strchr(field, '\t')))
                *field++ = '\0';
        }
        return true;
    }
    return false;
}

static void expect_ok(const struct row *row)
{
    struct gnf_problem problem;
    gnf_status status = gnf_problem_parse(row->field[1], &problem);
    if (status != GNF_OK)
        fail_msg("%s", gnf_error_message());
    assert_int_equal(row->fields, 5);
    assert_string_equal(problem.text, row->field[2]);
    assert_string_equal(problem.key, row->field[3]);
    assert_string_equal(problem.chain, row->field[4]);
}

/* The message's first line holds the text of the table; its caret stands under the byte of the table. */
static void expect_bad(const struct row *row)
{
    struct gnf_problem problem;
    int column = atoi(row->field[2]), length = (int)strlen(row->field[1]);
    gnf_status status = gnf_problem_parse(row->field[1], &problem);
    assert_int_equal(row->fields, 4);
    if (status != GNF_INVALID_PROBLEM && status != GNF_TOO_LARGE)
        fail_msg("status %d for: %s", status, row->field[1]);
    char *message = strdup(gnf_error_message());
    char *text = strchr(message, '\n');
    assert_non_null(text);
    *text++ = '\0';
    if (!strstr(message, row->field[3]))
        fail_msg("for %s\nwanted \"%s\"\ngot \"%s\"", row->field[1], row->field[3], message);
    char *caret = strchr(text, '\n');
    assert_non_null(caret);
    *caret++ = '\0';
    int at = (int)strlen(caret) - 3;
    assert_true(at >= 0 && strlen(text) <= 62);
    if (length <= 60 && at + 1 != column)
        fail_msg("caret at %d, wanted %d\n%s", at + 1, column, gnf_error_message());
    if (length <= 60)
        assert_string_equal(text + 2, row->field[1]);
    else if (column <= length)
        assert_int_equal(text[at + 2], row->field[1][column - 1]);
    free(message);
}

static void golden_table(void **state)
{
    FILE *file = fopen(table_path, "r");
    char *line = NULL;
    size_t room = 0;
    int ok = 0, bad = 0;
    struct row row;
    (void)state;
    assert_non_null(file);
    while (next_row(file, &line, &room, &row)) {
        if (!strcmp(row.field[0], "ok")) {
            expect_ok(&row);
            ok++;
        } else {
            assert_string_equal(row.field[0], "bad");
            expect_bad(&row);
            bad++;
        }
    }
    assert_true(ok >= 40 && bad >= 60);
    free(line);
    fclose(file);
}

/* Whatever parses has a canonical text that means the same. */
static void parse_any(const char *text)
{
    struct gnf_problem problem, again;
    gnf_status status = gnf_problem_parse(text, &problem);
    if (status != GNF_OK) {
        assert_true(status == GNF_INVALID_PROBLEM || status == GNF_TOO_LARGE);
        return;
    }
    if (gnf_problem_parse(problem.text, &again) != GNF_OK)
        fail_msg("%s\nfrom: %s", gnf_error_message(), text);
    assert_string_equal(problem.text, again.text);
    assert_string_equal(problem.key, again.key);
    assert_string_equal(problem.chain, again.chain);
    assert_memory_equal(problem.scalar, again.scalar, sizeof problem.scalar);
}

static void prefixes_and_mutations(void **state)
{
    static const char bytes[] = "x09.-+eE|()[]{},:;=*_ \t\n\"'%\\\x01\x7f\x80\xff";
    FILE *file = fopen(table_path, "r");
    char *line = NULL;
    size_t room = 0;
    struct row row;
    (void)state;
    assert_non_null(file);
    while (next_row(file, &line, &room, &row)) {
        char *text = strdup(row.field[1]);
        size_t length = strlen(text);
        bool ok = row.field[0][0] == 'o';
        for (size_t i = 0; i < length; i++) {
            char kept = text[i];
            text[i] = '\0';
            parse_any(text);
            for (const char *byte = bytes; ok && *byte; byte++) {
                text[i] = *byte;
                parse_any(text);
            }
            text[i] = kept;
            parse_any(text + i);
        }
        free(text);
    }
    free(line);
    fclose(file);
}

static void fields(void **state)
{
    struct gnf_problem problem;
    int64_t x, y;
    (void)state;
    assert_int_equal(
        gnf_problem_parse("f16[*,6,7,2]:nhwc | h = leaky_relu(0.25) | groupnorm(3, 0.5) | add(h) | "
                          "mul(w: channel) | add(x) | clamp(-1, 2) | max",
                          &problem),
        GNF_OK);
    assert_int_equal(problem.dtype, GNF_F16);
    assert_true(problem.channels_last);
    assert_int_equal(problem.samples, -1);
    assert_int_equal(problem.channels, 6);
    assert_int_equal(problem.spatial, 14);
    assert_int_equal(problem.groups, 3);
    assert_int_equal(problem.norm, 1);
    assert_int_equal(problem.reduction, 6);
    assert_int_equal(problem.scalar_count, 4);
    const float scalar[] = {0.25f, 0.5f, -1, 2};
    assert_memory_equal(problem.scalar, scalar, sizeof scalar);
    assert_int_equal(problem.stage[5].scalar_at, 2);
    assert_int_equal(problem.stage[2].label, 1);
    assert_int_equal(problem.stage[4].label, 0);
    assert_int_equal(problem.stage[3].operand, 0);
    assert_string_equal(problem.operand[0].name, "w");
    assert_int_equal(problem.operand[0].broadcast, GNF_CHANNEL);
    assert_int_equal(gnf_problem_elements(&problem, 5, &x, &y), GNF_OK);
    assert_int_equal(x, 5 * 6 * 14);
    assert_int_equal(y, 5 * 14);
    assert_int_equal(gnf_problem_elements(&problem, INT64_MAX / 84, &x, &y), GNF_TOO_LARGE);
    assert_int_equal(gnf_problem_set_samples(&problem, 5), GNF_OK);
    assert_int_equal(strncmp(problem.text, "f16[5,6,7,2]:nhwc | h = ", 24), 0);
    assert_int_equal(strncmp(problem.key, "f16[*,6,14]:nhwc", 16), 0);
    assert_int_equal(gnf_problem_parse(NULL, &problem), GNF_INVALID_ARGUMENT);
    assert_int_equal(gnf_problem_parse("f32[1099511627776,1048576,1048576] | groupnorm(1)", &problem),
                     GNF_TOO_LARGE);
}

static void expect_window(const struct gnf_window *window, const struct gnf_window *wanted)
{
    assert_int_equal(window->kernel, wanted->kernel);
    assert_int_equal(window->stride, wanted->stride);
    assert_int_equal(window->padding, wanted->padding);
    assert_memory_equal(window->input, wanted->input, sizeof window->input);
    assert_memory_equal(window->output, wanted->output, sizeof window->output);
}

static void fields_of_windows(void **state)
{
    const struct gnf_window none = {0}, conv = {3, 2, 1, {6, 9}, {3, 5}}, pool = {2, 2, 0, {3, 5}, {1, 2}};
    struct gnf_problem problem;
    int64_t x, y;
    (void)state;
    assert_int_equal(gnf_problem_parse("f32[*,4,6,9]:nhwc | conv2d(8, 3, 2, 1, tf32) | groupnorm(2) | "
                                       "maxpool2d(2) | sum",
                                       &problem),
                     GNF_OK);
    assert_true(problem.tf32 && problem.channels_last && !problem.reduces_all);
    assert_int_equal(problem.inputs, 4);
    assert_int_equal(problem.channels, 8);
    assert_int_equal(problem.x_spatial, 54);
    assert_int_equal(problem.spatial, 15);
    assert_int_equal(problem.pooling, 2);
    assert_int_equal(problem.y_channels, 1);
    assert_int_equal(problem.y_spatial, 2);
    expect_window(&problem.conv, &conv);
    expect_window(&problem.pool, &pool);
    assert_int_equal(gnf_problem_elements(&problem, 7, &x, &y), GNF_OK);
    assert_int_equal(x, 7 * 4 * 54);
    assert_int_equal(y, 7 * 2);

    assert_int_equal(gnf_problem_parse("f32[2,4,8,9] | conv2d(4, 3) | mul(q: full) | groupnorm(2) | "
                                       "maxpool2d(2) | add(b: channel) | add(r: full)",
                                       &problem),
                     GNF_OK);
    assert_int_equal(problem.operand[0].spatial, 6 * 7);
    assert_int_equal(problem.operand[2].spatial, 3 * 3);

    assert_int_equal(gnf_problem_parse("f16[2,4,3] | groupnorm(2) | mean(all) | relu", &problem), GNF_OK);
    assert_true(problem.reduces_all);
    assert_int_equal(problem.reduction, 1);
    assert_int_equal(problem.pooling, -1);
    assert_int_equal(problem.x_spatial, 3);
    assert_int_equal(problem.y_channels * problem.y_spatial, 1);
    expect_window(&problem.conv, &none);
    expect_window(&problem.pool, &none);
}

/* x fits, and so does y, but not what conv2d makes of x; then x alone does not. */
static void elements_of_conv2d(void **state)
{
    struct gnf_problem problem;
    int64_t x, y;
    (void)state;
    assert_int_equal(
        gnf_problem_parse("f32[*,1,1,1] | conv2d(1024, 1, padding=512) | groupnorm(2) | mean(all)", &problem),
        GNF_OK);
    const int64_t most = INT64_MAX / 4 / (1024 * 1025 * 1025);
    assert_int_equal(gnf_problem_elements(&problem, most, &x, &y), GNF_OK);
    assert_int_equal(x, most);
    assert_int_equal(y, most);
    assert_int_equal(gnf_problem_elements(&problem, most + 1, &x, &y), GNF_TOO_LARGE);
    assert_int_equal(gnf_problem_parse("f16[*,16,64,64] | conv2d(1, 64) | groupnorm(1)", &problem), GNF_OK);
    assert_int_equal(gnf_problem_elements(&problem, INT64_MAX / 2 / 65536, &x, &y), GNF_OK);
    assert_int_equal(gnf_problem_elements(&problem, INT64_MAX / 2 / 65536 + 1, &x, &y), GNF_TOO_LARGE);
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 32);
}

/* glibc's strtof is exact, and so must ours be; the shortest digits come back as the same bits. */
static void numbers(void **state)
{
    uint64_t random = 20261129;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = next_random(&random);
        char text[400];
        float value, back;
        memcpy(&value, &bits, sizeof value);
        if (value - value != 0)
            continue;
        gnf_number_format(value, text);
        assert_true(strlen(text) < 18);
        assert_int_equal(gnf_number_float(text, strlen(text), &back), GNF_NUMBER_OK);
        assert_memory_equal(&back, &value, sizeof value);
        /* near a halfway point, from both sides, with more digits than a float has */
        double between = (double)value * (1 + 0x1p-24);
        snprintf(text, sizeof text, "%.*e", i % 140, i % 3 ? between : (double)value * 1.0000001);
        float expected = strtof(text, NULL);
        enum gnf_number result = gnf_number_float(text, strlen(text), &back);
        assert_int_equal(result, expected - expected == 0 ? GNF_NUMBER_OK : GNF_NUMBER_RANGE);
        if (result == GNF_NUMBER_OK)
            assert_memory_equal(&back, &expected, sizeof back);
        /* few digits, every other time with halfway points between floats among them */
        uint32_t whole = next_random(&random) >> i % 32;
        snprintf(text, sizeof text, "%" PRIu32 "e-%d", i % 2 ? whole : (whole >> 6) | 1 << 24 | 1,
                 i % 4 ? i % 22 : 0);
        expected = strtof(text, NULL);
        assert_int_equal(gnf_number_float(text, strlen(text), &back), GNF_NUMBER_OK);
        assert_memory_equal(&back, &expected, sizeof back);
    }
}

static void comma_locale(void **state)
{
    char text[32];
    float value;
    struct gnf_problem problem;
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        skip();
    gnf_number_format(-1234.5f, text);
    gnf_status status = gnf_problem_parse("f32[2,4] | groupnorm(2, 0.25) | hardtanh(-0.5, 1e-3)", &problem);
    enum gnf_number number = gnf_number_float("-1234.5", 7, &value);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "-1234.5");
    assert_int_equal(number, GNF_NUMBER_OK);
    assert_true(value == -1234.5f);
    assert_int_equal(status, GNF_OK);
    assert_string_equal(problem.text, "f32[2,4] | groupnorm(2, eps=0.25) | hardtanh(-0.5, 0.001)");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_table),
        cmocka_unit_test(prefixes_and_mutations),
        cmocka_unit_test(fields),
        cmocka_unit_test(fields_of_windows),
        cmocka_unit_test(elements_of_conv2d),
        cmocka_unit_test(numbers),
        cmocka_unit_test(comma_locale),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s problems.txt\n", argv[0]);
        return 2;
    }
    table_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
