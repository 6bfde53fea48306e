/* A child process and its lines. Argument: the stub child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "../../tuning/child.h"
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *stub;

static struct child start(const char *mode, const char *more)
{
    struct child child = {.program = stub};
    const char *const words[] = {mode, more, NULL};
    assert_int_equal(child_start(&child, words), GNF_OK);
    assert_true(child.pid > 0);
    return child;
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void answers(void **state)
{
    (void)state;
    struct child child = start("echo", NULL);
    char how[64];
    for (int i = 0; i < 1000; i++) {
        json_t *answer;
        assert_true(child_send(&child, json_pack("{s:i, s:s}", "i", i, "text", "line\nend")));
        assert_int_equal(child_receive(&child, 10, NULL, NULL, &answer), CHILD_ANSWERED);
        assert_int_equal(json_integer_value(json_object_get(answer, "i")), i);
        json_decref(answer);
    }
    child_end(&child, false, how, sizeof how);
    assert_string_equal(how, "exit status 0");
    assert_int_equal(child.pid, 0);
}

static void lines_in_any_pieces(void **state)
{
    (void)state;
    struct child child = start("twice", NULL);
    json_t *answer;
    assert_true(child_send(&child, json_pack("{s:i}", "one", 1)));
    assert_int_equal(child_receive(&child, 10, NULL, NULL, &answer), CHILD_ANSWERED);
    assert_int_equal(json_integer_value(json_object_get(answer, "one")), 1);
    json_decref(answer);
    assert_int_equal(child_receive(&child, 10, NULL, NULL, &answer), CHILD_ANSWERED);
    assert_true(json_is_true(json_object_get(answer, "half")));
    json_decref(answer);
    child_end(&child, false, NULL, 0);
}

static void arguments_arrive(void **state)
{
    (void)state;
    struct child child = start("words", "a b");
    json_t *answer;
    assert_true(child_send(&child, json_object()));
    assert_int_equal(child_receive(&child, 10, NULL, NULL, &answer), CHILD_ANSWERED);
    assert_int_equal(json_integer_value(json_object_get(answer, "count")), 3);
    assert_string_equal(json_string_value(json_object_get(answer, "last")), "a b");
    json_decref(answer);
    child_end(&child, false, NULL, 0);
}

static void a_large_answer(void **state)
{
    (void)state;
    struct child child = start("huge", "3000000");
    json_t *answer;
    assert_true(child_send(&child, json_object()));
    assert_int_equal(child_receive(&child, 60, NULL, NULL, &answer), CHILD_ANSWERED);
    assert_int_equal(json_string_length(json_object_get(answer, "text")), 3000000);
    json_decref(answer);
    child_end(&child, false, NULL, 0);
}

/* No answer, and how the child ended. */
static void expect_gone(const char *mode, const char *more, bool kill_it, const char *wanted)
{
    struct child child = start(mode, more);
    json_t *answer;
    char how[64];
    assert_true(child_send(&child, json_object()));
    assert_int_equal(child_receive(&child, 60, NULL, NULL, &answer), CHILD_GONE);
    assert_null(answer);
    child_end(&child, kill_it, how, sizeof how);
    assert_string_equal(how, wanted);
    assert_false(child_send(&child, json_object()));
    assert_int_equal(child_receive(&child, 60, NULL, NULL, &answer), CHILD_GONE);
}

static void no_answers(void **state)
{
    (void)state;
    expect_gone("die", NULL, false, "killed by signal 9");
    expect_gone("half", NULL, false, "exit status 3");
    expect_gone("nonsense", NULL, false, "exit status 0");
    expect_gone("huge", "80000000", true, "killed by signal 9");
}

static bool third_time(void *user)
{
    return ++*(int *)user >= 3;
}

static void patience_ends(void **state)
{
    (void)state;
    struct child child = start("hang", NULL);
    json_t *answer;
    char how[64];
    int asked = 0;
    assert_true(child_send(&child, json_object()));
    double begin = seconds();
    assert_int_equal(child_receive(&child, 0.2, NULL, NULL, &answer), CHILD_TIMEOUT);
    assert_true(seconds() - begin >= 0.15 && seconds() - begin < 10);
    begin = seconds();
    assert_int_equal(child_receive(&child, 100, third_time, &asked, &answer), CHILD_TIMEOUT);
    assert_true(seconds() - begin < 50);
    assert_int_equal(asked, 3);
    child_end(&child, true, how, sizeof how);
    assert_string_equal(how, "killed by signal 9");
}

/* Ctrl-Z, and later fg: the child was not silent for so long, it was stopped as we were. */
static void a_stop_is_no_silence(void **state)
{
    (void)state;
    int end = -1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct child child = {.program = stub};
        const char *const words[] = {"stop", NULL};
        json_t *answer;
        bool sent = child_start(&child, words) == GNF_OK && child_send(&child, json_pack("{s:i}", "one", 1));
        _exit(sent && child_receive(&child, 1, NULL, NULL, &answer) == CHILD_ANSWERED ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &end, 0), pid);
    assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
}

static void one_that_stays(void **state)
{
    (void)state;
    struct child child = start("stay", NULL);
    pid_t pid = child.pid;
    char how[64];
    double begin = seconds();
    child_end(&child, false, how, sizeof how);
    assert_true(seconds() - begin >= 0.9);
    assert_string_equal(how, "killed by signal 9");
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void none(void **state)
{
    (void)state;
    struct child child = {.program = "/nonexistent/program"};
    const char *const words[] = {NULL};
    char how[64] = "x";
    assert_int_equal(child_start(&child, words), GNF_IO);
    assert_int_equal(child.pid, 0);
    child_end(&child, true, how, sizeof how);
    assert_string_equal(how, "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(lines_in_any_pieces),
        cmocka_unit_test(arguments_arrive),
        cmocka_unit_test(a_large_answer),
        cmocka_unit_test(no_answers),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(a_stop_is_no_silence),
        cmocka_unit_test(one_that_stays),
        cmocka_unit_test(none),
    };
    signal(SIGPIPE, SIG_IGN);
    stub = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
