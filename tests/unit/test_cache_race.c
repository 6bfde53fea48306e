/* Many processes with many threads each start on an empty cache at the same moment and want the same kernels:
 * each is built exactly once, everybody gets the right image, nobody is warned, and nothing but whole entries
 * stays. */
#define _GNU_SOURCE 1
#include "cache.h"
#include "scratch.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PROCESSES = 16, THREADS = 4, ROUNDS = 20, KEYS = 2, IMAGE_BYTES = 5000 };

/* In memory that all processes share. */
struct shared {
    pthread_barrier_t barrier;
    atomic_int builds[ROUNDS][KEYS];
    atomic_int wrong, warnings;
};

static struct shared *shared;

struct job {
    struct gnf_cache *cache;
    int first_key;
};

struct order {
    int round, key;
};

static unsigned char byte_at(const struct order *order, size_t i)
{
    return (unsigned char)(i * 31 + (size_t)order->round * 7 + (size_t)order->key);
}

static gnf_status build(void *user, void **image, size_t *size)
{
    const struct order *order = user;

    atomic_fetch_add(&shared->builds[order->round][order->key], 1);
    usleep(2000); /* long enough for the others to arrive */
    *image = malloc(IMAGE_BYTES);
    *size = IMAGE_BYTES;
    for (size_t i = 0; i < IMAGE_BYTES; i++)
        ((unsigned char *)*image)[i] = byte_at(order, i);
    return GNF_OK;
}

static bool fetch(struct gnf_cache *cache, struct order order)
{
    unsigned char *bytes;
    void *image;
    size_t size;
    char key[64];
    bool right;

    snprintf(key, sizeof key, "round %d key %d", order.round, order.key);
    if (gnf_cache_fetch(cache, key, "kernel", build, &order, &image, &size) != GNF_OK)
        return false;
    bytes = image;
    right = size == IMAGE_BYTES;
    for (size_t i = 0; right && i < size; i++)
        right = bytes[i] == byte_at(&order, i);
    free(image);
    return right;
}

static void *work(void *argument)
{
    const struct job *job = argument;

    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&shared->barrier);
        for (int i = 0; i < KEYS; i++) {
            if (!fetch(job->cache, (struct order){round, (job->first_key + i) % KEYS}))
                atomic_fetch_add(&shared->wrong, 1);
        }
    }
    return NULL;
}

static void count_warnings(void *user, gnf_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
    atomic_fetch_add(&shared->warnings, 1);
}

/* Odd processes share one cache object among their threads, even ones have one for each thread. */
static int run_process(int process)
{
    struct gnf_log log = {.callback = count_warnings, .level = GNF_LOG_WARNING};
    struct gnf_cache *caches[THREADS];
    struct job jobs[THREADS];
    pthread_t threads[THREADS];
    int made = process % 2 ? 1 : THREADS;

    for (int i = 0; i < made; i++) {
        if (gnf_cache_create(&caches[i], scratch_path("cache"), 64 << 20, &log) != GNF_OK)
            return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){caches[i % made], i};
        if (pthread_create(&threads[i], NULL, work, &jobs[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < made; i++)
        gnf_cache_destroy(caches[i]);
    return 0;
}

static void test_race(void **state)
{
    struct gnf_cache_stats stats;
    struct gnf_cache *cache;
    pthread_barrierattr_t across;
    pid_t children[PROCESSES];

    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    assert_int_equal(pthread_barrierattr_init(&across), 0);
    assert_int_equal(pthread_barrierattr_setpshared(&across, PTHREAD_PROCESS_SHARED), 0);
    assert_int_equal(pthread_barrier_init(&shared->barrier, &across, PROCESSES * THREADS), 0);
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            alarm(300); /* a thread that is missing at the barrier would be waited for without end */
            exit(run_process(i));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        waitpid(children[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(atomic_load(&shared->wrong), 0);
    assert_int_equal(atomic_load(&shared->warnings), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int key = 0; key < KEYS; key++) {
            if (atomic_load(&shared->builds[round][key]) != 1)
                fail_msg("round %d, key %d: built %d times", round, key,
                         atomic_load(&shared->builds[round][key]));
        }
    }
    assert_int_equal(scratch_count(scratch_path("cache"), ""), ROUNDS * KEYS);
    assert_int_equal(gnf_cache_create(&cache, scratch_path("cache"), 64 << 20, NULL), GNF_OK);
    assert_int_equal(gnf_cache_verify(cache, &stats), GNF_OK);
    assert_int_equal(stats.entries, ROUNDS * KEYS);
    assert_int_equal(stats.damaged, 0);
    gnf_cache_destroy(cache);
    munmap(shared, sizeof *shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_race, scratch_setup, scratch_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
