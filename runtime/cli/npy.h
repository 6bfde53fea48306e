/* NumPy's .npy files, versions 1 and 2: little-endian f4, f2, and u2 for bf16; C order. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include "../problem.h"

enum { NPY_MAX_RANK = 8 };

struct npy_array {
    enum gnf_dtype dtype; /* u2 is bf16 */
    int rank;
    int64_t shape[NPY_MAX_RANK];
    int64_t elements;
    void *data; /* malloc'ed; NULL after npy_read_header */
};

/* The messages name the file, what it holds and what is allowed. GNF_IO where the file cannot be read,
 * GNF_INVALID_ARGUMENT where it is not such a file, GNF_OUT_OF_MEMORY. */
gnf_status npy_read(const char *path, struct npy_array *array);
/* Dtype and shape alone; the file's size is checked against them too. */
gnf_status npy_read_header(const char *path, struct npy_array *array);
void npy_free(struct npy_array *array);
/* Writes a temporary file beside `path`, flushes and renames: the path holds the old file or the whole new
 * one. */
gnf_status npy_write(const char *path, enum gnf_dtype dtype, int rank, const int64_t *shape,
                     const void *data);
/* "(2, 3)", as NumPy prints it. */
void npy_shape_text(int rank, const int64_t *shape, char *out, size_t size);
const char *npy_descr(enum gnf_dtype dtype); /* "<f4", "<f2", "<u2" */

#endif
