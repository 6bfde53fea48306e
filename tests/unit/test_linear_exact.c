/* A product for one architecture alone: where it is legal, what it is compiled for, what takes its place, its
 * sizes and its clusters. Arguments: stubs of NVRTC and of cuBLASLt. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "linear_fixture.h"

static const char layer[] = "f32[*,300] | linear(300) | groupnorm(3)";
static const char layer_key[] = "f32[*,300,1] | linear(300) | groupnorm(3)";
static char compiled[2048]; /* "k_wgmma for sm_90a, ..." */

static void note_compiles(void *user, gnf_log_level level, const char *line)
{
    int length;
    count_lines(user, level, line);
    if (strncmp(line, "compiling ", 10) == 0 && sscanf(line, "compiling %*s for %*[a-z_0-9]%n", &length) == 0)
        snprintf(compiled + strlen(compiled), sizeof compiled - strlen(compiled), "%.*s, ", length - 10,
                 line + 10);
}

static gnf_context *open_for(int capability, const char *archs)
{
    clear_cache();
    gnf_context *context = open_linear();
    setenv("STUB_NVRTC_ARCHS", archs, 1);
    context->device.capability = capability;
    context->options.log.callback = note_compiles;
    compiled[0] = '\0';
    return context;
}

static void expect_plan(gnf_context *context, int64_t samples, int prepared, const char *variant,
                        const char *fallback)
{
    gnf_plan *plan = plan_at(context, layer, samples, prepared);
    gnf_plan_info info = {.size = sizeof info};
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, variant);
    assert_string_equal(info.fallback, fallback);
    gnf_plan_destroy(&plan);
}

static void its_own_architecture(void **state)
{
    gnf_context *context = open_for(90, "89,90,100");
    const gnf_plan_options options = {
        .size = sizeof options, .samples = 100, .prepared = 1, .variant = "wgmma.k256.one"};
    gnf_plan *plan;
    (void)state;
    expect_plan(context, 100, 1, "wgmma.k256.four", "wgmma.k256.one");
    assert_string_equal(compiled,
                        "k_tilew for sm_90, k_wgmma for sm_90a, "); /* of all kernels the source is one */
    expect_plan(context, 128, 0, "wgmma.k256.each.four", "wgmma.k256.each.one");
    expect_plan(context, 100, 0, "ffma.one", "ffma.one");
    gnf_context_destroy(&context);
    for (int capability = 89; capability <= 100; capability += 11) {
        context = open_for(capability, "89,90,100");
        expect_plan(context, 100, 1, "fp16x3.s2.four", "fp16x3.s2.one");
        expect(gnf_plan_create(&plan, context, layer, &options), GNF_NOT_SUPPORTED,
               capability < 90 ? "needs capability 90" : "is for capability 90 alone: fake has 100");
        assert_int_equal(warnings, 0);
        close_linear(context);
    }
}

/* An NVRTC that does not know the device, and one that knows it but not this form of it. */
static void not_to_be_compiled(void **state)
{
    const gnf_plan_options options = {
        .size = sizeof options, .samples = 100, .prepared = 1, .variant = "wgmma.k256.one"};
    gnf_context *context = open_for(90, "80,89");
    gnf_plan *plan;
    (void)state;
    expect_plan(context, 100, 1, "fp16x3.s2.four", "fp16x3.s2.one");
    assert_int_equal(warnings, 1);
    assert_null(strstr(compiled, "wgmma"));
    expect(gnf_plan_create(&plan, context, layer, &options), GNF_COMPILE_FAILED,
           "k_wgmma is for one architecture alone, which NVRTC does not know: it has compute_89");
    assert_null(plan);
    /* the fallback alone */
    const gnf_plan_options other = {
        .size = sizeof other, .samples = 200, .prepared = 1, .variant = "fp16x3.s2.four"};
    gnf_plan_info info = {.size = sizeof info};
    plan = plan_for(context, layer, &other);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, "fp16x3.s2.four");
    assert_string_equal(info.fallback, "fp16x3.s2.one");
    assert_int_equal(warnings, 2);
    gnf_plan_destroy(&plan);
    close_linear(context);
    /* what fails is not the exact kernel: then another product has no better chance */
    context = open_for(90, "89,90");
    fake.refuse = 0;
    context->options.jit = false;
    expect(gnf_plan_create(&plan, context, layer, &(gnf_plan_options){.size = sizeof options, .samples = 5}),
           GNF_NOT_COMPILED, "k_ffma");
    assert_int_equal(warnings, 0);
    close_linear(context);
}

/* All plans of a problem take the same prepared weight, whatever was measured. */
static void recorded(void **state)
{
    static char path[300];
    gnf_context *context = open_for(90, "89,90");
    struct gnf_record record = {
        .key = (char *)layer_key,
        .problem = (char *)layer,
        .samples = 100,
        .source = "00000000000000000000000000000000",
        .nvrtc = 12040,
        .complete = true,
        .time_us = 5,
        .timings = 9,
        .date = "2026-11-29T18:03:11Z",
    };
    static const struct {
        const char *variant, *taken;
    } rows[] = {
        {"fp16x3.s2.one", "wgmma.k256.four"}, {"wgmma.k256.one", "wgmma.k256.one"}, {"ffma.one", "ffma.one"}};
    (void)state;
    snprintf(path, sizeof path, "%s/db", folder);
    context->options.db = path;
    context->device.memory = 1;
    for (int i = 0; i < 3; i++) {
        char *line;
        record.variant = (char *)rows[i].variant;
        gnf_record_device_of(&context->device, false, &record.device);
        assert_int_equal(gnf_record_write(&record, &line), GNF_OK);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(line, file);
        fclose(file);
        free(line);
        assert_int_equal(gnf_context_reload_tuned(context), GNF_OK);
        gnf_plan *plan = plan_at(context, layer, 100, 1);
        takes(plan, rows[i].taken);
        gnf_plan_destroy(&plan);
    }
    context->options.db = NULL;
    close_linear(context);
}

/* Whole tiles of 128 rows by 64 columns, hi and lo. */
static void sizes(void **state)
{
    gnf_context *context = open_for(90, "89,90");
    gnf_plan *plan = plan_at(context, layer, 100, 1);
    const struct gnf_linear *linear = &plan->choice.linear;
    (void)state;
    assert_int_equal(linear->padded, 320);
    assert_int_equal(linear->product, 0);
    assert_int_equal(linear->row_scale, 100 * 300 * 4 + 64); /* to a multiple of 256 */
    assert_int_equal(linear->chunks - linear->split_x, 128 * 320 * 4);
    assert_int_equal(linear->prepared - linear->split_weight, 384 * 320 * 4);
    assert_int_equal(plan->choice.workspace_size, linear->chunks); /* none of cuBLASLt's */
    gnf_plan_destroy(&plan);
    plan = plan_at(context, layer, 2600, 1); /* slabs are whole tiles */
    assert_int_equal(plan->choice.linear.rows, 2048);
    assert_int_equal(plan->choice.linear.chunks - plan->choice.linear.split_x, 2048 * 320 * 4);
    gnf_plan_destroy(&plan);
    assert_false(gnf_cublaslt_is_loaded(context->cublaslt));
    close_linear(context);
}

/* Blocks of a cluster run at once, each on a multiprocessor of its own. */
static void too_small(void **state)
{
    const gnf_plan_options options = {
        .size = sizeof options, .samples = 100, .prepared = 1, .variant = "wgmma.k256.one"};
    gnf_context *context = open_for(90, "89,90");
    gnf_plan *plan;
    (void)state;
    context->device.multiprocessors = 1;
    expect_plan(context, 100, 1, "ffma.one", "ffma.one");
    expect(gnf_plan_create(&plan, context, layer, &options), GNF_NOT_SUPPORTED,
           "needs 2 multiprocessors: fake has 1");
    assert_null(plan);
    context->device.multiprocessors = 2;
    expect_plan(context, 100, 1, "wgmma.k256.four", "wgmma.k256.one");
    close_linear(context);
}

static void clusters(void **state)
{
    static const struct {
        int64_t samples;
        int multiprocessors;
        unsigned grid;
    } rows[] = {
        {100, 132, 4}, /* 3 tiles */
        {200, 132, 6}, /* 6 */
        {2048, 132, 48}, {2048, 16, 16}, {2048, 17, 16}, {2048, 47, 46},
        {2048, 48, 48},  {2048, 49, 48}, {100, 3, 2},
    };
    gnf_context *context = open_for(90, "89,90");
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        context->device.multiprocessors = rows[i].multiprocessors;
        gnf_plan *plan = plan_at(context, layer, rows[i].samples, 1);
        const gnf_arguments arguments = arguments_of(plan);
        gnf_plan_info info = {.size = sizeof info};
        assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
        assert_int_equal(info.kernels, 4);
        fake.launch_count = 0;
        expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
        assert_int_equal(fake.launch_count, 4);
        assert_int_equal(stub->count, 0);
        assert_string_equal(fake.launched[1], "k_wgmma");
        assert_string_equal(fake.launched[2], "k_repair");
        assert_int_equal(fake.launch[0].gridDimX, rows[i].samples);
        assert_int_equal(fake.launch[1].gridDimX, rows[i].grid);
        assert_int_equal(fake.launch[1].blockDimX, 288);
        assert_true(fake.overlaps[1] && fake.overlaps[2] && fake.overlaps[3]);
        assert_int_equal(fake.args[1].padded, 320);
        gnf_plan_destroy(&plan);
    }
    close_linear(context);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own_architecture),
        cmocka_unit_test(not_to_be_compiled),
        cmocka_unit_test(recorded),
        cmocka_unit_test(sizes),
        cmocka_unit_test(too_small),
        cmocka_unit_test(clusters),
    };
    if (!open_stub(count, arguments)) {
        fprintf(stderr, "usage: test_linear_exact NVRTC_STUB CUBLASLT_STUB\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
