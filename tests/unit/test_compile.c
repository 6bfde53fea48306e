/* NVRTC: finding it, choosing a target, compiling, and what is said where any of it fails. Arguments: paths
 * of the stub NVRTC and of the old stub NVRTC. The part with the real NVRTC is left out, with exit status 77,
 * where there is none. */
#define _GNU_SOURCE 1
#include "compile.h"
#include "scratch.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

static const char *stub, *old_stub;

static const char kernel[] = "extern \"C\" __global__ void k(float *x, float s)\n"
                             "{\n    x[threadIdx.x] = tanhf(x[threadIdx.x]) * s + 0.5f;\n}\n";

static int setup(void **state)
{
    unsetenv("STUB_NVRTC_ARCHS");
    unsetenv("STUB_NVRTC_VERSION");
    unsetenv("STUB_NVRTC_FAIL");
    return scratch_setup(state);
}

static struct gnf_compiler *create(const char *path)
{
    struct gnf_compiler *compiler;

    assert_int_equal(gnf_compiler_create(&compiler, path), GNF_OK);
    return compiler;
}

static void test_options_text(void **state)
{
    (void)state;
    assert_string_equal(gnf_compiler_options(), "--std=c++17 -default-device");
}

static void test_not_there(void **state)
{
    struct gnf_compiler *compiler = create("/there/is/no/libnvrtc.so.13");
    char target[24];
    int version;
    void *image;
    size_t size;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gnf_compiler_version(compiler, &version, NULL), GNF_NO_COMPILER);
        scratch_assert_contains(gnf_error_message(), "/there/is/no/libnvrtc.so.13");
        scratch_assert_contains(gnf_error_message(), "GNFUSE_NVRTC");
    }
    assert_int_equal(gnf_compiler_target(compiler, 90, target), GNF_NO_COMPILER);
    assert_int_equal(gnf_compiler_build(compiler, kernel, "k", "sm_90", &image, &size), GNF_NO_COMPILER);
    assert_null(image);
    gnf_compiler_destroy(compiler);
    gnf_compiler_destroy(NULL);
}

static void test_not_nvrtc(void **state)
{
    struct gnf_compiler *compiler = create("libm.so.6");
    int version;

    (void)state;
    assert_int_equal(gnf_compiler_version(compiler, &version, NULL), GNF_NO_COMPILER);
    scratch_assert_contains(gnf_error_message(), "libm.so.6 (not NVRTC 11.1 or newer: no nvrtc");
    gnf_compiler_destroy(compiler);

    scratch_write(scratch_path("libnvrtc.so"), "not a library", 13);
    compiler = create(scratch_path("libnvrtc.so"));
    assert_int_equal(gnf_compiler_version(compiler, &version, NULL), GNF_NO_COMPILER);
    scratch_assert_contains(gnf_error_message(), "libnvrtc.so ("); /* with the loader's reason */
    gnf_compiler_destroy(compiler);
}

static void assert_target(struct gnf_compiler *compiler, int capability, const char *expected)
{
    char target[24];

    assert_int_equal(gnf_compiler_target(compiler, capability, target), GNF_OK);
    assert_string_equal(target, expected);
}

static void test_targets(void **state)
{
    struct gnf_compiler *compiler = create(stub);
    const char *path;
    char target[24];
    int version;

    (void)state;
    assert_int_equal(gnf_compiler_version(compiler, &version, &path), GNF_OK);
    assert_int_equal(version, 12040);
    assert_string_equal(path, stub);
    assert_target(compiler, 80, "sm_80");
    assert_target(compiler, 75, "sm_75");
    assert_target(compiler, 90, "compute_80");
    assert_target(compiler, 121, "compute_80");
    assert_target(compiler, 61, "compute_50");
    assert_int_equal(gnf_compiler_target(compiler, 37, target), GNF_NO_COMPILER);
    scratch_assert_contains(gnf_error_message(), "compute capability is 3.7; NVRTC 12.4 (");
    scratch_assert_contains(gnf_error_message(), "compiles for 5.0 to 8.0");
    gnf_compiler_destroy(compiler);

    setenv("STUB_NVRTC_ARCHS", "120,90,103", 1); /* any order */
    compiler = create(stub);
    assert_target(compiler, 110, "compute_103");
    assert_target(compiler, 90, "sm_90");
    assert_int_equal(gnf_compiler_target(compiler, 89, target), GNF_NO_COMPILER);
    scratch_assert_contains(gnf_error_message(), "compiles for 9.0 to 12.0");
    gnf_compiler_destroy(compiler);

    setenv("STUB_NVRTC_VERSION", "11010", 1);
    compiler = create(old_stub);
    assert_target(compiler, 89, "sm_89");
    gnf_compiler_destroy(compiler);
}

static void test_build(void **state)
{
    struct gnf_compiler *compiler = create(stub);
    void *image;
    size_t size;

    (void)state;
    assert_int_equal(gnf_compiler_build(compiler, "SOURCE", "k", "sm_80", &image, &size), GNF_OK);
    assert_string_equal(image, "--std=c++17 -default-device --gpu-architecture=sm_80 SOURCE");
    assert_int_equal(size, strlen(image) + 1);
    free(image);
    assert_int_equal(gnf_compiler_build(compiler, "SOURCE", "k", "compute_80", &image, &size), GNF_OK);
    assert_string_equal(image, "--std=c++17 -default-device --gpu-architecture=compute_80 SOURCE");
    assert_int_equal(size, strlen(image) + 1); /* PTX is a text: its zero byte comes along */
    free(image);
    gnf_compiler_destroy(compiler);

    setenv("STUB_NVRTC_VERSION", "12090", 1);
    compiler = create(stub);
    assert_int_equal(gnf_compiler_build(compiler, "SOURCE", "k", "sm_80", &image, &size), GNF_OK);
    scratch_assert_contains(image, " --no-cache ");
    free(image);
    gnf_compiler_destroy(compiler);
}

static void test_refusals(void **state)
{
    struct gnf_compiler *compiler = create(stub);
    void *image = &image;
    size_t size;

    (void)state;
    setenv("STUB_NVRTC_FAIL", "builtins", 1);
    assert_int_equal(gnf_compiler_build(compiler, "SOURCE", "kernel.cu", "sm_80", &image, &size),
                     GNF_COMPILE_FAILED);
    assert_null(image);
    scratch_assert_contains(gnf_error_message(), "kernel.cu for sm_80: NVRTC 12.4 says "
                                                 "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE (7):\n");
    scratch_assert_contains(gnf_error_message(), "failed to open libnvrtc-builtins.so.12.4");
    setenv("STUB_NVRTC_FAIL", "log", 1);
    assert_int_equal(gnf_compiler_build(compiler, "SOURCE", "k", "sm_80", &image, &size), GNF_COMPILE_FAILED);
    scratch_assert_contains(gnf_error_message(), "NVRTC_ERROR_COMPILATION (6)");
    gnf_compiler_destroy(compiler);
}

/* ---- with the real one ---- */

static bool have_nvrtc(void)
{
    struct gnf_compiler *compiler = NULL;
    int version;
    bool have = gnf_compiler_create(&compiler, getenv("GNFUSE_NVRTC")) == GNF_OK &&
                gnf_compiler_version(compiler, &version, NULL) == GNF_OK;

    gnf_compiler_destroy(compiler);
    return have;
}

static bool is_elf(const void *image, size_t size)
{
    return size > 64 && memcmp(image, "\177ELF", 4) == 0;
}

static void test_real(void **state)
{
    struct gnf_compiler *compiler = create(getenv("GNFUSE_NVRTC"));
    void *image, *again;
    size_t size, again_size;
    char target[24];
    int version;

    (void)state;
    assert_int_equal(gnf_compiler_version(compiler, &version, NULL), GNF_OK);
    assert_true(version >= 12000);
    assert_target(compiler, 90, "sm_90");
    assert_int_equal(gnf_compiler_build(compiler, kernel, "k", "sm_90", &image, &size), GNF_OK);
    assert_true(is_elf(image, size));
    assert_int_equal(gnf_compiler_build(compiler, kernel, "k", "sm_90", &again, &again_size), GNF_OK);
    assert_int_equal(size, again_size);
    assert_memory_equal(image, again, size);
    free(image);
    free(again);

    assert_int_equal(gnf_compiler_target(compiler, 995, target), GNF_OK);
    assert_memory_equal(target, "compute_", 8);
    assert_int_equal(gnf_compiler_build(compiler, kernel, "k", target, &image, &size), GNF_OK);
    assert_non_null(strstr(image, ".version"));
    assert_int_equal(((char *)image)[size - 1], 0);
    free(image);
    gnf_compiler_destroy(compiler);
}

static void test_real_error(void **state)
{
    struct gnf_compiler *compiler = create(getenv("GNFUSE_NVRTC"));
    void *image;
    size_t size;

    (void)state;
    assert_int_equal(gnf_compiler_build(compiler, "__global__ void k() { not_declared = 1; }", "broken.cu",
                                        "sm_90", &image, &size),
                     GNF_COMPILE_FAILED);
    scratch_assert_contains(gnf_error_message(), "broken.cu for sm_90: NVRTC ");
    scratch_assert_contains(gnf_error_message(),
                            "broken.cu(1): error: identifier \"not_declared\" is undefined");
    assert_int_equal(gnf_compiler_build(compiler, kernel, "k", "sm_1", &image, &size), GNF_COMPILE_FAILED);
    scratch_assert_contains(gnf_error_message(), "sm_1");
    /* No include path: what a user's machine may lack is not found here either. */
    assert_int_equal(gnf_compiler_build(compiler, "#include <cuda_fp16.h>\n", "k", "sm_90", &image, &size),
                     GNF_COMPILE_FAILED);
    gnf_compiler_destroy(compiler);
}

static void *compile_in_thread(void *compiler)
{
    void *image = NULL;
    size_t size;

    if (gnf_compiler_build(compiler, kernel, "k", "sm_90", &image, &size) != GNF_OK || !is_elf(image, size))
        return strdup(gnf_error_message());
    free(image);
    return NULL;
}

static void test_real_threads(void **state)
{
    struct gnf_compiler *compiler = create(getenv("GNFUSE_NVRTC"));
    pthread_t thread[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, compile_in_thread, compiler), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong = "not joined";
        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        assert_null(wrong);
    }
    gnf_compiler_destroy(compiler);
}

/* ---- in an empty root folder ---- */

static void copy_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0755);

    assert_true(in >= 0 && out >= 0);
    while (sendfile(out, in, NULL, (size_t)1 << 30) > 0)
        ;
    close(in);
    close(out);
}

/* Compiles where nothing but `nvrtc` ("" for nothing at all) is to be found, and returns the message. */
static const char *message_in_jail(const char *nvrtc)
{
    static char text[16384];
    struct gnf_compiler *compiler;
    void *image;
    size_t size;
    ssize_t length;
    int pipe_ends[2];
    pid_t child;

    assert_int_equal(pipe(pipe_ends), 0);
    child = fork();
    if (child == 0) {
        const char *needed[] = {"libpthread.so.0", "librt.so.1", "libdl.so.2", "libm.so.6"};
        gnf_status status;
        for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
            dlopen(needed[i], RTLD_NOW);
        setenv("CUDA_HOME", "/my/toolkit", 1);
        unsetenv("CUDA_PATH");
        if (chroot(scratch_folder) != 0 || chdir("/") != 0 ||
            gnf_compiler_create(&compiler, *nvrtc ? nvrtc : NULL) != GNF_OK)
            _exit(2);
        status = gnf_compiler_build(compiler, kernel, "k", "sm_90", &image, &size);
        snprintf(text, sizeof text, "%s: %s", gnf_status_name(status), gnf_error_message());
        if (write(pipe_ends[1], text, strlen(text)) < 0)
            _exit(2);
        _exit(0);
    }
    close(pipe_ends[1]);
    length = 0;
    for (ssize_t got; (got = read(pipe_ends[0], text + length, sizeof text - 1 - (size_t)length)) > 0;)
        length += got;
    text[length] = '\0';
    close(pipe_ends[0]);
    waitpid(child, NULL, 0);
    return text;
}

static void test_hidden(void **state)
{
    static const char *const places[] = {
        "libnvrtc.so.13, ",
        "libnvrtc.so.12, ",
        "/my/toolkit/lib64/libnvrtc.so.13, ",
        "/my/toolkit/lib64/libnvrtc.so.12, ",
        "/usr/local/cuda/lib64/libnvrtc.so ",
        "GNFUSE_NVRTC",
    };
    const char *message;

    (void)state;
    if (geteuid() != 0)
        skip();
    message = message_in_jail("");
    scratch_assert_contains(message, "GNF_NO_COMPILER: ");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        scratch_assert_contains(message, places[i]);
}

static void test_hidden_builtins(void **state)
{
    struct gnf_compiler *compiler = create(getenv("GNFUSE_NVRTC"));
    const char *path, *message;
    int version;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(gnf_compiler_version(compiler, &version, &path), GNF_OK);
    copy_file(path, scratch_path("libnvrtc.so.99"));
    gnf_compiler_destroy(compiler);
    message = message_in_jail("/libnvrtc.so.99");
    scratch_assert_contains(message, "GNF_COMPILE_FAILED: k for sm_90: NVRTC ");
    scratch_assert_contains(message, "libnvrtc-builtins");
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_options_text), TEST(test_not_there), TEST(test_not_nvrtc), TEST(test_targets),
        TEST(test_build),        TEST(test_refusals),  TEST(test_hidden),
    };
    const struct CMUnitTest real[] = {
        TEST(test_hidden_builtins), /* first: once loaded by a compile they cannot be hidden */
        TEST(test_real),
        TEST(test_real_error),
        TEST(test_real_threads),
    };
    int failed;

    if (argc != 3) {
        fprintf(stderr, "usage: test_compile STUB OLD_STUB\n");
        return 2;
    }
    stub = argv[1];
    old_stub = argv[2];
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed)
        return failed;
    return have_nvrtc() ? cmocka_run_group_tests_name("with NVRTC", real, NULL, NULL) : 77;
}
