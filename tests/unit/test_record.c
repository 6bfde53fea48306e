/* A tuning record's line: what a good one gives, that every field is checked by its name, and that no garbage
 * does more than a message. */
#define _GNU_SOURCE 1
#include "record.h"
#include "scratch.h"
#include <locale.h>
#include <math.h>

static const char good[] =
    "{\"format\":1,\"key\":\"f32[*,8192] | groupnorm(16) | hardtanh\",\"problem\":\"f32[1024,8192] | "
    "groupnorm(16) | "
    "hardtanh(-2, 2)\",\"samples\":1024,\"variant\":\"block.t256.v4.i4\",\"source\":"
    "\"0123456789abcdef0123456789abcdef\",\"gpu\":\"NVIDIA H200\",\"capability\":90,\"multiprocessors\":132,"
    "\"memory\":150754820096,\"l2_bytes\":62914560,\"nvrtc\":12080,\"status\":\"slow\",\"complete\":true,"
    "\"default\":"
    "false,\"time_us\":12.5,\"spread_us\":0.25,\"timings\":40,\"max_error\":1.5e-6,\"clock_mhz\":1980,"
    "\"date\":"
    "\"2026-11-29T18:03:11Z\",\"error\":\"dropped\"}\n";

static struct gnf_record read_good(const char *line)
{
    struct gnf_record record;
    if (gnf_record_read(&record, line, strlen(line)) != GNF_OK)
        fail_msg("%s: %s", gnf_error_message(), line);
    return record;
}

static void fields(void **state)
{
    struct gnf_record record = read_good(good);
    (void)state;
    assert_string_equal(record.key, "f32[*,8192] | groupnorm(16) | hardtanh");
    assert_string_equal(record.problem, "f32[1024,8192] | groupnorm(16) | hardtanh(-2, 2)");
    assert_int_equal(record.samples, 1024);
    assert_string_equal(record.variant, "block.t256.v4.i4");
    assert_string_equal(record.source, "0123456789abcdef0123456789abcdef");
    assert_string_equal(record.device.gpu, "NVIDIA H200");
    assert_int_equal(record.device.capability, 90);
    assert_int_equal(record.device.multiprocessors, 132);
    assert_true(record.device.memory == INT64_C(150754820096));
    assert_int_equal(record.device.l2_bytes, 62914560);
    assert_false(record.device.simulated);
    assert_int_equal(record.nvrtc, 12080);
    assert_int_equal(record.status, GNF_RECORD_SLOW);
    assert_true(record.complete);
    assert_false(record.is_default);
    assert_true(record.time_us == 12.5 && record.spread_us == 0.25);
    assert_int_equal(record.timings, 40);
    assert_true((float)record.max_error == 1.5e-6f);
    assert_int_equal(record.clock_mhz, 1980);
    assert_string_equal(record.date, "2026-11-29T18:03:11Z");
    assert_string_equal(record.error, "dropped");
    gnf_record_free(&record);
    assert_null(record.key);
}

static void writes_what_it_reads(void **state)
{
    static const char *const times[] = {"0", "1", "12.5", "0.1", "6.1e-05", "33333.332", "3e+37"};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char line[2048], *written, *again;
        const char *at = strstr(good, "12.5");
        snprintf(line, sizeof line, "%.*s%s%s", (int)(at - good), good, times[i], at + 4);
        struct gnf_record record = read_good(line);
        assert_int_equal(gnf_record_write(&record, &written), GNF_OK);
        if (strlen(times[i]) < 5)
            assert_string_equal(written + strlen(written) - 60, line + strlen(line) - 60);
        struct gnf_record back = read_good(written);
        assert_true(back.time_us == record.time_us);
        assert_int_equal(gnf_record_write(&back, &again), GNF_OK);
        assert_string_equal(written, again);
        assert_true(gnf_record_same(&record, &back));
        gnf_record_free(&record);
        gnf_record_free(&back);
        free(written);
        free(again);
    }
}

/* Most records have none; what it says is looked at where it is used. */
static void algorithms(void **state)
{
    char line[2048], wide[400], *written;
    const char *at = strstr(good, "\"date\"");
    struct gnf_record record = read_good(good), back;
    (void)state;
    assert_null(record.gemm);
    record.gemm = strdup("130101:00ff,0102");
    assert_int_equal(gnf_record_write(&record, &written), GNF_OK);
    scratch_assert_contains(written, "\"clock_mhz\":1980,\"gemm\":\"130101:00ff,0102\",\"date\":");
    back = read_good(written);
    assert_string_equal(back.gemm, record.gemm);
    free(written);
    gnf_record_free(&record);
    gnf_record_free(&back);
    snprintf(line, sizeof line, "%.*s\"gemm\":7,%s", (int)(at - good), good, at);
    assert_int_equal(gnf_record_read(&record, line, strlen(line)), GNF_INVALID_ARGUMENT);
    assert_string_equal(gnf_error_message(), "gemm is of another type: allowed is a string");
    memset(wide, 'a', sizeof wide);
    for (int length = GNF_RECORD_GEMM_SIZE - 1; length <= GNF_RECORD_GEMM_SIZE; length++) {
        snprintf(line, sizeof line, "%.*s\"gemm\":\"%.*s\",%s", (int)(at - good), good, length, wide, at);
        gnf_status status = gnf_record_read(&record, line, strlen(line));
        assert_int_equal(status, length < GNF_RECORD_GEMM_SIZE ? GNF_OK : GNF_INVALID_ARGUMENT);
        gnf_record_free(&record);
    }
}

/* Whatever a message or a device's name holds, the line can be read again. */
static void hard_texts(void **state)
{
    struct gnf_record record = read_good(good);
    char error[9000], gpu[] = "\x01\"\\\n\xff G\xc3\xa4 \xed\xa0\x80 \xef\xbf\xbf \xf0\x9f\x98\x80\x7f",
                      *line;
    (void)state;
    memset(error, 'e', sizeof error);
    memcpy(error, gpu, strlen(gpu));
    for (size_t i = 100; i + 8 < sizeof error; i += 3)
        memcpy(error + i, "\xe2\x82\xac", 3);
    error[sizeof error - 1] = '\0';
    memcpy(record.device.gpu, gpu, sizeof gpu);
    free(record.error);
    record.error = error;
    record.time_us = -1;
    record.spread_us = INFINITY;
    record.max_error = NAN;
    record.status = GNF_RECORD_FAILED;
    record.device.simulated = true;
    assert_int_equal(gnf_record_write(&record, &line), GNF_OK);
    record.error = NULL;
    assert_true(strlen(line) < GNF_RECORD_LINE_MAX);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    struct gnf_record back = read_good(line);
    assert_string_equal(back.device.gpu, " \"\\ ? G\xc3\xa4 ??? ??? \xf0\x9f\x98\x80 ");
    assert_true(strlen(back.error) > 1990 && strlen(back.error) <= 2000);
    assert_true(back.time_us == 0 && back.spread_us == 0 && isnan(back.max_error));
    assert_true(back.device.simulated);
    assert_int_equal(back.status, GNF_RECORD_FAILED);
    free(line);

    back.time_us = 1e300;
    back.spread_us = NAN;
    back.max_error = INFINITY;
    free(back.error);
    back.error = NULL;
    assert_int_equal(gnf_record_write(&back, &line), GNF_OK);
    assert_null(strstr(line, "\"error\""));
    gnf_record_free(&back);
    back = read_good(line);
    assert_true(back.time_us == 0 && isnan(back.max_error));
    assert_null(back.error);
    free(line);
    gnf_record_free(&back);
    gnf_record_free(&record);
}

/* The line with the first `old` replaced is refused, with a message that has `words`. */
static void refused(const char *old, const char *new, gnf_status wanted, const char *words)
{
    struct gnf_record record;
    char line[4096];
    const char *at = strstr(good, old);
    assert_non_null(at);
    int length = snprintf(line, sizeof line, "%.*s%s%s", (int)(at - good), good, new, at + strlen(old));
    gnf_status status = gnf_record_read(&record, line, (size_t)length);
    if (status != wanted || !strstr(gnf_error_message(), words) || strchr(gnf_error_message(), '\n'))
        fail_msg("%s -> %s: %s, wanted \"%s\": %s", old, new, gnf_status_name(status), words,
                 gnf_error_message());
    assert_null(record.key);
}

static void bad_fields(void **state)
{
    static const char *const names[] = {"format",   "key",       "problem",    "samples",         "variant",
                                        "source",   "gpu",       "capability", "multiprocessors", "memory",
                                        "l2_bytes", "nvrtc",     "status",     "complete",        "default",
                                        "time_us",  "spread_us", "timings",    "max_error",       "clock_mhz",
                                        "date"};
    static const struct {
        const char *old, *new, *words;
    } rows[] = {
        {"\"format\":1", "\"format\":0", "format = 0: allowed are 1"},
        {"\"format\":1", "\"format\":\"1\"", "format is of another type: allowed is a whole number"},
        {"\"format\":1", "\"format\":1.0", "format is of another type"},
        {"\"key\":\"f32", "\"key\":\"\\u00e4", "key holds byte 195: allowed are printable ASCII"},
        {"\"key\":\"f32[*,8192] | groupnorm(16) | hardtanh\"", "\"key\":\"\"",
         "key has 0 bytes: allowed are 1 to"},
        {"\"key\":\"f32[*,8192] | groupnorm(16) | hardtanh\"", "\"key\":7",
         "key is of another type: allowed is a string"},
        {"\"key\":\"f32[*,8192] | groupnorm(16) | hardtanh\"", "\"key\":7.5", "key is of another type"},
        {"\"samples\":1024", "\"samples\":0", "samples = 0: allowed are 1 to"},
        {"\"samples\":1024", "\"samples\":1024.5", "samples is of another type"},
        {"\"samples\":1024", "\"samples\":99999999999999999999", "JSON"},
        {"\"source\":\"0", "\"source\":\"", "source = '123456789abcdef0123456789abcdef': allowed are 32 hex"},
        {"\"source\":\"0", "\"source\":\"A", "source = 'A123"},
        {"\"gpu\":\"NVIDIA", "\"gpu\":\"\\n", "gpu holds byte 10: allowed are printable characters"},
        {"\"capability\":90", "\"capability\":9", "capability = 9: allowed are 10 to 9999"},
        {"\"multiprocessors\":132", "\"multiprocessors\":-132", "multiprocessors = -132"},
        {"\"memory\":1", "\"memory\":-1", "memory = -1"},
        {"\"l2_bytes\":6", "\"l2_bytes\":-6", "l2_bytes = -6"},
        {"\"l2_bytes\":6", "\"simulated\":1,\"l2_bytes\":6",
         "simulated is of another type: allowed is true or false"},
        {"\"nvrtc\":12080", "\"nvrtc\":-1", "nvrtc = -1"},
        {"\"status\":\"slow\"", "\"status\":\"fast\"", "status = 'fast': allowed are ok, slow"},
        {"\"complete\":true", "\"complete\":1", "complete is of another type"},
        {"\"time_us\":12.5", "\"time_us\":\"12.5\"", "time_us is of another type: allowed is a number"},
        {"\"time_us\":12.5", "\"time_us\":-12.5", "time_us is negative"},
        {"\"time_us\":12.5", "\"time_us\":-1", "time_us is negative"},
        {"\"time_us\":12.5", "\"time_us\":1e39", "time_us = 1e39: allowed are numbers up to"},
        {"\"time_us\":12.5", "\"time_us\":NaN", "JSON"},
        {"\"time_us\":12.5", "\"time_us\":1.2.5", "time_us = 1.2.5"},
        {"\"time_us\":12.5",
         "\"time_us\":\"\xef\xbf\xbf"
         "12.5\"",
         "U+FFFF"},
        {"\"time_us\":12.5", "\"time_us\":\"\\uFffF12.5\"", "U+FFFF"},
        {"\"timings\":40", "\"timings\":-1", "timings = -1"},
        {"\"date\":\"2026", "\"date\":\"26", "date = '26-11-29T18:03:11Z': allowed is the form"},
        {"\"date\":\"2026", "\"date\":\"202x", "date = '202x"},
        {"\"error\":\"dropped\"", "\"error\":null", "error is of another type"},
        {"\"samples\":", "\"samples\":1,\"samples\":", "JSON"},
        {"{\"format\"", "[{\"format\"", "JSON"},
        {good, "[1,2]", "no JSON object"},
        {good, "7", "JSON"},
        {good, "", "JSON"},
        {good, "hello", "JSON"},
        {good, "{\"a\":\"\xff\"}", "JSON"},
        {"\"dropped\"}", "\"dropped\"} x", "JSON"},
        {"\"dropped\"}", "\"dropped\"", "JSON"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].old, rows[i].new, GNF_INVALID_ARGUMENT, rows[i].words);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char old[32], new[32], words[64];
        snprintf(old, sizeof old, "\"%s\"", names[i]);
        snprintf(new, sizeof new, "\"%sx\"", names[i]);
        snprintf(words, sizeof words, "%s is missing: allowed is", names[i]);
        refused(old, new, GNF_INVALID_ARGUMENT, words);
    }
    refused("\"format\":1,\"key\"", "\"format\":2,\"schluessel\"", GNF_NOT_SUPPORTED,
            "format = 2 is newer than this library, which reads 1");
}

static void unknown_fields(void **state)
{
    char line[4096];
    (void)state;
    snprintf(line, sizeof line, " {\"new\":[1.5,{\"a\":\"x 2.5 \\\" 1e5\"}],\"e\":-2.5e-3,\"n\":null,%s",
             good + 1);
    struct gnf_record record = read_good(line);
    assert_true(record.time_us == 12.5);
    gnf_record_free(&record);
}

static void long_line(void **state)
{
    struct gnf_record record;
    char *line = malloc(1 << 20);
    (void)state;
    memset(line, ' ', 1 << 20);
    memcpy(line, good, strlen(good));
    assert_int_equal(gnf_record_read(&record, line, GNF_RECORD_LINE_MAX), GNF_OK);
    gnf_record_free(&record);
    assert_int_equal(gnf_record_read(&record, line, GNF_RECORD_LINE_MAX + 1), GNF_INVALID_ARGUMENT);
    scratch_assert_contains(gnf_error_message(), "the line has more than 16384 bytes");
    /* the worst that the marking of numbers can meet */
    for (int i = 0; i < GNF_RECORD_LINE_MAX; i++)
        line[i] = "1.,"[i % 3];
    assert_int_equal(gnf_record_read(&record, line, GNF_RECORD_LINE_MAX), GNF_INVALID_ARGUMENT);
    free(line);
}

/* Cut anywhere, or with any byte changed: an answer, and nothing to free after a failure. */
static void damage(void **state)
{
    struct gnf_record record;
    char line[sizeof good];
    (void)state;
    for (size_t length = 0; length + 2 < sizeof good; length++) {
        char *cut = malloc(length + 1); /* so that a byte too far shows */
        memcpy(cut, good, length);
        assert_int_equal(gnf_record_read(&record, cut, length), GNF_INVALID_ARGUMENT);
        free(cut);
    }
    for (size_t i = 0; i + 1 < sizeof good; i++)
        for (int c = 0; c < 256; c += i % 7 + 1) {
            memcpy(line, good, sizeof good);
            line[i] = (char)c;
            if (gnf_record_read(&record, line, sizeof good - 1) == GNF_OK)
                gnf_record_free(&record);
            assert_null(record.key);
        }
}

static void devices(void **state)
{
    const struct gnf_device found = {
        .name = "G", .capability = 90, .multiprocessors = 132, .memory = 1000, .l2_bytes = 50};
    struct gnf_record_device a, b;
    struct gnf_record one = read_good(good), two = read_good(good);
    (void)state;
    gnf_record_device_of(&found, false, &a);
    assert_string_equal(a.gpu, "G");
    assert_true(a.capability == 90 && a.multiprocessors == 132 && a.memory == 1000 && a.l2_bytes == 50);
    b = a;
    strcpy(b.gpu, "another label");
    assert_true(gnf_record_same_device(&a, &b));
    b.memory = 950;
    assert_true(gnf_record_same_device(&a, &b) && gnf_record_same_device(&b, &a));
    b.memory = 949;
    assert_false(gnf_record_same_device(&a, &b) || gnf_record_same_device(&b, &a));
#define DIFFERS(field)                                                                                       \
    b = a;                                                                                                   \
    b.field++;                                                                                               \
    assert_false(gnf_record_same_device(&a, &b))
    DIFFERS(capability);
    DIFFERS(multiprocessors);
    DIFFERS(l2_bytes);
    b = a;
    b.simulated = true;
    assert_false(gnf_record_same_device(&a, &b));

    assert_true(gnf_record_same(&one, &two));
    two.samples++;
    assert_false(gnf_record_same(&one, &two));
    two.samples--;
    two.nvrtc++;
    assert_false(gnf_record_same(&one, &two));
    two.nvrtc--;
    two.key[0] = 'g', assert_false(gnf_record_same(&one, &two)), two.key[0] = one.key[0];
    two.variant[0] = 'g', assert_false(gnf_record_same(&one, &two)), two.variant[0] = one.variant[0];
    two.source[0] = 'f', assert_false(gnf_record_same(&one, &two)), two.source[0] = one.source[0];
    two.device.l2_bytes++;
    assert_false(gnf_record_same(&one, &two));
    gnf_record_free(&one);
    gnf_record_free(&two);
}

/* A decimal point of two bytes, at which jansson would abort, else a decimal comma. Made here. */
static void locales(void **state)
{
    static const char *const names[] = {"ps_AF", "de_DE"};
    char command[1024], *line;
    int tried = 0;
    (void)state;
    for (int i = 0; i < 2 && !tried; i++) {
        snprintf(command, sizeof command, "localedef -i %s -f UTF-8 %s/%s.UTF-8 >/dev/null 2>&1", names[i],
                 scratch_folder, names[i]);
        setenv("LOCPATH", scratch_folder, 1);
        if (system(command) != 0)
            continue;
        snprintf(command, sizeof command, "%s.UTF-8", names[i]);
        if (!setlocale(LC_ALL, command))
            continue;
        tried++;
        assert_string_not_equal(localeconv()->decimal_point, ".");
        struct gnf_record record = read_good(good);
        assert_true(record.time_us == 12.5);
        assert_int_equal(gnf_record_write(&record, &line), GNF_OK);
        setlocale(LC_ALL, "C");
        scratch_assert_contains(line, "\"time_us\":12.5,\"spread_us\":0.25,");
        gnf_record_free(&record);
        free(line);
    }
    unsetenv("LOCPATH");
    if (!tried)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(algorithms),
        cmocka_unit_test(hard_texts),
        cmocka_unit_test(bad_fields),
        cmocka_unit_test(unknown_fields),
        cmocka_unit_test(long_line),
        cmocka_unit_test(damage),
        cmocka_unit_test(devices),
        cmocka_unit_test_setup_teardown(locales, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
