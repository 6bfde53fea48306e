/* f16 and bf16 conversions of the command line, and its random data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/halves.h"
#include "cli/random.h"
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void f16_round_trips(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        float value = f16_to_float((uint16_t)bits);
        if (isnan(value))
            assert_true(isnan(f16_to_float(float_to_f16(value))));
        else
            assert_int_equal(float_to_f16(value), bits);
    }
}

static void bf16_round_trips(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        float value = bf16_to_float((uint16_t)bits);
        if (isnan(value))
            assert_true(isnan(bf16_to_float(float_to_bf16(value))));
        else
            assert_int_equal(float_to_bf16(value), bits);
    }
}

/* Between neighbours the nearer one is taken, and on a tie the even one: for all pairs of finite halves. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x7bff; bits++) {
        float low = f16_to_float((uint16_t)bits), high = f16_to_float((uint16_t)(bits + 1));
        float middle = (float)(((double)low + high) / 2); /* 12 bits, exact */
        assert_int_equal(float_to_f16(middle), bits & 1 ? bits + 1 : bits);
        assert_int_equal(float_to_f16(nextafterf(middle, 0)), bits);
        assert_int_equal(float_to_f16(nextafterf(middle, INFINITY)), bits + 1);
        assert_int_equal(float_to_f16(-middle), 0x8000 | (bits & 1 ? bits + 1 : bits));
    }
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x7f7f; bits++) {
        uint32_t middle_bits = (uint32_t)bits << 16 | 0x8000;
        float middle;
        memcpy(&middle, &middle_bits, sizeof middle);
        assert_int_equal(float_to_bf16(middle), bits & 1 ? bits + 1 : bits);
        assert_int_equal(float_to_bf16(nextafterf(middle, 0)), bits);
        assert_int_equal(float_to_bf16(nextafterf(middle, INFINITY)), bits + 1);
    }
}

static void halves_overflow_to_infinity(void **state)
{
    (void)state;
    assert_int_equal(float_to_f16(65504), 0x7bff);
    assert_int_equal(float_to_f16(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(float_to_f16(65520), 0x7c00);
    assert_int_equal(float_to_f16(-1e30f), 0xfc00);
    assert_int_equal(float_to_f16(0x1p-25f), 0);
    assert_int_equal(float_to_f16(0x1.8p-25f), 1);
    assert_int_equal(float_to_bf16(3.4e38f), 0x7f80);
    assert_true(isnan(f16_to_float(float_to_f16(NAN))));
    assert_true(isnan(bf16_to_float(float_to_bf16(NAN))));
}

/* The same values on every machine: these came from this code once and must not change. */
static void uniform_data_is_fixed(void **state)
{
    (void)state;
    uint64_t key = random_key(1, "x");
    assert_true(random_uniform(key, 0) == 0x1.0a145p-2f);
    assert_true(random_uniform(key, 1) == -0x1.f7d364p-1f);
    assert_true(random_uniform(key, UINT64_C(1) << 33) == 0x1.d9e46p-2f);
    assert_true(random_key(1, "x") != random_key(1, "gamma"));
    assert_true(random_key(1, "x") != random_key(2, "x"));
}

static void fills_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { COUNT = (1 << 20) + 77 };
    float *values = malloc(COUNT * sizeof *values);
    const struct random_recipe uniform = {.kind = RANDOM_UNIFORM};
    random_fill(&uniform, 5, "x", GNF_F32, values, COUNT, 0);
    uint64_t key = random_key(5, "x");
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(values[i] == random_uniform(key, (uint64_t)i));
        assert_true(values[i] >= -1 && values[i] < 1);
        sum += values[i];
        squares += values[i] * values[i];
    }
    assert_true(fabs(sum / COUNT) < 0.003);
    assert_true(fabs(squares / COUNT - 1.0 / 3) < 0.002);
    free(values);
}

static void recipes(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    float *values = malloc(COUNT * sizeof *values);
    const struct random_recipe normal = {.kind = RANDOM_NORMAL, .mean = 10000, .spread = 1};
    random_fill(&normal, 1, "x", GNF_F32, values, COUNT, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += values[i] - 10000;
        squares += (values[i] - 10000.0) * (values[i] - 10000.0);
    }
    assert_true(fabs(sum / COUNT) < 0.02);
    assert_true(fabs(squares / COUNT - 1) < 0.03);

    const struct random_recipe constant = {
        .kind = RANDOM_CONSTANT, .mean = -513.3, .special = RANDOM_ONE_INF};
    random_fill(&constant, 1, "x", GNF_F32, values, COUNT, 0);
    int infinities = 0;
    for (int i = 0; i < COUNT; i++) {
        infinities += isinf(values[i]);
        assert_true(isinf(values[i]) || values[i] == -513.3f);
    }
    assert_int_equal(infinities, 1);

    uint16_t halves[64];
    const struct random_recipe nan = {.special = RANDOM_ONE_NAN};
    random_fill(&nan, 1, "x", GNF_BF16, halves, 64, 0);
    int nans = 0;
    for (int i = 0; i < 64; i++)
        nans += isnan(bf16_to_float(halves[i]));
    assert_int_equal(nans, 1);
    random_fill(&nan, 1, "x", GNF_F16, halves, 0, 0); /* nothing to put it in */
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_round_trips),
        cmocka_unit_test(bf16_round_trips),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(halves_overflow_to_infinity),
        cmocka_unit_test(uniform_data_is_fixed),
        cmocka_unit_test(fills_do_not_depend_on_threads),
        cmocka_unit_test(recipes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
