#include "npy.h"

#include "files.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files' values are used as they stand");

enum { NPY_MAX_HEADER = 65536 };

const char *npy_descr(enum gnf_dtype dtype)
{
    return dtype == GNF_F32 ? "<f4" : dtype == GNF_F16 ? "<f2" : "<u2";
}

void npy_shape_text(int rank, const int64_t *shape, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "(");
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, i ? ", %lld" : "%lld", (long long)shape[i]);
    if (used < size)
        snprintf(out + used, size - used, rank == 1 ? ",)" : ")");
}

/* The header is a Python dict of three entries in any order; this reads that much of Python and no more. */
struct scanner {
    const char *at, *end;
};

static void skip_space(struct scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool take(struct scanner *s, const char *token)
{
    skip_space(s);
    size_t length = strlen(token);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, token, length) != 0)
        return false;
    s->at += length;
    return true;
}

static bool next_is(struct scanner *s, char c)
{
    skip_space(s);
    return s->at < s->end && *s->at == c;
}

static bool take_string(struct scanner *s, char *out, size_t size)
{
    skip_space(s);
    if (s->at == s->end || (*s->at != '\'' && *s->at != '"'))
        return false;
    char quote = *s->at++;
    size_t length = 0;
    while (s->at < s->end && *s->at != quote) {
        if (length + 1 >= size)
            return false;
        out[length++] = *s->at++;
    }
    out[length] = '\0';
    return take(s, (char[2]){quote, '\0'});
}

static bool take_number(struct scanner *s, int64_t *out)
{
    skip_space(s);
    const char *start = s->at;
    int64_t value = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *s->at - '0', &value))
            return false;
    take(s, "L"); /* Python 2 wrote long integers so */
    *out = value;
    return s->at > start;
}

static bool take_shape(struct scanner *s, struct npy_array *array)
{
    if (!take(s, "("))
        return false;
    array->rank = 0;
    while (!take(s, ")")) {
        if (array->rank == NPY_MAX_RANK || !take_number(s, &array->shape[array->rank]))
            return false;
        array->rank++;
        if (!take(s, ",") && !next_is(s, ')'))
            return false;
    }
    return true;
}

static gnf_status parse_header(const char *path, const char *text, size_t length, struct npy_array *array)
{
    struct scanner s = {text, text + length};
    char key[32], descr[32] = "";
    bool fortran = false, has_order = false, has_shape = false;
    bool good = take(&s, "{");
    while (good && !take(&s, "}")) {
        good = take_string(&s, key, sizeof key) && take(&s, ":");
        if (good && strcmp(key, "descr") == 0) {
            if (next_is(&s, '['))
                return gnf_fail(GNF_INVALID_ARGUMENT,
                                "%s: holds a structured type (allowed: f4, f2, u2 for bf16)", path);
            good = take_string(&s, descr, sizeof descr);
        } else if (good && strcmp(key, "fortran_order") == 0) {
            fortran = take(&s, "True");
            good = has_order = fortran || take(&s, "False");
        } else if (good && strcmp(key, "shape") == 0) {
            good = has_shape = take_shape(&s, array);
        } else {
            good = false;
        }
        good = good && (take(&s, ",") || next_is(&s, '}'));
    }
    if (!good || descr[0] == '\0' || !has_order || !has_shape)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: its .npy header cannot be understood", path);
    const char *allowed = "allowed: '<f4', '<f2', '<u2' for bf16";
    for (int dtype = GNF_F32; dtype <= GNF_BF16; dtype++) {
        if (strcmp(descr, npy_descr((enum gnf_dtype)dtype)) != 0)
            continue;
        array->dtype = (enum gnf_dtype)dtype;
        allowed = NULL;
    }
    if (allowed != NULL)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: holds '%s' (%s)", path, descr, allowed);
    if (fortran)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "%s: is in Fortran order (allowed: C order, as numpy.ascontiguousarray gives)", path);
    return GNF_OK;
}

static gnf_status count_elements(const char *path, struct npy_array *array, int64_t *bytes)
{
    array->elements = 1;
    bool zero = false, overflow = false;
    for (int i = 0; i < array->rank; i++) {
        zero |= array->shape[i] == 0;
        if (array->shape[i] != 0)
            overflow |= __builtin_mul_overflow(array->elements, array->shape[i], &array->elements);
    }
    if (zero)
        array->elements = 0;
    overflow &= !zero;
    if (overflow || __builtin_mul_overflow(array->elements, (int64_t)gnf_dtype_size(array->dtype), bytes))
        return gnf_fail(GNF_TOO_LARGE, "%s: its shape's product does not fit 63 bits", path);
    return GNF_OK;
}

static gnf_status read_failed(const char *path, FILE *file)
{
    if (ferror(file))
        return gnf_fail(GNF_IO, "%s: cannot be read: %s", path, strerror(errno));
    return gnf_fail(GNF_INVALID_ARGUMENT, "%s: ends in the middle", path);
}

static gnf_status read_open_file(const char *path, FILE *file, struct npy_array *array, bool with_data)
{
    unsigned char start[12];
    bool whole = fread(start, 1, 10, file) == 10;
    if (ferror(file))
        return read_failed(path, file);
    if (!whole || memcmp(start, "\x93NUMPY", 6) != 0)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: is not a .npy file", path);
    if (start[6] != 1 && start[6] != 2)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: is of .npy version %d (allowed: 1 and 2)", path, start[6]);
    size_t length = start[8] | (size_t)start[9] << 8, preamble = 10;
    if (start[6] == 2) {
        if (fread(start + 10, 1, 2, file) != 2)
            return read_failed(path, file);
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
        preamble = 12;
    }
    if (length > NPY_MAX_HEADER)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: its header of %zu bytes is too long (allowed: %d)", path,
                        length, NPY_MAX_HEADER);
    char *header = malloc(length + 1);
    if (header == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "%s: no memory for its header", path);
    gnf_status status = fread(header, 1, length, file) == length ? parse_header(path, header, length, array)
                                                                 : read_failed(path, file);
    free(header);
    GNF_TRY(status);

    int64_t bytes = 0;
    GNF_TRY(count_elements(path, array, &bytes));
    struct stat info;
    if (fstat(fileno(file), &info) != 0)
        return gnf_fail(GNF_IO, "%s: cannot be read: %s", path, strerror(errno));
    int64_t holds = (int64_t)info.st_size - (int64_t)(preamble + length);
    if (S_ISREG(info.st_mode) && holds != bytes)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: holds %lld bytes of values, its header says %lld", path,
                        (long long)holds, (long long)bytes);
    if (!with_data)
        return GNF_OK;
    array->data = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (array->data == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "%s: no memory for its %lld bytes", path, (long long)bytes);
    if (fread(array->data, 1, (size_t)bytes, file) != (size_t)bytes)
        return read_failed(path, file);
    return GNF_OK;
}

static gnf_status read_file(const char *path, struct npy_array *array, bool with_data)
{
    memset(array, 0, sizeof *array);
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return gnf_fail(GNF_IO, "%s: cannot be read: %s", path, strerror(errno));
    gnf_status status = read_open_file(path, file, array, with_data);
    fclose(file);
    if (status != GNF_OK)
        npy_free(array);
    return status;
}

gnf_status npy_read(const char *path, struct npy_array *array)
{
    return read_file(path, array, true);
}

gnf_status npy_read_header(const char *path, struct npy_array *array)
{
    return read_file(path, array, false);
}

void npy_free(struct npy_array *array)
{
    free(array->data);
    array->data = NULL;
}

gnf_status npy_write(const char *path, enum gnf_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    char shape_text[256], header[512];
    npy_shape_text(rank, shape, shape_text, sizeof shape_text);
    int length =
        snprintf(header + 10, sizeof header - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                 npy_descr(dtype), shape_text);
    int total = (10 + length + 1 + 63) / 64 * 64; /* NumPy aligns the values to 64 bytes */
    memset(header + 10 + length, ' ', (size_t)(total - 10 - length));
    header[total - 1] = '\n';
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((total - 10) & 0xff);
    header[9] = (char)((total - 10) >> 8);
    size_t bytes = gnf_dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        bytes *= (size_t)shape[i];

    struct output_file file;
    GNF_TRY(output_open(&file, path));
    gnf_status status = output_write(&file, header, (size_t)total);
    if (status == GNF_OK)
        status = output_write(&file, data, bytes);
    if (status == GNF_OK)
        return output_finish(&file);
    output_abandon(&file);
    return status;
}
