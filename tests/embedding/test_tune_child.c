/* gnf_tune() and the program that it starts, which is this test again (fake_tuner.c): what is made of its
 * events, how it fails, and how it is ended. */
#include "fake_tuner.h"
#include "tuning.h"
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- events ---- */

struct calls {
    pthread_t thread;
    int count, end_at; /* 0: never */
    char variant[8][32], best[8][32];
    size_t longest; /* variant */
    gnf_tune_progress last;
};
static int on_progress(void *user, const gnf_tune_progress *progress)
{
    struct calls *calls = user;
    int i = calls->count++ % 8;
    calls->thread = pthread_self();
    calls->last = *progress;
    if (strlen(progress->variant) > calls->longest)
        calls->longest = strlen(progress->variant);
    snprintf(calls->variant[i], sizeof calls->variant[i], "%s", progress->variant);
    snprintf(calls->best[i], sizeof calls->best[i], "%s", progress->best);
    return calls->end_at && calls->count >= calls->end_at;
}

static void test_report_and_progress(void **state)
{
    struct calls calls = {0};
    (void)state;
    assert_ok(TUNE("good", .progress = on_progress, .progress_user = &calls));
    assert_string_equal(report.variant, "fast.t32");
    assert_string_equal(report.default_variant, "slow.t64");
    assert_true(report.time_us == 1.5 && report.default_us == 2.25);
    assert_int_equal(report.measured, 7);
    assert_int_equal(report.known, 2);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.complete, 1);
    assert_int_equal(report.size, sizeof report);

    assert_int_equal(calls.count, 3);
    assert_true(pthread_equal(calls.thread, pthread_self()));
    assert_string_equal(calls.variant[0], "");
    assert_string_equal(calls.best[0], "");
    assert_string_equal(calls.variant[1], "slow.t64");
    assert_string_equal(calls.variant[2], "fast.t32");
    assert_string_equal(calls.best[2], "fast.t32");
    assert_int_equal(calls.last.size, sizeof calls.last);
    assert_int_equal(calls.last.done, 9);
    assert_int_equal(calls.last.total, 10);
    assert_true(calls.last.best_us == 1.5);
    assert_true(calls.last.elapsed_s >= 0 && calls.last.elapsed_s < 60);
    assert_ok(TUNE("good", 0)); /* and without a callback */
}

static void test_sizes_of_structs(void **state)
{
    union {
        gnf_tune_report report;
        unsigned char bytes[sizeof(gnf_tune_report) + 16];
    } other;
    gnf_tune_options options = {.size = sizeof options, .samples = 3};
    size_t size = offsetof(gnf_tune_report, time_us);
    (void)state;
    tuning_way("good");
    memset(&other, 0x5a, sizeof other);
    other.report.size = size;
    assert_ok(gnf_tune(shared, problem, &options, &other.report));
    assert_string_equal(other.report.default_variant, "slow.t64");
    assert_int_equal(other.report.size, size);
    for (size_t i = size; i < sizeof other; i++)
        assert_int_equal(other.bytes[i], 0x5a);
    other.report.size = sizeof other;
    assert_ok(gnf_tune(shared, problem, &options, &other.report));
    assert_int_equal(other.report.measured, 7);
    for (size_t i = sizeof other.report; i < sizeof other; i++)
        assert_int_equal(other.bytes[i], 0);
    assert_ok(gnf_tune(shared, problem, &options, NULL));
    tuning_way("error");
    assert_refused(gnf_tune(shared, problem, &options, &other.report), GNF_NO_COMPILER, "");
    assert_int_equal(other.report.measured, 0); /* nothing of the one before */
    assert_string_equal(other.report.variant, "");
    tuning_way("good");
    other.report.size = 3;
    assert_refused(gnf_tune(shared, problem, &options, &other.report), GNF_INVALID_ARGUMENT,
                   "report.size = 3");
    options.size = 1;
    assert_refused(gnf_tune(shared, problem, &options, NULL), GNF_INVALID_ARGUMENT, "size");
    assert_string_equal(read_said(), ""); /* nothing was started */
}

static void test_odd_output(void **state)
{
    struct calls calls = {0};
    (void)state;
    assert_ok(TUNE("babble", .progress = on_progress, .progress_user = &calls));
    assert_string_equal(report.variant, "fast.t32");
    assert_int_equal(calls.count, 1);
    assert_int_equal(calls.longest, 127);
    assert_ok(TUNE("complain", 0));
    assert_string_equal(report.variant, "fast.t32");
}

/* ---- failures ---- */

static void test_errors_of_the_child(void **state)
{
    (void)state;
    assert_refused(TUNE("error", 0), GNF_NO_COMPILER, "libnvrtc is out fishing");
    assert_refused(TUNE("no room", 0), GNF_OUT_OF_MEMORY, "no room for x");
    assert_refused(TUNE("new error", 0), GNF_IO, "something new");
    assert_refused(TUNE("crash", 0), GNF_IO, "killed by signal 9: out of luck");
    assert_refused(TUNE("leave", 0), GNF_IO, "exit status 3");
    assert_refused(TUNE("unheard of", 0), GNF_IO, "exit status 99");
    assert_non_null(strstr(gnf_error_message(), self));
}

static void test_no_program(void **state)
{
    char path[4096];
    (void)state;
    assert_refused(TUNE("good", .program = "/nonexistent/gnfuse"), GNF_IO, "'/nonexistent/gnfuse'");
    assert_non_null(strstr(gnf_error_message(), "GNFUSE_PROGRAM"));
    assert_refused(TUNE("good", .program = "/"), GNF_IO, "'/'");
    assert_refused(TUNE("good", .program = db), GNF_IO, db);
    /* Neither option nor variable: on PATH. */
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    unsetenv("GNFUSE_PROGRAM");
    gnf_context *context = open_context(device_context, "cache", NULL);
    gnf_tune_options options = {.size = sizeof options, .samples = 3};
    setenv("PATH", scratch, 1);
    assert_refused(tune(context, &options), GNF_IO, "'gnfuse'");
    assert_int_equal(symlink(self, scratch_path("gnfuse")), 0);
    gnf_status status = tune(context, &options);
    setenv("PATH", path, 1);
    setenv("GNFUSE_PROGRAM", self, 1);
    assert_ok(status);
    gnf_context_destroy(&context);
}

static gnf_status tune_text(const char *text, gnf_tune_options options)
{
    options.size = sizeof options;
    return gnf_tune(shared, text, &options, NULL);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    tuning_way("good");
    assert_refused(gnf_tune(NULL, problem, NULL, NULL), GNF_INVALID_ARGUMENT, "context is null");
    assert_refused(gnf_tune(shared, NULL, NULL, NULL), GNF_INVALID_ARGUMENT, "problem");
    assert_refused(gnf_tune(shared, problem, NULL, NULL), GNF_INVALID_ARGUMENT, "samples = 0");
    assert_refused(tune_text(problem, (gnf_tune_options){.samples = -1}), GNF_INVALID_ARGUMENT,
                   "samples = -1");
    assert_refused(tune_text("f32[3,6,7] | groupnorm(3)", (gnf_tune_options){.samples = 4}),
                   GNF_INVALID_ARGUMENT, "samples = 4");
    assert_refused(tune_text("f32[2,4,9] | groupnorm(3)", (gnf_tune_options){0}), GNF_INVALID_PROBLEM, "3");
    assert_refused(tune_text("bf16[2,4,9] | groupnorm(2) | elu | mish", (gnf_tune_options){0}), GNF_NO_KERNEL,
                   "gnfuse-gen");
    assert_refused(tune_text("f32[0,6,7] | groupnorm(3) | add(r: full)", (gnf_tune_options){0}),
                   GNF_INVALID_ARGUMENT, "no elements");
    assert_refused(TUNE("good", .budget = -1), GNF_INVALID_ARGUMENT, "budget = -1");
    assert_refused(TUNE("good", .budget = (double)NAN), GNF_INVALID_ARGUMENT, "budget = nan");
    assert_refused(TUNE("good", .budget = 1e300), GNF_INVALID_ARGUMENT, "budget = inf");
    assert_string_equal(read_said(), ""); /* nothing was started */
}

static void test_no_database(void **state)
{
    char home[4096];
    (void)state;
    snprintf(home, sizeof home, "%s", getenv("HOME") ? getenv("HOME") : "/");
    unsetenv("GNFUSE_DB");
    unsetenv("XDG_CONFIG_HOME");
    setenv("HOME", "relative", 1);
    gnf_context *context = open_context(device_context, "cache", NULL);
    setenv("GNFUSE_DB", db, 1);
    setenv("HOME", home, 1);
    assert_refused(tune(context, &plain), GNF_IO, "GNFUSE_DB");
    gnf_context_destroy(&context);
}

/* ---- ending it ---- */

static void test_ended_by_the_callback(void **state)
{
    struct calls calls = {.end_at = 3};
    (void)state;
    assert_ok(TUNE("go on", .progress = on_progress, .progress_user = &calls));
    assert_int_equal(calls.count, 3); /* it is not called again */
    assert_string_equal(report.variant, "slow.t64");
    assert_int_equal(report.measured, 4);
    assert_int_equal(report.complete, 0);
}

static void test_killed_where_it_does_not_listen(void **state)
{
    struct calls calls = {.end_at = 2};
    gnf_plan *plan = make_plan(shared, problem, 3, NULL);
    double begin = now_s();
    (void)state;
    assert_ok(TUNE("stubborn", .progress = on_progress, .progress_user = &calls));
    assert_true(now_s() - begin > 1.9 && now_s() - begin < 15);
    assert_string_equal(report.variant, plan_info(plan).variant); /* no record was written */
    assert_string_equal(report.default_variant, plan_info(plan).variant);
    assert_true(report.time_us == 0);
    assert_int_equal(report.known, 2); /* of the first progress */
    assert_int_equal(report.measured, 3);
    assert_int_equal(report.complete, 0);
    gnf_plan_destroy(&plan);
}

static void test_killed_where_it_has_closed_its_output(void **state)
{
    double begin = now_s();
    (void)state;
    assert_refused(TUNE("close", 0), GNF_IO, "killed by signal 9");
    assert_true(now_s() - begin > 1.9 && now_s() - begin < 15);
}

/* The callback is called while nothing happens too, so that it can end that. */
static void test_silence_can_be_ended(void **state)
{
    struct calls calls = {.end_at = 2};
    double begin = now_s();
    (void)state;
    assert_ok(TUNE("silent", .progress = on_progress, .progress_user = &calls));
    assert_true(now_s() - begin > 0.9 && now_s() - begin < 15);
    assert_int_equal(calls.count, 2);
    assert_true(calls.last.elapsed_s > 0.9);
    assert_int_equal(report.measured, 0);
    assert_int_equal(report.known, 0);
    assert_int_equal(report.complete, 0);
}

static void test_an_orphan_does_not_hold_it_up(void **state)
{
    double begin = now_s();
    (void)state;
    assert_ok(TUNE("orphan", 0));
    assert_true(now_s() - begin < 4);
    assert_string_equal(report.variant, "fast.t32");
}

/* ---- the host's process ---- */

static void reap_all(int signal)
{
    int kept = errno;
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = kept;
}

static void test_children_that_the_host_reaps(void **state)
{
    void (*const handlers[])(int) = {SIG_IGN, reap_all};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct sigaction action = {.sa_handler = handlers[i], .sa_flags = SA_RESTART}, before;
        struct calls calls = {.end_at = 1};
        sigaction(SIGCHLD, &action, &before);
        gnf_status good = TUNE("good", 0);
        gnf_status ended = TUNE("stubborn", .progress = on_progress, .progress_user = &calls);
        gnf_status crashed = TUNE("crash", 0);
        sigaction(SIGCHLD, &before, NULL);
        assert_int_equal(good, GNF_OK);
        assert_int_equal(ended, GNF_OK);
        assert_refused(crashed, GNF_IO, i ? "" : "exit status not known: out of luck");
    }
}

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void test_nothing_is_left(void **state)
{
    static const char *const ways[] = {"good", "error", "crash", "leave", "babble"};
    int before = open_files();
    (void)state;
    for (int i = 0; i < 5; i++)
        TUNE(ways[i], 0);
    TUNE("good", .program = "/nonexistent/gnfuse");
    assert_int_equal(open_files(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child either */
}

static void *tune_in_a_thread(void *user)
{
    gnf_tune_report *own = user;
    gnf_tune_options options = {.size = sizeof options, .samples = 3};
    own->size = sizeof *own;
    return gnf_tune(shared, problem, &options, own) == GNF_OK ? own : NULL;
}

static void test_two_threads(void **state)
{
    pthread_t threads[2];
    gnf_tune_report reports[2];
    (void)state;
    tuning_way("complain");
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tune_in_a_thread, &reports[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &reports[i]);
        assert_string_equal(reports[i].variant, "fast.t32");
    }
    assert_int_equal(count_said("argument tune\n"), 2);
}

/* A host whose decimal point has two bytes, at which jansson would abort, else a decimal comma. Made here. */
static void test_locales(void **state)
{
    static const char *const names[] = {"ps_AF", "de_DE"};
    const char *set = NULL;
    char command[1024];
    (void)state;
    setenv("LOCPATH", scratch, 1);
    for (int i = 0; i < 2 && !set; i++) {
        snprintf(command, sizeof command, "localedef -i %s -f UTF-8 %s/%s.UTF-8 >/dev/null 2>&1", names[i],
                 scratch, names[i]);
        if (system(command) == 0)
            snprintf(command, sizeof command, "%s.UTF-8", names[i]);
        set = setlocale(LC_ALL, command);
    }
    gnf_status status = set ? TUNE("good", .budget = 2.5) : GNF_OK;
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    if (!set)
        skip();
    assert_ok(status);
    assert_true(report.time_us == 1.5 && report.default_us == 2.25);
    assert_int_equal(count_said("argument --budget\nargument 2.5\n"), 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_and_progress),
        cmocka_unit_test(test_sizes_of_structs),
        cmocka_unit_test(test_odd_output),
        cmocka_unit_test(test_errors_of_the_child),
        cmocka_unit_test(test_no_program),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_no_database),
        cmocka_unit_test(test_ended_by_the_callback),
        cmocka_unit_test(test_killed_where_it_does_not_listen),
        cmocka_unit_test(test_killed_where_it_has_closed_its_output),
        cmocka_unit_test(test_silence_can_be_ended),
        cmocka_unit_test(test_an_orphan_does_not_hold_it_up),
        cmocka_unit_test(test_children_that_the_host_reaps),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_locales),
    };
    if (argc > 1 && !strcmp(argv[1], "tune"))
        return fake_tuner(argc, argv);
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, tuning_setup, tuning_teardown);
}
