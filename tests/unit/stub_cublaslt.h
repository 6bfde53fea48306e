/* What stub_cublaslt.c does and remembers. Tests set and read it where dlsym() finds "stub_cublaslt". */
#ifndef GNF_STUB_CUBLASLT_H
#define GNF_STUB_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

enum { STUB_MATMULS = 64 };

struct stub_layout { /* as cuBLASLt has it: column-major */
    int type;
    int64_t rows, columns, pitch, stride;
    int32_t batch;
};
struct stub_preference {
    uint64_t workspace;
    uint32_t alignment[4]; /* of A, B, C, D */
};
struct stub_heuristic {
    unsigned char algorithm[64];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
struct stub_matmul {
    int compute, transposed;
    struct stub_layout layout[3]; /* A, B, D: weight, x, result */
    uintptr_t pointer[3];
    unsigned char algorithm[64];
    uintptr_t workspace;
    size_t workspace_size;
    uintptr_t stream;
    int launches; /* of kernels, before it */
};
struct stub_cublaslt {
    /* set by tests */
    int algorithms, broken; /* heuristics that it has, one that says it cannot */
    int workspace;          /* bytes that the second one asks for, the third twice as much */
    size_t large_workspace; /* bytes that a recorded algorithm 9 asks for */
    unsigned least_alignment;
    int fail_create, fail_layout, fail_matmul; /* status; the n-th one; status */
    const int *launches;
    /* read by tests */
    int alive, created, count;
    struct stub_preference preference; /* of the last question */
    struct stub_matmul matmul[STUB_MATMULS];
};

#endif
