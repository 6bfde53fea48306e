/* A product and its tail: sizes, slabs, what reaches the driver and cuBLASLt in which order, and which
 * pointers are refused. Arguments: stubs of NVRTC and of cuBLASLt. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "linear_fixture.h"

/* ---- sizes ---- */

static struct gnf_choice size(const char *name, const char *text, gnf_status status)
{
    return size_in(linear_manifest, linear_key, name, text, status);
}

static void sizes(void **state)
{
    struct gnf_choice choice;
    const struct gnf_linear *linear = &choice.linear;
    (void)state;
    choice = size("fp16x3.s2.four", linear_text, GNF_OK);
    assert_int_equal(linear->rows, 100);
    assert_int_equal(linear->slabs, 1);
    assert_int_equal(linear->last_rows, 100);
    assert_int_equal(linear->padded, 384);
    assert_int_equal(linear->product, 0);
    assert_int_equal(linear->row_scale, 3 * 100 * 64 * 4);
    assert_int_equal(linear->row_norm, 76800 + 512);
    assert_int_equal(linear->repaired, 77312 + 512);
    assert_int_equal(linear->split_x, 77824 + 256);
    assert_int_equal(linear->chunks, 78080 + 100 * 2 * 384 * 2);
    assert_int_equal(linear->cublaslt, 231680);
    assert_int_equal(choice.workspace_size, 231680 + (32 << 20) + 256);
    assert_int_equal(linear->column_scale, 0);
    assert_int_equal(linear->column_norm, 256);
    assert_int_equal(linear->split_weight, 512);
    assert_int_equal(linear->prepared, 512 + 64 * 2 * 384 * 2);
    choice = size("fp16x3.s2.each.four", linear_text, GNF_OK);
    assert_int_equal(linear->column_scale, 231680);
    assert_int_equal(linear->column_norm, 231680 + 256);
    assert_int_equal(linear->split_weight, 231680 + 512);
    assert_int_equal(linear->cublaslt, 231680 + 512 + 64 * 2 * 384 * 2);
    assert_int_equal(linear->prepared, 0);
    choice = size("sgemm.four", linear_text, GNF_OK);
    assert_int_equal(choice.workspace_size, 100 * 64 * 4 + (32 << 20) + 256);
    /* the tail's own workspace: groups of 8 elements in pieces of 3, 12 bytes each */
    choice = size("ffma.split", linear_text, GNF_OK);
    assert_int_equal(linear->chunks, 100 * 64 * 4);
    assert_int_equal(choice.chunks, 3);
    assert_int_equal(choice.workspace_size, 100 * 64 * 4 + (100 * 8 * 3 * 12 + 255) / 256 * 256);
    assert_int_equal(choice.launch[0].grid, 2);
    assert_int_equal(choice.launch[1].grid, 2400);
    assert_int_equal(choice.blocks, 100);
}

static void slab_sizes(void **state)
{
    static const struct {
        int64_t samples, rows, slabs, last_rows;
    } rows[] = {{1, 1, 1, 1},       {2560, 2560, 1, 2560},   {2561, 2048, 2, 513}, {4096, 2048, 2, 2048},
                {4097, 2048, 3, 1}, {32768, 2048, 16, 2048}, {0, 0, 0, 0}};
    struct gnf_choice choice;
    char text[100];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "f32[%d,300] | linear(64) | groupnorm(8) | add(r: full)",
                 (int)rows[i].samples);
        choice = size("fp16x3.s2.each.four", text, GNF_OK);
        assert_int_equal(choice.linear.rows, rows[i].rows);
        assert_int_equal(choice.linear.slabs, rows[i].slabs);
        assert_int_equal(choice.linear.last_rows, rows[i].last_rows);
        if (!rows[i].samples)
            assert_int_equal(choice.workspace_size, 0);
        else
            assert_int_equal(choice.linear.last_grid[1], rows[i].last_rows);
        if (rows[i].samples) /* of two kernels whose units are the channels or the rows */
            assert_int_equal(choice.linear.last_grid[0] + choice.launch[1].grid, 64 + rows[i].rows);
    }
    /* a byte for every 128 columns of a row, and for what is left if it is not below 16 */
    static const struct {
        const char *text;
        int bytes;
    } repaired[] = {{"f32[512,300] | linear(1) | groupnorm(1)", 512},
                    {"f32[512,300] | linear(143) | groupnorm(1)", 512},
                    {"f32[512,300] | linear(144) | groupnorm(8)", 1024},
                    {"f32[512,300] | linear(2063) | groupnorm(1)", 16 * 512},
                    {"f32[512,300] | linear(2064) | groupnorm(1)", 17 * 512}};
    for (size_t i = 0; i < sizeof repaired / sizeof *repaired; i++) {
        choice = size("fp16x3.s2.four", repaired[i].text, GNF_OK);
        assert_int_equal(choice.linear.split_x - choice.linear.repaired, repaired[i].bytes);
    }
    /* as large as a problem can be: a split row is as long as one of x, but padded */
    choice = size("fp16x3.s2.four", "f32[1,2305843009213693951] | linear(1) | groupnorm(1)", GNF_TOO_LARGE);
    choice = size("sgemm.four", "f32[1,2305843009213693951] | linear(1) | groupnorm(1)", GNF_OK);
    choice = size("fp16x3.s2.each.four", "f32[1,1] | linear(2147483647) | groupnorm(1)", GNF_OK);
    assert_int_equal(choice.linear.cublaslt - choice.linear.split_weight,
                     INT64_C(2147483647) * 128 * 2 * 2 + 0);
}

/* ---- execution ---- */

static void prepared_split(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan *plan = plan_at(context, linear_text, 0, 1);
    gnf_plan_info info = {.size = sizeof info};
    gnf_arguments arguments = arguments_of(plan);
    (void)state;
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, "fp16x3.s2.four");
    assert_string_equal(info.fallback, "fp16x3.s2.one");
    assert_int_equal(info.prepared_size, 98816);
    assert_int_equal(info.workspace_size,
                     231680 + 2240); /* the most that an algorithm wants, to be aligned */
    assert_int_equal(info.kernels, 5);
    assert_int_equal(info.x_elements, 30000);
    assert_int_equal(info.y_elements, 6400);
    fake_current = other_context;
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_ptr_equal(fake_current, other_context);
    assert_string_equal(sequence(), "k_splitx * * k_repair k_tail4 ");
    assert_int_equal(fake.launch[0].gridDimX, 100);
    assert_int_equal(fake.launch[1].gridDimX, 2 * 2); /* 64 rows by 32 columns */
    assert_int_equal(fake.launch[2].gridDimX, 200);
    assert_false(fake.overlaps[0]);
    assert_true(fake.overlaps[1] && fake.overlaps[2]);
    for (int i = 0; i < 3; i++) {
        const struct gnf_kernel_args *args = &fake.args[i];
        assert_int_equal((uintptr_t)args->x, X);
        assert_int_equal((uintptr_t)args->weight, WEIGHT);
        assert_int_equal((uintptr_t)args->bias, BIAS);
        assert_int_equal((uintptr_t)args->product, WORKSPACE);
        assert_int_equal((uintptr_t)args->row_scale, WORKSPACE + 76800);
        assert_int_equal((uintptr_t)args->row_norm, WORKSPACE + 77312);
        assert_int_equal((uintptr_t)args->repaired, WORKSPACE + 77824);
        assert_int_equal((uintptr_t)args->split_x, WORKSPACE + 78080);
        assert_int_equal((uintptr_t)args->column_scale, PREPARED);
        assert_int_equal((uintptr_t)args->column_norm, PREPARED + 256);
        assert_int_equal((uintptr_t)args->split_weight, PREPARED + 512);
        assert_int_equal(args->samples, 100);
        assert_int_equal(args->inputs, 300);
        assert_int_equal(args->padded, 384);
        assert_int_equal(args->groups * args->group_channels, 64);
        assert_int_equal(args->spatial, 1);
    }
    assert_int_equal(fake.args[1].tiles, 2);
    /* hi * hi in two halves of K, then lo * hi and hi * lo as one */
    const struct stub_matmul *call = stub->matmul;
    const struct stub_layout main_x = {2, 192, 100, 768, 192, 2}, cross_x = {2, 768, 100, 768, 768, 1};
    assert_memory_equal(&call[0].layout[1].rows, &main_x.rows, sizeof(int64_t[4]));
    assert_memory_equal(&call[1].layout[1].rows, &cross_x.rows, sizeof(int64_t[4]));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(call[i].compute, 68);
        assert_int_equal(call[i].layout[0].type, 2);
        assert_int_equal(call[i].layout[0].columns, 64);
        assert_int_equal(call[i].layout[0].pitch, 768);
        assert_int_equal(call[i].layout[0].stride, i ? 768 : 192);
        assert_int_equal(call[i].layout[1].batch, i ? 1 : 2);
        assert_int_equal(call[i].layout[2].type, 0);
        assert_int_equal(call[i].layout[2].stride, 6400);
        assert_int_equal(call[i].pointer[0], PREPARED + 512 + (i ? 0 : 384 * 2));
        assert_int_equal(call[i].pointer[1], WORKSPACE + 78080);
        assert_int_equal(call[i].pointer[2], WORKSPACE + (i ? 2 * 6400 * 4 : 0));
        assert_int_equal(call[i].stream, (uintptr_t)stream);
    }
    gnf_plan_gemm_take((gnf_plan *)plan, 0, 2);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_int_equal(call[0].workspace, WORKSPACE + 231680);
    assert_int_equal(call[0].workspace_size, 2000);
    for (int i = 16; i < 256; i += 16) { /* cuBLASLt wants its own more aligned than the caller has to */
        reset();
        arguments.workspace = WORKSPACE + (uint64_t)i;
        expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
        assert_int_equal(call[0].workspace, WORKSPACE + 256 + 231680);
        assert_int_equal(call[0].pointer[2], WORKSPACE + i);
    }
    arguments.workspace = WORKSPACE;
    /* a pointer below the tail's alignment: the same product with another tail */
    reset();
    arguments.weight += 4;
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_string_equal(sequence(), "k_splitx * * k_repair k_tail1 ");
    stub->fail_matmul = 13;
    expect(gnf_execute(plan, &arguments, stream), GNF_DRIVER_ERROR, "cublasLtMatmul");
    assert_ptr_equal(fake_current, other_context);
    gnf_plan_destroy(&plan);
    close_linear(context);
}

/* Only where kernels can wait for what is in front of them, and a capture knows of it. */
static void overlap(void **state)
{
    static const struct {
        int capability, driver;
        const char *archs;
    } rows[] = {{90, 12030, "89,90"}, {89, 12030, "89,90"}, {90, 12020, "89,90"}, {90, 12030, "80"}};
    (void)state;
    for (int i = 0; i < 4; i++) {
        clear_cache();
        gnf_context *context = open_linear();
        setenv("STUB_NVRTC_ARCHS", rows[i].archs, 1);
        context->device.capability = rows[i].capability;
        context->device.driver_version = rows[i].driver;
        gnf_plan *plan = plan_at(context, linear_text, 0, 0);
        gnf_arguments arguments = arguments_of(plan);
        expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
        assert_string_equal(sequence(), "* k_tail4 ");
        assert_int_equal(fake.overlaps[0], i == 0); /* cuBLASLt's launch is the first */
        gnf_plan_destroy(&plan);
        close_linear(context);
    }
    clear_cache();
}

static void slabs(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan *plan = plan_at(context, linear_any, 4196, 0);
    gnf_plan_info info = {.size = sizeof info};
    gnf_arguments arguments = arguments_of(plan);
    (void)state;
    takes(plan, "fp16x3.s2.each.four");
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_int_equal(info.kernels, 1 + 3 * 5);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_string_equal(sequence(), "k_splitw k_splitx * * k_repair k_tail4 k_splitx * * k_repair k_tail4 "
                                    "k_splitx * * k_repair k_tail4 ");
    for (int i = 1; i < 10; i++) {
        const struct gnf_kernel_args *args = &fake.args[i];
        int slab = (i - 1) / 3;
        assert_int_equal((uintptr_t)args->x, X + slab * 2048 * 300 * 4);
        assert_int_equal((uintptr_t)args->y, Y + slab * 2048 * 64 * 4);
        assert_int_equal((uintptr_t)args->operand[0], R + slab * 2048 * 64 * 4);
        assert_int_equal((uintptr_t)args->product, WORKSPACE);
        assert_int_equal(args->samples, slab == 2 ? 100 : 2048);
        assert_true(fake.overlaps[i]);
        if (i % 3 == 1)
            assert_int_equal(fake.launch[i].gridDimX, slab == 2 ? 100 : 2048);
    }
    assert_false(fake.overlaps[0]);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(stub->matmul[i].layout[1].columns, i < 4 ? 2048 : 100);
        assert_int_equal(stub->matmul[i].layout[2].stride, (i < 4 ? 2048 : 100) * 64);
        assert_int_equal(stub->matmul[i].pointer[2],
                         WORKSPACE + (i % 2 ? 2 * (i < 4 ? 2048 : 100) * 64 * 4 : 0));
    }
    gnf_plan_destroy(&plan);
    /* slabs that are all whole */
    plan = plan_at(context, linear_any, 4096, 0);
    arguments.workspace_size = gnf_plan_workspace_size(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_int_equal(stub->count, 4);
    assert_int_equal(stub->matmul[3].layout[1].columns, 2048);
    gnf_plan_destroy(&plan);
    close_linear(context);
}

static void direct(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan_options options = {.size = sizeof options, .variant = "sgemm.one"};
    gnf_plan *plan = plan_for(context, linear_text, &options);
    gnf_arguments arguments = arguments_of(plan);
    gnf_plan_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.fallback, "sgemm.one"); /* with algorithms of its own */
    assert_int_equal(info.prepared_size, 0);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    const struct stub_matmul *call = stub->matmul;
    assert_string_equal(sequence(), "* k_tail1 ");
    assert_int_equal(call->compute, 68);
    const struct stub_layout x = {0, 300, 100, 300, 0, 1}, weight = {0, 300, 64, 300, 0, 1};
    assert_memory_equal(&call->layout[0].rows, &weight.rows, sizeof(int64_t[4]));
    assert_memory_equal(&call->layout[1].rows, &x.rows, sizeof(int64_t[4]));
    assert_int_equal(call->layout[0].type, 0);
    assert_int_equal(call->pointer[0], WEIGHT);
    assert_int_equal(call->pointer[1], X);
    assert_int_equal(call->pointer[2], WORKSPACE);
    assert_int_equal(call->algorithm[63], 16);
    /* The tail could do it, but not these algorithms. */
    uint64_t *const pointers[] = {&arguments.x, &arguments.weight, &arguments.bias};
    for (int i = 0; i < 3; i++) {
        reset();
        *pointers[i] += 4;
        expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
        assert_int_equal(call->algorithm[63], 4);
        *pointers[i] -= 4;
    }
    gnf_plan_destroy(&plan);
    /* a plan that promises no more than one element has one set of them */
    options.alignment = 4;
    int alive = stub->alive;
    plan = plan_for(context, linear_text, &options);
    assert_int_equal(stub->alive, alive + 4);
    gnf_plan_destroy(&plan);
    reset();
    plan = plan_at(context, "f16[20,300] | linear(64) | groupnorm(8) | sum", 0, 0);
    takes(plan, "gemm.one");
    arguments.workspace_size = gnf_plan_workspace_size(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_int_equal(call->compute, 68);
    assert_int_equal(call->layout[1].type, 2);
    gnf_plan_destroy(&plan);
    reset();
    plan = plan_at(context, "f32[20,300] | linear(64, tf32) | groupnorm(8)", 0, 0);
    takes(plan, "tf32.one");
    arguments.workspace_size = gnf_plan_workspace_size(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_int_equal(call->compute, 77);
    gnf_plan_destroy(&plan);
    reset();
    plan = plan_at(context, "f32[20,300] | linear(64, tf32) | groupnorm(8)", 0, 1);
    takes(plan, "fp16x1.one");
    arguments = arguments_of(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_string_equal(sequence(), "k_splitx * k_repair k_tail1 ");
    const struct stub_layout one = {2, 384, 20, 384, 0, 1};
    assert_memory_equal(&call->layout[1].rows, &one.rows, sizeof(int64_t[4]));
    assert_int_equal(call->pointer[0], PREPARED + 512);
    gnf_plan_destroy(&plan);
    close_linear(context);
}

static void own(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan *plan = plan_at(context, linear_text, 0, 0);
    gnf_plan_options options = {.size = sizeof options, .variant = "ffma.split"};
    (void)state;
    gnf_plan_destroy(&plan);
    plan = plan_for(context, linear_text, &options);
    gnf_arguments arguments = arguments_of(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    assert_string_equal(sequence(), "k_ffma k_statistics k_apply ");
    assert_int_equal((uintptr_t)fake.args[1].workspace, WORKSPACE + 25600);
    assert_int_equal(fake.args[1].chunks, 3);
    assert_int_equal((uintptr_t)fake.args[1].product, WORKSPACE);
    assert_null(fake.args[1].split_x);
    gnf_plan_destroy(&plan);
    /* no samples, no work, and nothing is asked for */
    plan = plan_at(context, "f32[0,300] | linear(64) | groupnorm(8) | add(r: full)", 0, 1);
    assert_int_equal(gnf_plan_workspace_size(plan), 0);
    expect(gnf_execute(plan, &(gnf_arguments){.size = sizeof(gnf_arguments)}, stream), GNF_OK, NULL);
    expect(gnf_prepare_weight(plan, 0, 0, 0, stream), GNF_OK, NULL);
    assert_string_equal(sequence(), "");
    gnf_plan_destroy(&plan);
    close_linear(context);
}

/* ---- pointers ---- */

static void preparation(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan *plan = plan_at(context, linear_text, 0, 1);
    const size_t size = 98816;
    (void)state;
    fake_current = other_context;
    expect(gnf_prepare_weight(plan, WEIGHT + 4, PREPARED, size, stream), GNF_OK, NULL);
    assert_ptr_equal(fake_current, other_context);
    assert_ptr_equal(fake.launched_in, our_context);
    assert_string_equal(sequence(), "k_splitw ");
    assert_int_equal(fake.launch[0].gridDimX, 64);
    assert_ptr_equal(fake.launch[0].hStream, stream);
    assert_false(fake.overlaps[0]);
    assert_int_equal((uintptr_t)fake.args[0].weight, WEIGHT + 4);
    assert_int_equal((uintptr_t)fake.args[0].column_scale, PREPARED);
    assert_int_equal((uintptr_t)fake.args[0].column_norm, PREPARED + 256);
    assert_int_equal((uintptr_t)fake.args[0].split_weight, PREPARED + 512);
    assert_int_equal(fake.args[0].inputs, 300);
    assert_int_equal(fake.args[0].padded, 384);
    assert_int_equal(fake.args[0].groups * fake.args[0].group_channels, 64);
#define BAD(weight, prepared, size, words)                                                                   \
    expect(gnf_prepare_weight(plan, weight, prepared, size, stream), GNF_INVALID_ARGUMENT, words)
    BAD(0, PREPARED, size, "weight is null");
    BAD(WEIGHT + 2, PREPARED, size, "weight = ");
    BAD(WEIGHT, 0, size, "prepared is null");
    BAD(WEIGHT, PREPARED + 8, size, "multiples of 16");
    BAD(WEIGHT, PREPARED, size - 1, "prepared_size = 98815: allowed are 98816");
    BAD(WEIGHT, WEIGHT + 64 * 300 * 4 - 16, size, "prepared = 0x50012bf0 (98816 bytes) overlaps weight");
#undef BAD
    expect(gnf_prepare_weight(NULL, WEIGHT, PREPARED, size, stream), GNF_INVALID_ARGUMENT, "plan is null");
    fake.launch_result = CUDA_ERROR_INVALID_VALUE;
    expect(gnf_prepare_weight(plan, WEIGHT, PREPARED, size, stream), GNF_DRIVER_ERROR, "k_splitw");
    gnf_plan_destroy(&plan);
    /* a plan that takes the weight as it is */
    plan = plan_at(context, linear_text, 0, 0);
    expect(gnf_prepare_weight(plan, 0, 0, 0, stream), GNF_OK, NULL);
    gnf_plan_destroy(&plan);
    assert_int_equal(fake.launch_count, 0);
    close_linear(context);
}

static void pointers(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan *plan = plan_at(context, linear_text, 0, 1);
    const gnf_arguments good = arguments_of(plan);
    gnf_arguments a;
    (void)state;
#define GOOD(change)       a = good, change, expect(gnf_execute(plan, &a, NULL), GNF_OK, NULL)
#define BAD(change, words) a = good, change, expect(gnf_execute(plan, &a, NULL), GNF_INVALID_ARGUMENT, words)
    GOOD(a.y = a.operand[0]);
    GOOD(a.bias = 0);
    GOOD(a.y = good.x + 100 * 300 * 4);
    GOOD(a.operand[0] = good.y - 100 * 64 * 4);
    GOOD(a.weight = a.x);
    int launches = fake.launch_count;
    BAD(a.y = a.x, "y = 0x10000000 (25600 bytes) overlaps x = 0x10000000 (120000 bytes): allowed is none");
    BAD(a.y = good.x + 100 * 300 * 4 - 4, "overlaps x");
    BAD(a.operand[0] = good.y + 100 * 64 * 4 - 4, "overlaps r");
    BAD(a.weight = 0, "weight is null: allowed is a device address of 76800 bytes");
    BAD(a.weight += 2, "weight = ");
    BAD(a.bias += 1, "bias = ");
    BAD(a.prepared = 0, "prepared is null: allowed is a device address of 98816 bytes");
    BAD(a.prepared += 8, "prepared = 0x60000008: allowed are multiples of 16 bytes");
    BAD(a.y = good.weight + 76800 - 4, "overlaps weight");
    BAD(a.y = good.prepared + 98816 - 4, "overlaps prepared");
    BAD((a.bias = a.y + 4), "overlaps bias");
    BAD(a.workspace = good.weight - 16, "workspace = 0x4ffffff0 (233920 bytes) overlaps weight");
    BAD(a.workspace = good.prepared, "overlaps prepared");
    BAD((a.bias = a.workspace), "overlaps bias");
    BAD(a.workspace_size--, "workspace_size = 233919");
    assert_int_equal(fake.launch_count, launches);
    gnf_plan_destroy(&plan);
    /* without need of one, what stands there is nobody's business */
    plan = plan_at(context, linear_text, 0, 0);
    GOOD(a.prepared = 1);
    gnf_plan_destroy(&plan);
    close_linear(context);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes), cmocka_unit_test(slab_sizes),  cmocka_unit_test(prepared_split),
        cmocka_unit_test(slabs), cmocka_unit_test(overlap),     cmocka_unit_test(direct),
        cmocka_unit_test(own),   cmocka_unit_test(preparation), cmocka_unit_test(pointers),
    };
    if (!open_stub(count, arguments)) {
        fprintf(stderr, "usage: test_linear NVRTC_STUB CUBLASLT_STUB\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
