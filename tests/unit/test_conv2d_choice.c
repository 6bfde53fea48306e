/* Which variant of a chain with conv2d a plan takes: by the default rule, by records, by name. Arguments:
 * stubs of NVRTC and of cuBLASLt. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "conv2d_fixture.h"

static void default_rule(void **state)
{
    static const struct {
        int64_t samples;
        unsigned alignment;
        int capability, prepared;
        const char *variant;
    } rows[] = {
        {33, 16, 90, 0, "wgmma"}, /* two blocks a sample */
        {33, 16, 90, 1, "wgmma"},  {33, 16, 80, 0, "fused"},
        {33, 16, 100, 0, "fused"}, {32, 16, 90, 0, "fused"}, /* 16 a sample */
        {5, 16, 90, 0, "fused"},   {4, 16, 90, 0, "fused"},  /* 64 blocks; ffma.split has 512 */
        {1, 16, 90, 0, "fused"},   {33, 4, 90, 0, "ffma.one"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gnf_context *context = open_conv();
        setenv("STUB_NVRTC_ARCHS", "80,90,100", 1);
        context->device.capability = rows[i].capability;
        const gnf_plan_options options = {.size = sizeof options,
                                          .samples = rows[i].samples,
                                          .alignment = rows[i].alignment,
                                          .prepared = rows[i].prepared};
        gnf_plan *plan = plan_for(context, conv_any, &options);
        gnf_plan_info info = {.size = sizeof info};
        assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
        if (strcmp(info.variant, rows[i].variant))
            fail_msg("row %zu: %s, wanted %s", i, info.variant, rows[i].variant);
        assert_string_equal(info.fallback, "ffma.one");
        gnf_plan_destroy(&plan);
        close_linear(context);
    }
}

/* N that a variant is meant for decides before the blocks do; where none is meant for it, nothing does. */
static void meant_for(void **state)
{
    const struct gnf_device device = {.name = "d", .capability = 90, .multiprocessors = 60};
    const struct gnf_terms terms = {.alignment = 16};
    const struct gnf_kernel one = {.role = GNF_ROLE_TAIL, .units_per_block = 1, .tile = 1, .cap = 1};
    struct gnf_variant variants[] = {
        {.name = "a", .product = {.method = GNF_METHOD_OWN, .least = 20}},
        {.name = "b", .product = {.method = GNF_METHOD_OWN, .sums = 1, .least = 10, .most = 30}},
        {.name = "c", .product = {.method = GNF_METHOD_OWN, .least = 2, .most = 30}},
        {.name = "d", .product = {.method = GNF_METHOD_OWN, .least = 100}},
    };
    static const enum gnf_unit units[] = {GNF_UNIT_SAMPLE, GNF_UNIT_SAMPLE, GNF_UNIT_GROUP,
                                          GNF_UNIT_POSITION};
    static const struct {
        int samples;
        const char *variant;
    } rows[] = {{20, "a"}, {19, "c"}, {9, "c"}, {2, "c"}, {1, "d"}, {31, "a"}};
    struct gnf_problem problem;
    struct gnf_choice choice;
    (void)state;
    for (int i = 0; i < 4; i++) {
        variants[i].alignment = 4;
        variants[i].kernel_count = 1;
        variants[i].kernel[0] = one;
        variants[i].kernel[0].unit = units[i];
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gnf_problem_parse("f32[*,7,5,5] | conv2d(8, 1) | groupnorm(8)", &problem), GNF_OK);
        assert_int_equal(gnf_problem_set_samples(&problem, rows[i].samples), GNF_OK);
        expect(gnf_choice_default(&choice, NULL, variants, 4, &problem, &terms, &device), GNF_OK, NULL);
        if (strcmp(choice.variant->name, rows[i].variant))
            fail_msg("row %zu: %s, wanted %s", i, choice.variant->name, rows[i].variant);
    }
}

/* Records of another N speak for any product, unlike linear's. */
static void records(void **state)
{
    gnf_context *context = open_conv();
    gnf_plan_info info = {.size = sizeof info};
    (void)state;
    record_variant(context, conv_key, conv_any, "stored", 10, NULL, 132);
    gnf_plan *plan = plan_at(context, conv_any, 33, 0);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, "stored");
    assert_string_equal(info.match, "other batch");
    gnf_plan_destroy(&plan);
    plan = plan_at(context, conv_any, 10, 0);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.match, "older source");
    gnf_plan_destroy(&plan);
    forget_records(context);
    close_linear(context);
}

static void refused(void **state)
{
    gnf_context *context = open_conv();
    gnf_variant_info info = {.size = sizeof info};
    (void)state;
    static const struct {
        const char *text, *variant, *words;
    } rows[] = {
        /* packs that say one thing and mean another */
        {"f32[3,5,4,4] | conv2d(4, 3) | groupnorm(2)", "sgemm.one",
         "another chain than one that starts with conv2d"},
        {"f32[3,5,4,4] | conv2d(4, 3) | groupnorm(2)", "plain",
         "another chain than one that starts with conv2d"},
        {"f32[3,5] | linear(4) | groupnorm(2) | tanh", "conv2d.one",
         "another chain than one that starts with linear"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gnf_plan_options options = {.size = sizeof options, .variant = rows[i].variant};
        gnf_plan *plan;
        expect(gnf_plan_create(&plan, context, rows[i].text, &options), GNF_NOT_SUPPORTED, rows[i].words);
        assert_null(plan);
    }
    gnf_plan *plan = plan_at(context, rows[0].text, 0, 0);
    takes(plan, "ffma.generic");
    gnf_plan_destroy(&plan);
    static const unsigned kernels[] = {3, 3, 4, 4, 3, 2};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(gnf_get_variant(context, conv_any, i, &info), GNF_OK);
        assert_int_equal(info.kernels, kernels[i]);
    }
    close_linear(context);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_rule),
        cmocka_unit_test(meant_for),
        cmocka_unit_test(records),
        cmocka_unit_test(refused),
    };
    if (!open_stub(count, arguments)) {
        fprintf(stderr, "usage: test_conv2d_choice NVRTC_STUB CUBLASLT_STUB\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
