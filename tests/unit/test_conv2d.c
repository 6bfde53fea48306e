/* Chains with conv2d and maxpool2d: sizes, slabs, what reaches the driver, and which pointers are refused.
 * Arguments: stubs of NVRTC and of cuBLASLt. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "conv2d_fixture.h"

static gnf_plan *named(gnf_context *context, const char *problem, int64_t samples, const char *variant)
{
    const gnf_plan_options options = {.size = sizeof options, .samples = samples, .variant = variant};
    return plan_for(context, problem, &options);
}

/* ---- sizes ---- */

static struct gnf_choice size(const char *name, const char *text, gnf_status status)
{
    return size_in(conv_manifest, conv_key, name, text, status);
}

static void sizes(void **state)
{
    static const char text10[] = "f32[10,2,514,514] | conv2d(8, 3) | groupnorm(2) | add(r: full)";
    (void)state;
    struct gnf_choice choice = size("fused", text10, GNF_OK);
    const struct gnf_linear *linear = &choice.linear;
    assert_int_equal(linear->rows, 10); /* nothing is stored */
    assert_int_equal(linear->slabs, 1);
    assert_int_equal(linear->row_scale, 0);
    assert_int_equal(linear->column_scale, 256);
    assert_int_equal(linear->split_weight, 512);
    assert_int_equal(linear->chunks, 512 + 4096);
    assert_int_equal(choice.chunks, 8); /* of the first kernel of the tail, a group and chunk */
    assert_int_equal(choice.workspace_size, 512 + 4096 + 10 * 2 * 8 * 32);
    assert_int_equal(linear->prepared, 0);
    assert_int_equal(choice.launch[0].grid, 8);
    assert_int_equal(choice.launch[2].grid, 160);
    assert_int_equal(choice.blocks, 160);
    choice = size("stored", text10, GNF_OK);
    const int64_t slab = INT64_C(4) * 8 * 512 * 512 * 4;
    assert_int_equal(linear->product, 0);
    assert_int_equal(linear->row_scale, slab);
    assert_int_equal(linear->column_scale, slab + 256);
    assert_int_equal(linear->split_weight, slab + 512);
    assert_int_equal(linear->chunks, slab + 512 + 1024);
    assert_int_equal(choice.workspace_size, slab + 512 + 1024 + 4 * 2 * 4 * 32);
    assert_int_equal(choice.blocks, 4);
    choice = size("ffma.split", text10, GNF_OK);
    assert_int_equal(linear->chunks, slab);
    assert_int_equal(choice.chunks, 2);
    assert_int_equal(choice.workspace_size, slab + 4 * 2 * 2 * 32);
    choice = size("wgmma", text10, GNF_OK); /* two blocks a sample, by what y has */
    assert_int_equal(choice.blocks, 20);
    choice = size("wgmma", "f32[10,2,514,514] | conv2d(8, 3) | groupnorm(2) | maxpool2d(2)", GNF_OK);
    assert_int_equal(choice.blocks, 5);
    choice = size("wgmma", "f32[10,2,514,514] | conv2d(8, 3) | groupnorm(2) | mean(all)", GNF_OK);
    assert_int_equal(choice.blocks, 1);
    size("stored.too", text10, GNF_TOO_LARGE);
    choice = size("stored.too", "f32[0,2,514,514] | conv2d(8, 3) | groupnorm(2) | add(r: full)", GNF_OK);
    assert_int_equal(choice.workspace_size, 0);
}

/* Of what is stored, 32 MiB at once or a sample, whatever the dtype; as even as whole samples are. */
static void slab_sizes(void **state)
{
    static const struct {
        const char *input;
        int samples, rows, slabs, last_rows;
    } rows[] = {
        {"f32[%d,2,514,514] | conv2d(8, 3)", 1, 1, 1, 1},
        {"f32[%d,2,514,514] | conv2d(8, 3)", 4, 4, 1, 4},
        {"f32[%d,2,514,514] | conv2d(8, 3)", 5, 3, 2, 2},
        {"f32[%d,2,514,514] | conv2d(8, 3)", 9, 3, 3, 3},
        {"f32[%d,2,514,514] | conv2d(8, 3)", 10, 4, 3, 2},
        {"f16[%d,2,514,514]:nhwc | conv2d(8, 3)", 10, 4, 3, 2},
        {"f32[%d,2,1026,1026] | conv2d(10, 3)", 3, 1, 3, 1}, /* 40 MiB a sample */
        {"f32[%d,9,1,1] | conv2d(2, 1)", 5000000, 2500000, 2, 2500000},
        {"f32[%d,9,1,1] | conv2d(2, 1)", 4194304, 4194304, 1, 4194304},
        {"f32[%d,2,514,514] | conv2d(8, 3)", 0, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        int length = snprintf(text, sizeof text, rows[i].input, rows[i].samples);
        snprintf(text + length, sizeof text - (size_t)length, " | groupnorm(2)");
        const struct gnf_choice choice = size("stored", text, GNF_OK);
        assert_int_equal(choice.linear.rows, rows[i].rows);
        assert_int_equal(choice.linear.slabs, rows[i].slabs);
        assert_int_equal(choice.linear.last_rows, rows[i].last_rows);
    }
}

/* ---- launches ---- */

static void fused(void **state)
{
    gnf_context *context = open_conv();
    gnf_plan *plan = named(context, conv_any, 10, "fused");
    const gnf_arguments arguments = arguments_of(plan);
    gnf_plan_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_int_equal(info.kernels, 3);
    assert_int_equal(info.prepared_size, 0);
    assert_int_equal(info.x_elements, 10 * 2 * 514 * 514);
    assert_int_equal(info.y_elements, 10 * 8 * 512 * 512);
    fake_current = other_context;
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_ptr_equal(fake_current, other_context);
    assert_ptr_equal(fake.launched_in, our_context);
    for (int i = 0; i < 3; i++) {
        const struct gnf_kernel_args *args = &fake.args[i];
        assert_int_equal((uintptr_t)args->x, X);
        assert_int_equal((uintptr_t)args->y, Y);
        assert_int_equal((uintptr_t)args->operand[0], R);
        assert_int_equal((uintptr_t)args->weight, WEIGHT);
        assert_int_equal((uintptr_t)args->bias, BIAS);
        assert_int_equal((uintptr_t)args->row_scale, WORKSPACE);
        assert_int_equal((uintptr_t)args->column_scale, WORKSPACE + 256);
        assert_int_equal((uintptr_t)args->split_weight, WORKSPACE + 512);
        assert_int_equal((uintptr_t)args->workspace, WORKSPACE + 4608);
        assert_int_equal(args->samples, 10);
        assert_int_equal(args->inputs, 2);
        assert_int_equal(args->groups, 2);
        assert_int_equal(args->group_channels, 4);
        assert_int_equal(args->spatial, 512 * 512);
        assert_int_equal(args->chunks, 8);
        assert_int_equal(args->height * 1000 + args->width, 514514);
        assert_int_equal(args->out_height * 1000 + args->out_width, 512512);
        assert_int_equal(args->kernel, 3);
        assert_int_equal(args->stride, 1);
        assert_int_equal(args->padding + args->pool_kernel + args->pool_stride, 0);
        assert_int_equal(fake.overlaps[i], i > 0);
    }
    assert_int_equal(fake.args[1].tiles, 8);
    assert_int_equal(fake.args[2].tiles, 16);
    assert_int_equal(fake.launch[2].gridDimX, 160);
    assert_string_equal(sequence(), "k_convw k_stats k_apply ");
    gnf_plan_destroy(&plan);
    close_linear(context);
}

static void slabs(void **state)
{
    gnf_context *context = open_conv();
    gnf_plan *plan = named(context, conv_any, 10, "stored");
    gnf_arguments arguments = arguments_of(plan);
    gnf_plan_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_int_equal(info.kernels, 1 + 3 * 3);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_int_equal(fake.launch_count, 10);
    for (int i = 0; i < 10; i++) {
        const struct gnf_kernel_args *args = &fake.args[i];
        int slab = i ? (i - 1) / 3 : 0;
        assert_int_equal((uintptr_t)args->x, X + slab * 4 * 2 * 514 * 514 * 4);
        assert_int_equal((uintptr_t)args->y, Y + slab * 4 * 8 * 512 * 512 * 4);
        assert_int_equal((uintptr_t)args->operand[0], R + slab * 4 * 8 * 512 * 512 * 4);
        assert_int_equal((uintptr_t)args->weight, WEIGHT);
        assert_int_equal((uintptr_t)args->product, WORKSPACE);
        assert_int_equal((uintptr_t)args->row_scale, WORKSPACE + (32 << 20));
        assert_int_equal(args->samples, slab == 2 ? 2 : 4);
        assert_int_equal(fake.overlaps[i], i > 0);
        if (i % 3 == 1)
            assert_int_equal(fake.launch[i].gridDimX, 4 * (slab == 2 ? 2 : 4));
    }
    assert_string_equal(sequence(), "k_convw k_conv k_merge k_finish k_conv k_merge k_finish "
                                    "k_conv k_merge k_finish ");
    gnf_plan_destroy(&plan);
    plan = named(context, conv_any, 5, "ffma.split");
    arguments = arguments_of(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_null(fake.args[0].split_weight);
    assert_int_equal(fake.args[5].samples, 2);
    assert_int_equal((uintptr_t)fake.args[5].y, Y + 3 * 8 * 512 * 512 * 4);
    assert_int_equal(fake.launch[3].gridDimX, 2 * 256);
    assert_string_equal(sequence(), "k_ffma k_partials k_last k_ffma k_partials k_last ");
    /* pointers that the variant is not for: another one, which works through N in its own way */
    arguments.operand[0] += 4;
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_string_equal(sequence(), "k_ffma k_tail1 k_ffma k_tail1 ");
    gnf_plan_destroy(&plan);
    close_linear(context);
}

/* Of tensors on both sides of a pool each by its own sizes, in slabs and in what may overlap. */
static void sides_of_a_pool(void **state)
{
    static const char text[] =
        "f32[*,2,514,514] | conv2d(8, 3) | mul(q: full) | groupnorm(2) | maxpool2d(4) | add(r: full)";
    enum { BEFORE = 8 * 512 * 512 * 4, BEHIND = BEFORE / 16, Q = PREPARED };
    gnf_context *context = open_conv();
    gnf_plan *plan = plan_at(context, text, 10, 0);
    gnf_arguments a = arguments_of(plan);
    (void)state;
    a.operand[0] = Q;
    a.operand[1] = R;
    expect(gnf_execute(plan, &a, stream), GNF_OK, NULL);
    assert_int_equal(fake.launch_count, 10);
    for (int i = 1; i < 10; i++) {
        const int64_t first = (i - 1) / 3 * 4;
        assert_int_equal((uintptr_t)fake.args[i].operand[0], Q + first * BEFORE);
        assert_int_equal((uintptr_t)fake.args[i].operand[1], R + first * BEHIND);
        assert_int_equal((uintptr_t)fake.args[i].y, Y + first * BEHIND);
    }
    fake.launch_count = 0;
    a.y = a.operand[1];
    expect(gnf_execute(plan, &a, stream), GNF_OK, NULL);
    a.y = R + 10 * BEHIND;
    expect(gnf_execute(plan, &a, stream), GNF_OK, NULL);
    a.y -= 4;
    expect(gnf_execute(plan, &a, stream), GNF_INVALID_ARGUMENT, "overlaps r");
    a.y = Q;
    expect(gnf_execute(plan, &a, stream), GNF_INVALID_ARGUMENT, "overlaps q");
    a.y = Q + INT64_C(10) * BEFORE - 4;
    expect(gnf_execute(plan, &a, stream), GNF_INVALID_ARGUMENT, "overlaps q");
    a.y = Q + INT64_C(10) * BEFORE;
    expect(gnf_execute(plan, &a, stream), GNF_OK, NULL);
    gnf_plan_destroy(&plan);
    close_linear(context);
}

/* The sizes that windows move over, and none where there is no window. */
static void windows(void **state)
{
    gnf_context *context = open_conv();
    gnf_plan *plan = plan_at(context, pool_text, 0, 0);
    gnf_arguments arguments = arguments_of(plan);
    const struct gnf_kernel_args *args = fake.args;
    (void)state;
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_int_equal(args->height * 10 + args->width, 98);
    assert_int_equal(args->out_height * 10 + args->out_width, 54);
    assert_int_equal(args->kernel * 100 + args->stride * 10 + args->padding, 321);
    assert_int_equal(args->pool_kernel * 10 + args->pool_stride, 22);
    assert_int_equal(args->pooled_height * 10 + args->pooled_width, 22);
    assert_int_equal(args->spatial, 20);
    assert_int_equal(fake.launch[1].gridDimX, 3); /* 2 * 4 of y's pixels, 3 a block */
    assert_string_equal(sequence(), "k_convw k_pixels ");
    gnf_plan_destroy(&plan);
    plan = plan_at(context, "f32[2,4,7,9] | groupnorm(2) | maxpool2d(3, stride=2)", 0, 0);
    arguments = arguments_of(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_int_equal(args->height * 10 + args->width, 79);
    assert_int_equal(args->out_height * 10 + args->out_width, 79);
    assert_int_equal(args->kernel + args->stride + args->padding + args->inputs, 0);
    assert_int_equal(args->pool_kernel * 10 + args->pool_stride, 32);
    assert_int_equal(args->pooled_height * 10 + args->pooled_width, 34);
    assert_int_equal(fake.launch[0].gridDimX, 6); /* 2 * 12 of y's pixels, 4 a block */
    gnf_plan_destroy(&plan);
    assert_string_equal(sequence(), "k_pool ");
    plan = plan_at(context, "f32[5,4,7,9] | groupnorm(2) | mean(all)", 0, 0);
    arguments = arguments_of(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_int_equal(fake.launch[0].gridDimX, 5);
    assert_int_equal(args->height + args->width + args->out_height + args->out_width + args->kernel +
                         args->pool_kernel + args->pooled_height,
                     0);
    gnf_plan_destroy(&plan);
    close_linear(context);
}

static void empty(void **state)
{
    gnf_context *context = open_conv();
    gnf_plan *plan = plan_at(context, "f32[0,2,514,514] | conv2d(8, 3) | groupnorm(2) | add(r: full)", 0, 1);
    gnf_plan_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_int_equal(info.kernels + info.workspace_size + info.prepared_size, 0);
    expect(gnf_execute(plan, &(gnf_arguments){.size = sizeof(gnf_arguments)}, stream), GNF_OK, NULL);
    expect(gnf_prepare_weight(plan, 0, 0, 0, stream), GNF_OK, NULL);
    assert_int_equal(fake.launch_count, 0);
    gnf_plan_destroy(&plan);
    close_linear(context);
}

/* ---- pointers ---- */

static void pointers(void **state)
{
    gnf_context *context = open_conv();
    gnf_plan *plan = named(context, conv_any, 2, "fused");
    const gnf_arguments good = arguments_of(plan);
    gnf_arguments a;
    (void)state;
#define GOOD(change)       a = good, change, expect(gnf_execute(plan, &a, NULL), GNF_OK, NULL)
#define BAD(change, words) a = good, change, expect(gnf_execute(plan, &a, NULL), GNF_INVALID_ARGUMENT, words)
    GOOD(a.bias = 0);
    GOOD(a.prepared = 1); /* nobody's business */
    GOOD(a.y = a.operand[0]);
    GOOD(a.y = good.x + 2 * 2 * 514 * 514 * 4);
    GOOD(a.y = good.weight + 8 * 2 * 9 * 4);
    GOOD(a.operand[0] = good.y - 2 * 8 * 512 * 512 * 4);
    int launches = fake.launch_count;
    BAD(a.y = a.x,
        "y = 0x10000000 (16777216 bytes) overlaps x = 0x10000000 (4227136 bytes): allowed is none");
    BAD(a.y = good.x + 2 * 2 * 514 * 514 * 4 - 4, "overlaps x");
    BAD(a.operand[0] = good.y + 2 * 8 * 512 * 512 * 4 - 4, "overlaps r");
    BAD(a.weight = 0, "weight is null: allowed is a device address of 576 bytes");
    BAD(a.weight += 2, "weight = ");
    BAD(a.bias += 1, "bias = ");
    BAD(a.y = good.weight + 8 * 2 * 9 * 4 - 4, "overlaps weight");
    BAD((a.bias = good.y + 2 * 8 * 512 * 512 * 4 - 4), "overlaps bias");
    BAD(a.workspace = good.weight + 560, "overlaps weight");
    BAD(a.workspace_size--, "workspace_size = ");
    assert_int_equal(fake.launch_count, launches);
    expect(gnf_prepare_weight(plan, WEIGHT, 0, 0, stream), GNF_OK, NULL);
    expect(gnf_prepare_weight(plan, WEIGHT, PREPARED, 576, stream), GNF_INVALID_ARGUMENT,
           "takes the weight as it is, as every plan with conv2d does");
    gnf_plan_destroy(&plan);
    /* the same sizes in and out, and yet windows reach beyond a pixel */
    plan = plan_at(context, "f32[3,4,4,4] | conv2d(4, 3, padding=1) | groupnorm(2)", 0, 0);
    a = arguments_of(plan);
    a.y = a.x;
    expect(gnf_execute(plan, &a, NULL), GNF_INVALID_ARGUMENT, "overlaps x");
    gnf_plan_destroy(&plan);
    /* after a pool y is of its own, be the window of one pixel */
    plan = plan_at(context, "f32[3,4,4,4] | groupnorm(2) | maxpool2d(1)", 0, 0);
    a = arguments_of(plan);
    a.y = a.x;
    expect(gnf_execute(plan, &a, NULL), GNF_INVALID_ARGUMENT, "overlaps x");
    gnf_plan_destroy(&plan);
#undef GOOD
#undef BAD
    close_linear(context);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),    cmocka_unit_test(slab_sizes),      cmocka_unit_test(fused),
        cmocka_unit_test(slabs),    cmocka_unit_test(windows),         cmocka_unit_test(empty),
        cmocka_unit_test(pointers), cmocka_unit_test(sides_of_a_pool),
    };
    if (!open_stub(count, arguments)) {
        fprintf(stderr, "usage: test_conv2d NVRTC_STUB CUBLASLT_STUB\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
