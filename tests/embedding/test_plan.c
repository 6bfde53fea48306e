/* Plans: which variant, what the plan says of it, options of older and newer callers, wrong input. */
#include "fixture.h"
#include <string.h>

static const char problem[] = "f32[*,6,7] | groupnorm(3) | add(r: full)";

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

static gnf_status create(gnf_plan **plan, const char *text, gnf_plan_options options)
{
    options.size = sizeof options;
    gnf_status status = gnf_plan_create(plan, shared, text, &options);
    if (status != GNF_OK)
        assert_null(*plan);
    return status;
}

static void test_default_variant(void **state)
{
    gnf_plan *plan = make_plan(shared, problem, 3, NULL);
    gnf_plan_info info = plan_info(plan);
    (void)state;
    assert_string_equal(info.problem, "f32[3,6,7] | groupnorm(3) | add(r: full)");
    assert_string_equal(info.match, "default");
    assert_non_null(strstr(info.variant, ".v2."));
    assert_non_null(strstr(info.fallback, ".v1."));
    assert_int_equal(info.x_elements, 3 * 42);
    assert_int_equal(info.y_elements, 3 * 42);
    assert_int_equal(info.kernels, 1);
    assert_int_equal(info.workspace_size, gnf_plan_workspace_size(plan));
    assert_in_range(info.registers, 1, 255);
    assert_int_equal(info.size, sizeof info);
    gnf_plan_destroy(&plan);
}

static void test_sizes_of_a_reduction(void **state)
{
    gnf_plan *plan = make_plan(
        shared, "f32[*,6,5] | groupnorm(2) | mul(w: channel) | add(s: scalar) | logsumexp", 4, NULL);
    (void)state;
    assert_int_equal(plan_info(plan).x_elements, 4 * 30);
    assert_int_equal(plan_info(plan).y_elements, 4 * 5);
    gnf_plan_destroy(&plan);
}

static void test_generic(void **state)
{
    /* no problem of the packs has these sizes, one has this chain */
    gnf_plan *plan = make_plan(shared, "f32[*,10,3] | groupnorm(5) | add(r: full)", 2, NULL);
    (void)state;
    assert_string_equal(plan_info(plan).match, "generic");
    assert_string_equal(plan_info(plan).variant, plan_info(plan).fallback);
    gnf_plan_destroy(&plan);
}

static void test_named_variants(void **state)
{
    char names[64][64];
    int count = list_variants(shared, problem, 3, names, 64);
    (void)state;
    assert_true(count > 10);
    for (int i = 0; i < count; i++) {
        gnf_plan *plan = make_plan(shared, problem, 3, names[i]);
        assert_string_equal(plan_info(plan).variant, names[i]);
        assert_string_equal(plan_info(plan).match, "named");
        gnf_plan_destroy(&plan);
    }
}

static void test_unknown_variant(void **state)
{
    gnf_plan *plan;
    gnf_plan *named = make_plan(shared, problem, 3, NULL);
    (void)state;
    assert_refused(create(&plan, problem, (gnf_plan_options){.samples = 3, .variant = "warp.t7"}),
                   GNF_INVALID_ARGUMENT, "variant = 'warp.t7'");
    assert_non_null(strstr(gnf_error_message(), plan_info(named).variant));
    assert_refused(create(&plan, problem, (gnf_plan_options){.samples = 3, .variant = "warp.t7"}),
                   GNF_INVALID_ARGUMENT, "generic.l1");
    gnf_plan_destroy(&named);
}

static void test_alignment(void **state)
{
    gnf_plan *plan;
    char names[64][64];
    (void)state;
    assert_ok(create(&plan, problem, (gnf_plan_options){.samples = 3, .alignment = 4}));
    assert_string_equal(plan_info(plan).variant, plan_info(plan).fallback);
    gnf_plan_destroy(&plan);
    list_variants(shared, problem, 3, names, 64);
    assert_refused(
        create(&plan, problem, (gnf_plan_options){.samples = 3, .alignment = 4, .variant = names[0]}),
        GNF_INVALID_ARGUMENT, "8 bytes");
    for (unsigned wrong = 1; wrong < 16; wrong++)
        if (wrong != 4 && wrong != 8)
            assert_refused(create(&plan, problem, (gnf_plan_options){.samples = 3, .alignment = wrong}),
                           GNF_INVALID_ARGUMENT, "alignment = ");
}

static void test_samples(void **state)
{
    static const char fixed[] = "f32[3,6,7] | groupnorm(3) | add(r: full)";
    gnf_plan *plan;
    (void)state;
    assert_ok(create(&plan, fixed, (gnf_plan_options){.samples = 3}));
    gnf_plan_destroy(&plan);
    assert_ok(create(&plan, fixed, (gnf_plan_options){.samples = 0}));
    gnf_plan_destroy(&plan);
    assert_ok(gnf_plan_create(&plan, shared, fixed, NULL));
    gnf_plan_destroy(&plan);
    assert_refused(create(&plan, fixed, (gnf_plan_options){.samples = 4}), GNF_INVALID_ARGUMENT,
                   "samples = 4");
    assert_refused(create(&plan, fixed, (gnf_plan_options){.samples = -3}), GNF_INVALID_ARGUMENT,
                   "samples = -3");
    assert_refused(create(&plan, problem, (gnf_plan_options){.samples = 0}), GNF_INVALID_ARGUMENT,
                   "samples = 0");
    assert_refused(create(&plan, problem, (gnf_plan_options){.samples = -1}), GNF_INVALID_ARGUMENT,
                   "samples = -1");
    assert_refused(gnf_plan_create(&plan, shared, problem, NULL), GNF_INVALID_ARGUMENT, "samples");
    assert_refused(create(&plan, problem, (gnf_plan_options){.samples = INT64_MAX / 8}), GNF_TOO_LARGE, "");
}

/* H11: each wrong problem is one status with the reason, and no division by zero. */
static void test_wrong_problems(void **state)
{
    static const struct {
        const char *text;
        gnf_status status;
        const char *part;
    } cases[] = {
        {"f32[2,4,9] | groupnorm(0)", GNF_INVALID_PROBLEM, "0"},
        {"f32[2,4,9] | groupnorm(-1)", GNF_INVALID_PROBLEM, "-1"},
        {"f32[2,6,9] | groupnorm(5)", GNF_INVALID_PROBLEM, "5"},
        {"f32[2,6,2] | groupnorm(4)", GNF_INVALID_PROBLEM, "4"},
        {"f32[2,4,9] | groupnorm(8)", GNF_INVALID_PROBLEM, "8"},
        {"f32[2,4,9] | groupnorm(2, eps=-1)", GNF_INVALID_PROBLEM, "eps"},
        {"f32[2,4,9] | groupnorm(2, eps=nan)", GNF_INVALID_PROBLEM, "eps"},
        {"f32[2,4,9] | groupnorm(2) | hardtanh(1, -1)", GNF_INVALID_PROBLEM, "hardtanh"},
        {"f32[1099511627776,1048576,1048576] | groupnorm(2)", GNF_TOO_LARGE, ""},
        {"f32[2,4,9]", GNF_INVALID_PROBLEM, "groupnorm"},
        {"", GNF_INVALID_PROBLEM, ""},
        {"f32[2,4,9] | groupnorm(2) | softmax", GNF_INVALID_PROBLEM, "softmax"},
        {"f32[2,4,9,9] | conv2d(4, 10) | groupnorm(2)", GNF_INVALID_PROBLEM, "kernel = 10"},
        {"bf16[2,4,9] | groupnorm(2) | elu | mish", GNF_NO_KERNEL, "gnfuse-gen"},
    };
    gnf_plan *plan;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(gnf_plan_create(&plan, shared, cases[i].text, NULL), cases[i].status, cases[i].part);
        assert_null(plan);
        assert_true(*gnf_error_message());
    }
    assert_refused(gnf_plan_create(&plan, shared, NULL, NULL), GNF_INVALID_ARGUMENT, "problem");
    assert_refused(gnf_plan_create(&plan, NULL, problem, NULL), GNF_INVALID_ARGUMENT, "context is null");
    assert_refused(gnf_plan_create(NULL, shared, problem, NULL), GNF_INVALID_ARGUMENT, "plan is null");
}

/* A caller compiled against a header whose struct ended after `samples`, and one with a field more. */
static void test_sizes_of_structs(void **state)
{
    gnf_plan *plan;
    struct {
        gnf_plan_options known;
        uint64_t newer;
    } longer = {.known = {.samples = 3}};
    gnf_plan_options options = {
        .size = offsetof(gnf_plan_options, samples) + sizeof options.samples,
        .samples = 3,
        .variant = "beyond what the size says",
        .alignment = 3,
    };
    (void)state;
    assert_ok(gnf_plan_create(&plan, shared, problem, &options));

    union {
        gnf_plan_info info;
        unsigned char bytes[sizeof(gnf_plan_info)];
    } shorter;
    size_t size = offsetof(gnf_plan_info, match);
    memset(&shorter, 0x5a, sizeof shorter);
    shorter.info.size = size;
    assert_ok(gnf_plan_get_info(plan, &shorter.info));
    assert_string_equal(shorter.info.variant, plan_info(plan).variant);
    assert_int_equal(shorter.info.size, size);
    for (size_t i = size; i < sizeof shorter; i++)
        assert_int_equal(shorter.bytes[i], 0x5a);
    shorter.info.size = 0;
    assert_refused(gnf_plan_get_info(plan, &shorter.info), GNF_INVALID_ARGUMENT, "size");

    struct tensor t = tensor_new(3 * 42 * 4, 0);
    gnf_arguments arguments = {
        .size = offsetof(gnf_arguments, workspace), .x = t.at, .y = t.at, .operand = {t.at}};
    assert_ok(gnf_execute(plan, &arguments, NULL));
    arguments.size = offsetof(gnf_arguments, operand);
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "r is null");
    arguments.size = 0;
    assert_refused(gnf_execute(plan, &arguments, NULL), GNF_INVALID_ARGUMENT, "size");
    synchronise();
    tensor_free(&t);
    gnf_plan_destroy(&plan);

    options.size = 0;
    assert_refused(gnf_plan_create(&plan, shared, problem, &options), GNF_INVALID_ARGUMENT, "size");
    longer.known.size = sizeof longer;
    assert_ok(gnf_plan_create(&plan, shared, problem, &longer.known));
    gnf_plan_destroy(&plan);
    longer.newer = 1;
    assert_refused(gnf_plan_create(&plan, shared, problem, &longer.known), GNF_INVALID_ARGUMENT, "newer");

    gnf_context *context;
    gnf_context_options older = {
        .size = offsetof(gnf_context_options, device), .cuda_context = device_context, .device = 77};
    assert_ok(gnf_context_create(&context, &older));
    gnf_context_destroy(&context);
}

static void test_packs(void **state)
{
    static const char unknown[] = "f32[2,12,5] | groupnorm(4) | mish | tanh | elu";
    gnf_context *context = open_context(device_context, "cache", NULL);
    gnf_plan *plan;
    (void)state;
    assert_refused(gnf_plan_create(&plan, context, unknown, NULL), GNF_NO_KERNEL, "mish");
    assert_refused(gnf_context_load_pack(context, "/nonexistent/file.gnfpack"), GNF_IO,
                   "/nonexistent/file.gnfpack");
    assert_refused(gnf_context_load_pack(context, NULL), GNF_INVALID_ARGUMENT, "path");
    assert_refused(gnf_context_load_pack_memory(context, "gnfpack\n", 8), GNF_BAD_PACK, "");
    assert_refused(gnf_context_load_pack_memory(context, NULL, 8), GNF_INVALID_ARGUMENT, "data");
    plan = make_plan(context, problem, 3, NULL); /* what was there still is */
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
    assert_null(context);
    gnf_context_destroy(&context);
    gnf_plan_destroy(&plan);
}

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(gnf_version(), GNF_VERSION_MAJOR * 10000 + GNF_VERSION_MINOR * 100 + GNF_VERSION_PATCH);
    assert_string_equal(gnf_status_name(GNF_OK), "GNF_OK");
    assert_string_equal(gnf_status_name(GNF_IO), "GNF_IO");
    assert_non_null(gnf_status_name((gnf_status)99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_variant),
        cmocka_unit_test(test_sizes_of_a_reduction),
        cmocka_unit_test(test_generic),
        cmocka_unit_test(test_named_variants),
        cmocka_unit_test(test_unknown_variant),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_wrong_problems),
        cmocka_unit_test(test_sizes_of_structs),
        cmocka_unit_test(test_packs),
        cmocka_unit_test(test_names),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, setup, teardown);
}
