/* Which product a plan takes: the default rule, what a prepared weight and cuBLASLt allow, captures, and the
 * algorithms that records name. Arguments: stubs of NVRTC and of cuBLASLt. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "linear_fixture.h"

/* ---- the default rule ---- */

static void by_samples(void **state)
{
    static const struct {
        int64_t samples;
        int prepared;
        unsigned alignment;
        const char *variant;
    } rows[] = {
        {1, 0, 16, "dot.n1.four"},      {1, 1, 16, "dot.n1.four"},
        {1, 1, 4, "ffma.split"}, /* the tail of dot.n1 wants more */
        {2, 1, 16, "ffma.split"},       {16, 1, 16, "ffma.split"},
        {17, 1, 16, "fp16x3.s2.one"}, /* of the product, the tail with blocks enough */
        {100, 1, 16, "fp16x3.s2.four"}, {100, 1, 4, "fp16x3.s2.one"},
        {17, 0, 16, "sgemm.one"},       {127, 0, 16, "sgemm.four"},
        {127, 0, 4, "sgemm.one"},       {128, 0, 16, "fp16x3.s2.each.four"},
        {128, 0, 4, "sgemm.one"},       {100000, 1, 16, "fp16x3.s2.four"},
    };
    gnf_context *context = open_linear();
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const gnf_plan_options options = {.size = sizeof options,
                                          .samples = rows[i].samples,
                                          .prepared = rows[i].prepared,
                                          .alignment = rows[i].alignment};
        gnf_plan *plan = plan_for(context, linear_any, &options);
        gnf_plan_info info = {.size = sizeof info};
        assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
        if (strcmp(info.variant, rows[i].variant))
            fail_msg("N = %d: %s, wanted %s", (int)rows[i].samples, info.variant, rows[i].variant);
        assert_string_equal(info.match, "default");
        gnf_plan_destroy(&plan);
    }
    gnf_plan *plan = plan_at(context, "f32[3,5] | linear(16) | groupnorm(2)", 0, 0);
    takes(plan, "ffma.generic");
    gnf_plan_destroy(&plan);
    close_linear(context);
}

/* The weight is prepared for the choice, if at all: no other way of preparing it may be the fallback's. */
static void fallback(void **state)
{
    static const struct {
        const char *text, *variant, *fallback;
    } rows[] = {
        {linear_text, "fp16x3.s2.four", "fp16x3.s2.one"},
        {linear_text, "sgemm.four", "sgemm.one"},
        {"f32[100,300] | linear(64, tf32) | groupnorm(8)", "fp16x3.s2.four", "tf32.one"},
    };
    gnf_context *context = open_linear();
    (void)state;
    for (int i = 0; i < 3; i++) {
        const gnf_plan_options options = {.size = sizeof options, .variant = rows[i].variant, .prepared = 1};
        gnf_plan *plan = plan_for(context, rows[i].text, &options);
        gnf_plan_info info = {.size = sizeof info};
        assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
        assert_string_equal(info.fallback, rows[i].fallback);
        gnf_plan_destroy(&plan);
    }
    close_linear(context);
}

/* Where none is meant for N, the first that is legal. */
static void beyond(void **state)
{
    const struct gnf_device device = {.name = "d", .capability = 90, .multiprocessors = 4};
    const struct gnf_terms terms = {.alignment = 16};
    struct gnf_kernel tail = {.role = GNF_ROLE_TAIL, .units_per_block = 1, .tile = 1, .cap = 1};
    struct gnf_kernel product = {.role = GNF_ROLE_PRODUCT, .units_per_block = 1, .tile = 1, .cap = 1};
    struct gnf_variant variants[] = {
        {.name = "a", .product = {.method = GNF_METHOD_OWN, .sums = 1, .least = 20, .samples_max = 30}},
        {.name = "b", .product = {.method = GNF_METHOD_OWN, .sums = 1, .least = 20, .inputs_max = 7}},
        {.name = "c", .product = {.method = GNF_METHOD_OWN, .sums = 1, .least = 60, .most = 70}},
    };
    struct gnf_problem problem;
    struct gnf_choice choice;
    (void)state;
    for (int i = 0; i < 3; i++) {
        variants[i].alignment = 4;
        variants[i].kernel_count = 2;
        variants[i].kernel[0] = product;
        variants[i].kernel[1] = tail;
    }
    static const struct {
        const char *text, *variant;
    } rows[] = {
        {"f32[30,7] | linear(8) | groupnorm(8)", "a"}, {"f32[31,7] | linear(8) | groupnorm(8)", "b"},
        {"f32[31,8] | linear(8) | groupnorm(8)", "c"}, {"f32[1,8] | linear(8) | groupnorm(8)", "a"},
        {"f32[71,8] | linear(8) | groupnorm(8)", "c"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gnf_problem_parse(rows[i].text, &problem), GNF_OK);
        expect(gnf_choice_default(&choice, NULL, variants, 3, &problem, &terms, &device), GNF_OK, NULL);
        assert_string_equal(choice.variant->name, rows[i].variant);
    }
}

/* What a block has to do is counted in a slab, like the blocks. */
static void blocks_of_a_slab(void **state)
{
    const struct gnf_device device = {.name = "d", .capability = 90, .multiprocessors = 12};
    const struct gnf_terms terms = {.alignment = 16};
    struct gnf_variant variants[] = {
        {.name = "five", .kernel = {{0}, {.units_per_block = 500}}},
        {.name = "many", .kernel = {{0}, {.units_per_block = 1}}},
    };
    static const struct {
        const char *text, *variant;
    } rows[] = {
        {"f32[100000,7] | linear(8) | groupnorm(8)", "five"},
        {"f32[100000,7] | linear(64) | groupnorm(8)", "many"}, /* 512 KiB of a slab for five blocks */
        {"f32[1500,7] | linear(8) | groupnorm(8)", "many"},    /* there are three */
    };
    struct gnf_problem problem;
    struct gnf_choice choice;
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct gnf_kernel *kernel = variants[i].kernel;
        variants[i].alignment = 4;
        variants[i].product = (struct gnf_product){.method = GNF_METHOD_OWN, .sums = 1};
        variants[i].kernel_count = 2;
        kernel[1].role = GNF_ROLE_TAIL;
        kernel[1].unit = GNF_UNIT_SAMPLE;
        kernel[1].tile = kernel[1].cap = 1;
        kernel[0] = kernel[1];
        kernel[0].role = GNF_ROLE_PRODUCT;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gnf_problem_parse(rows[i].text, &problem), GNF_OK);
        expect(gnf_choice_default(&choice, NULL, variants, 2, &problem, &terms, &device), GNF_OK, NULL);
        assert_string_equal(choice.variant->name, rows[i].variant);
    }
}

/* One form of prepared weight a problem and device: fp16x3's gives way where wgmma's kernels run. */
static void prepared_forms(void **state)
{
    static const struct {
        int capability;
        bool yields, named, no_exact;
        gnf_status status;
    } rows[] = {
        {90, true, false, false, GNF_NOT_SUPPORTED},
        {90, false, false, false, GNF_OK},
        {89, true, false, false, GNF_OK},
        {100, true, false, false, GNF_OK},
        {90, true, true, false, GNF_OK},
        {90, true, false, true, GNF_OK},
    };
    struct gnf_variant variant = {
        .name = "a",
        .alignment = 4,
        .capability = 80,
        .product = {.method = GNF_METHOD_FP16X3, .weights = GNF_WEIGHTS_PREPARED, .chunks = 1, .sums = 2},
    };
    struct gnf_problem problem;
    (void)state;
    assert_int_equal(gnf_problem_parse("f32[30,7] | linear(8) | groupnorm(8)", &problem), GNF_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct gnf_device device = {.name = "d", .capability = rows[i].capability};
        const struct gnf_terms terms = {
            .alignment = 16, .prepared = true, .named = rows[i].named, .no_exact = rows[i].no_exact};
        const struct gnf_choice choice = {.variant = &variant};
        variant.product.yields = rows[i].yields;
        expect(gnf_choice_check(&choice, &problem, &terms, &device), rows[i].status,
               rows[i].status == GNF_OK ? NULL : "the form of the wgmma variants");
    }
}

static void named(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan_options options = {.size = sizeof options};
    gnf_plan *plan;
    (void)state;
#define REFUSED(text, name, status, words)                                                                   \
    options.variant = name;                                                                                  \
    expect(gnf_plan_create(&plan, context, text, &options), status, words);                                  \
    assert_null(plan)
    REFUSED(linear_text, "fp16x3.s2.four", GNF_INVALID_ARGUMENT, "prepared = 1");
    REFUSED(linear_text, "dot.n1.four", GNF_NOT_SUPPORTED, "N up to 1: here it is 100");
    REFUSED(linear_text, "tf32.four", GNF_NOT_SUPPORTED, "tf32");
    /* packs that say one thing and mean another */
    REFUSED("f32[3,5] | linear(16) | groupnorm(2)", "strange", GNF_NOT_SUPPORTED,
            "another chain than one that starts with linear");
    REFUSED("f32[3,8] | groupnorm(8)", "strange.one", GNF_NOT_SUPPORTED,
            "another chain than one that starts with groupnorm");
#undef REFUSED
    close_linear(context);
}

/* ---- cuBLASLt ---- */

static void no_library(void **state)
{
    gnf_context *context = open_linear();
    (void)state;
    gnf_cublaslt_destroy(context->cublaslt, true);
    assert_int_equal(gnf_cublaslt_create(&context->cublaslt, "/nonexistent/libcublasLt.so", NULL), GNF_OK);
    for (int i = 0; i < 2; i++) {
        gnf_plan *plan = plan_at(context, linear_text, 0, i);
        takes(plan, "ffma.split");
        gnf_plan_destroy(&plan);
        assert_int_equal(warnings, 1); /* once a context */
    }
    gnf_plan_options options = {.size = sizeof options, .variant = "sgemm.one"};
    gnf_plan *plan;
    expect(gnf_plan_create(&plan, context, linear_text, &options), GNF_NO_CUBLAS, "needs cuBLASLt");
    assert_null(plan);
    close_linear(context);

    /* the named one is the first to find out */
    context = open_linear();
    gnf_cublaslt_destroy(context->cublaslt, true);
    assert_int_equal(gnf_cublaslt_create(&context->cublaslt, "/nonexistent/libcublasLt.so", NULL), GNF_OK);
    expect(gnf_plan_create(&plan, context, linear_text, &options), GNF_NO_CUBLAS,
           "/nonexistent/libcublasLt.so");
    assert_int_equal(compiles, 0);
    /* what needs none, and what has nothing to do, does not ask for it */
    plan = plan_at(context, "f32[1,300] | linear(64) | groupnorm(8) | add(r: full)", 0, 0);
    takes(plan, "dot.n1.four");
    gnf_plan_destroy(&plan);
    assert_int_equal(warnings, 0);
    close_linear(context);
    context = open_linear();
    plan = plan_at(context, "f32[1,300] | linear(64) | groupnorm(8) | add(r: full)", 0, 0);
    gnf_plan_destroy(&plan);
    plan = plan_at(context, "f32[0,300] | linear(64) | groupnorm(8) | add(r: full)", 0, 0);
    gnf_plan_destroy(&plan);
    assert_false(gnf_cublaslt_is_loaded(context->cublaslt));
    close_linear(context);
}

/* The library is there, and this product is beyond it. */
static void no_algorithm(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan_options options = {.size = sizeof options, .variant = "sgemm.four"};
    gnf_plan_info info = {.size = sizeof info};
    gnf_plan *plan;
    (void)state;
    stub->algorithms = 0;
    plan = plan_at(context, linear_text, 0, 0);
    takes(plan, "ffma.split");
    gnf_plan_destroy(&plan);
    assert_int_equal(warnings, 1);
    expect(gnf_plan_create(&plan, context, linear_text, &options), GNF_NO_CUBLAS, "no algorithm");
    /* unaligned operands only: then the fallback alone goes without */
    stub->algorithms = 1;
    stub->least_alignment = 8;
    plan = plan_for(context, linear_text, &options);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, "sgemm.four");
    assert_string_equal(info.fallback, "ffma.split");
    gnf_plan_destroy(&plan);
    assert_int_equal(stub->alive, 1); /* the handle */
    stub->fail_create = 0;
    close_linear(context);
}

static void capture(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan_options options = {.size = sizeof options, .stream = stream};
    gnf_plan *plan;
    (void)state;
    fake.capturing = 1;
    expect(gnf_plan_create(&plan, context, linear_text, &options), GNF_NOT_PREPARED,
           "cuBLASLt is not loaded");
    assert_int_equal(fake.calls + compiles + stub->created + stub->alive, 0);
    fake.capturing = 0;
    plan = plan_for(context, linear_text, &options);
    gnf_plan_destroy(&plan);
    fake.capturing = 1;
    options.samples = 90;
    plan = plan_for(context, linear_any, &options); /* all is there, another N is only descriptors */
    gnf_plan_destroy(&plan);
    options = (gnf_plan_options){.size = sizeof options, .stream = stream, .prepared = 1};
    expect(gnf_plan_create(&plan, context, linear_text, &options), GNF_NOT_PREPARED, "k_splitw");
    assert_int_equal(stub->alive, 1);
    close_linear(context);
}

/* ---- algorithms ---- */

static char recorded[GNF_RECORD_GEMM_SIZE];

/* Two algorithms that begin with these digits. */
static const char *gemm_text(const char *version, const char *first, const char *second)
{
    snprintf(recorded, sizeof recorded, "%s:%s%0126d,%s%0126d", version, first, 5, second, 6);
    return recorded;
}

static void record(gnf_context *context, const char *variant, int64_t samples, const char *gemm,
                   int multiprocessors)
{
    record_variant(context, linear_key, linear_text, variant, samples, gemm, multiprocessors);
}

/* First bytes of what a plan would run, of both products; 0 for none. */
static int taken(gnf_context *context, const char *variant, int64_t samples, unsigned alignment)
{
    const gnf_plan_options options = {.size = sizeof options,
                                      .variant = variant,
                                      .samples = samples,
                                      .prepared = 1,
                                      .alignment = alignment};
    unsigned first = 0, second = 0;
    char *text;
    gnf_plan *plan = plan_for(context, linear_any, &options);
    assert_int_equal(gnf_plan_gemm_text(plan, &text), GNF_OK);
    if (text && sscanf(text, "130101:%2x%*126[^,],%2x", &first, &second) < 1)
        fail_msg("%s", text);
    free(text);
    gnf_plan_destroy(&plan);
    return (int)(100 * second + first);
}

static void records(void **state)
{
    static const char name[] = "fp16x3.s2.four";
    gnf_context *context = open_linear();
    gnf_plan_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(taken(context, name, 100, 16), 101); /* the first heuristics */
    record(context, name, 100, gemm_text("130101", "04", "05"), 132);
    assert_int_equal(taken(context, name, 100, 16), 504);
    gnf_plan *plan = plan_at(context, linear_text, 0, 1); /* by the record itself */
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.match, "older source");
    char *text;
    assert_int_equal(gnf_plan_gemm_text(plan, &text), GNF_OK);
    assert_string_equal(text, recorded);
    free(text);
    gnf_plan_destroy(&plan);
    assert_int_equal(taken(context, name, 101, 16), 101);            /* slabs of another size */
    assert_int_equal(taken(context, "fp16x3.s2.one", 100, 16), 101); /* another variant */
    record(context, name, 3000, gemm_text("130101", "04", "05"), 132);
    assert_int_equal(taken(context, name, 30000, 16), 504); /* of slabs of the same size */
    assert_int_equal(taken(context, name, 2048, 16), 504);
    assert_int_equal(taken(context, name, 2500, 16), 101);
    record(context, name, 100, gemm_text("130101", "04", "05"), 131);
    assert_int_equal(taken(context, name, 100, 16), 101); /* another device */
    record(context, name, 100, gemm_text("130100", "04", "05"), 132);
    assert_int_equal(taken(context, name, 100, 16), 101); /* another cuBLASLt */
    record(context, name, 100, gemm_text("130101", "c8", "05"), 132);
    assert_int_equal(taken(context, name, 100, 16), 101); /* one that does not pass the check */
    record(context, name, 100, "130101:04", 132);
    assert_int_equal(taken(context, name, 100, 16), 101);
    gemm_text("130101", "04", "0x");
    record(context, name, 100, recorded, 132);
    assert_int_equal(taken(context, name, 100, 16), 101);
    gemm_text("130101", "04", "05")[0] ? strcat(recorded, "0") : NULL;
    record(context, name, 100, recorded, 132);
    assert_int_equal(taken(context, name, 100, 16), 101);
    /* operands that the caller aligns: the record is of aligned ones */
    *strchr(gemm_text("130101", "04", "05"), ',') = '\0';
    record(context, "sgemm.one", 100, recorded, 132);
    assert_int_equal(taken(context, "sgemm.one", 100, 16), 4);
    assert_int_equal(taken(context, "sgemm.one", 100, 4), 1);
    assert_int_equal(taken(context, "ffma.split", 100, 16), 0);
    forget_records(context);
    close_linear(context);
}

/* Whatever fails on the way, nothing is left; nor where a record names what cannot be compiled. */
static void failures(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan *plan;
    (void)state;
    for (int i = 1; i <= 13; i++) { /* three layouts a product, four products with the fallback */
        stub->fail_layout = i;
        gnf_plan_options options = {
            .size = sizeof options, .variant = "fp16x3.s2.each.four", .samples = 2600};
        gnf_status status = gnf_plan_create(&plan, context, linear_any, &options);
        assert_int_equal(status, i <= 12 ? GNF_NO_CUBLAS : GNF_OK);
        gnf_plan_destroy(&plan);
        assert_int_equal(stub->alive, 1);
    }
    stub->fail_layout = 0;
    gnf_plan_options options = {.size = sizeof options, .variant = "sgemm.four"};
    fake.refuse = 9; /* every image */
    expect(gnf_plan_create(&plan, context, linear_text, &options), GNF_DRIVER_ERROR, "k_tail1");
    assert_int_equal(stub->alive, 1);
    close_linear(context);
    clear_cache();
    context = open_linear();
    record(context, "fp16x3.s2.each.four", 100, NULL, 132);
    context->options.jit = false;
    expect(gnf_plan_create(&plan, context, linear_text, NULL), GNF_NOT_COMPILED, "k_tail4");
    assert_int_equal(warnings, 1);
    assert_int_equal(stub->alive, 1);
    close_linear(context);
}

static void measuring(void **state)
{
    gnf_context *context = open_linear();
    gnf_plan *plan = plan_at(context, linear_any, 5000, 1);
    char *text;
    (void)state;
    assert_int_equal(gnf_plan_gemms(plan), 2);
    assert_int_equal(gnf_plan_gemm_candidates(plan, 0), 3);
    gnf_plan_gemm_take(plan, 0, 1);
    gnf_plan_gemm_take(plan, 1, 2);
    assert_int_equal(gnf_plan_gemm_text(plan, &text), GNF_OK);
    assert_int_equal(strlen(text), 7 + 128 + 1 + 128);
    assert_memory_equal(text, "130101:0200", 11);
    assert_memory_equal(text + 7 + 128, ",0300", 5);
    assert_string_equal(text + 7 + 128 + 1 + 126, "10"); /* the alignment, in its last byte */
    free(text);
    /* only whole slabs */
    const gnf_arguments arguments = arguments_of(plan);
    expect(gnf_execute(plan, &arguments, stream), GNF_OK, NULL);
    for (int i = 0; i < 6; i++)
        assert_int_equal(stub->matmul[i].algorithm[0], i == 0 || i == 2 ? 2 : i == 1 || i == 3 ? 3 : 1);
    gnf_plan_destroy(&plan);
    const gnf_plan_options options = {.size = sizeof options, .variant = "ffma.split"};
    plan = plan_for(context, linear_text, &options);
    assert_int_equal(gnf_plan_gemms(plan), 0);
    assert_int_equal(gnf_plan_gemm_text(plan, &text), GNF_OK);
    assert_null(text);
    gnf_plan_destroy(&plan);
    close_linear(context);
}

static void listing(void **state)
{
    static const unsigned kernels[] = {2, 5, 5, 6, 2, 2, 2, 3};
    gnf_context *context = open_linear();
    gnf_variant_info info = {.size = sizeof info};
    (void)state;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(gnf_get_variant(context, linear_text, i, &info), GNF_OK);
        assert_int_equal(info.kernels, kernels[i]);
    }
    close_linear(context);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_samples),       cmocka_unit_test(fallback),       cmocka_unit_test(beyond),
        cmocka_unit_test(blocks_of_a_slab), cmocka_unit_test(prepared_forms), cmocka_unit_test(named),
        cmocka_unit_test(no_library),       cmocka_unit_test(no_algorithm),   cmocka_unit_test(failures),
        cmocka_unit_test(capture),          cmocka_unit_test(records),        cmocka_unit_test(measuring),
        cmocka_unit_test(listing),
    };
    if (!open_stub(count, arguments)) {
        fprintf(stderr, "usage: test_linear_choice NVRTC_STUB CUBLASLT_STUB\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
