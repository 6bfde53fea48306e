/* The tensors of a problem on the host: logical sizes in C order, in the problem's dtype. */
#ifndef CLI_TENSORS_H
#define CLI_TENSORS_H

#include "../problem.h"
#include "random.h"

enum {
    TENSORS_MAX = 3 + GNF_MAX_OPERANDS,
    TENSOR_X = 0,
    TENSOR_GAMMA = 1,
    TENSOR_BETA = 2,
    TENSOR_OPERAND = 3
};

struct tensor {
    const char *name; /* x, gamma, beta, then the operands' names in order */
    enum gnf_broadcast broadcast;
    bool required; /* gamma and beta may be null */
    int64_t elements;
    void *data; /* malloc'ed, or NULL */
};
struct tensors {
    const struct gnf_problem *problem; /* not owned */
    int64_t samples;                   /* N */
    int64_t y_elements;
    int count;
    struct tensor at[TENSORS_MAX];
};

/* Lists the tensors, without data. `samples` is N where the problem says *. */
gnf_status tensors_create(struct tensors *tensors, const struct gnf_problem *problem, int64_t samples);
void tensors_free(struct tensors *tensors);

/* x as `data` says, gamma, beta and operands uniform; those of gamma and beta only if `affine`. */
gnf_status tensors_random(struct tensors *tensors, const struct random_recipe *data, uint64_t seed,
                          bool affine);
/* One tensor from a .npy file of its logical shape. Unknown names and wrong shapes are errors that say what
 * is allowed. */
gnf_status tensors_load(struct tensors *tensors, const char *name, const char *path);
/* GNF_INVALID_ARGUMENT naming the first required tensor without data. */
gnf_status tensors_require(const struct tensors *tensors);

/* The logical shape: rank and sizes. A reduced y has C = 1. */
int tensors_shape(const struct tensors *tensors, const struct tensor *tensor,
                  int64_t shape[2 + GNF_MAX_SPATIAL]);
int tensors_y_shape(const struct tensors *tensors, int64_t shape[2 + GNF_MAX_SPATIAL]);
int64_t tensors_y_channels(const struct gnf_problem *problem);

/* Whether the memory order of a full tensor is the logical one, `channels` being C, or 1 for a reduced y. */
bool tensors_in_order(const struct gnf_problem *problem, int64_t channels);
/* Between logical C order and the problem's memory order, `channels` being C, or 1 for a reduced y. */
void tensors_to_memory(const struct gnf_problem *problem, int64_t samples, int64_t channels,
                       const void *logical, void *memory);
void tensors_from_memory(const struct gnf_problem *problem, int64_t samples, int64_t channels,
                         const void *memory, void *logical);
/* Bytes that one execution has to read and write at least: x, y and the operands present. */
int64_t tensors_bytes(const struct tensors *tensors);

#endif
