/* What gnf_tune() gives the program that it starts, which is this test again (fake_tuner.c): arguments,
 * environment, files, signals, packs. */
#include "fake_tuner.h"
#include "tuning.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_arguments(void **state)
{
    char line[700];
    (void)state;
    assert_ok(TUNE("good", .budget = 2.5, .again = 1));
    assert_int_equal(
        count_said("argument tune\nargument f32[3,6,7] | groupnorm(3) | add(r: full)\nargument --events\n"),
        1);
    assert_int_equal(count_said("argument --device\nargument 0\n"), 1);
    assert_int_equal(count_said("argument --budget\nargument 2.5\n"), 1);
    assert_int_equal(count_said("argument --again\n"), 1);
    snprintf(line, sizeof line, "argument --db\nargument %s\n", db);
    assert_int_equal(count_said(line), 1);
    snprintf(line, sizeof line, "argument --cache-dir\nargument %s\n", scratch_path("cache"));
    assert_int_equal(count_said(line), 1);
    snprintf(line, sizeof line, "argument --pack\nargument %s\n", getenv("GNFUSE_PACK_PATH"));
    assert_int_equal(count_said(line), 1);
    assert_int_equal(count_said("variable GNFUSE_PACK_PATH"), 0); /* it is an option now */
    assert_ok(TUNE("good", 0));
    assert_int_equal(count_said("--budget"), 0);
    assert_int_equal(count_said("--again"), 0);
}

/* What an option of the context says, and not the variable, reaches the child. */
static void test_environment(void **state)
{
    gnf_context *context;
    char driver[600], line[700];
    const char *given = getenv("GNFUSE_CUDA_DRIVER");
    snprintf(driver, sizeof driver, "%s", given ? given : "libcuda.so.1");
    gnf_context_options options = {.size = sizeof options,
                                   .cuda_context = device_context,
                                   .driver = driver,
                                   .nvrtc = "/nonexistent/libnvrtc.so.12",
                                   .cache_dir = scratch_path("cache"),
                                   .jit = "off",
                                   .db = "elsewhere.jsonl",
                                   .cublaslt = "/nonexistent/libcublasLt.so.12"};
    (void)state;
    setenv("GNFUSE_CUBLASLT", "/nonexistent/libcublasLt.so.11", 1);
    setenv("GNFUSE_CUDA_DRIVER", "/nonexistent/libcuda.so", 1);
    setenv("GNFUSE_NVRTC", "/nonexistent/libnvrtc.so.11", 1);
    setenv("GNFUSE_JIT", "on", 1);
    assert_ok(gnf_context_create(&context, &options));
    tuning_way("good");
    assert_ok(tune(context, &plain));
    gnf_context_destroy(&context);
    setenv("GNFUSE_CUDA_DRIVER", driver, 1);
    if (!given)
        unsetenv("GNFUSE_CUDA_DRIVER");
    unsetenv("GNFUSE_NVRTC");
    unsetenv("GNFUSE_CUBLASLT");
    unsetenv("GNFUSE_JIT");
    assert_int_equal(count_said("variable GNFUSE_CUDA_DRIVER="), 1);
    assert_int_equal(count_said("variable GNFUSE_NVRTC=/nonexistent/libnvrtc.so.12\n"), 1);
    assert_int_equal(count_said("variable GNFUSE_NVRTC="), 1);
    assert_int_equal(count_said("variable GNFUSE_CUBLASLT=/nonexistent/libcublasLt.so.12\n"), 1);
    assert_int_equal(count_said("variable GNFUSE_CUBLASLT="), 1);
    assert_int_equal(count_said("variable GNFUSE_JIT=off\n"), 1);
    assert_int_equal(count_said("variable GNFUSE_JIT="), 1);
    assert_int_equal(count_said("variable GNFUSE_DB="), 0);
    assert_int_equal(count_said("argument --db\nargument elsewhere.jsonl\n"), 1);
    snprintf(line, sizeof line, "variable GNFUSE_CUDA_DRIVER=%s\n", driver);
    assert_int_equal(count_said(line), 1);
}

static void test_files_and_signals(void **state)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before[2];
    sigset_t blocked, mask;
    (void)state;
    int file = open("/dev/null", O_RDONLY); /* not to be closed at exec */
    assert_true(file >= 0);
    sigaction(SIGCHLD, &ignore, &before[0]);
    sigaction(SIGPIPE, &ignore, &before[1]);
    sigfillset(&blocked);
    pthread_sigmask(SIG_BLOCK, &blocked, &mask);
    gnf_status status = TUNE("good", 0);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGCHLD, &before[0], NULL);
    sigaction(SIGPIPE, &before[1], NULL);
    close(file);
    assert_ok(status);
    assert_int_equal(count_said("input -1\n"), 1);
    assert_int_equal(count_said("open 0\nopen 1\nopen 2\n"), 1);
    assert_int_equal(count_said("open "), 3);
    assert_int_equal(count_said("blocked "), 0);
    assert_int_equal(count_said("ignored "), 0);
}

/* A host that has closed its standard streams, as daemons do. */
static void test_without_standard_streams(void **state)
{
    int how;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        close(0);
        close(1);
        close(2);
        _exit(TUNE("complain", 0) == GNF_OK && !strcmp(report.variant, "fast.t32") ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
}

/* ---- packs ---- */

static size_t read_file(const char *path, unsigned char *data, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, room, file);
    fclose(file);
    assert_true(size > 0 && size < room);
    return size;
}

static void check_temporary_pack(gnf_context *context, const char *where)
{
    static unsigned char data[1 << 22];
    char copy[700], line[700];
    gnf_context *other;
    remove(said);
    assert_ok(tune(context, &plain));
    snprintf(line, sizeof line, "argument --pack\nargument %s/gnfuse-", where);
    assert_int_equal(count_said(line), 1);
    assert_int_equal(count_said("mode 600\n"), 1);
    char *path = strstr(read_said(), line) + strlen("argument --pack\nargument ");
    *strchr(path, '\n') = '\0';
    assert_int_equal(access(path, F_OK), -1); /* it is gone */
    snprintf(copy, sizeof copy, "%s.pack", said);
    size_t size = read_file(copy, data, sizeof data);
    gnf_context_options options = {
        .size = sizeof options, .cuda_context = device_context, .cache_dir = scratch_path("cache")};
    assert_ok(gnf_context_create(&other, &options));
    assert_ok(gnf_context_load_pack_memory(other, data, size));
    gnf_plan *plan = make_plan(other, problem, 3, NULL);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&other);
}

/* Those from memory, and those whose file is gone, go through a private file. */
static void test_packs_from_memory(void **state)
{
    static unsigned char data[1 << 22];
    char pack_path[4096], folder[600], gone[600];
    (void)state;
    snprintf(pack_path, sizeof pack_path, "%s", getenv("GNFUSE_PACK_PATH"));
    snprintf(folder, sizeof folder, "%s", scratch_path("temporary"));
    snprintf(gone, sizeof gone, "%s", scratch_path("gone.gnfpack"));
    size_t size = read_file(pack_path, data, sizeof data);
    assert_int_equal(mkdir(folder, 0700), 0);
    unsetenv("GNFUSE_PACK_PATH");
    setenv("TMPDIR", folder, 1);
    tuning_way("good");

    gnf_context *context = open_context(device_context, "cache", NULL);
    assert_ok(gnf_context_load_pack_memory(context, data, size));
    check_temporary_pack(context, folder);
    tuning_way("crash"); /* also after a failure */
    assert_refused(tune(context, &plain), GNF_IO, "");
    assert_int_equal(rmdir(folder), 0);
    assert_refused(tune(context, &plain), GNF_IO, folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    gnf_context_destroy(&context);

    tuning_way("good");
    FILE *file = fopen(gone, "wb");
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
    context = open_context(device_context, "cache", NULL);
    assert_ok(gnf_context_load_pack(context, gone));
    remove(gone);
    check_temporary_pack(context, folder);
    gnf_context_destroy(&context);
    assert_int_equal(rmdir(folder), 0);
    unsetenv("TMPDIR");
    setenv("GNFUSE_PACK_PATH", pack_path, 1);
}

/* By a relative name, before the host goes elsewhere. */
static void test_packs_by_relative_name(void **state)
{
    char pack_path[4096], here[4096], line[5000];
    gnf_context *context;
    (void)state;
    snprintf(pack_path, sizeof pack_path, "%s", getenv("GNFUSE_PACK_PATH"));
    assert_non_null(getcwd(here, sizeof here));
    char *slash = strrchr(pack_path, '/');
    *slash = '\0';
    assert_int_equal(chdir(pack_path), 0);
    *slash = '/';
    context = open_context(device_context, "cache", NULL);
    assert_ok(gnf_context_load_pack(context, slash + 1));
    assert_int_equal(chdir("/"), 0);
    tuning_way("good");
    gnf_status status = tune(context, &plain);
    assert_int_equal(chdir(here), 0);
    assert_ok(status);
    snprintf(line, sizeof line, "argument --pack\nargument %s\n", pack_path);
    assert_int_equal(count_said(line), 2); /* of the variable, and this one */
    gnf_context_destroy(&context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),         cmocka_unit_test(test_environment),
        cmocka_unit_test(test_files_and_signals), cmocka_unit_test(test_without_standard_streams),
        cmocka_unit_test(test_packs_from_memory), cmocka_unit_test(test_packs_by_relative_name),
    };
    if (argc > 1 && !strcmp(argv[1], "tune"))
        return fake_tuner(argc, argv);
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, tuning_setup, tuning_teardown);
}
