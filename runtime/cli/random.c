#include "random.h"

#include "halves.h"
#include "parallel.h"
#include <math.h>
#include <string.h>
#include <xxhash.h>

/* The finaliser of SplitMix64: a bijection of 64 bits whose outputs for consecutive counters pass for random.
 */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t draw(uint64_t key, uint64_t i)
{
    return mix(key + (i + 1) * 0x9e3779b97f4a7c15u);
}

uint64_t random_key(uint64_t seed, const char *name)
{
    return XXH3_64bits_withSeed(name, strlen(name), mix(seed));
}

float random_uniform(uint64_t key, uint64_t i)
{
    return (float)((int64_t)(draw(key, i) >> 40) - (INT64_C(1) << 23)) * 0x1p-23f;
}

static double random_normal(uint64_t key, uint64_t i)
{
    const double two_pi = 6.283185307179586;
    uint64_t bits = draw(key, i);
    double radius = ((double)(bits >> 32) + 0.5) * 0x1p-32;
    double angle = (double)(bits & 0xffffffffu) * 0x1p-32;
    return sqrt(-2.0 * log(radius)) * cos(two_pi * angle);
}

struct fill {
    const struct random_recipe *data;
    uint64_t key;
    enum gnf_dtype dtype;
    void *out;
    int64_t row;
};

/* Steps through all exponents from -20 to 20, far apart from row to row. */
static double row_scale(int64_t row)
{
    return ldexp(1, (int)(row * 13 % 41) - 20);
}

static double wide(uint64_t key, uint64_t i)
{
    uint64_t bits = draw(key, i);
    double size = exp(46.051701859880914 * ((double)(bits >> 11) * 0x1p-52 - 1)); /* 20 log(10) */
    return bits & 1 ? -size : size;
}

static double lognormal(uint64_t key, uint64_t i, double spread)
{
    double size = exp(spread * random_normal(key, i));
    return draw(~key, i) & 1 ? -size : size;
}

/* Element i of a row whose second half goes with its first, at the same place there. */
static double halves(const struct fill *fill, int64_t i, bool cancelling)
{
    int64_t half = fill->row / 2, column = i % fill->row;
    bool second = column >= half && column < 2 * half;
    double value = random_uniform(fill->key, (uint64_t)(second ? i - half : i));
    double left = fill->row < 1024 ? 0x1p-4 : 0x1p-2; /* sums of float over long rows are off by more */
    return !second || !cancelling ? value : -value * (1 + random_normal(fill->key, (uint64_t)i) * left);
}

static double value_of(const struct fill *fill, int64_t i)
{
    const struct random_recipe *data = fill->data;
    switch (data->kind) {
    case RANDOM_NORMAL:
        return data->mean + data->spread * random_normal(fill->key, (uint64_t)i);
    case RANDOM_CONSTANT:
        return data->mean;
    case RANDOM_ROWS:
        return random_uniform(fill->key, (uint64_t)i) * row_scale(i / fill->row);
    case RANDOM_WIDE:
        return wide(fill->key, (uint64_t)i);
    case RANDOM_LOGNORMAL:
        return lognormal(fill->key, (uint64_t)i, data->spread);
    case RANDOM_HALVES:
    case RANDOM_CANCELLING:
        return halves(fill, i, data->kind == RANDOM_CANCELLING);
    default:
        return random_uniform(fill->key, (uint64_t)i);
    }
}

static void fill_part(void *user, int64_t begin, int64_t end)
{
    const struct fill *fill = user;
    double scale = fill->data->scale != 0 ? fill->data->scale : 1;
    for (int64_t i = begin; i < end; i++)
        stored_store(fill->dtype, fill->out, i, (float)(value_of(fill, i) * scale));
}

void random_fill(const struct random_recipe *data, uint64_t seed, const char *name, enum gnf_dtype dtype,
                 void *out, int64_t count, int64_t row)
{
    struct fill fill = {data, random_key(seed, name), dtype, out, row > 0 ? row : count > 0 ? count : 1};
    parallel_for(count, 1 << 18, fill_part, &fill);
    if (data->special != RANDOM_FINITE && count > 0) {
        int64_t at = (int64_t)(mix(fill.key) % (uint64_t)count);
        stored_store(dtype, out, at, data->special == RANDOM_ONE_NAN ? NAN : INFINITY);
    }
}
