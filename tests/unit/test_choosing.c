/* What a plan takes of what the tuning databases say: legal variants only, on this device, with this
 * compiler, and how it names its reason. Arguments: a stub of NVRTC. */
#define _GNU_SOURCE 1 /* nftw, mkdtemp */
#include "plan_fixture.h"
#include <pthread.h>

static const char *stub;
static const char key[] = "f32[*,64,100] | groupnorm(8) | relu";
static char database[300];

/* One line for a variant of that key: its present source, complete, at this N and time. `edit` (may be NULL)
 * changes it. */
static void add(gnf_context *context, const char *variant, int64_t samples, double time_us,
                void (*edit)(struct gnf_record *record))
{
    struct gnf_record record = {
        .key = (char *)key,
        .problem = (char *)text,
        .samples = samples,
        .variant = (char *)variant,
        .source = "00000000000000000000000000000000",
        .nvrtc = 12040,
        .complete = true,
        .time_us = time_us,
        .timings = 9,
        .date = "2026-11-29T18:03:11Z",
    };
    int count;
    const struct gnf_variant *variants = gnf_pack_find(gnf_context_pack(context, 0), key, &count);
    for (int i = 0; i < count; i++)
        if (!strcmp(variants[i].name, variant))
            assert_int_equal(gnf_pack_source_hash(gnf_context_pack(context, 0), &variants[i], record.source),
                             GNF_OK);
    gnf_record_device_of(&context->device, false, &record.device);
    if (edit)
        edit(&record);
    char *line;
    assert_int_equal(gnf_record_write(&record, &line), GNF_OK);
    FILE *file = fopen(database, "a");
    assert_non_null(file);
    fputs(line, file);
    fclose(file);
    free(line);
}

/* Reads the lines so far, and removes them. */
static void take(gnf_context *context)
{
    free(context->options.db);
    context->options.db = strdup(database);
    assert_int_equal(gnf_context_reload_tuned(context), GNF_OK);
    unlink(database);
}

static gnf_context *open_here(void)
{
    snprintf(database, sizeof database, "%s.jsonl", folder);
    clear_cache();
    gnf_context *context = open_context("/nonexistent/libnvrtc.so", true);
    context->device.memory = 1 << 30;
    context->device.l2_bytes = 1 << 20;
    return context;
}

static void takes(gnf_context *context, int64_t samples, unsigned alignment, const char *variant,
                  const char *match)
{
    struct gnf_problem problem;
    struct gnf_choice choice;
    const struct gnf_choice_request request = {
        .context = context, .problem = &problem, .alignment = alignment};
    assert_int_equal(gnf_problem_parse("f32[*,64,10,10] | groupnorm(8) | relu", &problem), GNF_OK);
    assert_int_equal(gnf_problem_set_samples(&problem, samples), GNF_OK);
    expect(gnf_choice_make(&request, &choice), GNF_OK, NULL);
    if (strcmp(choice.variant->name, variant) || strcmp(choice.match, match))
        fail_msg("N = %d, alignment %u: %s (%s), wanted %s (%s)", (int)samples, alignment,
                 choice.variant->name, choice.match, variant, match);
    assert_true(choice.launch[0].grid > 0);
    assert_true((choice.recorded_us > 0) == (strcmp(match, "default") && strcmp(match, "generic")));
}

static void by_records(void **state)
{
    gnf_context *context = open_here();
    (void)state;
    takes(context, 1000, 16, "four.v4", "default");
    add(context, "four.v4", 1000, 9, NULL);
    add(context, "split.v4", 1000, 7, NULL);
    add(context, "one.v1", 1000, 8, NULL);
    take(context);
    takes(context, 1000, 16, "split.v4", "exact");
    takes(context, 1000, 4, "one.v1", "exact"); /* the others need pointers aligned to 16 bytes */
    takes(context, 8000, 16, "split.v4", "other batch");
    takes(context, 8001, 16, "four.v4", "default");
    takes(context, 125, 16, "split.v4", "other batch");
    takes(context, 124, 16, "four.v4", "default");
    /* the default rule's wins a tie, even with a simpler one */
    takes(context, 21, 16, "one.v1", "default");
    add(context, "one.v1", 21, 7.02, NULL);
    add(context, "four.v4", 21, 7, NULL);
    take(context);
    takes(context, 21, 16, "one.v1", "exact");
    /* a generic variant can win too, and where there is only that the record still says why */
    add(context, "four.v4", 1000, 9, NULL);
    add(context, "generic", 1000, 7, NULL);
    take(context);
    takes(context, 1000, 16, "generic", "older source");
    assert_int_equal(warnings, 0);
    gnf_context_destroy(&context);
}

/* What the device cannot hold, whatever its record says. */
static void illegal(void **state)
{
    static const char *const variants[] = {"newer", "large", "small", "gone"};
    gnf_context *context = open_here();
    (void)state;
    for (int i = 0; i < 4; i++) {
        add(context, variants[i], 1000, 1, NULL);
        take(context);
        takes(context, 1000, 16, "four.v4", "default");
    }
    for (int i = 0; i < 4; i++)
        add(context, variants[i], 1000, 1, NULL);
    add(context, "one.v1", 1000, 5, NULL);
    take(context);
    takes(context, 1000, 16, "one.v1", "exact");
    gnf_context_destroy(&context);
}

static void other_gpu(struct gnf_record *record)
{
    record->device.multiprocessors = 114;
    strcpy(record->device.gpu, "another");
}
static void other_capability(struct gnf_record *record)
{
    record->device.capability = 80;
}
static void simulated(struct gnf_record *record)
{
    record->device.simulated = true;
}
static void older(struct gnf_record *record)
{
    strcpy(record->source, "00000000000000000000000000000000");
}

static void devices(void **state)
{
    gnf_context *context = open_here();
    (void)state;
    add(context, "one.v1", 1000, 1, other_gpu);
    take(context);
    takes(context, 1000, 16, "one.v1", "other gpu");
    add(context, "one.v1", 1000, 1, other_capability);
    take(context);
    takes(context, 1000, 16, "four.v4", "default");
    add(context, "one.v1", 1000, 1, older);
    take(context);
    takes(context, 1000, 16, "one.v1", "older source");
    /* a simulated device's records are for simulated devices alone, and no other's for them */
    add(context, "one.v1", 1000, 1, simulated);
    add(context, "split.v4", 1000, 5, NULL);
    take(context);
    takes(context, 1000, 16, "split.v4", "exact");
    context->driver.simulated = true;
    takes(context, 1000, 16, "one.v1", "exact");
    gnf_context_destroy(&context);
}

/* Its version comes from a record in the cache, or NVRTC is loaded; never while a stream is captured. */
static void compiler(void **state)
{
    gnf_context *context = open_here();
    (void)state;
    add(context, "one.v1", 1000, 1, NULL);
    take(context);
    assert_int_equal(gnf_context_nvrtc(context, NULL), 0);
    takes(context, 1000, 16, "one.v1", "exact"); /* not known: does not count */
    struct gnf_tuned *tuned = gnf_context_tuned(context);
    gnf_context_destroy(&context);

    setenv("STUB_NVRTC_ARCHS", "90", 1);
    setenv("STUB_NVRTC_VERSION", "12040", 1);
    context = open_context(stub, true);
    fake.capturing = 1;
    assert_int_equal(gnf_context_nvrtc(context, stream), 0);
    assert_false(context->target_known);
    fake.capturing = 0;
    assert_int_equal(gnf_context_nvrtc(context, stream), 12040);
    assert_true(context->target_known);
    gnf_context_destroy(&context);

    setenv("STUB_NVRTC_VERSION", "13000", 1);
    context = open_context(stub, false);
    assert_int_equal(gnf_context_nvrtc(context, NULL), 12040); /* recorded, and NVRTC must not be asked */
    assert_false(context->target_known);
    gnf_context_destroy(&context);

    clear_cache();
    context = open_context(stub, true);
    context->device.memory = 1 << 30;
    context->device.l2_bytes = 1 << 20;
    context->tuned = tuned;
    takes(context, 1000, 16, "one.v1", "older source");
    gnf_context_destroy(&context);
    unsetenv("STUB_NVRTC_ARCHS");
    unsetenv("STUB_NVRTC_VERSION");
}

static void tell(void *user, const struct gnf_tuned_line *line, const char *why)
{
    snprintf(user, 512, "%s: %s", line->record.variant, why);
}

static void explained(void **state)
{
    struct gnf_problem problem;
    struct gnf_choice choice;
    char said[512];
    gnf_context *context = open_here();
    const struct gnf_choice_request request = {
        .context = context, .problem = &problem, .alignment = 4, .explain = tell, .explain_user = said};
    (void)state;
    assert_int_equal(gnf_problem_parse(text, &problem), GNF_OK);
    add(context, "split.v4", 1000, 1, NULL);
    take(context);
    assert_int_equal(gnf_choice_make(&request, &choice), GNF_OK);
    assert_string_equal(choice.variant->name, "one.v1");
    assert_string_equal(said, "split.v4: not usable here: variant 'split.v4' needs pointers aligned to 16 "
                              "bytes: the plan's alignment "
                              "is 4");
    gnf_context_destroy(&context);
}

static void plans(void **state)
{
    gnf_plan_info info = {.size = sizeof info};
    gnf_plan_options options = {.size = sizeof options, .variant = "four.v4"};
    (void)state;
    OPEN_OR_SKIP(context)
    snprintf(database, sizeof database, "%s.jsonl", folder);
    context->device.memory = 1 << 30;
    add(context, "four.v4", 1000, 9, NULL);
    add(context, "split.v4", 1000, 7.25, NULL);
    add(context, "one.v1", 1000, 8, NULL);
    take(context);
    gnf_plan *plan = plan_for(context, text, NULL);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, "split.v4");
    assert_string_equal(info.fallback, "one.v1");
    assert_true(info.recorded_us == 7.25);
    assert_true(!strcmp(info.match, "exact") ||
                !strcmp(info.match, "older source")); /* this machine's NVRTC */
    gnf_plan_destroy(&plan);
    /* a name wins over every record */
    plan = plan_for(context, text, &options);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.variant, "four.v4");
    assert_string_equal(info.match, "named");
    assert_true(info.recorded_us == 0);
    gnf_plan_destroy(&plan);
    /* nothing launched, nothing known */
    plan = plan_for(context, "f32[0,64,100] | groupnorm(8) | relu", NULL);
    assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
    assert_string_equal(info.match, "default");
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

/* Records decide only speed: what they name and cannot be had gives way to the default rule's. */
static void out_of_reach(void **state)
{
    /* clang-format off */
    static const char with_broken[] = MANIFEST(
        ENTRY("f32[*,64,100] | groupnorm(8) | relu", "false",
            VARIANT("good.v4", 16, 70, 0, 0, KERNEL("k_a", "0", 32, 0, "group", 1, "none", 1, 1)) ","
            VARIANT("good", 4, 70, 0, 0, KERNEL("k_b", "1", 32, 0, "group", 1, "none", 1, 1)) ","
            VARIANT("broken.v4", 16, 70, 0, 0, KERNEL("k_c", "2", 32, 0, "group", 1, "none", 1, 1)) ","
            VARIANT("broken", 4, 70, 0, 0, KERNEL("k_c", "2", 32, 0, "group", 1, "none", 1, 1))));
    /* clang-format on */
    static const char *const named[] = {"good.v4", "good", "broken.v4"};
    gnf_plan_info info = {.size = sizeof info};
    gnf_plan_options options = {.size = sizeof options};
    (void)state;
    OPEN_OR_SKIP(context)
    load_manifest(context, with_broken);
    snprintf(database, sizeof database, "%s.jsonl", folder);
    context->device.memory = 1 << 30;
    for (int i = 0; i < 2; i++) { /* NVRTC refuses it, or nothing may be compiled */
        add(context, "broken.v4", 1000, 7, NULL);
        add(context, "broken", 1000, 8, NULL);
        take(context);
        gnf_plan *plan = plan_for(context, text, NULL);
        assert_int_equal(gnf_plan_get_info(plan, &info), GNF_OK);
        assert_string_equal(info.variant, "good.v4");
        assert_string_equal(info.fallback, "good");
        assert_string_equal(info.match, "default");
        assert_true(info.recorded_us == 0);
        assert_int_equal(warnings, i + 1);
        gnf_plan_destroy(&plan);
        context->options.jit = false;
    }
    /* nor may they stand in the way of the one that is named; which is an error if it cannot be had itself */
    for (int i = 0; i < 3; i++) {
        gnf_plan *plan;
        options.variant = named[i];
        gnf_status status = gnf_plan_create(&plan, context, text, &options);
        assert_int_equal(status, i < 2 ? GNF_OK : GNF_NOT_COMPILED);
        gnf_plan_destroy(&plan);
    }
    gnf_context_destroy(&context);
}

static void *choose_often(void *user)
{
    for (int i = 0; i < 2000; i++)
        takes(user, 1000, 16, "split.v4", "exact");
    return NULL;
}

/* Tuning ends while other threads plan. */
static void reload(void **state)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    gnf_context *context = open_here();
    (void)state;
    add(context, "split.v4", 1000, 7, NULL);
    free(context->options.db);
    context->options.db = strdup(database);
    assert_int_equal(gnf_context_reload_tuned(context), GNF_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, choose_often, context), 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(gnf_context_reload_tuned(context), GNF_OK);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    unlink(database);
    assert_int_equal(gnf_context_reload_tuned(context), GNF_OK);
    takes(context, 1000, 16, "four.v4", "default");
    gnf_context_destroy(&context);
}

/* Meets the damaged line, and waits until the other reload is through, or is seen to wait for this one. */
static atomic_int reloads_begun, other_is_through;
static void linger(void *user, gnf_log_level level, const char *line)
{
    (void)user, (void)level, (void)line;
    if (atomic_fetch_add(&reloads_begun, 1) == 0)
        for (int i = 0; i < 50 && !other_is_through; i++)
            usleep(10000);
}

static void *reload_once(void *context)
{
    return gnf_context_reload_tuned(context) == GNF_OK ? context : NULL;
}

/* Two tunings end at once: what the later one read stays. */
static void reload_by_two(void **state)
{
    pthread_t thread;
    void *done;
    gnf_context *context = open_here();
    (void)state;
    context->options.db = strdup(database);
    context->options.log = (struct gnf_log){linger, NULL, GNF_LOG_WARNING};
    FILE *file = fopen(database, "w");
    assert_non_null(file);
    fputs("damaged\n", file);
    fclose(file);
    assert_int_equal(pthread_create(&thread, NULL, reload_once, context), 0);
    while (!reloads_begun)
        usleep(1000);
    add(context, "split.v4", 1000, 7, NULL);
    assert_non_null(reload_once(context));
    other_is_through = 1;
    pthread_join(thread, &done);
    assert_ptr_equal(done, context);
    takes(context, 1000, 16, "split.v4", "exact");
    unlink(database);
    gnf_context_destroy(&context);
}

static void variants(void **state)
{
    static const char *const names[] = {"four.v4", "one.v1", "split.v4", "newer",
                                        "large",   "small",  "generic"};
    gnf_context *context = open_here();
    gnf_variant_info info = {.size = sizeof info};
    (void)state;
    for (int i = 0; i < 7; i++) {
        assert_int_equal(gnf_get_variant(context, "f32[*,64,10,10] | groupnorm(8) | relu", i, &info), GNF_OK);
        assert_string_equal(info.name, names[i]);
    }
    expect(gnf_get_variant(context, text, 7, &info), GNF_INVALID_ARGUMENT, "i = 7: allowed are 0 to 6");
    expect(gnf_get_variant(context, text, -1, &info), GNF_INVALID_ARGUMENT, "i = -1");
    assert_int_equal(gnf_get_variant(context, text, 2, &info), GNF_OK);
    assert_string_equal(info.strategy, "s");
    assert_string_equal(info.parameters, "");
    assert_int_equal(info.alignment, 16);
    assert_int_equal(info.capability, 70);
    assert_int_equal(info.kernels, 2);
    assert_int_equal(info.shared_bytes, 16);
    assert_int_equal(info.size, sizeof info);
    expect(gnf_get_variant(NULL, text, 0, &info), GNF_INVALID_ARGUMENT, "context");
    expect(gnf_get_variant(context, NULL, 0, &info), GNF_INVALID_ARGUMENT, "problem");
    expect(gnf_get_variant(context, text, 0, NULL), GNF_INVALID_ARGUMENT, "info is null");
    expect(gnf_get_variant(context, "f32[2,4] | softmaks", 0, &info), GNF_INVALID_PROBLEM, "softmaks");
    expect(gnf_get_variant(context, "f32[2,6] | groupnorm(2) | mish", 0, &info), GNF_NO_KERNEL, "gnfuse-gen");
    info.size = 3;
    expect(gnf_get_variant(context, text, 0, &info), GNF_INVALID_ARGUMENT,
           "info.size = 3: allowed is sizeof(gnf_variant_info)");
    info = (gnf_variant_info){.size = offsetof(gnf_variant_info, alignment), .alignment = 77};
    assert_int_equal(gnf_get_variant(context, text, 0, &info), GNF_OK);
    assert_string_equal(info.name, "four.v4");
    assert_int_equal(info.alignment, 77);
    gnf_context_destroy(&context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_records),    cmocka_unit_test(illegal),   cmocka_unit_test(devices),
        cmocka_unit_test(compiler),      cmocka_unit_test(explained), cmocka_unit_test(plans),
        cmocka_unit_test(reload),        cmocka_unit_test(variants),  cmocka_unit_test(out_of_reach),
        cmocka_unit_test(reload_by_two),
    };
    if (argc != 2)
        return 2;
    stub = argv[1];
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
