/* Options: every variable, precedence, sizes of older and newer callers, and the messages for bad values;
 * also the error message and the log that everything else builds on. */
#define _GNU_SOURCE 1
#include "options.h"
#include "scratch.h"
#include "status.h"
#include <locale.h>
#include <pthread.h>

static void clear_environment(void)
{
    for (const struct gnf_option_row *row = gnf_option_rows; row->variable; row++)
        unsetenv(row->variable);
}

static int setup(void **state)
{
    clear_environment();
    return scratch_setup(state);
}

static void assert_refused(const gnf_context_options *given, const char *part)
{
    struct gnf_options options;

    assert_int_equal(gnf_options_resolve(given, &options), GNF_INVALID_ARGUMENT);
    scratch_assert_contains(gnf_error_message(), part);
    assert_null(strchr(gnf_error_message(), '\n'));
    assert_null(options.driver);
    assert_null(options.cache_dir);
}

static void test_defaults(void **state)
{
    struct gnf_options options;

    (void)state;
    assert_int_equal(gnf_options_resolve(NULL, &options), GNF_OK);
    assert_null(options.driver);
    assert_null(options.nvrtc);
    assert_null(options.cublaslt);
    assert_null(options.pack_path);
    assert_null(options.db);
    assert_null(options.cache_dir); /* no HOME: memory only, and never the working directory */
    assert_true(options.jit);
    assert_true(options.cache_limit == (int64_t)1024 << 20);
    assert_null(options.log.callback);
    gnf_options_free(&options);
}

static void test_table(void **state)
{
    int rows = 0;

    (void)state;
    for (; gnf_option_rows[rows].variable; rows++)
        assert_true(strlen(gnf_option_rows[rows].meaning) > 10);
    assert_int_equal(rows, GNF_OPTION_COUNT);
}

static void test_environment_and_call(void **state)
{
    gnf_context_options given = {.size = sizeof given,
                                 .driver = "/call/cuda",
                                 .nvrtc = "/call/nvrtc",
                                 .cache_dir = "/call/cache",
                                 .pack_path = "/call/pack",
                                 .db = "/call/db",
                                 .jit = "on",
                                 .cublaslt = "/call/cublaslt"};
    struct gnf_options options;

    (void)state;
    setenv("GNFUSE_CUDA_DRIVER", "/env/cuda", 1);
    setenv("GNFUSE_NVRTC", "/env/nvrtc", 1);
    setenv("GNFUSE_CUBLASLT", "/env/cublaslt", 1);
    setenv("GNFUSE_CACHE_DIR", "/env/cache", 1);
    setenv("GNFUSE_PACK_PATH", "/env/a:/env/b", 1);
    setenv("GNFUSE_CACHE_LIMIT", "3", 1);
    setenv("GNFUSE_DB", "/env/db", 1);
    setenv("GNFUSE_JIT", "off", 1);
    assert_int_equal(gnf_options_resolve(NULL, &options), GNF_OK);
    assert_string_equal(options.driver, "/env/cuda");
    assert_string_equal(options.nvrtc, "/env/nvrtc");
    assert_string_equal(options.cublaslt, "/env/cublaslt");
    assert_string_equal(options.cache_dir, "/env/cache");
    assert_string_equal(options.pack_path, "/env/a:/env/b");
    assert_string_equal(options.db, "/env/db");
    assert_true(options.cache_limit == 3 << 20);
    assert_false(options.jit);
    gnf_options_free(&options);

    assert_int_equal(gnf_options_resolve(&given, &options), GNF_OK);
    assert_string_equal(options.driver, "/call/cuda");
    assert_string_equal(options.nvrtc, "/call/nvrtc");
    assert_string_equal(options.cublaslt, "/call/cublaslt");
    assert_string_equal(options.cache_dir, "/call/cache");
    assert_string_equal(options.pack_path, "/call/pack");
    assert_string_equal(options.db, "/call/db");
    assert_true(options.jit);
    gnf_options_free(&options);

    /* Empty is unset. */
    setenv("GNFUSE_CACHE_DIR", "", 1);
    setenv("GNFUSE_DB", "", 1);
    setenv("GNFUSE_JIT", "", 1);
    assert_int_equal(gnf_options_resolve(NULL, &options), GNF_OK);
    assert_null(options.cache_dir);
    assert_null(options.db);
    assert_true(options.jit);
    gnf_options_free(&options);
}

static void test_cache_folder(void **state)
{
    struct {
        const char *xdg, *home, *folder;
    } rows[] = {
        {"/xdg", "/", "/xdg/gnfuse"},
        {NULL, "/", "//.cache/gnfuse"},
        {"relative", "/", "//.cache/gnfuse"}, /* its specification: ignore */
        {"relative", NULL, NULL},
        {NULL, "relative", NULL},
        {NULL, "/there/is/no/such/home", NULL},
        {NULL, "", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gnf_options options;
        clear_environment();
        if (rows[i].xdg)
            setenv("XDG_CACHE_HOME", rows[i].xdg, 1);
        if (rows[i].home)
            setenv("HOME", rows[i].home, 1);
        assert_int_equal(gnf_options_resolve(NULL, &options), GNF_OK);
        if (rows[i].folder)
            assert_string_equal(options.cache_dir, rows[i].folder);
        else
            assert_null(options.cache_dir);
        gnf_options_free(&options);
    }
}

static void test_database(void **state)
{
    struct {
        const char *xdg, *home, *path;
    } rows[] = {
        {"/xdg", "/", "/xdg/gnfuse/tuned.jsonl"},
        {NULL, "/", "//.config/gnfuse/tuned.jsonl"},
        {"relative", "/", "//.config/gnfuse/tuned.jsonl"},
        {"relative", NULL, NULL},
        {NULL, "relative", NULL},
        {NULL, "/there/is/no/such/home", NULL},
        {NULL, "", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gnf_options options;
        clear_environment();
        setenv("XDG_CACHE_HOME", "/cache", 1); /* is no place for it */
        if (rows[i].xdg)
            setenv("XDG_CONFIG_HOME", rows[i].xdg, 1);
        if (rows[i].home)
            setenv("HOME", rows[i].home, 1);
        assert_int_equal(gnf_options_resolve(NULL, &options), GNF_OK);
        if (rows[i].path)
            assert_string_equal(options.db, rows[i].path);
        else
            assert_null(options.db);
        assert_string_equal(options.cache_dir, "/cache/gnfuse");
        gnf_options_free(&options);
    }
}

static void test_bad_values(void **state)
{
    static const char *const limits[] = {"0", "-1", "1.5", "1,5", "12x", " 3", "99999999999999999999", "1e3"};
    gnf_context_options given = {.size = sizeof given};

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        setenv("GNFUSE_CACHE_LIMIT", limits[i], 1);
        assert_refused(NULL, "GNFUSE_CACHE_LIMIT");
        scratch_assert_contains(gnf_error_message(), limits[i]);
    }
    unsetenv("GNFUSE_CACHE_LIMIT");
    setenv("GNFUSE_JIT", "maybe", 1);
    assert_refused(NULL, "GNFUSE_JIT is \"maybe\"; allowed: on, off");
    given.jit = "no";
    assert_refused(&given, "options: jit is \"no\"; allowed: on, off");
    given.jit = "on"; /* set by call: the variable is not looked at */
    setenv("GNFUSE_LOG", "loud", 1);
    assert_refused(&given, "GNFUSE_LOG is \"loud\"");
    unsetenv("GNFUSE_LOG");
    given.log_level = 5;
    assert_refused(&given, "log_level is 5");
}

static void test_sizes(void **state)
{
    struct {
        gnf_context_options known;
        char newer[32];
    } given;
    struct gnf_options options;

    (void)state;
    memset(&given, 0, sizeof given);
    given.known.driver = "/call/cuda";
    given.known.jit = "off";
    for (size_t size = offsetof(gnf_context_options, nvrtc); size <= sizeof given; size += sizeof(void *)) {
        given.known.size = size;
        assert_int_equal(gnf_options_resolve(&given.known, &options), GNF_OK);
        assert_string_equal(options.driver, "/call/cuda");
        /* A field that an older caller's struct does not have is not read. */
        assert_int_equal(options.jit, size <= offsetof(gnf_context_options, jit));
        gnf_options_free(&options);
    }
    given.newer[20] = 1;
    given.known.size = sizeof given;
    assert_refused(&given.known, "a newer version");
    given.known.size = 0;
    assert_refused(&given.known, "size is 0");
    given.known.size = 12;
    assert_refused(&given.known, "size is 12");
    given.known.size = (size_t)0x5a5a5a5a5a5a5a58u; /* never set: must not be read that far */
    assert_refused(&given.known, "size is ");
}

static void test_log_levels(void **state)
{
    struct scratch_log seen = {0};
    gnf_context_options given = {.size = sizeof given, .log = scratch_log_line, .log_user = &seen};
    struct gnf_options options;

    (void)state;
    assert_int_equal(gnf_options_resolve(&given, &options), GNF_OK);
    gnf_log_line(&options.log, GNF_LOG_WARNING, "two\nlines %d", 1);
    gnf_log_line(&options.log, GNF_LOG_INFO, "not wanted");
    assert_int_equal(seen.count[GNF_LOG_WARNING], 1);
    assert_int_equal(seen.count[GNF_LOG_INFO], 0);
    assert_string_equal(seen.last[GNF_LOG_WARNING], "two lines 1");
    gnf_options_free(&options);

    setenv("GNFUSE_LOG", "debug", 1);
    assert_int_equal(gnf_options_resolve(&given, &options), GNF_OK);
    assert_int_equal(options.log.level, GNF_LOG_DEBUG);
    assert_true(options.log.callback == scratch_log_line);
    gnf_options_free(&options);
    given.log_level = GNF_LOG_ERROR;
    assert_int_equal(gnf_options_resolve(&given, &options), GNF_OK);
    assert_int_equal(options.log.level, GNF_LOG_ERROR);
    gnf_options_free(&options);
    assert_int_equal(gnf_options_resolve(NULL, &options), GNF_OK);
    assert_true(options.log.callback == gnf_log_stderr);
    gnf_options_free(&options);

    gnf_log_line(NULL, GNF_LOG_ERROR, "nobody listens");
    gnf_log_line(&(struct gnf_log){0}, GNF_LOG_ERROR, "nobody listens");
}

static void test_long_line(void **state)
{
    struct scratch_log seen = {0};
    struct gnf_log log = {.callback = scratch_log_line, .user = &seen, .level = GNF_LOG_WARNING};

    (void)state;
    gnf_log_line(&log, GNF_LOG_WARNING, "%5000s", "x");
    assert_int_equal(strlen(seen.last[GNF_LOG_WARNING]), 2047);
    assert_string_equal(seen.last[GNF_LOG_WARNING] + 2044, "...");
}

static void *message_of_new_thread(void *unused)
{
    (void)unused;
    return strdup(gnf_error_message());
}

static void test_message(void **state)
{
    enum { LONG = 20000 };
    char *text = malloc(LONG + 1);
    pthread_t thread;
    void *other;

    (void)state;
    assert_int_equal(gnf_fail(GNF_IO, "%s is %d", "size", 3), GNF_IO);
    assert_string_equal(gnf_error_message(), "size is 3");
    assert_int_equal(gnf_fail_more(GNF_BAD_PACK, ", while reading %s", "F"), GNF_BAD_PACK);
    assert_string_equal(gnf_error_message(), "size is 3, while reading F");
    gnf_fail(GNF_IO, "G: %s", gnf_error_message()); /* of itself */
    assert_string_equal(gnf_error_message(), "G: size is 3, while reading F");

    assert_int_equal(pthread_create(&thread, NULL, message_of_new_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &other), 0);
    assert_string_equal(other, "");
    free(other);

    memset(text, 'l', LONG);
    text[LONG] = '\0';
    for (int i = 0; i + 1 < LONG; i += 2)
        memcpy(text + i, "\xC3\xA4", 2);
    for (int shift = 0; shift < 2; shift++) {
        gnf_fail(GNF_IO, "%s", text + 2 * shift);
        gnf_fail_more(GNF_IO, "lost");
        scratch_assert_contains(gnf_error_message(), "[cut: message longer than 16 KiB]");
        assert_true(strlen(gnf_error_message()) < 16 * 1024);
        assert_true(strlen(gnf_error_message()) > 16 * 1024 - 50);
        assert_int_equal((strstr(gnf_error_message(), " ...") - gnf_error_message()) % 2, 0);
    }
    free(text);
}

static void test_names(void **state)
{
    (void)state;
    for (int status = GNF_OK; status <= GNF_NO_CUBLAS; status++)
        assert_memory_equal(gnf_status_name((gnf_status)status), "GNF_", 4);
    assert_string_equal(gnf_status_name(GNF_NOT_PREPARED), "GNF_NOT_PREPARED");
    assert_string_equal(gnf_status_name((gnf_status)999), "GNF_UNKNOWN_STATUS");
    assert_int_equal(gnf_version(), GNF_VERSION_MAJOR * 10000 + GNF_VERSION_MINOR * 100 + GNF_VERSION_PATCH);
}

/* A host with a decimal comma and digit grouping: made here where the machine has none. */
static void test_locale(void **state)
{
    struct gnf_options options;
    char command[1024];

    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
                 scratch_folder);
        setenv("LOCPATH", scratch_folder, 1);
        if (system(command) != 0 || !setlocale(LC_ALL, "de_DE.UTF-8"))
            skip();
    }
    snprintf(command, sizeof command, "%.1f", 0.5);
    assert_string_equal(command, "0,5");
    setenv("GNFUSE_CACHE_LIMIT", "2048", 1);
    assert_int_equal(gnf_options_resolve(NULL, &options), GNF_OK);
    assert_true(options.cache_limit == (int64_t)2048 << 20);
    gnf_options_free(&options);
    setenv("GNFUSE_CACHE_LIMIT", "2.048", 1);
    assert_refused(NULL, "allowed: whole MiB from 1 to 16777216");
    assert_string_equal(setlocale(LC_ALL, NULL), "de_DE.UTF-8");
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),     TEST(test_table),      TEST(test_environment_and_call),
        TEST(test_cache_folder), TEST(test_database),   TEST(test_bad_values),
        TEST(test_sizes),        TEST(test_log_levels), TEST(test_long_line),
        TEST(test_message),      TEST(test_names),      TEST(test_locale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
