/* cuBLASLt by dlopen: what is missing, too old or refuses; descriptors, algorithms, and that nothing is left.
 * Arguments: a stub of cuBLASLt, and one that lacks a function. */
#define _GNU_SOURCE 1
#include "gemm.h"
#include "options.h"
#include "scratch.h"
#include "stub_cublaslt.h"
#include <dlfcn.h>

static const char *stub_path, *old_path;
static struct stub_cublaslt *stub;
static const struct gnf_gemm_shape shape = {
    .type = GNF_GEMM_F16,
    .rows = 100,
    .columns = 64,
    .depth = 96,
    .x_pitch = 768,
    .weight_pitch = 800,
    .batch = 4,
    .x_stride = 96,
    .weight_stride = 104,
    .alignment = 16,
};

static int setup(void **state)
{
    (void)state;
    void *library = dlopen(stub_path, RTLD_NOW);
    stub = library ? dlsym(library, "stub_cublaslt") : NULL;
    if (!stub)
        return -1;
    *stub = (struct stub_cublaslt){.algorithms = 3, .broken = -1, .workspace = 1000};
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return stub->alive;
}

static struct gnf_cublaslt *open_at(const char *path)
{
    struct gnf_cublaslt *cublaslt;
    assert_int_equal(gnf_cublaslt_create(&cublaslt, path, NULL), GNF_OK);
    return cublaslt;
}

static void assert_missing(const char *path, const char *part)
{
    struct gnf_cublaslt *cublaslt = open_at(path);
    assert_false(gnf_cublaslt_is_missing(cublaslt));
    for (int i = 0; i < 2; i++) { /* the second time without another attempt, and with the same words */
        assert_int_equal(gnf_cublaslt_load(cublaslt), GNF_NO_CUBLAS);
        scratch_assert_contains(gnf_error_message(), part);
        scratch_assert_contains(gnf_error_message(), "GNFUSE_CUBLASLT");
        assert_true(gnf_cublaslt_is_missing(cublaslt));
    }
    assert_false(gnf_cublaslt_is_loaded(cublaslt));
    gnf_cublaslt_destroy(cublaslt, true);
}

static void missing(void **state)
{
    (void)state;
    assert_missing("/there/is/no/libcublasLt.so.13", "/there/is/no/libcublasLt.so.13");
    assert_missing("libm.so.6", "not cuBLASLt 12 or newer: no cublasLt");
    assert_missing(old_path, "no cublasLtMatmul");
    gnf_cublaslt_destroy(NULL, true);
}

static void loading(void **state)
{
    struct gnf_cublaslt *cublaslt = open_at(stub_path);
    const char *path;
    int version;
    (void)state;
    assert_int_equal(gnf_cublaslt_version(cublaslt, &version, &path), GNF_OK);
    assert_int_equal(version, 130101);
    assert_string_equal(path, stub_path);
    assert_false(gnf_cublaslt_is_loaded(cublaslt));
    assert_int_equal(stub->created, 0); /* asking for a version makes no handle */
    stub->fail_create = 15;
    assert_int_equal(gnf_cublaslt_load(cublaslt), GNF_NO_CUBLAS);
    scratch_assert_contains(gnf_error_message(), "cublasLtCreate: stub: not supported (15)");
    assert_false(gnf_cublaslt_is_missing(cublaslt));
    stub->fail_create = 3;
    assert_int_equal(gnf_cublaslt_load(cublaslt), GNF_OUT_OF_MEMORY);
    stub->fail_create = 0;
    assert_int_equal(gnf_cublaslt_load(cublaslt), GNF_OK);
    assert_int_equal(gnf_cublaslt_load(cublaslt), GNF_OK);
    assert_true(gnf_cublaslt_is_loaded(cublaslt));
    assert_int_equal(stub->created, 1);
    gnf_cublaslt_destroy(cublaslt, true);
    /* the simulator's own file where nothing is given */
    assert_int_equal(gnf_cublaslt_create(&cublaslt, NULL, stub_path), GNF_OK);
    assert_int_equal(gnf_cublaslt_load(cublaslt), GNF_OK);
    gnf_cublaslt_destroy(cublaslt, true);
    assert_int_equal(gnf_cublaslt_create(&cublaslt, old_path, stub_path), GNF_OK);
    assert_int_equal(gnf_cublaslt_load(cublaslt), GNF_NO_CUBLAS);
    gnf_cublaslt_destroy(cublaslt, true);
}

/* A toolkit outside the loader's path. */
static void toolkit(void **state)
{
    char folder[] = "/tmp/gnf_test_XXXXXX", path[64];
    const char *found;
    int version;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/lib64", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/lib64/libcublasLt.so.13", folder);
    assert_int_equal(symlink(stub_path, path), 0);
    setenv("CUDA_PATH", folder, 1);
    struct gnf_cublaslt *cublaslt = open_at(NULL);
    assert_int_equal(gnf_cublaslt_version(cublaslt, &version, &found), GNF_OK);
    bool installed =
        strstr(found, "libcublasLt.so") && strcmp(found, path) != 0 && strcmp(found, stub_path) != 0;
    if (!installed) /* by the machine's own loader path, which comes first */
        assert_int_equal(version, 130101);
    gnf_cublaslt_destroy(cublaslt, false);
    assert_int_equal(nftw(folder, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void description(void **state)
{
    static const struct {
        enum gnf_gemm_type type;
        int compute, operand;
    } rows[] = {
        {GNF_GEMM_F32, 68, 0},
        {GNF_GEMM_TF32, 77, 0},
        {GNF_GEMM_F16, 68, 2},
        {GNF_GEMM_BF16, 68, 14},
    };
    struct gnf_cublaslt *cublaslt = open_at(stub_path);
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct gnf_gemm_shape other = shape;
        struct gnf_gemm *gemm;
        other.type = rows[i].type;
        other.alignment = i == 0 ? 4 : i == 1 ? 4096 : 16;
        assert_int_equal(gnf_gemm_create(&gemm, cublaslt, &other), GNF_OK);
        assert_int_equal(gnf_gemm_run(gemm, (void *)0x1000, (void *)0x2000, (float *)0x3000, (void *)0x4000,
                                      (CUstream)0x50),
                         GNF_OK);
        gnf_gemm_destroy(gemm);
        const struct stub_matmul *call = &stub->matmul[i];
        assert_int_equal(call->compute, rows[i].compute);
        assert_true(call->transposed);
        assert_int_equal(call->pointer[0], 0x2000);
        assert_int_equal(call->pointer[1], 0x1000);
        assert_int_equal(call->pointer[2], 0x3000);
        assert_int_equal(call->stream, 0x50);
        assert_int_equal(call->workspace_size, 0);
        assert_int_equal(call->workspace, 0);
        const struct stub_layout wanted[3] = {
            {rows[i].operand, 96, 64, 800, 104, 4},
            {rows[i].operand, 96, 100, 768, 96, 4},
            {0, 64, 100, 64, 6400, 4},
        };
        for (int j = 0; j < 3; j++) {
            assert_int_equal(call->layout[j].type, wanted[j].type);
            assert_int_equal(call->layout[j].rows, wanted[j].rows);
            assert_int_equal(call->layout[j].columns, wanted[j].columns);
            assert_int_equal(call->layout[j].pitch, wanted[j].pitch);
            assert_int_equal(call->layout[j].batch, wanted[j].batch);
            assert_int_equal(call->layout[j].stride, wanted[j].stride);
        }
        assert_int_equal(stub->preference.workspace, 32 << 20);
        assert_int_equal(stub->preference.alignment[0], i == 0 ? 4 : 16);
        assert_int_equal(stub->preference.alignment[1], i == 0 ? 4 : 16);
        assert_int_equal(stub->preference.alignment[2], 16);
        assert_int_equal(stub->preference.alignment[3], 16);
    }
    assert_int_equal(stub->created, 1);
    gnf_cublaslt_destroy(cublaslt, true);
}

static void algorithms(void **state)
{
    struct gnf_cublaslt *cublaslt = open_at(stub_path);
    struct gnf_gemm *gemm;
    unsigned char algorithm[GNF_GEMM_ALGORITHM] = {7, 8};
    (void)state;
    stub->broken = 1; /* is passed over */
    assert_int_equal(gnf_gemm_create(&gemm, cublaslt, &shape), GNF_OK);
    assert_int_equal(gnf_gemm_candidates(gemm), 2);
    assert_int_equal(gnf_gemm_workspace(gemm), 2000);
    gnf_gemm_take(gemm, 1);
    assert_int_equal(gnf_gemm_run(gemm, (void *)16, (void *)16, (float *)16, (void *)0x4000, NULL), GNF_OK);
    assert_int_equal(stub->matmul[0].algorithm[0], 3);
    assert_int_equal(stub->matmul[0].workspace, 0x4000);
    assert_int_equal(stub->matmul[0].workspace_size, 2000);
    assert_true(gnf_gemm_take_recorded(gemm, algorithm));
    assert_int_equal(gnf_gemm_run(gemm, (void *)16, (void *)16, (float *)16, (void *)0x4000, NULL), GNF_OK);
    assert_memory_equal(stub->matmul[1].algorithm, algorithm, sizeof algorithm);
    assert_int_equal(stub->matmul[1].workspace_size, 0);
    memset(algorithm, 0, sizeof algorithm);
    gnf_gemm_taken(gemm, algorithm);
    assert_int_equal(algorithm[1], 8);
    algorithm[0] = 200; /* the check refuses it, and the last one stays */
    assert_false(gnf_gemm_take_recorded(gemm, algorithm));
    algorithm[0] = 9;
    stub->large_workspace = (32 << 20) + 1;
    assert_false(gnf_gemm_take_recorded(gemm, algorithm));
    gnf_gemm_taken(gemm, algorithm);
    assert_int_equal(algorithm[0], 7);
    algorithm[0] = 9;
    stub->large_workspace = 5000;
    assert_true(gnf_gemm_take_recorded(gemm, algorithm));
    assert_int_equal(gnf_gemm_workspace(gemm), 5000);
    stub->fail_matmul = 13;
    assert_int_equal(gnf_gemm_run(gemm, (void *)16, (void *)16, (float *)16, NULL, NULL), GNF_DRIVER_ERROR);
    assert_string_equal(gnf_error_message(), "cublasLtMatmul: an error it has no name for (13)");
    gnf_gemm_destroy(gemm);
    gnf_gemm_destroy(NULL);
    gnf_cublaslt_destroy(cublaslt, true);
}

static void failures(void **state)
{
    struct gnf_cublaslt *cublaslt = open_at(stub_path);
    struct gnf_gemm *gemm;
    (void)state;
    stub->algorithms = 0;
    assert_int_equal(gnf_gemm_create(&gemm, cublaslt, &shape), GNF_NO_CUBLAS);
    assert_null(gemm);
    scratch_assert_contains(gnf_error_message(),
                            "no algorithm (for [100, 64] of [100, 96] aligned to 16 bytes)");
    stub->algorithms = 1;
    stub->broken = 0;
    assert_int_equal(gnf_gemm_create(&gemm, cublaslt, &shape), GNF_NO_CUBLAS);
    stub->broken = -1;
    stub->workspace = 0;
    stub->least_alignment = 32;
    assert_int_equal(gnf_gemm_create(&gemm, cublaslt, &shape), GNF_NO_CUBLAS);
    scratch_assert_contains(gnf_error_message(), "cublasLtMatmulAlgoGetHeuristic: stub: not supported (15)");
    stub->least_alignment = 0;
    for (int i = 1; i <= 3; i++) {
        stub->fail_layout = i;
        assert_int_equal(gnf_gemm_create(&gemm, cublaslt, &shape), GNF_NO_CUBLAS);
        scratch_assert_contains(gnf_error_message(), "cublasLtMatrixLayoutCreate");
        assert_int_equal(stub->alive, 1);
    }
    assert_int_equal(gnf_gemm_create(&gemm, cublaslt, &shape), GNF_OK);
    gnf_gemm_destroy(gemm);
    gnf_cublaslt_destroy(cublaslt, true);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(missing),     TEST(loading),    TEST(toolkit),
                                       TEST(description), TEST(algorithms), TEST(failures)};
    if (argc != 3) {
        fprintf(stderr, "usage: test_gemm STUB OLD_STUB\n");
        return 2;
    }
    stub_path = argv[1];
    old_path = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
