/* Tuning databases: what loading makes of any file, and how long it and a lookup take. */
#define _GNU_SOURCE 1
#include "problem.h"
#include "tuned_fixture.h"
#include <time.h>

static int count_lines(const struct gnf_tuned *tuned)
{
    int count = 0;
    while (gnf_tuned_get(tuned, count))
        count++;
    return count;
}

static void warned(int count, const char *words)
{
    const char *last = fixture.seen.last[GNF_LOG_WARNING];
    if (fixture.seen.count[GNF_LOG_WARNING] != count || (count && !strstr(last, words)))
        fail_msg("%d warnings, wanted %d with \"%s\": %s", fixture.seen.count[GNF_LOG_WARNING], count, words,
                 last);
    assert_int_equal(fixture.seen.count[GNF_LOG_ERROR] + fixture.seen.count[GNF_LOG_INFO], 0);
}

static void reads_both(void **state)
{
    (void)state;
    RECORD(.variant = "a");
    RECORD(.variant = "b");
    char *shipped = tuned_text();
    RECORD(.variant = "c");
    tuned_put("\n \t\r\n");
    RECORD(.variant = "d");
    fixture.length--; /* no newline at the end */
    struct gnf_tuned *tuned = load(shipped, tuned_file("user.jsonl"));
    warned(0, "");
    assert_int_equal(count_lines(tuned), 4);
    assert_string_equal(gnf_tuned_get(tuned, 1)->record.variant, "b");
    assert_string_equal(gnf_tuned_get(tuned, 1)->file, "shipped");
    assert_int_equal(gnf_tuned_get(tuned, 1)->line, 2);
    assert_string_equal(gnf_tuned_get(tuned, 3)->record.variant, "d");
    assert_string_equal(gnf_tuned_get(tuned, 3)->file, scratch_path("user.jsonl"));
    assert_int_equal(gnf_tuned_get(tuned, 3)->line, 4);
    assert_null(gnf_tuned_get(tuned, -1));
    assert_true(gnf_tuned_has(tuned, fixture.problem.key));
    assert_false(gnf_tuned_has(tuned, "f32[*,64,1] | groupnorm(4)"));
    assert_ptr_equal(gnf_tuned_share(tuned), tuned);
    gnf_tuned_free(tuned);
    assert_int_equal(count_lines(tuned), 4);
    gnf_tuned_free(tuned);
    gnf_tuned_free(NULL);
    free(shipped);
}

static void not_there(void **state)
{
    static const char *const paths[] = {NULL, "", "/nonexistent/tuned.jsonl", "/dev/null/tuned.jsonl",
                                        "/dev/null"};
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct gnf_tuned *tuned = load(NULL, paths[i]);
        warned(0, "");
        assert_int_equal(count_lines(tuned), 0);
        assert_false(gnf_tuned_has(tuned, fixture.problem.key));
        chooses(tuned, "", GNF_MATCH_NONE);
    }
    assert_int_equal(gnf_tuned_choose(NULL, &fixture.query).index, -1);
}

static void damaged_lines(void **state)
{
    char words[700];
    (void)state;
    RECORD(.variant = "a");
    char *time = strstr(fixture.text, "\"time_us\":10");
    memcpy(time, "\"time_us\":-1", 12);
    RECORD(.variant = "b");
    struct gnf_tuned *tuned = load_user();
    snprintf(words, sizeof words,
             "tuning database %s: line 1: time_us is negative: allowed are 0 and more; passed over",
             scratch_path("tuned.jsonl"));
    warned(1, words);
    assert_int_equal(count_lines(tuned), 1);
    assert_int_equal(gnf_tuned_get(tuned, 0)->line, 2);
    chooses(tuned, "b", GNF_MATCH_EXACT);

    RECORD(.variant = "a");
    tuned_put("{\"format\":2,\"anything\":[1.5]}\n");
    RECORD(.variant = "b", .time_us = 9);
    chooses(load_user(), "b", GNF_MATCH_EXACT);
    warned(1, "line 2: format = 2 is newer than this library, which reads 1; passed over");

    /* a write that was cut short, alone and with a line appended later */
    RECORD(.variant = "a");
    RECORD(.variant = "b", .time_us = 9);
    fixture.length -= 30;
    chooses(load_user(), "a", GNF_MATCH_EXACT);
    warned(1, "line 2 has no end (a write was cut short): the line is no JSON");
    RECORD(.variant = "a");
    RECORD(.variant = "b", .time_us = 9);
    fixture.length -= 30;
    tuned_put("\n");
    RECORD(.variant = "c", .time_us = 8);
    chooses(load_user(), "c", GNF_MATCH_EXACT);
    warned(1, "line 2: the line is no JSON");

    /* each of two says its own */
    tuned_put("{}\n");
    RECORD(.variant = "a");
    tuned_put("{\"format\":1}\n");
    chooses(load_user(), "a", GNF_MATCH_EXACT);
    warned(2, "line 3: key is missing");

    /* many of them: a few are said, the rest is counted */
    RECORD(.variant = "a");
    for (int i = 0; i < 20; i++)
        tuned_put("{}\n");
    chooses(load_user(), "a", GNF_MATCH_EXACT);
    warned(9, "12 more lines passed over");
}

static void foreign_files(void **state)
{
    char block[1 << 15], *large = malloc(40 << 20);
    const char *path = scratch_path("foreign");
    (void)state;
    scratch_write(path, "", 0);
    gnf_tuned_free(load(NULL, path));
    warned(0, "");
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)(i * 7919 >> 3);
    scratch_write(path, block, sizeof block);
    chooses(load(NULL, path), "", GNF_MATCH_NONE);
    warned(1, "can be read, all are passed over; line 1: ");
    memset(large, 'x', 40 << 20);
    scratch_write(path, large, 40 << 20);
    gnf_tuned_free(load(NULL, path));
    warned(1, "line 1 has no end (a write was cut short): the line has more than 16384 bytes");
    /* a long line among good ones costs itself alone */
    RECORD(.variant = "a");
    memcpy(large, fixture.text, fixture.length);
    large[fixture.length + 100000] = '\n';
    memcpy(large + fixture.length + 100001, fixture.text, fixture.length);
    scratch_write(path, large, 2 * fixture.length + 100001);
    struct gnf_tuned *tuned = load(NULL, path);
    warned(1, "line 2: the line has more than 16384 bytes");
    assert_int_equal(count_lines(tuned), 2);
    assert_int_equal(gnf_tuned_get(tuned, 1)->line, 3);
    gnf_tuned_free(tuned);
    free(large);

    gnf_tuned_free(load(NULL, scratch_folder));
    warned(1, "cannot be read: it is a folder");
    path = scratch_path("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    gnf_tuned_free(load(NULL, path));
    warned(1, "cannot be read: it is not a regular file");
    if (geteuid() == 0)
        return; /* root reads everything */
    path = scratch_path("closed");
    scratch_write(path, "{}", 2);
    chmod(path, 0);
    gnf_tuned_free(load(NULL, path));
    warned(1, "cannot be read: Permission denied");
}

/* Of this process: the machine may be busy. */
static double now_us(void)
{
    return 1e6 * (double)clock() / CLOCKS_PER_SEC;
}

/* A plan asks: thousands of records must not be felt. */
static void fast(void **state)
{
    enum { KEYS = 500, BATCHES = 8, LOOKUPS = 1000 };
    char key[64];
    FILE *file = fopen(scratch_path("many.jsonl"), "w");
    (void)state;
    for (int k = 0; k < KEYS; k++)
        for (int n = 0; n < BATCHES; n++)
            for (int v = 0; v < 2; v++) {
                snprintf(key, sizeof key, "f32[*,64,1] | groupnorm(%d)", k == 250 ? 8 : k + 9);
                fixture.base.key = key;
                RECORD(.variant = v ? "a" : "b", .samples = 100 + 10 * n, .time_us = 10 + v);
                fwrite(fixture.text, 1, fixture.length, file);
                fixture.length = 0;
            }
    fclose(file);
    double begin = now_us();
    struct gnf_tuned *tuned = load(NULL, scratch_path("many.jsonl"));
    double loaded = now_us();
    assert_int_equal(count_lines(tuned), KEYS * BATCHES * 2);
    double from = now_us();
    for (int i = 0; i < LOOKUPS; i++)
        assert_int_equal(gnf_tuned_choose(tuned, &fixture.query).index, 1);
    double each = (now_us() - from) / LOOKUPS;
    print_message("%d records: %.0f us to load, %.2f us a lookup\n", KEYS * BATCHES * 2, loaded - begin,
                  each);
    assert_true(each < 500); /* some 3; sanitizers and busy machines allowed for */
    gnf_tuned_free(tuned);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, tuned_setup, tuned_teardown)
    const struct CMUnitTest tests[] = {
        TEST(reads_both), TEST(not_there), TEST(damaged_lines), TEST(foreign_files), TEST(fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
