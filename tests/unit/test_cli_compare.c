/* The judge of results: it must see what is wrong, and only that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/compare.h"
#include "cli/halves.h"
#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { COUNT = 2 * 4 * 64 };

struct subject {
    struct gnf_problem problem;
    struct tensors tensors;
    double reference[COUNT];
    float y[COUNT];
    struct comparison result;
};

/* A result that is right: two samples of four channels in two groups, values of either sign up to 2. */
static void begin(struct subject *s)
{
    assert_int_equal(gnf_problem_parse("f32[2,4,64] | groupnorm(2)", &s->problem), GNF_OK);
    assert_int_equal(tensors_create(&s->tensors, &s->problem, 2), GNF_OK);
    for (int i = 0; i < COUNT; i++) {
        s->reference[i] = 2 * sin(i * 0.7);
        s->y[i] = (float)s->reference[i];
    }
}

static bool judge(struct subject *s)
{
    compare_run(&s->tensors, s->y, s->reference, &s->result);
    return s->result.ok;
}

static void right_results_pass(void **state)
{
    (void)state;
    struct subject s;
    begin(&s);
    assert_true(judge(&s));
    assert_true(s.result.max_error < 1e-7);
    s.y[77] += 0.9e-4f;
    assert_true(judge(&s));
    assert_int_equal(s.result.worst, 77);
}

static void wrong_element(void **state)
{
    (void)state;
    struct subject s;
    char text[384];
    begin(&s);
    s.y[300] += 3e-4f; /* sample 1, channel 0, place 44 */
    assert_false(judge(&s));
    assert_int_equal(s.result.worst, 300);
    compare_text(&s.tensors, &s.result, text, sizeof text);
    assert_non_null(strstr(text, "[1,0,44]"));
}

static void error_is_relative_above_one(void **state)
{
    (void)state;
    struct subject s;
    begin(&s);
    s.reference[5] = 1000;
    s.y[5] = 1000.05f;
    assert_true(judge(&s));
    s.y[5] = 1000.2f;
    assert_false(judge(&s));
}

/* A wrong divisor is an affine change: every element may be within the tolerance and the whole still wrong.
 */
static void wrong_divisor(void **state)
{
    (void)state;
    struct subject s;
    begin(&s);
    for (int i = 0; i < COUNT; i++)
        s.y[i] = (float)(s.reference[i] + 0.8e-4);
    assert_false(judge(&s));
    assert_true(s.result.max_error < 1e-4);
    assert_true(s.result.mean_error > 0.5e-4 && s.result.std_error < 1e-6);
    for (int i = 0; i < COUNT; i++)
        s.y[i] = (float)(s.reference[i] * (1 + 0.9e-4));
    assert_false(judge(&s));
    assert_true(s.result.std_error > 0.5e-4);
}

static void nan_and_infinity_must_match(void **state)
{
    (void)state;
    struct subject s;
    begin(&s);
    s.reference[9] = NAN;
    assert_false(judge(&s));
    assert_int_equal(s.result.not_matching, 1);
    assert_int_equal(s.result.worst, 9);
    s.y[9] = NAN;
    assert_true(judge(&s));
    s.y[10] = NAN;
    assert_false(judge(&s));
    begin(&s);
    s.reference[9] = -INFINITY;
    s.y[9] = INFINITY;
    assert_false(judge(&s));
    s.y[9] = -INFINITY;
    assert_true(judge(&s));
    s.reference[10] = 1e30;
    s.y[10] = INFINITY;
    assert_false(judge(&s));
}

/* What the dtype cannot hold is stored as infinity; near the limit either is right. */
static void overflow_of_the_dtype(void **state)
{
    (void)state;
    struct gnf_problem problem;
    struct tensors tensors;
    struct comparison result;
    const double reference[4] = {70000, -65519, 65504, 1};
    uint16_t y[4] = {0x7c00, 0xfbff, 0x7bff, 0x3c00};
    assert_int_equal(gnf_problem_parse("f16[1,4] | groupnorm(1)", &problem), GNF_OK);
    assert_int_equal(tensors_create(&tensors, &problem, 1), GNF_OK);
    compare_run(&tensors, y, reference, &result);
    assert_true(result.ok);
    y[0] = 0x7bff; /* 65504 for 70000 */
    compare_run(&tensors, y, reference, &result);
    assert_false(result.ok);
    y[0] = 0xfc00;
    compare_run(&tensors, y, reference, &result);
    assert_false(result.ok);
}

static void unwritten_elements(void **state)
{
    (void)state;
    struct subject s;
    const uint32_t poison = COMPARE_POISON;
    begin(&s);
    s.reference[100] = NAN; /* even where a NaN is right, the poison is not */
    memcpy(&s.y[100], &poison, sizeof poison);
    assert_false(judge(&s));
    assert_int_equal(s.result.unwritten, 1);
    assert_true(isnan(f16_to_float(COMPARE_POISON_WORD)));
    assert_true(isnan(bf16_to_float(COMPARE_POISON_WORD)));
}

static void nothing_to_compare(void **state)
{
    (void)state;
    struct subject s;
    char text[64];
    assert_int_equal(gnf_problem_parse("f32[0,4] | groupnorm(1)", &s.problem), GNF_OK);
    assert_int_equal(tensors_create(&s.tensors, &s.problem, 0), GNF_OK);
    assert_true(judge(&s));
    compare_text(&s.tensors, &s.result, text, sizeof text);
    assert_string_equal(text, "nothing to compare");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_pass),          cmocka_unit_test(wrong_element),
        cmocka_unit_test(error_is_relative_above_one), cmocka_unit_test(wrong_divisor),
        cmocka_unit_test(nan_and_infinity_must_match), cmocka_unit_test(overflow_of_the_dtype),
        cmocka_unit_test(unwritten_elements),          cmocka_unit_test(nothing_to_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
