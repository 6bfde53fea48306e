/* The tensors of a problem on the host: logical sizes in C order, in the problem's dtype. */
#ifndef CLI_TENSORS_H
#define CLI_TENSORS_H

#include "../problem.h"
#include "random.h"

enum {
    TENSORS_MAX = 5 + GNF_MAX_OPERANDS,
    TENSORS_RANK = 2 + GNF_MAX_SPATIAL,
    TENSOR_Y = -1, /* stands in no list */
    TENSOR_X = 0,
    TENSOR_GAMMA = 1,
    TENSOR_BETA = 2,
    TENSOR_OPERAND = 3
};

struct tensor {
    const char *name; /* x, gamma, beta, then the operands' names in order, then weight and bias of linear or
                         conv2d */
    enum gnf_broadcast broadcast; /* of weight and bias GNF_CHANNEL: the same for all samples */
    bool required;                /* gamma, beta and bias may be null */
    int rank;
    int64_t shape[TENSORS_RANK]; /* logical */
    int64_t elements;
    void *data; /* malloc'ed, or NULL */
};
struct tensors {
    const struct gnf_problem *problem; /* not owned */
    int64_t samples;                   /* N */
    int64_t y_elements;
    int count;
    int weight; /* index of the weight, linear's [OUT, IN] or conv2d's [OUT, IN, K, K], its bias behind it; -1
                   without either */
    struct tensor at[TENSORS_MAX];
};
/* What random tensors hold. */
struct tensors_recipe {
    struct random_recipe x;
    struct random_recipe weight; /* times 1 / sqrt(IN * K * K), the bound of a fresh layer in PyTorch */
    bool affine;                 /* gamma, beta and bias given, not null */
};

/* Lists the tensors, without data. `samples` is N where the problem says *. */
gnf_status tensors_create(struct tensors *tensors, const struct gnf_problem *problem, int64_t samples);
void tensors_free(struct tensors *tensors);

/* x and weight as the recipe says, bias uniform within 1 / sqrt(IN * K * K), the rest uniform in [-1, 1). */
gnf_status tensors_random(struct tensors *tensors, const struct tensors_recipe *recipe, uint64_t seed);
/* One tensor from a .npy file of its logical shape. Unknown names and wrong shapes are errors that say what
 * is allowed. */
gnf_status tensors_load(struct tensors *tensors, const char *name, const char *path);
/* GNF_INVALID_ARGUMENT naming the first required tensor without data. */
gnf_status tensors_require(const struct tensors *tensors);

/* The logical shape of y: rank and sizes, as the last stage leaves them. */
int tensors_y_shape(const struct tensors *tensors, int64_t shape[TENSORS_RANK]);
/* May y be written in the place of this tensor? */
bool tensors_can_share(const struct tensors *tensors, int which);

/* Whether tensor `which`, or y, lies in memory in its logical C order. */
bool tensors_in_order(const struct tensors *tensors, int which);
/* A tensor's values in the problem's memory order: its own data, or a copy in `scratch`, which takes
 * tensors_scratch_bytes() for any of them. */
const void *tensors_to_memory(const struct tensors *tensors, int which, void *scratch);
size_t tensors_scratch_bytes(const struct tensors *tensors); /* 0 where all are in order */
/* y from memory order to the logical one. */
void tensors_from_memory(const struct tensors *tensors, const void *memory, void *logical);
/* Bytes that one execution has to read and write at least: y and the tensors present, or with `all` those
 * that may be null too. */
int64_t tensors_bytes(const struct tensors *tensors, bool all);
/* Floating-point operations of linear or conv2d, once, however a variant computes it; 0 without either. */
double tensors_flop(const struct gnf_problem *problem, int64_t samples);

#endif
