/* Where the program writes: outputs that are no plain files, and whose folder is believed. */
#include "files.h"
#include "generate.h"
#include "scratch.h"
#include <fcntl.h>
#include <poll.h>

/* A reader of a pipe must not take the question for an output of no bytes. */
static void pipe_is_only_asked(void **state)
{
    (void)state;
    const char *path = scratch_path("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    struct pollfd reader = {.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), .events = POLLIN};
    assert_true(reader.fd >= 0);
    assert_int_equal(files_check_writable(path), GNF_OK);
    assert_int_equal(poll(&reader, 1, 0), 0);
    close(reader.fd);
}

/* What is made is run later: it is neither put into nor taken from another user's folder. */
static void folder_of_another_user(void **state)
{
    (void)state;
    const uid_t somebody = 12345;
    char cache[600], packs[640], made[660], temporary[FILES_PATH_SIZE] = "", path[FILES_PATH_SIZE];
    snprintf(cache, sizeof cache, "%s", scratch_path("cache"));
    snprintf(packs, sizeof packs, "%s/packs", cache);
    snprintf(made, sizeof made, "%s/made.so", packs);
    assert_int_equal(generate_place(cache, "made.so", temporary, path), GNF_OK);
    assert_string_equal(path, made);
    assert_string_equal(temporary, "");
    if (geteuid() != 0)
        skip(); /* only root can make it another's */
    scratch_write(made, "x", 1);
    const char *const places[] = {cache, packs, made};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chown(places[i], somebody, (gid_t)-1), 0);
        assert_int_equal(generate_place(cache, "made.so", temporary, path), GNF_OK);
        assert_true(temporary[0] && strncmp(path, temporary, strlen(temporary)) == 0);
        assert_int_equal(chown(places[i], 0, (gid_t)-1), 0);
    }
    assert_int_equal(generate_place(cache, "made.so", temporary, path), GNF_OK);
    assert_string_equal(path, made);
    files_remove_folder(temporary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipe_is_only_asked),
        cmocka_unit_test(folder_of_another_user),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
