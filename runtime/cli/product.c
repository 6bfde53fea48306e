#include "product.h"

#include "halves.h"
#include "parallel.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A tile of TILE x TILE results goes through K in steps of DEPTH, for which its operands stand in the L2
 * cache as doubles: x row by row, weight transposed in strips of STRIP columns. A row of conv2d is an output
 * pixel, and what it holds is the patch of x that the window covers there, zeros where that is padding. */
enum { TILE = 128, DEPTH = 192, ROWS = 4, STRIP = 8, LANES = 4 };

typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));

struct product {
    const struct tensors *tensors;
    int64_t first, rows, columns, depth; /* first: a sample */
    double *out;
    int64_t tiles_across;
    atomic_bool no_memory;
};
struct tile {
    double x[TILE][DEPTH];
    double weight[TILE / STRIP][DEPTH][STRIP];
    double sum[TILE][TILE];
};

typedef void (*multiply_function)(const double *x, const double *weight, int64_t depth, double *sum);

/* ROWS rows of x times a strip of weight, added to the sums; all of it in registers. */
static inline __attribute__((always_inline)) void multiply(const double *x, const double *weight,
                                                           int64_t depth, double *sum)
{
    lanes total[ROWS][STRIP / LANES];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < STRIP / LANES; c++)
            total[r][c] = *(const lanes *)(sum + r * TILE + c * LANES);
    for (int64_t k = 0; k < depth; k++, weight += STRIP)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < STRIP / LANES; c++)
                total[r][c] += x[r * DEPTH + k] * *(const lanes *)(weight + c * LANES);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < STRIP / LANES; c++)
            *(lanes *)(sum + r * TILE + c * LANES) = total[r][c];
}

static void multiply_plain(const double *x, const double *weight, int64_t depth, double *sum)
{
    multiply(x, weight, depth, sum);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void multiply_avx2(const double *x, const double *weight,
                                                              int64_t depth, double *sum)
{
    multiply(x, weight, depth, sum);
}

static multiply_function choose_multiply(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? multiply_avx2 : multiply_plain;
}
#else
static multiply_function choose_multiply(void)
{
    return multiply_plain;
}
#endif

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* `count` elements of a row of x from column `x` on, which may lie outside; `row`: where it begins. */
static void load_row(const struct product *p, int64_t row, int64_t x, int64_t count, double *out)
{
    int64_t from = x < 0 ? least(-x, count) : 0, to = least(count, p->tensors->problem->conv.input[1] - x);
    memset(out, 0, (size_t)count * sizeof *out);
    if (from < to)
        stored_load_many(p->tensors->problem->dtype, p->tensors->at[TENSOR_X].data, row + x + from, to - from,
                         out + from);
}

/* Elements [k, k + depth) of one pixel's patch, in the order of the weight: input channel, row, column. The
 * host's x is NCHW whatever the layout. */
static void load_patch(const struct product *p, int64_t pixel, int64_t k, int64_t depth, double *out)
{
    const struct gnf_problem *problem = p->tensors->problem;
    const struct gnf_window *conv = &problem->conv;
    int64_t sample = p->first + pixel / problem->spatial, at = pixel % problem->spatial;
    int64_t top = at / conv->output[1] * conv->stride - conv->padding;
    int64_t left = at % conv->output[1] * conv->stride - conv->padding;
    int64_t i = k / conv->kernel % conv->kernel, j = k % conv->kernel;
    int64_t plane = sample * problem->inputs + k / (conv->kernel * conv->kernel);
    while (depth > 0) {
        int64_t count = least(conv->kernel - j, depth), y = top + i;
        if (y < 0 || y >= conv->input[0])
            memset(out, 0, (size_t)count * sizeof *out);
        else
            load_row(p, (plane * conv->input[0] + y) * conv->input[1], left + j, count, out);
        out += count;
        depth -= count;
        j = 0;
        if (++i == conv->kernel) {
            i = 0;
            plane++;
        }
    }
}

static void load_x(const struct product *p, struct tile *tile, int64_t row, int64_t rows, int64_t k,
                   int64_t depth)
{
    const struct gnf_problem *problem = p->tensors->problem;
    for (int64_t r = 0; r < rows; r++)
        if (problem->conv.kernel > 0)
            load_patch(p, row + r, k, depth, tile->x[r]);
        else
            stored_load_many(problem->dtype, p->tensors->at[TENSOR_X].data,
                             (p->first + row + r) * p->depth + k, depth, tile->x[r]);
}

static void load_weight(const struct product *p, struct tile *tile, int64_t column, int64_t columns,
                        int64_t k, int64_t depth)
{
    double values[DEPTH];
    for (int64_t c = 0; c < columns; c++) {
        stored_load_many(p->tensors->problem->dtype, p->tensors->at[p->tensors->weight].data,
                         (column + c) * p->depth + k, depth, values);
        for (int64_t i = 0; i < depth; i++)
            tile->weight[c / STRIP][i][c % STRIP] = values[i];
    }
}

/* Rows and columns beyond `rows` and `columns` hold what a tile before left there: nobody reads their sums.
 */
static void add_depth(struct tile *tile, int64_t rows, int64_t columns, int64_t depth,
                      multiply_function multiply_strip)
{
    for (int64_t c = 0; c < columns; c += STRIP)
        for (int64_t r = 0; r < rows; r += ROWS)
            multiply_strip(tile->x[r], tile->weight[c / STRIP][0], depth, &tile->sum[r][c]);
}

static void store(const struct product *p, const struct tile *tile, int64_t row, int64_t rows, int64_t column,
                  int64_t columns)
{
    const void *bias = p->tensors->at[p->tensors->weight + 1].data;
    int64_t spatial = p->tensors->problem->spatial; /* 1 of linear */
    double biases[TILE] = {0};
    if (bias != NULL)
        stored_load_many(p->tensors->problem->dtype, bias, column, columns, biases);
    for (int64_t r = 0; r < rows; r++) {
        int64_t sample = (row + r) / spatial, pixel = (row + r) % spatial;
        double *out = p->out + (sample * p->columns + column) * spatial + pixel;
        for (int64_t c = 0; c < columns; c++)
            out[c * spatial] = tile->sum[r][c] + biases[c];
    }
}

static void run_tiles(void *user, int64_t begin, int64_t end)
{
    struct product *p = user;
    multiply_function multiply_strip = choose_multiply();
    struct tile *tile = calloc(1, sizeof *tile);
    if (tile == NULL)
        atomic_store(&p->no_memory, true);
    for (int64_t i = begin; i < end && tile != NULL; i++) {
        int64_t row = i / p->tiles_across * TILE, column = i % p->tiles_across * TILE;
        int64_t rows = least(TILE, p->rows - row), columns = least(TILE, p->columns - column);
        memset(tile->sum, 0, sizeof tile->sum);
        for (int64_t k = 0; k < p->depth; k += DEPTH) {
            int64_t depth = least(DEPTH, p->depth - k);
            load_x(p, tile, row, rows, k, depth);
            load_weight(p, tile, column, columns, k, depth);
            add_depth(tile, rows, columns, depth, multiply_strip);
        }
        store(p, tile, row, rows, column, columns);
    }
    free(tile);
}

gnf_status product_run(const struct tensors *tensors, int64_t first, int64_t samples, double *out)
{
    const struct gnf_problem *problem = tensors->problem;
    int64_t rows = samples * problem->spatial;
    struct product product = {
        .tensors = tensors,
        .first = first,
        .rows = rows,
        .columns = problem->channels,
        .depth = tensors->at[tensors->weight].elements / problem->channels,
        .out = out,
        .tiles_across = (problem->channels + TILE - 1) / TILE,
    };
    parallel_for((rows + TILE - 1) / TILE * product.tiles_across, 1, run_tiles, &product);
    if (atomic_load(&product.no_memory))
        return gnf_fail(GNF_OUT_OF_MEMORY, "no host memory for the reference's products");
    return GNF_OK;
}
