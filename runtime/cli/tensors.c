#include "tensors.h"

#include "npy.h"
#include "parallel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t tensors_y_channels(const struct gnf_problem *problem)
{
    return problem->reduction >= 0 ? 1 : problem->channels;
}

static struct tensor *add_tensor(struct tensors *tensors, const char *name, enum gnf_broadcast broadcast,
                                 bool required)
{
    const struct gnf_problem *problem = tensors->problem;
    struct tensor *tensor = &tensors->at[tensors->count++];
    *tensor = (struct tensor){.name = name, .broadcast = broadcast, .required = required};
    if (broadcast == GNF_FULL) {
        tensor->shape[tensor->rank++] = tensors->samples;
        tensor->shape[tensor->rank++] = problem->channels;
        for (int i = 0; i < problem->spatial_rank; i++)
            tensor->shape[tensor->rank++] = problem->size[i];
    } else if (broadcast == GNF_CHANNEL) {
        tensor->shape[tensor->rank++] = problem->channels;
    }
    return tensor;
}

static gnf_status count_elements(const struct gnf_problem *problem, struct tensor *tensor)
{
    int64_t bytes;
    bool fits = true;
    tensor->elements = 1;
    for (int i = 0; i < tensor->rank; i++)
        fits &= !__builtin_mul_overflow(tensor->elements, tensor->shape[i], &tensor->elements);
    fits &= !__builtin_mul_overflow(tensor->elements, (int64_t)gnf_dtype_size(problem->dtype), &bytes);
    return fits ? GNF_OK : gnf_fail(GNF_TOO_LARGE, "the bytes of %s do not fit 63 bits", tensor->name);
}

gnf_status tensors_create(struct tensors *tensors, const struct gnf_problem *problem, int64_t samples)
{
    memset(tensors, 0, sizeof *tensors);
    tensors->problem = problem;
    tensors->samples = samples;
    tensors->weight = -1;
    int64_t x_elements;
    GNF_TRY(gnf_problem_elements(problem, samples, &x_elements, &tensors->y_elements));
    struct tensor *x = add_tensor(tensors, "x", GNF_FULL, true);
    add_tensor(tensors, "gamma", GNF_CHANNEL, false);
    add_tensor(tensors, "beta", GNF_CHANNEL, false);
    for (int i = 0; i < problem->operand_count; i++)
        add_tensor(tensors, problem->operand[i].name, problem->operand[i].broadcast, true);
    if (problem->inputs > 0) {
        x->shape[1] = problem->inputs;
        tensors->weight = tensors->count;
        struct tensor *weight = add_tensor(tensors, "weight", GNF_CHANNEL, true);
        weight->shape[weight->rank++] = problem->inputs;
        add_tensor(tensors, "bias", GNF_CHANNEL, false);
    }
    for (int i = 0; i < tensors->count; i++)
        GNF_TRY(count_elements(problem, &tensors->at[i]));
    return GNF_OK;
}

void tensors_free(struct tensors *tensors)
{
    for (int i = 0; i < tensors->count; i++) {
        free(tensors->at[i].data);
        tensors->at[i].data = NULL;
    }
}

static gnf_status make_room(struct tensors *tensors, struct tensor *tensor)
{
    size_t bytes = (size_t)tensor->elements * gnf_dtype_size(tensors->problem->dtype);
    if (tensor->data == NULL)
        tensor->data = malloc(bytes > 0 ? bytes : 1);
    if (tensor->data == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "%s: no host memory for its %zu bytes", tensor->name, bytes);
    return GNF_OK;
}

/* A layer's weights and bias as PyTorch makes them are uniform within 1 / sqrt(IN); the values of a recipe
 * are meant for a bound of 1. */
static struct random_recipe recipe_of(const struct tensors *tensors, int which,
                                      const struct tensors_recipe *recipe)
{
    struct random_recipe one = {.kind = RANDOM_UNIFORM, .scale = 1};
    if (which == TENSOR_X)
        one = recipe->x;
    else if (which == tensors->weight)
        one = recipe->weight;
    if (tensors->weight >= 0 && which >= tensors->weight)
        one.scale = (one.scale != 0 ? one.scale : 1) / sqrt((double)tensors->problem->inputs);
    return one;
}

gnf_status tensors_random(struct tensors *tensors, const struct tensors_recipe *recipe, uint64_t seed)
{
    for (int i = 0; i < tensors->count; i++) {
        struct tensor *tensor = &tensors->at[i];
        if (!tensor->required && !recipe->affine) {
            free(tensor->data);
            tensor->data = NULL;
            continue;
        }
        GNF_TRY(make_room(tensors, tensor));
        struct random_recipe one = recipe_of(tensors, i, recipe);
        int64_t row = tensor->rank > 1 && tensor->shape[0] > 0 ? tensor->elements / tensor->shape[0] : 0;
        random_fill(&one, seed, tensor->name, tensors->problem->dtype, tensor->data, tensor->elements, row);
    }
    return GNF_OK;
}

int tensors_y_shape(const struct tensors *tensors, int64_t shape[TENSORS_RANK])
{
    const struct tensor *x = &tensors->at[TENSOR_X];
    memcpy(shape, x->shape, sizeof x->shape);
    shape[1] = tensors_y_channels(tensors->problem);
    return x->rank;
}

bool tensors_can_share(const struct tensors *tensors, int which)
{
    return tensors->problem->reduction < 0 && which < tensors->count &&
           tensors->at[which].broadcast == GNF_FULL && !(which == TENSOR_X && tensors->weight >= 0);
}

gnf_status tensors_load(struct tensors *tensors, const char *name, const char *path)
{
    struct tensor *tensor = NULL;
    char allowed[512] = "";
    for (int i = 0; i < tensors->count; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", tensors->at[i].name);
        if (strcmp(tensors->at[i].name, name) == 0)
            tensor = &tensors->at[i];
    }
    if (tensor == NULL)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--in: the problem has no tensor '%s' (allowed: %s)", name,
                        allowed);
    if (tensor->data != NULL)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--in: %s is given twice", name);

    struct npy_array array;
    GNF_TRY(npy_read(path, &array));
    const int64_t *shape = tensor->shape;
    int rank = tensor->rank;
    enum gnf_dtype dtype = tensors->problem->dtype;
    bool same = array.dtype == dtype && array.rank == rank;
    for (int i = 0; i < rank && same; i++)
        same = array.shape[i] == shape[i];
    if (tensor->broadcast == GNF_SCALAR) /* one element, however it is written */
        same = array.dtype == dtype && array.elements == 1;
    if (!same) {
        char got[256], wanted[256];
        npy_shape_text(array.rank, array.shape, got, sizeof got);
        npy_shape_text(rank, shape, wanted, sizeof wanted);
        npy_free(&array);
        return gnf_fail(GNF_INVALID_ARGUMENT, "--in: %s: %s holds '%s' %s, wanted '%s' %s", name, path,
                        npy_descr(array.dtype), got, npy_descr(dtype), wanted);
    }
    tensor->data = array.data;
    return GNF_OK;
}

gnf_status tensors_require(const struct tensors *tensors)
{
    for (int i = 0; i < tensors->count; i++)
        if (tensors->at[i].required && tensors->at[i].data == NULL)
            return gnf_fail(GNF_INVALID_ARGUMENT,
                            "--in: %s is missing (give --in %s=FILE.npy, or no --in at all for"
                            " random data)",
                            tensors->at[i].name, tensors->at[i].name);
    return GNF_OK;
}

struct transpose {
    const char *from;
    char *to;
    int64_t rows, columns; /* of `from`, a sample */
    size_t size;
};

enum { TILE = 32 };

/* A strip of TILE rows of one sample each. */
static void transpose_strips(void *user, int64_t begin, int64_t end)
{
    const struct transpose *t = user;
    int64_t strips = (t->rows + TILE - 1) / TILE;
    for (int64_t strip = begin; strip < end; strip++) {
        size_t sample = (size_t)(strip / strips * t->rows * t->columns) * t->size;
        int64_t r0 = strip % strips * TILE, r1 = r0 + TILE < t->rows ? r0 + TILE : t->rows;
        const char *from = t->from + sample;
        char *to = t->to + sample;
        for (int64_t c0 = 0; c0 < t->columns; c0 += TILE)
            for (int64_t r = r0; r < r1; r++)
                for (int64_t c = c0; c < t->columns && c < c0 + TILE; c++)
                    memcpy(to + (size_t)(c * t->rows + r) * t->size,
                           from + (size_t)(r * t->columns + c) * t->size, t->size);
    }
}

bool tensors_in_order(const struct gnf_problem *problem, int64_t channels)
{
    return !problem->channels_last || channels <= 1 || problem->spatial <= 1;
}

static void convert(const struct gnf_problem *problem, int64_t samples, int64_t rows, int64_t columns,
                    const void *from, void *to)
{
    size_t size = gnf_dtype_size(problem->dtype);
    if (!problem->channels_last || rows <= 1 || columns <= 1) {
        memcpy(to, from, (size_t)(samples * rows * columns) * size);
        return;
    }
    struct transpose t = {from, to, rows, columns, size};
    parallel_for(samples * ((rows + TILE - 1) / TILE), 1 + 65536 / (TILE * columns), transpose_strips, &t);
}

void tensors_to_memory(const struct gnf_problem *problem, int64_t samples, int64_t channels,
                       const void *logical, void *memory)
{
    convert(problem, samples, channels, problem->spatial, logical, memory);
}

void tensors_from_memory(const struct gnf_problem *problem, int64_t samples, int64_t channels,
                         const void *memory, void *logical)
{
    convert(problem, samples, problem->spatial, channels, memory, logical);
}

int64_t tensors_bytes(const struct tensors *tensors, bool all)
{
    int64_t elements = tensors->y_elements;
    for (int i = 0; i < tensors->count; i++)
        if (all || tensors->at[i].data != NULL)
            elements += tensors->at[i].elements;
    return elements * (int64_t)gnf_dtype_size(tensors->problem->dtype);
}

double tensors_flop(const struct gnf_problem *problem, int64_t samples)
{
    return 2.0 * (double)samples * (double)problem->inputs * (double)problem->channels;
}
