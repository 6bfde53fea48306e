/* The float64 reference against values worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/halves.h"
#include "cli/reference.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

struct run {
    struct gnf_problem problem;
    struct tensors tensors;
    double y[MOST];
};

static void begin(struct run *run, const char *text)
{
    if (gnf_problem_parse(text, &run->problem) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    assert_int_equal(tensors_create(&run->tensors, &run->problem, run->problem.samples), GNF_OK);
    assert_true(run->tensors.y_elements <= MOST);
}

/* Element i of tensor `which` becomes value(i). */
static void set(struct run *run, int which, double (*value)(int64_t i))
{
    struct tensor *tensor = &run->tensors.at[which];
    tensor->data = malloc((size_t)(tensor->elements + 1) * gnf_dtype_size(run->problem.dtype));
    for (int64_t i = 0; i < tensor->elements; i++)
        stored_store(run->problem.dtype, tensor->data, i, (float)value(i));
}

static void finish(struct run *run)
{
    if (reference_run(&run->tensors, run->y) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    tensors_free(&run->tensors);
}

static void close_to(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("got %.9g, wanted %.9g", got, wanted);
}

static double zero(int64_t i)
{
    return 0 * (double)i;
}

static double ten(int64_t i)
{
    return 10 + 0 * (double)i;
}

static double flat(int64_t i)
{
    return -513.3 + 0 * (double)i;
}

static double quarter(int64_t i)
{
    return 0.25 + 0 * (double)i;
}

static double steps_at_10000(int64_t i)
{
    return 10000 + 0.25 * (double)(i % 4);
}

static double modulo_8(int64_t i)
{
    return (double)(i % 8);
}

static double channel_of_5(int64_t i)
{
    return (double)(i / 5 + 1);
}

static void h01_flat_group(void **state)
{
    (void)state;
    struct run run;
    begin(&run, "f32[1,6,49] | groupnorm(2)");
    set(&run, TENSOR_X, flat);
    set(&run, TENSOR_BETA, quarter);
    finish(&run);
    for (int i = 0; i < 6 * 49; i++)
        close_to(run.y[i], 0.25, 1e-12);
}

static void h02_large_mean(void **state)
{
    (void)state;
    static const double wanted[4] = {-1.341555, -0.447185, 0.447185, 1.341555};
    struct run run;
    begin(&run, "f32[2,8,64] | groupnorm(2)");
    set(&run, TENSOR_X, steps_at_10000);
    finish(&run);
    for (int i = 0; i < 2 * 8 * 64; i++)
        close_to(run.y[i], wanted[i % 4], 1e-6);
}

static void h06_three_channels_a_group(void **state)
{
    (void)state;
    static const double wanted[3] = {-1.224736, 0, 1.224736};
    struct run run;
    begin(&run, "f32[1,6,5] | groupnorm(2)");
    set(&run, TENSOR_X, channel_of_5);
    finish(&run);
    for (int i = 0; i < 30; i++)
        close_to(run.y[i], wanted[i / 5 % 3], 1e-6);
}

static double one_nan(int64_t i)
{
    return i == 3 ? NAN : modulo_8(i);
}

static double one_infinity(int64_t i)
{
    return i == 3 ? INFINITY : modulo_8(i);
}

static void h09_nan_is_kept(void **state)
{
    (void)state;
    static const double wanted[8] = {-1, -1, -0.654653, -0.218218, 0.218218, 0.654653, 1, 1};
    double (*const inputs[2])(int64_t) = {one_nan, one_infinity};
    for (int k = 0; k < 2; k++) {
        struct run run;
        begin(&run, "f32[1,4,4] | groupnorm(2) | hardtanh(-1, 1)");
        set(&run, TENSOR_X, inputs[k]);
        finish(&run);
        for (int i = 0; i < 8; i++) {
            assert_true(isnan(run.y[i]));
            close_to(run.y[8 + i], wanted[i], 1e-6);
        }
    }
}

/* With a channel a group and no spatial size the norm gives beta, so any value can be sent on. */
static void reduce_vector(const char *operation, const float *values, int count, double wanted)
{
    struct run run;
    char text[96];
    snprintf(text, sizeof text, "f32[1,%d] | groupnorm(%d) | %s", count, count, operation);
    begin(&run, text);
    set(&run, TENSOR_X, zero);
    set(&run, TENSOR_BETA, zero);
    memcpy(run.tensors.at[TENSOR_BETA].data, values, (size_t)count * sizeof *values);
    finish(&run);
    if (isnan(wanted))
        assert_true(isnan(run.y[0]));
    else if (isinf(wanted))
        assert_true(run.y[0] == wanted);
    else
        close_to(run.y[0], wanted, 1e-6 * fabs(wanted));
}

static void h10_logsumexp_of_special_values(void **state)
{
    (void)state;
    const float inf = INFINITY;
    float hundred[16];
    for (int i = 0; i < 16; i++)
        hundred[i] = 100.1f;
    reduce_vector("logsumexp", (const float[]){-inf, -inf, -inf, -inf, -inf}, 5, -INFINITY);
    reduce_vector("logsumexp", (const float[]){inf, 0, 0, 0, 0}, 5, INFINITY);
    reduce_vector("logsumexp", (const float[]){inf, -inf, 0, 0, 0}, 5, INFINITY);
    reduce_vector("logsumexp", (const float[]){NAN, 0, 0, 0, 0}, 5, NAN);
    reduce_vector("logsumexp", (const float[]){inf, 0, NAN, 0, 0}, 5, NAN);
    reduce_vector("logsumexp", (const float[]){1000, 1000, -inf, -inf, -inf}, 5, 1000.693147);
    reduce_vector("logsumexp", hundred, 16, 102.872589);
}

static void other_reductions(void **state)
{
    (void)state;
    const float plain[4] = {3, -1, 2, 0.5f};
    reduce_vector("sum", plain, 4, 4.5);
    reduce_vector("mean", plain, 4, 1.125);
    reduce_vector("max", plain, 4, 3);
    reduce_vector("min", plain, 4, -1);
    reduce_vector("max", (const float[]){1, NAN, 2}, 3, NAN);
    reduce_vector("min", (const float[]){NAN, 1, 2}, 3, NAN);
    reduce_vector("min", (const float[]){1, 2, NAN}, 3, NAN);
    reduce_vector("sum | hardtanh(-2, 2)", plain, 4, 2);
    reduce_vector("max | scale(0.5)", plain, 4, 1.5);
}

static void h21_residual(void **state)
{
    (void)state;
    struct run run;
    begin(&run, "f32[1,4,4] | groupnorm(2) | tanh | hardswish | add(r: full)");
    set(&run, TENSOR_X, modulo_8);
    set(&run, TENSOR_OPERAND, ten);
    finish(&run);
    close_to(run.y[0], 9.683017, 1e-6);
    close_to(run.y[7], 10.593017, 1e-6);
    close_to(run.y[8], 9.683017, 1e-6);
}

static double count_up(int64_t i)
{
    return (double)i + 1;
}

/* Every kind of second argument, a stage before the norm, a label in the middle; and f16 inputs as stored. */
static void operands_and_labels(void **state)
{
    (void)state;
    struct run run;
    begin(&run,
          "f16[1,2,2] | scale(2) | t = groupnorm(1) | mul(w: channel) | add(s: scalar) | add(t) | mul(x)");
    set(&run, TENSOR_X, count_up);           /* 1 2 | 3 4 */
    set(&run, TENSOR_OPERAND, count_up);     /* w = 1 | 2 */
    set(&run, TENSOR_OPERAND + 1, count_up); /* s = 1 */
    finish(&run);
    for (int i = 0; i < 4; i++) {
        double t = (2 * (i + 1) - 5) / sqrt(5 + (double)1e-5f);
        double w = i < 2 ? 1 : 2;
        close_to(run.y[i], (t * w + 1 + t) * (i + 1), 1e-9);
    }
}

/* Two threads' worth of samples give what one sample at a time gives. */
static void samples_do_not_mix(void **state)
{
    (void)state;
    struct run many, one;
    begin(&many, "f32[128,4,2] | groupnorm(2) | logsumexp");
    begin(&one, "f32[1,4,2] | groupnorm(2) | logsumexp");
    const struct tensors_recipe uniform = {.affine = false};
    assert_int_equal(tensors_random(&many.tensors, &uniform, 3), GNF_OK);
    assert_int_equal(tensors_random(&one.tensors, &uniform, 3), GNF_OK);
    const float *x = many.tensors.at[TENSOR_X].data;
    assert_int_equal(reference_run(&many.tensors, many.y), GNF_OK);
    for (int n = 0; n < 128; n++) {
        memcpy(one.tensors.at[TENSOR_X].data, x + 8 * n, 8 * sizeof *x);
        assert_int_equal(reference_run(&one.tensors, one.y), GNF_OK);
        assert_memory_equal(one.y, many.y + 2 * n, 2 * sizeof(double));
    }
    tensors_free(&many.tensors);
    tensors_free(&one.tensors);
}

static void empty_tensors(void **state)
{
    (void)state;
    struct run run;
    begin(&run, "f32[0,4,2] | groupnorm(2)");
    set(&run, TENSOR_X, zero);
    finish(&run);
    begin(&run, "f32[3,4,0] | groupnorm(2) | logsumexp");
    set(&run, TENSOR_X, zero);
    finish(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h01_flat_group),
        cmocka_unit_test(h02_large_mean),
        cmocka_unit_test(h06_three_channels_a_group),
        cmocka_unit_test(h09_nan_is_kept),
        cmocka_unit_test(h10_logsumexp_of_special_values),
        cmocka_unit_test(other_reductions),
        cmocka_unit_test(h21_residual),
        cmocka_unit_test(operands_and_labels),
        cmocka_unit_test(samples_do_not_mix),
        cmocka_unit_test(empty_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
