/* The numbers of the stand-in for cuBLASLt: each bit as a chain of fmaf over K gives it. Status 0 when all is
 * as it should be. */
#define _POSIX_C_SOURCE 200809L
#include "product.h"
#include <time.h>

/* The three types, read by another way than the stand-in's. */
static float of_half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float v = exponent == 31
                  ? fraction ? NAN : INFINITY
                  : ldexpf((float)(exponent ? fraction + 1024 : fraction), (exponent ? exponent : 1) - 25);
    return h & 0x8000 ? -v : v;
}
static float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
/* v to 11 significant bits, in double, which holds all that rounding needs. */
static float to_tf32(float v)
{
    int exponent;
    if (!isfinite(v) || v == 0)
        return v;
    frexp((double)v, &exponent);
    double unit = ldexp(1, (exponent < -125 ? -125 : exponent) - 11);
    return (float)(nearbyint((double)v / unit) * unit);
}
static float element(cudaDataType type, const void *p, size_t i)
{
    return type == CUDA_R_16F    ? of_half(((const uint16_t *)p)[i])
           : type == CUDA_R_16BF ? of_bits((uint32_t)((const uint16_t *)p)[i] << 16)
                                 : ((const float *)p)[i];
}
static float reference(const struct product *p, int tf32, int batch, int64_t i, int64_t j)
{
    float sum = 0;
    size_t a0 = (size_t)(batch * p->a.stride), b0 = (size_t)(batch * p->b.stride);
    for (int64_t l = 0; l < p->k; l++) {
        float a =
            element(p->a.type, p->a.host, a0 + (size_t)(p->a.transposed ? l + i * p->a.ld : i + l * p->a.ld));
        float b =
            element(p->b.type, p->b.host, b0 + (size_t)(p->b.transposed ? j + l * p->b.ld : l + j * p->b.ld));
        sum = tf32 ? fmaf(to_tf32(a), to_tf32(b), sum) : fmaf(a, b, sum);
    }
    float was = ((float *)p->d.host)[batch * p->d.stride + j * p->d.ld + i];
    return p->beta != 0 ? fmaf(p->beta, was, p->alpha * sum) : p->alpha * sum;
}
static int same(float a, float b)
{
    return (isnan(a) && isnan(b)) || a == b;
}
/* All of D and what lies between its columns. */
static void product_check(const struct product *p, int tf32, int line)
{
    float *got = malloc(p->d.bytes), *was = p->d.host;
    size_t n = p->d.bytes / 4, wrong = 0, touched = 0;
    OK(sim.cuMemcpyDtoH(got, p->d.device, p->d.bytes));
    for (size_t e = 0; e < n; e++) {
        int64_t batch = p->batch > 1 ? (int64_t)e / p->d.stride : 0, at = (int64_t)e - batch * p->d.stride;
        if (at / p->d.ld < p->n && at % p->d.ld < p->m)
            wrong += !same(got[e], reference(p, tf32, (int)batch, at % p->d.ld, at / p->d.ld));
        else
            touched += memcmp(&got[e], &was[e], 4) != 0;
    }
    if (wrong || touched) {
        failures++;
        printf("FAILED line %d: %zu of %zu wrong, %zu between touched: type %d tf32 %d %d%d %ld %ld %ld "
               "batch %d\n",
               line, wrong, n, touched, (int)p->a.type, tf32, p->a.transposed, p->b.transposed, (long)p->m,
               (long)p->n, (long)p->k, p->batch);
    }
    free(got);
}
static void test_products(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {4, 16, 8}, {130, 17, 300}, {5, 129, 513}, {64, 3, 1}};
    static const cudaDataType types[] = {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF};
    enter();
    for (int t = 0; t < 4; t++)
        for (int how = 0; how < 4; how++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                int batch = (how + (int)s) % 3 == 2 ? 3 : 1;
                struct product p = product_make(types[t % 3], t == 3, how & 1, how >> 1, sizes[s][0],
                                                sizes[s][1], sizes[s][2], batch, how == 2 ? more : 0);
                if (s == 2) {
                    p.alpha = -0.375f;
                    p.beta = 3;
                }
                OK(product_run(&p, NULL, 0, 0, NULL));
                OK(sim.cuCtxSynchronize());
                product_check(&p, t == 3, __LINE__);
                product_free(&p);
            }
    leave(0);
    CHECK(sim.live() == 0);
}
/* One column times 1: what each bit pattern is read as. */
static void test_elements(void)
{
    enum { ALL = 1 << 16 };
    static const uint32_t ties[][2] = {
        {0x3f800fff, 0x3f800000}, {0x3f801000, 0x3f800000}, {0x3f801001, 0x3f802000},
        {0x3f803000, 0x3f804000}, {0xbf803000, 0xbf804000}, {0x00000fff, 0},
        {0x00001001, 0x2000},     {0x7f7fffff, 0x7f800000}, {0x7f800000, 0x7f800000},
        {0x7f800001, 0x7fc00000}, {0xffffffff, 0x7fc00000}};
    enum { TIES = sizeof ties / sizeof *ties };
    float *got = malloc(ALL * 4);
    enter();
    for (int t = 0; t < 2; t++) {
        struct product p = product_make(t ? CUDA_R_16BF : CUDA_R_16F, 0, 0, 0, ALL, 1, 1, 1, 0);
        for (int i = 0; i < ALL; i++)
            ((uint16_t *)p.a.host)[i] = (uint16_t)i;
        *(uint16_t *)p.b.host = t ? 0x3f80 : 0x3c00;
        OK(sim.cuMemcpyHtoD(p.a.device, p.a.host, p.a.bytes));
        OK(sim.cuMemcpyHtoD(p.b.device, p.b.host, 2));
        OK(product_run(&p, NULL, 0, 0, NULL));
        OK(sim.cuCtxSynchronize());
        product_check(&p, 0, __LINE__);
        product_free(&p);
    }
    struct product p = product_make(CUDA_R_32F, 1, 0, 0, TIES, 1, 1, 1, 0);
    for (int i = 0; i < TIES; i++)
        ((uint32_t *)p.a.host)[i] = ties[i][0];
    *(float *)p.b.host = 1;
    OK(sim.cuMemcpyHtoD(p.a.device, p.a.host, p.a.bytes));
    OK(sim.cuMemcpyHtoD(p.b.device, p.b.host, 4));
    OK(product_run(&p, NULL, 0, 0, NULL));
    OK(sim.cuCtxSynchronize());
    OK(sim.cuMemcpyDtoH(got, p.d.device, p.d.bytes));
    for (int i = 0; i < TIES; i++)
        CHECK(same(got[i], of_bits(ties[i][1])));
    product_free(&p);
    leave(0);
    free(got);
}
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static void test_large(void)
{
    enter();
    struct product p = product_make(CUDA_R_16F, 0, 1, 0, 256, 1000, 256, 1, 0);
    float *got = malloc(p.d.bytes);
    double t = seconds();
    OK(product_run(&p, NULL, 0, 0, NULL));
    OK(sim.cuCtxSynchronize());
    t = seconds() - t;
    printf("256 x 1000 x 256: %.3f s\n", t);
    OK(sim.cuMemcpyDtoH(got, p.d.device, p.d.bytes));
    for (int i = 0; i < 256000; i += 997)
        CHECK(same(got[i], reference(&p, 0, 0, i % 256, i / 256)));
    free(got);
    product_free(&p);
    leave(0);
}
/* D that overlaps A, and a workspace that overlaps B: nothing but NaN may come of it. */
static void test_overlap(void)
{
    float v = 0;
    cublasLtMatmulHeuristicResult_t r[8];
    enter();
    struct product p = product_make(CUDA_R_32F, 0, 0, 0, 64, 64, 64, 1, 0), q = p;
    q.d.device = p.a.device;
    OK(product_run(&q, NULL, 0, 0, NULL));
    OK(sim.cuCtxSynchronize());
    OK(sim.cuMemcpyDtoH(&v, p.a.device, 4));
    CHECK(isnan(v));
    OK(sim.cuMemcpyHtoD(p.a.device, p.a.host, p.a.bytes));
    WANT(heuristics(&p, 8, r), 3);
    OK(product_run(&p, &r[1].algo, p.b.device, r[1].workspaceSize, NULL));
    OK(sim.cuCtxSynchronize());
    OK(sim.cuMemcpyDtoH(&v, p.d.device, 4));
    CHECK(isnan(v));
    product_free(&p);
    leave(0);
}

int main(void)
{
    product_start();
    OK(sim.cuInit(0));
    test_products();
    test_elements();
    test_large();
    test_overlap();
    printf("%d failed\n", failures);
    return failures != 0;
}
