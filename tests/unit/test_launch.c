/* gnf_execute: what reaches the driver, and which pointers are refused. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "plan_fixture.h"

static void execution(void **state)
{
    (void)state;
    OPEN_OR_SKIP(context)
    gnf_plan_options options = {.size = sizeof options, .variant = "split.v4"};
    gnf_plan *plan = plan_for(context, text, &options);
    gnf_arguments arguments = {.size = sizeof arguments, .x = 0x10000000, .y = 0x20000000, .gamma = 0x5000};
    arguments.workspace = 0x40000000;
    arguments.workspace_size = gnf_plan_workspace_size(plan);
    fake_current = other_context;
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_ptr_equal(fake_current, other_context);
    assert_ptr_equal(fake.launched_in, our_context);
    assert_int_equal(fake.launch_count, 2);
    assert_string_equal(fake.launched[0], "k_a");
    assert_string_equal(fake.launched[1], "k_b");
    assert_int_equal(fake.launch[0].gridDimX, 24000);
    assert_int_equal(fake.launch[0].gridDimY * fake.launch[0].gridDimZ, 1);
    assert_int_equal(fake.launch[0].blockDimX, 128);
    assert_int_equal(fake.launch[1].sharedMemBytes, 16);
    assert_int_equal(fake.launch[1].gridDimX, 5000);
    assert_ptr_equal(fake.launch[1].hStream, stream);
    const struct gnf_kernel_args *args = fake.args;
    assert_int_equal((uintptr_t)args->x, 0x10000000);
    assert_int_equal((uintptr_t)args->y, 0x20000000);
    assert_int_equal((uintptr_t)args->gamma, 0x5000);
    assert_null(args->beta);
    assert_int_equal((uintptr_t)args->workspace, 0x40000000);
    assert_int_equal(args->samples, 1000);
    assert_int_equal(args->groups, 8);
    assert_int_equal(args->group_channels, 8);
    assert_int_equal(args->spatial, 100);
    assert_int_equal(args->chunks, 3);
    assert_int_equal(args->tiles, 3);
    assert_int_equal(args[1].chunks, 3);
    assert_int_equal(args[1].tiles, 5);
    assert_true(args->scalar[0] == 1e-5f);
    /* a pointer below the variant's alignment: the fallback, same plan */
    for (int i = 0; i < 3; i++) {
        gnf_arguments off = arguments;
        *(i == 0 ? &off.x : i == 1 ? &off.y : &off.gamma) += 4;
        fake.launch_count = 0;
        expect(gnf_execute(plan, &off, stream), GNF_OK, NULL);
        assert_int_equal(fake.launch_count, 1);
        assert_int_equal(fake.launch[0].blockDimX, 64);
        assert_int_equal(fake.args[0].chunks, 0);
    }
    fake.launch_result = CUDA_ERROR_INVALID_VALUE;
    expect(gnf_execute(plan, &arguments, stream), GNF_DRIVER_ERROR, "k_a");
    assert_ptr_equal(fake_current, other_context);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

static void pointers(void **state)
{
    (void)state;
    OPEN_OR_SKIP(context)
    gnf_plan *plan =
        plan_for(context,
                 "f16[10,64,100] | groupnorm(8) | add(r: full) | mul(w: channel) | clamp(0, 6) | "
                 "add(b: scalar)",
                 NULL);
    const uint64_t bytes = 128000;
    const gnf_arguments good = {.size = sizeof good,
                                .x = 0x1000000,
                                .y = 0x2000000,
                                .gamma = 0x3000000,
                                .beta = 0x4000000,
                                .operand = {0x5000000, 0x6000000, 0x7000000},
                                .workspace = 0x8000000,
                                .workspace_size = gnf_plan_workspace_size(plan)};
    gnf_arguments a;
    assert_int_equal(good.workspace_size, 80 * 80 * 8);
#define GOOD(change)       a = good, change, expect(gnf_execute(plan, &a, NULL), GNF_OK, NULL)
#define BAD(change, words) a = good, change, expect(gnf_execute(plan, &a, NULL), GNF_INVALID_ARGUMENT, words)
    GOOD(a.gamma = a.beta = 0);
    GOOD(a.y = a.x);
    GOOD(a.y = a.operand[0]);
    GOOD(a.operand[0] = a.x);
    GOOD(a.x = good.y - bytes);
    GOOD(a.x = good.y + bytes);
    GOOD(a.operand[2] = good.operand[1] + 2);
    GOOD(a.operand[3] = 1);
    int launches = fake.launch_count;
    BAD(a.x = 0, "x is null");
    BAD(a.y = 0, "y is null");
    BAD(a.operand[0] = 0, "r is null");
    BAD(a.operand[1] = 0, "w is null");
    BAD(a.operand[2] = 0, "b is null");
    BAD(a.x += 1, "x = 0x1000001: allowed are multiples of 2");
    BAD(a.gamma += 1, "gamma = ");
    BAD(a.operand[2] += 1, "b = ");
    BAD(a.x = UINT64_MAX - 101, "past the last address");
    BAD(a.y = good.x + 2, "y = 0x1000002 (128000 bytes) overlaps x");
    BAD(a.y = good.x + bytes - 2, "overlaps x");
    BAD(a.y = good.x - bytes + 2, "overlaps x");
    BAD(a.y = good.operand[0] + 4, "overlaps r");
    BAD(a.y = good.operand[1], "overlaps w");
    BAD(a.y = good.operand[2], "overlaps b");
    BAD(a.y = good.gamma + 126, "overlaps gamma");
    BAD(a.y = good.beta, "overlaps beta");
    BAD(a.y = good.workspace + 32, "overlaps y");
    BAD(a.x = good.workspace + 32, "workspace = 0x8000000 (51200 bytes) overlaps x");
    BAD(a.workspace = 0, "workspace is null");
    BAD(a.workspace += 8, "multiples of 16");
    BAD(a.workspace_size--, "workspace_size = 51199: allowed are 51200");
    BAD(a.size = 9, "size");
    expect(gnf_execute(NULL, &good, NULL), GNF_INVALID_ARGUMENT, "plan");
    expect(gnf_execute(plan, NULL, NULL), GNF_INVALID_ARGUMENT, "arguments");
    assert_int_equal(fake.launch_count, launches);
    gnf_plan_destroy(&plan);
    /* after a reduction y has another shape */
    plan = plan_for(context, "f32[10,4,4] | groupnorm(2) | sum", NULL);
    a = (gnf_arguments){.size = sizeof a, .x = 0x1000, .y = 0x1000};
    expect(gnf_execute(plan, &a, NULL), GNF_INVALID_ARGUMENT,
           "y = 0x1000 (160 bytes) overlaps x = 0x1000 (640 bytes)");
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(execution),
        cmocka_unit_test(pointers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
