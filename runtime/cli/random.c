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
};

static void fill_part(void *user, int64_t begin, int64_t end)
{
    const struct fill *fill = user;
    for (int64_t i = begin; i < end; i++) {
        float value;
        switch (fill->data->kind) {
        case RANDOM_NORMAL:
            value = (float)(fill->data->mean + fill->data->spread * random_normal(fill->key, (uint64_t)i));
            break;
        case RANDOM_CONSTANT:
            value = (float)fill->data->mean;
            break;
        default:
            value = random_uniform(fill->key, (uint64_t)i);
        }
        stored_store(fill->dtype, fill->out, i, value);
    }
}

void random_fill(const struct random_recipe *data, uint64_t seed, const char *name, enum gnf_dtype dtype,
                 void *out, int64_t count)
{
    struct fill fill = {data, random_key(seed, name), dtype, out};
    parallel_for(count, 1 << 18, fill_part, &fill);
    if (data->special != RANDOM_FINITE && count > 0) {
        int64_t at = (int64_t)(mix(fill.key) % (uint64_t)count);
        stored_store(dtype, out, at, data->special == RANDOM_ONE_NAN ? NAN : INFINITY);
    }
}
