/* .npy files, and the tensors that are read from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/npy.h"
#include "cli/tensors.h"
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[128];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gnfuse-npy-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a.npy", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails if anything was left behind */
}

static void write_raw(const char *start, size_t start_size, const char *header, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(start, 1, start_size, file);
    fwrite(header, 1, strlen(header), file);
    fwrite(data, 1, size, file);
    fclose(file);
}

/* A version 1 file with this dict and eight bytes of values. */
static void write_version1(const char *header)
{
    char start[10] = "\x93NUMPY\x01\x00";
    start[8] = (char)strlen(header);
    start[9] = (char)(strlen(header) >> 8);
    write_raw(start, sizeof start, header, "\0\0\x80\x3f\0\0\0\x40", 8);
}

static void round_trip(void **state)
{
    (void)state;
    const float values[6] = {0, 1, -2, 3.5f, 1e-30f, 4};
    const int64_t shapes[4][3] = {{2, 3, 1}, {6}, {1, 1, 6}, {2, 0, 3}};
    const int ranks[4] = {3, 1, 3, 3};
    for (int i = 0; i < 4; i++) {
        struct npy_array array;
        assert_int_equal(npy_write(path, GNF_F32, ranks[i], shapes[i], values), GNF_OK);
        assert_int_equal(npy_read(path, &array), GNF_OK);
        assert_int_equal(array.dtype, GNF_F32);
        assert_int_equal(array.rank, ranks[i]);
        assert_memory_equal(array.shape, shapes[i], (size_t)ranks[i] * sizeof(int64_t));
        assert_int_equal(array.elements, i == 3 ? 0 : 6);
        assert_memory_equal(array.data, values, (size_t)array.elements * sizeof(float));
        npy_free(&array);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal((info.st_size - array.elements * 4) % 64, 0);
    }
}

static void scalar_and_halves(void **state)
{
    (void)state;
    const uint16_t value = 0x3c00;
    struct npy_array array;
    for (int dtype = GNF_F16; dtype <= GNF_BF16; dtype++) {
        assert_int_equal(npy_write(path, (enum gnf_dtype)dtype, 0, NULL, &value), GNF_OK);
        assert_int_equal(npy_read_header(path, &array), GNF_OK);
        assert_null(array.data);
        assert_int_equal(array.dtype, dtype);
        assert_int_equal(array.rank, 0);
        assert_int_equal(array.elements, 1);
    }
}

static void reads_what_numpy_writes(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }                      \n",
        "{\"shape\": (1L, 2L), \"fortran_order\": False, \"descr\": \"<f4\"}\n",
        "{'descr':'<f4','fortran_order':False,'shape':(2,1,1)}",
    };
    struct npy_array array;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        write_version1(headers[i]);
        assert_int_equal(npy_read(path, &array), GNF_OK);
        assert_int_equal(array.elements, 2);
        assert_true(((float *)array.data)[1] == 2);
        npy_free(&array);
    }
    char start[12] = "\x93NUMPY\x02\x00";
    start[8] = (char)strlen(headers[0]);
    write_raw(start, sizeof start, headers[0], "\0\0\x80\x3f\0\0\0\x40", 8);
    assert_int_equal(npy_read(path, &array), GNF_OK);
    npy_free(&array);
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", "holds '<f8'"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "holds '>f4'"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }", "Fortran order"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "structured"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
         "holds 8 bytes of values, its header says 12"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
         "holds 8 bytes of values, its header says 4"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,), }", "63 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }", "understood"},
        {"{'descr': '<f4', 'fortran_order': False}", "understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2", "understood"},
        {"{'descr': '<f4", "understood"},
        {"", "understood"},
    };
    struct npy_array array;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_version1(cases[i].header);
        assert_int_not_equal(npy_read(path, &array), GNF_OK);
        if (strstr(gnf_error_message(), cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].header, gnf_error_message());
        assert_null(array.data);
    }
    write_raw("PK\3\4 a zip file", 16, "", "", 0);
    assert_int_equal(npy_read(path, &array), GNF_INVALID_ARGUMENT);
    write_raw("\x93NUMPY\x03\x00\x10\x00\x00\x00", 12, "", "", 0);
    assert_int_equal(npy_read(path, &array), GNF_INVALID_ARGUMENT);
    write_raw("\x93NUMPY\x01\x00\x76\x00", 10, "{'descr'", "", 0);
    assert_int_equal(npy_read(path, &array), GNF_INVALID_ARGUMENT);
    assert_int_equal(npy_read("/nowhere/a.npy", &array), GNF_IO);
    assert_int_equal(npy_read(folder, &array), GNF_IO);
}

static void writes_whole_or_not_at_all(void **state)
{
    (void)state;
    const int64_t shape[1] = {1};
    const float value = 1;
    assert_int_equal(npy_write("/nowhere/a.npy", GNF_F32, 1, shape, &value), GNF_IO);
    assert_int_equal(npy_write(folder, GNF_F32, 1, shape, &value), GNF_IO); /* a folder */
    assert_int_equal(npy_write("/dev/full", GNF_F32, 1, shape, &value), GNF_IO);
}

static void tensors_are_matched(void **state)
{
    (void)state;
    struct gnf_problem problem;
    struct tensors tensors;
    const float values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const int64_t good[3] = {2, 2, 3}, bad[3] = {2, 3, 2}, channel[1] = {2}, one[1] = {1};
    assert_int_equal(
        gnf_problem_parse("f32[*,2,3] | groupnorm(1) | mul(w: channel) | add(b: scalar)", &problem), GNF_OK);
    assert_int_equal(tensors_create(&tensors, &problem, 2), GNF_OK);
    assert_int_equal(npy_write(path, GNF_F32, 3, bad, values), GNF_OK);
    assert_int_equal(tensors_load(&tensors, "x", path), GNF_INVALID_ARGUMENT);
    assert_non_null(strstr(gnf_error_message(), "holds '<f4' (2, 3, 2), wanted '<f4' (2, 2, 3)"));
    assert_int_equal(tensors_load(&tensors, "weight", path), GNF_INVALID_ARGUMENT);
    assert_non_null(strstr(gnf_error_message(), "allowed: x, gamma, beta, w, b"));
    assert_int_equal(npy_write(path, GNF_F32, 3, good, values), GNF_OK);
    assert_int_equal(tensors_load(&tensors, "x", path), GNF_OK);
    assert_int_equal(tensors_load(&tensors, "x", path), GNF_INVALID_ARGUMENT);
    assert_int_equal(tensors_require(&tensors), GNF_INVALID_ARGUMENT);
    assert_non_null(strstr(gnf_error_message(), "w is missing"));
    assert_int_equal(npy_write(path, GNF_F32, 1, channel, values), GNF_OK);
    assert_int_equal(tensors_load(&tensors, "w", path), GNF_OK);
    assert_int_equal(npy_write(path, GNF_F32, 1, one, values), GNF_OK); /* a scalar may be written as (1,) */
    assert_int_equal(tensors_load(&tensors, "b", path), GNF_OK);
    assert_int_equal(tensors_require(&tensors), GNF_OK);
    assert_int_equal(tensors_bytes(&tensors, false), 4 * (12 + 12 + 2 + 1));
    tensors_free(&tensors);
}

static void channels_last_and_back(void **state)
{
    (void)state;
    struct gnf_problem problem;
    struct tensors tensors;
    enum { N = 2, C = 35, S = 37 * 2 };
    float logical[N * C * S], memory[N * C * S], back[N * C * S];
    assert_int_equal(gnf_problem_parse("f32[2,35,37,2]:nhwc | groupnorm(5)", &problem), GNF_OK);
    assert_int_equal(tensors_create(&tensors, &problem, N), GNF_OK);
    assert_int_equal(tensors_scratch_bytes(&tensors), sizeof memory);
    for (int i = 0; i < N * C * S; i++)
        logical[i] = (float)i;
    tensors.at[TENSOR_X].data = logical;
    assert_ptr_equal(tensors_to_memory(&tensors, TENSOR_X, memory), memory);
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++)
            for (int s = 0; s < S; s++)
                assert_true(memory[(n * S + s) * C + c] == logical[(n * C + c) * S + s]);
    tensors_from_memory(&tensors, memory, back);
    assert_memory_equal(back, logical, sizeof logical);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(scalar_and_halves),
        cmocka_unit_test(reads_what_numpy_writes),
        cmocka_unit_test(refuses),
        cmocka_unit_test(writes_whole_or_not_at_all),
        cmocka_unit_test(tensors_are_matched),
        cmocka_unit_test(channels_last_and_back),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
