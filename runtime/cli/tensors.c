#include "tensors.h"

#include "npy.h"
#include "parallel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* N, C and the spatial sizes of what groupnorm sees. */
static int seen_shape(const struct tensors *tensors, int64_t shape[TENSORS_RANK])
{
    const struct gnf_problem *problem = tensors->problem;
    shape[0] = tensors->samples;
    shape[1] = problem->channels;
    for (int i = 0; i < problem->spatial_rank; i++)
        shape[2 + i] = problem->conv.kernel > 0 ? problem->conv.output[i] : problem->size[i];
    return 2 + problem->spatial_rank;
}

static struct tensor *add_tensor(struct tensors *tensors, const char *name, enum gnf_broadcast broadcast,
                                 bool required)
{
    const struct gnf_problem *problem = tensors->problem;
    struct tensor *tensor = &tensors->at[tensors->count++];
    *tensor = (struct tensor){.name = name, .broadcast = broadcast, .required = required};
    if (broadcast == GNF_FULL) {
        tensor->rank = seen_shape(tensors, tensor->shape);
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
    for (int i = 0; i < problem->operand_count; i++) {
        const struct gnf_operand *operand = &problem->operand[i];
        struct tensor *tensor = add_tensor(tensors, operand->name, operand->broadcast, true);
        if (operand->broadcast == GNF_FULL && operand->spatial != problem->spatial)
            memcpy(tensor->shape + 2, problem->pool.output, sizeof problem->pool.output);
    }
    if (problem->inputs > 0) {
        x->shape[1] = problem->inputs;
        memcpy(x->shape + 2, problem->size, sizeof problem->size);
        tensors->weight = tensors->count;
        struct tensor *weight = add_tensor(tensors, "weight", GNF_CHANNEL, true);
        weight->shape[weight->rank++] = problem->inputs;
        for (int i = 0; i < 2 && problem->conv.kernel > 0; i++)
            weight->shape[weight->rank++] = problem->conv.kernel;
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

/* Products that one element of the output sums. */
static int64_t depth_of(const struct gnf_problem *problem)
{
    return problem->inputs * (problem->conv.kernel > 0 ? problem->conv.kernel * problem->conv.kernel : 1);
}

/* A layer's weights and bias as PyTorch makes them are uniform within 1 / sqrt(products an output); the
 * values of a recipe are meant for a bound of 1. */
static struct random_recipe recipe_of(const struct tensors *tensors, int which,
                                      const struct tensors_recipe *recipe)
{
    struct random_recipe one = {.kind = RANDOM_UNIFORM, .scale = 1};
    if (which == TENSOR_X)
        one = recipe->x;
    else if (which == tensors->weight)
        one = recipe->weight;
    if (tensors->weight >= 0 && which >= tensors->weight)
        one.scale = (one.scale != 0 ? one.scale : 1) / sqrt((double)depth_of(tensors->problem));
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
    const struct gnf_problem *problem = tensors->problem;
    int rank = seen_shape(tensors, shape);
    shape[1] = problem->y_channels;
    for (int i = 0; i < problem->spatial_rank; i++)
        shape[2 + i] = problem->reduces_all    ? 1
                       : problem->pooling >= 0 ? problem->pool.output[i]
                                               : shape[2 + i];
    return rank;
}

bool tensors_can_share(const struct tensors *tensors, int which)
{
    int operand = which - TENSOR_OPERAND;
    bool is_operand = operand >= 0 && operand < tensors->problem->operand_count;
    return (which == TENSOR_X || is_operand) &&
           gnf_problem_in_place(tensors->problem, is_operand ? operand : -1);
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

/* Of tensor `which`, or of y: channels, and elements of each in one sample. */
static void planes_of(const struct tensors *tensors, int which, int64_t *channels, int64_t *spatial)
{
    const struct gnf_problem *problem = tensors->problem;
    bool y = which == TENSOR_Y, x = which == TENSOR_X;
    *channels = y ? problem->y_channels : tensors->at[which].shape[1];
    *spatial = y   ? problem->y_spatial
               : x ? problem->x_spatial
                   : problem->operand[which - TENSOR_OPERAND].spatial;
}

bool tensors_in_order(const struct tensors *tensors, int which)
{
    int64_t channels, spatial;
    if (which != TENSOR_Y && tensors->at[which].broadcast != GNF_FULL)
        return true;
    planes_of(tensors, which, &channels, &spatial);
    return !tensors->problem->channels_last || channels <= 1 || spatial <= 1;
}

static void convert(const struct tensors *tensors, int64_t rows, int64_t columns, const void *from, void *to)
{
    struct transpose t = {from, to, rows, columns, gnf_dtype_size(tensors->problem->dtype)};
    parallel_for(tensors->samples * ((rows + TILE - 1) / TILE), 1 + 65536 / (TILE * columns),
                 transpose_strips, &t);
}

const void *tensors_to_memory(const struct tensors *tensors, int which, void *scratch)
{
    const struct tensor *tensor = &tensors->at[which];
    int64_t channels, spatial;
    if (tensors_in_order(tensors, which))
        return tensor->data;
    planes_of(tensors, which, &channels, &spatial);
    convert(tensors, channels, spatial, tensor->data, scratch);
    return scratch;
}

void tensors_from_memory(const struct tensors *tensors, const void *memory, void *logical)
{
    int64_t channels, spatial;
    planes_of(tensors, TENSOR_Y, &channels, &spatial);
    if (tensors_in_order(tensors, TENSOR_Y))
        memcpy(logical, memory, (size_t)tensors->y_elements * gnf_dtype_size(tensors->problem->dtype));
    else
        convert(tensors, spatial, channels, memory, logical);
}

size_t tensors_scratch_bytes(const struct tensors *tensors)
{
    int64_t most = 0;
    for (int i = 0; i < tensors->count; i++)
        if (!tensors_in_order(tensors, i) && tensors->at[i].elements > most)
            most = tensors->at[i].elements;
    return (size_t)most * gnf_dtype_size(tensors->problem->dtype);
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
    if (problem->inputs == 0)
        return 0;
    return 2.0 * (double)samples * (double)problem->spatial * (double)depth_of(problem) *
           (double)problem->channels;
}
