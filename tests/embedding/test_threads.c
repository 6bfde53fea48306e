/* Many threads on one plan, threads of every kind of current context, several devices. */
#include "fixture.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 10, COUNT = 51520, SMALL = 3 * 42 };

static const char split_problem[] = "f32[*,2,160,161] | groupnorm(1) | clamp(-1, 1)";
static const char split_variant[] = "split.t256.v4.i8.l1.c4096"; /* has a workspace */
static const char small_problem[] = "f32[*,6,7] | groupnorm(3) | add(r: full)";

/* cmocka's asserts belong to the main thread, so a worker notes what went wrong. */
#define CHECK(task, condition)                                                                               \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            (task)->failed = #condition;                                                                     \
            return NULL;                                                                                     \
        }                                                                                                    \
    } while (0)

struct task {
    pthread_t thread;
    pthread_barrier_t *barrier;
    gnf_context *context;
    const gnf_plan *plan;
    CUcontext bind, current; /* `bind` for its tensors; `current` while the library is called */
    const float *x;
    const double *want;
    unsigned number; /* odd, so that it is no address of a float */
    const char *failed;
    char message[512]; /* the library's */
};

static void start(struct task tasks[], int count, void *(*run)(void *), struct task common)
{
    for (int i = 0; i < count; i++) {
        tasks[i] = common;
        tasks[i].number = 2 * (unsigned)i + 1;
        assert_int_equal(pthread_create(&tasks[i].thread, NULL, run, &tasks[i]), 0);
    }
}

static void finish(struct task tasks[], int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(tasks[i].thread, NULL);
    for (int i = 0; i < count; i++)
        if (tasks[i].failed)
            fail_msg("thread %d: %s: %s", i, tasks[i].failed, tasks[i].message);
}

static gnf_status note(struct task *task, gnf_status status)
{
    if (status != GNF_OK)
        strncpy(task->message, gnf_error_message(), sizeof task->message - 1);
    return status;
}

static bool is_close(const float *got, const double *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-4 * fmax(1, fabs(want[i]))))
            return false;
    return true;
}

/* ---- one plan ---- */

static void *run_on_own_stream(void *user)
{
    struct task *task = user;
    static _Thread_local float y[COUNT];
    CUdeviceptr x, out, work;
    CUstream stream;
    char own[32];
    size_t size = gnf_plan_workspace_size(task->plan);
    CHECK(task, !cuda.cuCtxSetCurrent(task->bind));
    CHECK(task, !cuda.cuMemAlloc(&x, sizeof y) && !cuda.cuMemAlloc(&out, sizeof y));
    CHECK(task, !cuda.cuMemAlloc(&work, size) && !cuda.cuMemcpyHtoD(x, task->x, sizeof y));
    CHECK(task, !cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    /* each thread has a message of its own; between the barriers nothing may return */
    snprintf(own, sizeof own, "x = %#x:", task->number);
    pthread_barrier_wait(task->barrier);
    gnf_status refused =
        gnf_execute(task->plan, &(gnf_arguments){.size = sizeof(gnf_arguments), .x = task->number}, stream);
    pthread_barrier_wait(task->barrier);
    CHECK(task, refused == GNF_INVALID_ARGUMENT && strstr(gnf_error_message(), own));
    for (int i = 0; i < ROUNDS; i++) {
        gnf_arguments arguments = {
            .size = sizeof arguments, .x = x, .y = out, .workspace = work, .workspace_size = size};
        CHECK(task, note(task, gnf_execute(task->plan, &arguments, stream)) == GNF_OK);
        CHECK(task, !cuda.cuStreamSynchronize(stream) && !cuda.cuMemcpyDtoH(y, out, sizeof y));
        CHECK(task, is_close(y, task->want, COUNT));
    }
    CHECK(task, !cuda.cuStreamDestroy(stream) && !cuda.cuMemFree(x) && !cuda.cuMemFree(out));
    CHECK(task, !cuda.cuMemFree(work));
    return NULL;
}

static void test_threads_share_a_plan(void **state)
{
    static float x[COUNT];
    static double want[COUNT];
    struct task tasks[THREADS];
    pthread_barrier_t barrier;
    gnf_context *context = open_context(device_context, "cache", NULL);
    gnf_plan *plan = make_plan(context, split_problem, 1, split_variant);
    (void)state;
    fill_random(x, COUNT, 11);
    reference(x, want, 1, 2, 25760, 1);
    for (int i = 0; i < COUNT; i++)
        want[i] = fmin(fmax(want[i], -1), 1);
    pthread_barrier_init(&barrier, NULL, THREADS);
    start(tasks, THREADS, run_on_own_stream,
          (struct task){.barrier = &barrier, .plan = plan, .bind = device_context, .x = x, .want = want});
    finish(tasks, THREADS);
    pthread_barrier_destroy(&barrier);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&context);
}

static void *run_first_plan(void *user)
{
    struct task *task = user;
    gnf_plan *plan;
    gnf_plan_options options = {.size = sizeof options, .samples = 1, .variant = split_variant};
    pthread_barrier_wait(task->barrier);
    CHECK(task, note(task, gnf_plan_create(&plan, task->context, split_problem, &options)) == GNF_OK);
    gnf_plan_destroy(&plan);
    return NULL;
}

/* Threads that all want a new kernel: each is compiled once, by one of them. */
static void test_threads_compile_once(void **state)
{
    struct task tasks[THREADS];
    struct log one = LOG_INIT, all = LOG_INIT;
    pthread_barrier_t barrier;
    gnf_context *alone = open_context(device_context, "alone", &one);
    gnf_plan *plan = make_plan(alone, split_problem, 1, split_variant);
    gnf_context *context = open_context(device_context, "together", &all);
    (void)state;
    pthread_barrier_init(&barrier, NULL, THREADS);
    start(tasks, THREADS, run_first_plan, (struct task){.barrier = &barrier, .context = context});
    finish(tasks, THREADS);
    assert_true(one.compiles > 0);
    assert_int_equal(all.compiles, one.compiles);
    pthread_barrier_destroy(&barrier);
    gnf_plan_destroy(&plan);
    gnf_context_destroy(&alone);
    gnf_context_destroy(&context);
}

/* ---- H19: the calling thread's current context ---- */

static bool is_current(CUcontext context)
{
    CUcontext now = (CUcontext)1;
    return !cuda.cuCtxGetCurrent(&now) && now == context;
}

/* The whole life of a plan, with task->current before and after each call. */
static void *run_with_current(void *user)
{
    struct task *task = user;
    float y[SMALL];
    CUdeviceptr x, out;
    gnf_plan *plan;
    gnf_plan_options options = {.size = sizeof options, .samples = 3};
    CHECK(task, is_current(NULL)); /* a fresh thread has none */
    CHECK(task, !cuda.cuCtxSetCurrent(task->bind));
    CHECK(task, !cuda.cuMemAlloc(&x, sizeof y) && !cuda.cuMemAlloc(&out, sizeof y));
    CHECK(task, !cuda.cuMemcpyHtoD(x, task->x, sizeof y));
    CHECK(task, !cuda.cuCtxSetCurrent(task->current));
    if (task->barrier)
        pthread_barrier_wait(task->barrier);
    CHECK(task, note(task, gnf_plan_create(&plan, task->context, small_problem, &options)) == GNF_OK);
    CHECK(task, is_current(task->current));
    gnf_arguments arguments = {.size = sizeof arguments, .x = x, .y = out, .operand = {x}};
    CHECK(task, note(task, gnf_execute(plan, &arguments, NULL)) == GNF_OK);
    CHECK(task, is_current(task->current));
    arguments.y = x + 4;
    CHECK(task, gnf_execute(plan, &arguments, NULL) == GNF_INVALID_ARGUMENT);
    CHECK(task, is_current(task->current));
    options.variant = "none";
    gnf_plan *none;
    CHECK(task, gnf_plan_create(&none, task->context, small_problem, &options) == GNF_INVALID_ARGUMENT);
    CHECK(task, is_current(task->current));
    gnf_plan_destroy(&plan);
    CHECK(task, is_current(task->current));
    CHECK(task, !cuda.cuCtxSetCurrent(task->bind) && !cuda.cuMemcpyDtoH(y, out, sizeof y));
    CHECK(task, is_close(y, task->want, SMALL));
    CHECK(task, !cuda.cuMemFree(x) && !cuda.cuMemFree(out));
    return NULL;
}

static float small_x[SMALL];
static double small_want[SMALL];

static void make_small(void)
{
    fill_random(small_x, SMALL, 12);
    reference(small_x, small_want, 3, 6, 7, 3);
    for (int i = 0; i < SMALL; i++)
        small_want[i] += small_x[i];
}

static void check_current(CUcontext current, int count)
{
    struct task tasks[THREADS];
    pthread_barrier_t barrier;
    gnf_context *context = open_context(device_context, "current", NULL);
    make_small();
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    start(tasks, count, run_with_current,
          (struct task){.barrier = &barrier,
                        .context = context,
                        .bind = device_context,
                        .current = current,
                        .x = small_x,
                        .want = small_want});
    finish(tasks, count);
    pthread_barrier_destroy(&barrier);
    gnf_context_destroy(&context);
    assert_true(is_current(device_context));
}

static void test_fresh_threads(void **state)
{
    (void)state;
    check_current(NULL, 1);
    check_current(NULL, THREADS);
}

static CUcontext another_context(int device)
{
    CUcontext other, popped;
#if CUDA_VERSION >= 13000
    assert_int_equal(cuda.cuCtxCreate(&other, NULL, 0, device), CUDA_SUCCESS);
#else
    assert_int_equal(cuda.cuCtxCreate(&other, 0, device), CUDA_SUCCESS);
#endif
    /* popped, not replaced: under a replaced one the one before would come back for cuCtxSetCurrent(NULL) */
    assert_int_equal(cuda.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    return other;
}

static void test_another_context_is_current(void **state)
{
    CUcontext other = another_context(0);
    (void)state;
    check_current(other, 1);
    check_current(other, THREADS);
    assert_int_equal(cuda.cuCtxDestroy(other), CUDA_SUCCESS);
}

/* Creating a context takes what is current, else the primary one of `device`; both come back as they were. */
static void test_context_creation_restores(void **state)
{
    CUcontext other = another_context(0);
    const CUcontext current[] = {NULL, other, device_context};
    gnf_context *context;
    gnf_context_options options = {.size = sizeof options, .cache_dir = scratch_path("current")};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int given = 0; given < 2; given++) {
            options.cuda_context = given ? device_context : NULL;
            assert_int_equal(cuda.cuCtxSetCurrent(current[i]), CUDA_SUCCESS);
            assert_ok(gnf_context_create(&context, &options));
            assert_true(is_current(current[i]));
            gnf_context_destroy(&context);
            assert_true(is_current(current[i]));
        }
    assert_int_equal(cuda.cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    options.device = 99;
    options.cuda_context = NULL;
    assert_refused(gnf_context_create(&context, &options), GNF_NO_DEVICE, "99");
    options.device = -1;
    assert_refused(gnf_context_create(&context, &options), GNF_NO_DEVICE, "-1");
    assert_true(is_current(NULL));
    assert_int_equal(cuda.cuCtxSetCurrent(device_context), CUDA_SUCCESS);
    assert_int_equal(cuda.cuCtxDestroy(other), CUDA_SUCCESS);
}

/* ---- several contexts ---- */

static void test_two_contexts_of_one_device(void **state)
{
    CUcontext other = another_context(0);
    gnf_context *first = open_context(device_context, "contexts", NULL);
    gnf_context *second = open_context(other, "contexts", NULL);
    struct task tasks[2];
    pthread_barrier_t barrier;
    (void)state;
    make_small();
    pthread_barrier_init(&barrier, NULL, 2);
    struct task common = {.barrier = &barrier, .context = first, .bind = device_context, .x = small_x};
    common.want = small_want;
    start(&tasks[0], 1, run_with_current, common);
    common.context = second;
    common.bind = common.current = other;
    start(&tasks[1], 1, run_with_current, common);
    finish(tasks, 2);
    pthread_barrier_destroy(&barrier);
    gnf_context_destroy(&second);
    gnf_context_destroy(&first);
    assert_int_equal(cuda.cuCtxDestroy(other), CUDA_SUCCESS);
}

static void test_two_devices(void **state)
{
    CUcontext primary[2] = {device_context, NULL};
    gnf_context *context[2];
    struct log logs[2] = {LOG_INIT, LOG_INIT};
    struct task tasks[2];
    pthread_barrier_t barrier;
    int devices;
    (void)state;
    assert_int_equal(cuda.cuDeviceGetCount(&devices), CUDA_SUCCESS);
    if (devices < 2)
        skip();
    make_small();
    assert_int_equal(cuda.cuDevicePrimaryCtxRetain(&primary[1], 1), CUDA_SUCCESS);
    assert_int_equal(cuda.cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++) { /* by ordinal, as nothing is current */
        gnf_context_options options = {.size = sizeof options,
                                       .device = i,
                                       .cache_dir = scratch_path("devices"),
                                       .log = log_line,
                                       .log_user = &logs[i],
                                       .log_level = GNF_LOG_INFO};
        assert_ok(gnf_context_create(&context[i], &options));
        start(&tasks[i], 1, run_with_current,
              (struct task){.barrier = &barrier,
                            .context = context[i],
                            .bind = primary[i],
                            .current = primary[1 - i], /* the other device's */
                            .x = small_x,
                            .want = small_want});
    }
    finish(tasks, 2);
    pthread_barrier_destroy(&barrier);
    if (cuda.simulated_calls) { /* the second is of another capability, so the cache's kernels are not its own
                                 */
        assert_true(logs[0].compiles > 0);
        assert_true(logs[1].compiles > 0);
    }
    gnf_context_destroy(&context[0]);
    gnf_context_destroy(&context[1]);
    assert_int_equal(cuda.cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    assert_int_equal(cuda.cuCtxSetCurrent(device_context), CUDA_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_share_a_plan),
        cmocka_unit_test(test_threads_compile_once),
        cmocka_unit_test(test_fresh_threads),
        cmocka_unit_test(test_another_context_is_current),
        cmocka_unit_test(test_context_creation_restores),
        cmocka_unit_test(test_two_contexts_of_one_device),
        cmocka_unit_test(test_two_devices),
    };
    int none = check_device();
    return none ? none : cmocka_run_group_tests(tests, group_setup, group_teardown);
}
