/* Plan once, execute many: values, samples, in place, alignment, and which pointers are refused. */
#include "fixture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char residual_problem[] = "f32[*,6,7] | groupnorm(3) | add(r: full)";
static const char split_problem[] = "f32[*,2,160,161] | groupnorm(1) | clamp(-1, 1)";
static const char reduction_problem[] =
    "f32[*,6,5] | groupnorm(2) | mul(w: channel) | add(s: scalar) | logsumexp";

static gnf_context *shared;

static int setup(void **state)
{
    if (group_setup(state))
        return -1;
    shared = open_context(device_context, "cache", NULL);
    return 0;
}

static int teardown(void **state)
{
    gnf_context_destroy(&shared);
    return group_teardown(state);
}

static gnf_status execute(const gnf_plan *plan, CUdeviceptr x, CUdeviceptr y, CUdeviceptr operand,
                          CUdeviceptr workspace)
{
    gnf_arguments arguments = {
        .size = sizeof arguments,
        .x = x,
        .y = y,
        .operand = {operand},
        .workspace = workspace,
        .workspace_size = workspace ? gnf_plan_workspace_size(plan) : 0,
    };
    return gnf_execute(plan, &arguments, NULL);
}

/* residual_problem's answer for N samples. */
static void residual_reference(const float *x, const float *r, double *y, int samples)
{
    reference(x, y, samples, 6, 7, 3);
    for (int i = 0; i < samples * 42; i++)
        y[i] += r[i];
}

static void test_plan_once_execute_many(void **state)
{
    enum { N = 5, COUNT = N * 42 };
    float x[COUNT], r[COUNT], y[COUNT];
    double want[COUNT];
    gnf_plan *plan = make_plan(shared, residual_problem, N, NULL);
    (void)state;
    fill_random(r, COUNT, 99);
    struct tensor dx = tensor_new(sizeof x, 0), dy = tensor_new(sizeof y, 0), dr = tensor_of(r, sizeof r, 0);
    for (unsigned round = 0; round < 20; round++) {
        fill_random(x, COUNT, round);
        tensor_write(&dx, x);
        assert_ok(execute(plan, dx.at, dy.at, dr.at, 0));
        tensor_read(&dy, y);
        residual_reference(x, r, want, N);
        check_close(y, want, COUNT);
    }
    tensor_free(&dx);
    tensor_free(&dy);
    tensor_free(&dr);
    gnf_plan_destroy(&plan);
    assert_null(plan);
}

static void test_gamma_and_beta(void **state)
{
    enum { N = 2, COUNT = N * 32 * 49 };
    static float x[COUNT], y[COUNT];
    static double want[COUNT];
    float gamma[32], beta[32];
    gnf_plan *plan = make_plan(shared, "f32[*,32,49] | groupnorm(8)", N, NULL);
    (void)state;
    fill_random(x, COUNT, 1);
    fill_random(gamma, 32, 2);
    fill_random(beta, 32, 3);
    struct tensor dx = tensor_of(x, sizeof x, 0), dy = tensor_new(sizeof y, 0);
    struct tensor dg = tensor_of(gamma, sizeof gamma, 0), db = tensor_of(beta, sizeof beta, 0);
    for (int given = 0; given < 4; given++) { /* a null gamma is all ones, a null beta all zeros */
        gnf_arguments arguments = {.size = sizeof arguments, .x = dx.at, .y = dy.at};
        arguments.gamma = given & 1 ? dg.at : 0;
        arguments.beta = given & 2 ? db.at : 0;
        assert_ok(gnf_execute(plan, &arguments, NULL));
        tensor_read(&dy, y);
        reference(x, want, N, 32, 49, 8);
        for (int i = 0; i < COUNT; i++)
            want[i] = want[i] * (given & 1 ? gamma[i / 49 % 32] : 1) + (given & 2 ? beta[i / 49 % 32] : 0);
        check_close(y, want, COUNT);
    }
    tensor_free(&dx);
    tensor_free(&dy);
    tensor_free(&dg);
    tensor_free(&db);
    gnf_plan_destroy(&plan);
}

/* Every variant: y out of place, over x and over the full operand give the same bits. */
static void check_in_place(const char *problem, size_t count, unsigned operands)
{
    enum { N = 3 };
    size_t bytes = N * count * sizeof(float);
    float *x = malloc(bytes), *r = malloc(bytes), *apart = malloc(bytes), *over = malloc(bytes);
    char names[64][64];
    int variants = list_variants(shared, problem, N, names, 64);
    fill_random(x, N * count, 5);
    fill_random(r, N * count, 6);
    struct tensor dx = tensor_of(x, bytes, 0), dr = tensor_of(r, bytes, 0), dy = tensor_new(bytes, 0);
    for (int i = 0; i < variants; i++) {
        gnf_plan *plan = make_plan(shared, problem, N, names[i]);
        struct tensor work = tensor_new(gnf_plan_workspace_size(plan) + 16, 0);
        tensor_write(&dx, x);
        assert_ok(execute(plan, dx.at, dy.at, operands ? dr.at : 0, work.at));
        tensor_read(&dy, apart);
        assert_ok(execute(plan, dx.at, dx.at, operands ? dr.at : 0, work.at));
        tensor_read(&dx, over);
        if (memcmp(apart, over, bytes))
            fail_msg("%s: over x is not as out of place", names[i]);
        if (operands) {
            tensor_write(&dx, x);
            assert_ok(execute(plan, dx.at, dr.at, dr.at, work.at));
            tensor_read(&dr, over);
            if (memcmp(apart, over, bytes))
                fail_msg("%s: over the operand is not as out of place", names[i]);
            tensor_write(&dr, r);
        }
        tensor_free(&work);
        gnf_plan_destroy(&plan);
    }
    tensor_free(&dx);
    tensor_free(&dr);
    tensor_free(&dy);
    free(x);
    free(r);
    free(apart);
    free(over);
}

static void test_in_place(void **state)
{
    (void)state;
    check_in_place(residual_problem, 42, 1);
    check_in_place(split_problem, 51520, 0);
}

/* H21: y is the residual's buffer; once is once. */
static void test_residual_buffer(void **state)
{
    enum { N = 2, COUNT = N * 16 };
    float x[COUNT], r[COUNT], y[COUNT], after[COUNT];
    gnf_plan *plan =
        make_plan(shared, "f32[*,4,4] | groupnorm(2) | tanh | hardswish | add(r: full)", N, NULL);
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 8);
        r[i] = 10;
    }
    struct tensor dx = tensor_of(x, sizeof x, 0), dr = tensor_of(r, sizeof r, 0);
    assert_ok(execute(plan, dx.at, dr.at, dr.at, 0));
    tensor_read(&dr, y);
    for (int i = 0; i < COUNT; i += 8) {
        assert_true(fabs(y[i] - 9.683017) < 1e-4);
        assert_true(fabs(y[i + 7] - 10.593017) < 1e-4);
    }
    tensor_read(&dx, after);
    assert_memory_equal(after, x, sizeof x);
    tensor_free(&dx);
    tensor_free(&dr);
    gnf_plan_destroy(&plan);
}

static void test_overlap_is_refused(void **state)
{
    enum { N = 3, BYTES = N * 42 * 4, SPLIT = 51520 * 4 };
    struct tensor pool = tensor_new(4 * BYTES, 0), other = tensor_new(BYTES, 0);
    CUdeviceptr a = pool.at;
    gnf_plan *plan = make_plan(shared, residual_problem, N, NULL);
    gnf_arguments arguments = {.size = sizeof arguments, .x = a, .y = other.at, .operand = {a + 2 * BYTES}};
    (void)state;
    const struct {
        CUdeviceptr x, y, r;
        const char *with;
    } cases[] = {
        {a, a + 4, a + 2 * BYTES, "overlaps x"},
        {a + 4, a, a + 2 * BYTES, "overlaps x"},
        {a, a + BYTES - 4, a + 3 * BYTES, "overlaps x"},
        {a, a + 2 * BYTES - 4, a + 2 * BYTES, "overlaps r"},
        {a, a + 3 * BYTES - 4, a + 2 * BYTES, "overlaps r"},
        {a, a, a + 4, "overlaps r"},
        {a + BYTES - 4, a, a, "overlaps x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(execute(plan, cases[i].x, cases[i].y, cases[i].r, 0), GNF_INVALID_ARGUMENT,
                       cases[i].with);
        assert_non_null(strstr(gnf_error_message(), "y = 0x"));
    }
    arguments.gamma = arguments.y + BYTES - 4;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "overlaps gamma");
    arguments.gamma = 0;
    arguments.beta = arguments.y;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "overlaps beta");
    /* touching, and inputs that share memory, are fine */
    assert_ok(execute(plan, a, a + BYTES, a + 2 * BYTES, 0));
    assert_ok(execute(plan, a, a + BYTES, a, 0));
    assert_ok(execute(plan, a, a, a, 0));
    gnf_plan_destroy(&plan);

    plan = make_plan(shared, reduction_problem, N, NULL);
    arguments = (gnf_arguments){.size = sizeof arguments, .x = a, .y = a, .operand = {other.at, other.at}};
    struct tensor work = tensor_new(gnf_plan_workspace_size(plan) + 16, 0);
    arguments.workspace = work.at;
    arguments.workspace_size = work.bytes;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "overlaps x");
    tensor_free(&work);
    tensor_free(&pool);
    tensor_free(&other);
    gnf_plan_destroy(&plan);
}

/* H07: offsets of single elements on each tensor and on all. */
static void test_misaligned_pointers(void **state)
{
    enum { N = 3, COUNT = N * 42 };
    static const size_t offset[][3] = {{1, 2, 3}, {1, 0, 0}, {0, 2, 0}, {0, 0, 3}, {3, 3, 3}, {2, 2, 2}};
    float x[COUNT], r[COUNT], y[COUNT], aligned[COUNT];
    double want[COUNT];
    gnf_plan *plan = make_plan(shared, residual_problem, N, NULL);
    gnf_plan_info info = plan_info(plan);
    (void)state;
    assert_string_not_equal(info.variant, info.fallback);
    fill_random(x, COUNT, 7);
    fill_random(r, COUNT, 8);
    residual_reference(x, r, want, N);
    struct tensor dx = tensor_of(x, sizeof x, 0), dr = tensor_of(r, sizeof r, 0),
                  dy = tensor_new(sizeof y, 0);
    assert_ok(execute(plan, dx.at, dy.at, dr.at, 0));
    tensor_read(&dy, aligned);
    check_close(aligned, want, COUNT);
    for (size_t i = 0; i < sizeof offset / sizeof *offset; i++) {
        struct tensor mx = tensor_of(x, sizeof x, 4 * offset[i][0]);
        struct tensor mr = tensor_of(r, sizeof r, 4 * offset[i][1]);
        struct tensor my = tensor_new(sizeof y, 4 * offset[i][2]);
        assert_ok(execute(plan, mx.at, my.at, mr.at, 0));
        tensor_read(&my, y);
        for (int j = 0; j < COUNT; j++)
            assert_true(fabsf(y[j] - aligned[j]) <= 1e-6f * fmaxf(1, fabsf(aligned[j])));
        tensor_free(&mx);
        tensor_free(&mr);
        tensor_free(&my);
    }
    assert_refused(execute(plan, dx.at + 2, dy.at, dr.at, 0), GNF_INVALID_ARGUMENT, "x = 0x");
    assert_refused(execute(plan, dx.at, dy.at + 1, dr.at, 0), GNF_INVALID_ARGUMENT, "y = 0x");
    assert_refused(execute(plan, dx.at, dy.at, dr.at + 3, 0), GNF_INVALID_ARGUMENT, "r = 0x");
    tensor_free(&dx);
    tensor_free(&dr);
    tensor_free(&dy);
    gnf_plan_destroy(&plan);
}

static void test_misaligned_halves(void **state)
{
    enum { N = 3, COUNT = N * 8 * 64 };
    static uint16_t x[COUNT], y[COUNT], aligned[COUNT];
    static const uint16_t halves[] = {0x3c00, 0xbc00, 0x4000, 0xc000}; /* 1 -1 2 -2 */
    static const double normal[] = {0.632456, -0.632456, 1.264911, -1.264911};
    gnf_plan *plan = make_plan(shared, "f16[*,8,64] | groupnorm(2)", N, NULL);
    (void)state;
    for (int i = 0; i < COUNT; i++)
        x[i] = halves[i % 4];
    for (size_t offset = 0; offset < 16; offset += 2) {
        struct tensor dx = tensor_of(x, sizeof x, offset), dy = tensor_new(sizeof y, 16 - offset);
        assert_ok(execute(plan, dx.at, dy.at, 0, 0));
        tensor_read(&dy, offset ? y : aligned);
        if (offset)
            assert_memory_equal(y, aligned, sizeof y);
        tensor_free(&dx);
        tensor_free(&dy);
    }
    for (int i = 0; i < COUNT; i++) { /* none is subnormal */
        double value = ldexp(1024 + (aligned[i] & 1023), (aligned[i] >> 10 & 31) - 25);
        assert_true(fabs((aligned[i] & 0x8000 ? -value : value) - normal[i % 4]) < 2e-3);
    }
    gnf_plan_destroy(&plan);
}

static void test_misaligned_channels(void **state)
{
    enum { N = 2, COUNT = N * 32 * 49 };
    static float x[COUNT], y[COUNT], aligned[COUNT];
    float gamma[32], beta[32];
    gnf_plan *plan = make_plan(shared, "f32[*,32,49] | groupnorm(8)", N, NULL);
    (void)state;
    fill_random(x, COUNT, 1);
    fill_random(gamma, 32, 2);
    fill_random(beta, 32, 3);
    struct tensor dx = tensor_of(x, sizeof x, 0), dy = tensor_new(sizeof y, 0);
    for (size_t offset = 0; offset < 4; offset++) {
        struct tensor dg = tensor_of(gamma, sizeof gamma, 4 * offset);
        struct tensor db = tensor_of(beta, sizeof beta, offset == 2 ? 0 : 4 * offset);
        gnf_arguments arguments = {
            .size = sizeof arguments, .x = dx.at, .y = dy.at, .gamma = dg.at, .beta = db.at};
        assert_ok(gnf_execute(plan, &arguments, NULL));
        tensor_read(&dy, offset ? y : aligned);
        for (int i = 0; offset && i < COUNT; i++)
            assert_true(fabsf(y[i] - aligned[i]) <= 2e-6f * fmaxf(1, fabsf(aligned[i])));
        tensor_free(&dg);
        tensor_free(&db);
    }
    tensor_free(&dx);
    tensor_free(&dy);
    gnf_plan_destroy(&plan);
}

static void test_null_pointers(void **state)
{
    enum { N = 2 };
    struct tensor memory = tensor_new(8 * 4096, 0);
    CUdeviceptr a = memory.at;
    gnf_plan *plan = make_plan(shared, residual_problem, N, NULL);
    gnf_arguments arguments = {.size = sizeof arguments, .x = a, .y = a + 4096};
    (void)state;
    assert_refused(execute(plan, 0, a, a + 4096, 0), GNF_INVALID_ARGUMENT, "x is null");
    assert_refused(execute(plan, a, 0, a + 4096, 0), GNF_INVALID_ARGUMENT, "y is null");
    assert_refused(execute(plan, a, a + 4096, 0, 0), GNF_INVALID_ARGUMENT, "r is null");
    assert_refused(gnf_execute(NULL, &arguments, NULL), GNF_INVALID_ARGUMENT, "plan is null");
    assert_refused(gnf_execute(plan, NULL, NULL), GNF_INVALID_ARGUMENT, "arguments is null");
    gnf_plan_destroy(&plan);

    plan = make_plan(shared, reduction_problem, N, NULL);
    arguments.workspace = a + 4 * 4096;
    arguments.workspace_size = gnf_plan_workspace_size(plan);
    arguments.operand[1] = a + 2 * 4096;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "w is null");
    arguments.operand[0] = a + 2 * 4096;
    arguments.operand[1] = 0;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "s is null");
    gnf_plan_destroy(&plan);
    tensor_free(&memory);
}

static void test_workspace(void **state)
{
    enum { N = 1, COUNT = 51520 };
    static float x[COUNT], y[COUNT];
    static double want[COUNT];
    gnf_plan *plan = make_plan(shared, split_problem, N, "split.t256.v4.i8.l1.c4096");
    size_t size = gnf_plan_workspace_size(plan);
    (void)state;
    assert_true(size > 0);
    assert_int_equal(plan_info(plan).workspace_size, size);
    fill_random(x, COUNT, 3);
    reference(x, want, N, 2, 25760, 1);
    for (int i = 0; i < COUNT; i++)
        want[i] = fmin(fmax(want[i], -1), 1);
    struct tensor dx = tensor_of(x, sizeof x, 0), dy = tensor_new(sizeof y, 0), work = tensor_new(size, 0);
    gnf_arguments arguments = {
        .size = sizeof arguments, .x = dx.at, .y = dy.at, .workspace = work.at, .workspace_size = size - 1};
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "workspace_size = ");
    arguments.workspace_size = 0;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "workspace_size = 0");
    arguments.workspace_size = size;
    arguments.workspace = 0;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "workspace is null");
    arguments.workspace = work.at + 8;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "workspace = 0x");
    arguments.workspace = dx.at;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "overlaps x");
    arguments.workspace = dy.at;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "overlaps y");
    tensor_read(&dy, y);
    for (int i = 0; i < COUNT; i++)
        assert_true(isnan(y[i])); /* nothing was launched */
    arguments.workspace = work.at;
    for (int i = 0; i < 3; i++) { /* what the workspace holds does not matter */
        assert_ok(gnf_execute(plan, &arguments, NULL));
        tensor_read(&dy, y);
        check_close(y, want, COUNT);
    }
    tensor_free(&work);
    tensor_free(&dx);
    tensor_free(&dy);
    gnf_plan_destroy(&plan);
}

/* H05: nothing to do is success. */
static void test_empty(void **state)
{
    static const char *const problems[] = {
        "f32[0,6,7] | groupnorm(3) | add(r: full)",
        "f32[4,6,0] | groupnorm(3) | add(r: full)",
        "f32[0,32,64] | groupnorm(8) | logsumexp",
        "f32[4,32,0] | groupnorm(8) | logsumexp",
    };
    struct tensor memory = tensor_new(4096, 0);
    unsigned char bytes[4096];
    long before = cuda.simulated_calls ? cuda.simulated_calls("cuLaunchKernelEx") : 0;
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        gnf_plan *plan = make_plan(shared, problems[i], 0, NULL);
        assert_int_equal(plan_info(plan).x_elements, 0);
        assert_int_equal(plan_info(plan).kernels, 0);
        assert_int_equal(gnf_plan_workspace_size(plan), 0);
        assert_ok(execute(plan, memory.at, memory.at, memory.at, 0));
        assert_ok(execute(plan, 0, 0, 0, 0));
        gnf_plan_destroy(&plan);
    }
    if (cuda.simulated_calls)
        assert_int_equal(cuda.simulated_calls("cuLaunchKernelEx"), before);
    tensor_read(&memory, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0xff);
    tensor_free(&memory);
    test_plan_once_execute_many(state);
}

/* H04 by way of the options: more groups than grid.y takes. */
static void test_many_samples(void **state)
{
    static const int64_t samples[] = {65535, 65536, 65537, 70000};
    static const double want[] = {-1.527524, -1.091088, -0.654653, -0.218218,
                                  0.218218,  0.654653,  1.091088,  1.527524};
    size_t bytes = 70000 * 16 * sizeof(float);
    float *x = malloc(bytes), *y = malloc(bytes), *zero = calloc(1, bytes);
    (void)state;
    for (size_t i = 0; i < bytes / sizeof *x; i++)
        x[i] = (float)(i % 8);
    for (size_t k = 0; k < sizeof samples / sizeof *samples; k++) {
        size_t used = (size_t)samples[k] * 16 * sizeof(float);
        gnf_plan *plan = make_plan(shared, "f32[*,4,4] | groupnorm(2) | tanh | hardswish | add(r: full)",
                                   samples[k], NULL);
        struct tensor dx = tensor_of(x, used, 0), dr = tensor_of(zero, used, 0), dy = tensor_new(used, 0);
        assert_ok(execute(plan, dx.at, dy.at, dr.at, 0));
        tensor_read(&dy, y);
        for (size_t i = 0; i < used / sizeof *y; i++) {
            double t = tanh(want[i % 8]), all = t * fmin(fmax(t + 3, 0), 6) / 6;
            if (!(fabs(y[i] - all) < 1e-4))
                fail_msg("N = %d: element %zu is %g, want %g", (int)samples[k], i, y[i], all);
        }
        tensor_free(&dx);
        tensor_free(&dr);
        tensor_free(&dy);
        gnf_plan_destroy(&plan);
    }
    free(x);
    free(y);
    free(zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_once_execute_many),
        cmocka_unit_test(test_gamma_and_beta),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_residual_buffer),
        cmocka_unit_test(test_overlap_is_refused),
        cmocka_unit_test(test_misaligned_pointers),
        cmocka_unit_test(test_misaligned_halves),
        cmocka_unit_test(test_misaligned_channels),
        cmocka_unit_test(test_null_pointers),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_many_samples),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, setup, teardown);
}
