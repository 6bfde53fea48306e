/* Which variant is chosen, how large its launches are, and what is refused before anything is touched. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "plan_fixture.h"

/* ---- choosing, without a context ---- */

static struct gnf_choice choose(int64_t samples, unsigned alignment, int capability, int multiprocessors)
{
    struct gnf_pack *pack;
    struct gnf_problem problem;
    struct gnf_device device = {.name = "d", .capability = capability, .multiprocessors = multiprocessors};
    const struct gnf_terms terms = {.alignment = alignment};
    struct gnf_choice choice;
    size_t size;
    int count;
    static char name[64];
    static struct gnf_variant variant;
    unsigned char *data = make_pack(manifest, strlen(manifest), parts, &size);
    device.shared_block = 99 << 10;
    assert_int_equal(gnf_pack_read(&pack, data, size, "t"), GNF_OK);
    assert_int_equal(gnf_problem_parse("f32[*,64,10,10] | groupnorm(8) | relu", &problem), GNF_OK);
    assert_int_equal(gnf_problem_set_samples(&problem, samples), GNF_OK);
    const struct gnf_variant *variants = gnf_pack_find(pack, problem.key, &count);
    expect(gnf_choice_default(&choice, pack, variants, count, &problem, &terms, &device), GNF_OK, NULL);
    variant = *choice.variant;
    snprintf(name, sizeof name, "%s", variant.name);
    variant.name = name;
    choice.variant = &variant;
    gnf_pack_free(pack);
    free(data);
    return choice;
}

static void default_rule(void **state)
{
    (void)state;
    /* 8 groups a sample, 4 a block: 2 blocks a sample, of 12.5 KiB: a third of the machine will do */
    assert_string_equal(choose(22, 16, 90, 132).variant->name, "four.v4");
    assert_int_equal(choose(22, 16, 90, 132).launch[0].grid, 44);
    assert_string_equal(choose(21, 16, 90, 132).variant->name, "one.v1");
    assert_string_equal(choose(33, 16, 75, 132).variant->name, "one.v1");
    assert_string_equal(choose(33, 8, 90, 132).variant->name, "one.v1");
    /* none fills a third of the machine: the one with the most blocks; of split.v4 its last kernel counts, 5
     * a sample */
    assert_string_equal(choose(1, 16, 90, 132).variant->name, "one.v1");
    assert_string_equal(choose(1, 16, 90, 6).variant->name, "four.v4");
    assert_string_equal(choose(1, 16, 90, 7).variant->name, "one.v1");
}

static void little_blocks(void **state)
{
    const struct gnf_device device = {.name = "d", .capability = 90, .multiprocessors = 132};
    const struct gnf_terms terms = {.alignment = 16};
    struct gnf_kernel whole = {.role = GNF_ROLE_TAIL, .units_per_block = 1, .tile = 1, .cap = 1};
    struct gnf_kernel tiles = {
        .role = GNF_ROLE_TAIL, .units_per_block = 1, .tile = 1000, .cap = 100, .span = GNF_SPAN_GROUP};
    const struct gnf_variant variants[] = {
        {.name = "whole", .alignment = 4, .kernel_count = 1, .kernel = {whole}},
        {.name = "tiles", .alignment = 4, .kernel_count = 1, .kernel = {tiles}},
    };
    struct gnf_choice choice;
    struct gnf_problem problem;
    (void)state;
    assert_int_equal(gnf_problem_parse("f32[50,8,1536] | groupnorm(1)", &problem),
                     GNF_OK); /* 48 KiB a block */
    expect(gnf_choice_default(&choice, NULL, variants, 2, &problem, &terms, &device), GNF_OK, NULL);
    assert_string_equal(choice.variant->name, "whole");
    assert_int_equal(gnf_problem_parse("f32[50,8,1537] | groupnorm(1)", &problem), GNF_OK);
    expect(gnf_choice_default(&choice, NULL, variants, 2, &problem, &terms, &device), GNF_OK, NULL);
    assert_string_equal(choice.variant->name, "tiles");
    assert_int_equal(gnf_problem_parse("f32[66,8,1537] | groupnorm(1)", &problem), GNF_OK);
    expect(gnf_choice_default(&choice, NULL, variants, 2, &problem, &terms, &device), GNF_OK, NULL);
    assert_string_equal(choice.variant->name, "whole");
}

static void sizes(void **state)
{
    struct gnf_kernel kernel = {
        .role = GNF_ROLE_TAIL, .units_per_block = 1, .tile = 300, .cap = 8, .span = GNF_SPAN_GROUP};
    struct gnf_variant variant = {.name = "v", .workspace = 12, .kernel_count = 1, .kernel = {kernel}};
    struct gnf_choice choice = {.variant = &variant};
    struct gnf_problem problem;
    (void)state;
    assert_int_equal(gnf_problem_parse(text, &problem), GNF_OK);
    assert_int_equal(gnf_choice_size(&choice, &problem), GNF_OK);
    assert_int_equal(choice.launch[0].tiles, 3); /* of 300 in 800 */
    assert_int_equal(choice.launch[0].grid, 24000);
    assert_int_equal(choice.chunks, 3);
    assert_int_equal(choice.workspace_size, 24000 * 12);
    variant.kernel[0].tile = 1;
    assert_int_equal(gnf_choice_size(&choice, &problem), GNF_OK);
    assert_int_equal(choice.launch[0].tiles, 8);
    variant.kernel[0].unit = GNF_UNIT_POSITION;
    variant.kernel[0].span = GNF_SPAN_NONE;
    variant.kernel[0].units_per_block = 64;
    assert_int_equal(gnf_problem_parse("f32[3,8,7,9] | groupnorm(8)", &problem), GNF_OK);
    assert_int_equal(gnf_choice_size(&choice, &problem), GNF_OK);
    assert_int_equal(choice.launch[0].grid, 3); /* 189 positions, 64 a block */
    variant.kernel[0].unit = GNF_UNIT_GROUP;
    variant.kernel[0].units_per_block = 1;
    /* batches beyond any grid limit stay on x, and the kernel loops over what does not fit */
    assert_int_equal(gnf_problem_parse("f32[70000,4,4] | groupnorm(2)", &problem), GNF_OK);
    variant.kernel[0].span = GNF_SPAN_NONE;
    assert_int_equal(gnf_choice_size(&choice, &problem), GNF_OK);
    assert_int_equal(choice.launch[0].grid, 140000);
    assert_int_equal(gnf_problem_parse("f32[4611686018427387,8] | groupnorm(8)", &problem), GNF_OK);
    variant.workspace = 0;
    assert_int_equal(gnf_choice_size(&choice, &problem), GNF_OK);
    assert_int_equal(choice.launch[0].grid, 2147483647);
    variant.workspace = 1 << 20;
    expect(gnf_choice_size(&choice, &problem), GNF_TOO_LARGE, "workspace");
    variant.kernel[0].span = GNF_SPAN_SAMPLE;
    variant.kernel[0].cap = INT32_MAX;
    assert_int_equal(gnf_problem_parse("f32[36028797018963,32768] | groupnorm(32768)", &problem), GNF_OK);
    expect(gnf_choice_size(&choice, &problem), GNF_TOO_LARGE, "blocks");
}

/* ---- plans ---- */

static void creation(void **state)
{
    (void)state;
    OPEN_OR_SKIP(context)
    gnf_plan_info info = {.size = sizeof info};
    gnf_plan *plan = plan_for(context, text, NULL);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.problem, text);
    assert_string_equal(info.variant, "four.v4");
    assert_string_equal(info.fallback, "one.v1");
    assert_string_equal(info.match, "default");
    assert_int_equal(info.x_elements, 6400000);
    assert_int_equal(info.kernels, 1);
    assert_int_equal(info.registers, 40);
    assert_int_equal(info.shared_bytes, 65536);
    assert_int_equal(fake.shared_attribute, 65536);
    assert_null(fake_current);
    gnf_plan_destroy(&plan);
    assert_null(plan);

    int loads = fake.loads;
    gnf_plan_options options = {.size = sizeof options, .samples = 2};
    plan = plan_for(context, "f32[*,64,100] | groupnorm(8, 0.5) | relu", &options);
    assert_int_equal(fake.loads, loads); /* shared with the first */
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.problem, "f32[2,64,100] | groupnorm(8, eps=0.5) | relu");
    assert_string_equal(info.variant, "one.v1");
    gnf_plan_destroy(&plan);

    options = (gnf_plan_options){.size = sizeof options, .variant = "split.v4"};
    plan = plan_for(context, text, &options);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.match, "named");
    assert_int_equal(info.kernels, 2);
    assert_int_equal(info.workspace_size, 8000 * 3 * 12);
    assert_int_equal(gnf_plan_workspace_size(plan), info.workspace_size);
    gnf_plan_info old = {.size = offsetof(gnf_plan_info, match), .match = "kept"};
    assert_int_equal(gnf_plan_get_info(plan, &old), GNF_OK);
    assert_string_equal(old.match, "kept");
    old.size = 3;
    expect(gnf_plan_get_info(plan, &old), GNF_INVALID_ARGUMENT, "info.size = 3");
    gnf_plan_destroy(&plan);

    plan = plan_for(context, "f32[3,6,7] | groupnorm(3) | relu", NULL);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.match, "generic");
    gnf_plan_destroy(&plan);
    assert_int_equal(warnings, 0);
    gnf_context_destroy(&context);
    assert_int_equal(fake.unloads, fake.loads);
}

static void refusals(void **state)
{
    gnf_context *context = open_context("/nonexistent/libnvrtc.so", true);
    gnf_plan *plan;
    gnf_plan_options options = {.size = sizeof options};
    (void)state;
    clear_cache();
#define REFUSED(problem, status, words)                                                                      \
    expect(gnf_plan_create(&plan, context, problem, &options), status, words)
    REFUSED("f32[2,4] | softmaks", GNF_INVALID_PROBLEM, "softmaks");
    REFUSED("f32[2,6,9,9] | conv2d(6, 3) | groupnorm(2)", GNF_NO_KERNEL, "'f32 | conv2d | groupnorm'");
    REFUSED("f32[2,6] | linear(6) | groupnorm(2)", GNF_NO_KERNEL, "'f32 | linear | groupnorm'");
    REFUSED("f32[2,6] | groupnorm(2) | mean(all)", GNF_NO_KERNEL, "'f32 | groupnorm | mean(all)'");
    REFUSED("f32[2,6] | groupnorm(2) | mish", GNF_NO_KERNEL, "gnfuse-gen 'f32[2,6] | groupnorm(2) | mish'");
    REFUSED("f32[2,6] | groupnorm(2) | mish", GNF_NO_KERNEL, "'f32 | groupnorm | mish'");
    REFUSED("f32[2,6] | groupnorm(2) | mish", GNF_NO_KERNEL, "GNFUSE_PACK_PATH");
    REFUSED("f32[*,6] | groupnorm(2) | relu", GNF_INVALID_ARGUMENT, "samples = 0");
    options.samples = -1;
    REFUSED("f32[*,6] | groupnorm(2) | relu", GNF_INVALID_ARGUMENT, "samples = -1");
    options.samples = 3;
    REFUSED("f32[2,6] | groupnorm(2) | relu", GNF_INVALID_ARGUMENT, "N = 2");
    options.samples = INT64_MAX / 16;
    REFUSED("f32[*,6] | groupnorm(2) | relu", GNF_TOO_LARGE, "63 bits");
    options.samples = 0;
    options.prepared = 2;
    REFUSED(text, GNF_INVALID_ARGUMENT, "prepared = 2: allowed are 0 and 1");
    options.prepared = 0;
    options.alignment = 12;
    REFUSED(text, GNF_INVALID_ARGUMENT, "alignment = 12");
    options.alignment = 2;
    REFUSED(text, GNF_INVALID_ARGUMENT, "alignment = 2: allowed are powers of two from 4");
    options.alignment = 4;
    options.variant = "four.v4";
    REFUSED(text, GNF_INVALID_ARGUMENT, "aligned to 16 bytes");
    options.alignment = 0;
    options.variant = "newer";
    REFUSED(text, GNF_NOT_SUPPORTED, "capability 120");
    options.variant = "large";
    REFUSED(text, GNF_NOT_SUPPORTED, "262144 bytes of shared memory");
    options.variant = "small";
    REFUSED(text, GNF_NOT_SUPPORTED, "up to 799 elements");
    options.variant = "fast";
    REFUSED(text, GNF_INVALID_ARGUMENT, "four.v4, one.v1, split.v4, newer, large, small, generic");
    options.variant = NULL;
    REFUSED(text, GNF_NO_COMPILER, "/nonexistent/libnvrtc.so");
    assert_int_equal(fake.calls, 0);
    options.size = 1;
    REFUSED(text, GNF_INVALID_ARGUMENT, "size");
    expect(gnf_plan_create(NULL, context, text, NULL), GNF_INVALID_ARGUMENT, "plan");
    expect(gnf_plan_create(&plan, NULL, text, NULL), GNF_INVALID_ARGUMENT, "context");
    expect(gnf_plan_create(&plan, context, NULL, NULL), GNF_INVALID_ARGUMENT, "problem");
    assert_null(plan);
    gnf_context_destroy(&context);
}

static void later_packs_first(void **state)
{
    (void)state;
    OPEN_OR_SKIP(context)
    gnf_plan_info info = {.size = sizeof info};
    load_manifest(context, MANIFEST(ENTRY("f32 | groupnorm | relu", "true",
                                          VARIANT("mine", 4, 70, 0, 0,
                                                  KERNEL("k_b", "1", 32, 0, "group", 1, "none", 1, 1)))));
    gnf_plan *plan = plan_for(context, "f32[3,6] | groupnorm(3) | relu", NULL);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, "mine");
    gnf_plan_destroy(&plan);
    plan = plan_for(context, text, NULL); /* an exact key in an earlier pack before a chain in a later one */
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, "four.v4");
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

static void empty(void **state)
{
    gnf_context *context = open_context("/nonexistent/libnvrtc.so", true);
    gnf_arguments none = {.size = sizeof none};
    gnf_plan_info info = {.size = sizeof info};
    const char *const problems[] = {"f32[0,32,64] | groupnorm(8) | relu", "f32[4,32,0] | groupnorm(8) | sum"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        gnf_plan *plan = plan_for(context, problems[i], NULL);
        assert_int_equal(gnf_execute(plan, &none, stream), GNF_OK);
        assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
        assert_int_equal(info.kernels, 0);
        assert_int_equal(gnf_plan_workspace_size(plan), 0);
        gnf_plan_destroy(&plan);
    }
    assert_int_equal(fake.calls + fake.launch_count, 0);
    gnf_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_rule), cmocka_unit_test(little_blocks), cmocka_unit_test(sizes),
        cmocka_unit_test(creation),     cmocka_unit_test(refusals),      cmocka_unit_test(later_packs_first),
        cmocka_unit_test(empty),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
