/* H12: many processes of many threads want the same kernels of one empty cache at the same moment.
 * many [PROCESSES THREADS ROUNDS]; 0, 1 with the reason, or 77 where there is no device. */
#include "cuda_calls.h"
#include <dirent.h>
#include <gnfuse/gnfuse.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 2 * 32 * 49, MOST_KERNELS = 64, NO_DEVICE = 77 };

static const char problem[] = "f32[2,32,49] | groupnorm(8)";

/* Seen by all processes. */
struct shared {
    pthread_barrier_t barrier;
    char folder[256];
    int threads;
    const char *jit;
    float y[COUNT]; /* the first answer */
    atomic_int answers, different;
    atomic_int warnings;
    pthread_mutex_t lock;
    struct {
        char line[256];
        int times;
    } compiles[MOST_KERNELS];
    char complaint[512];
};

static struct shared *shared;

static void complain(const char *what, const char *why)
{
    pthread_mutex_lock(&shared->lock);
    if (!*shared->complaint)
        snprintf(shared->complaint, sizeof shared->complaint, "%s: %s", what, why);
    pthread_mutex_unlock(&shared->lock);
}

static void log_line(void *user, gnf_log_level level, const char *line)
{
    (void)user;
    if (level <= GNF_LOG_WARNING) {
        atomic_fetch_add(&shared->warnings, 1);
        complain("warning", line);
    }
    if (strncmp(line, "compiling ", 10))
        return;
    size_t length = strcspn(line, "("); /* then its place in the plan */
    pthread_mutex_lock(&shared->lock);
    int i = 0;
    while (i < MOST_KERNELS - 1 && shared->compiles[i].times &&
           strncmp(shared->compiles[i].line, line, length))
        i++;
    snprintf(shared->compiles[i].line, sizeof shared->compiles[i].line, "%.*s", (int)length, line);
    shared->compiles[i].times++;
    pthread_mutex_unlock(&shared->lock);
}

static void compare(const float *y)
{
    pthread_mutex_lock(&shared->lock);
    if (atomic_fetch_add(&shared->answers, 1) == 0)
        memcpy(shared->y, y, sizeof shared->y);
    else if (memcmp(shared->y, y, sizeof shared->y))
        atomic_fetch_add(&shared->different, 1);
    pthread_mutex_unlock(&shared->lock);
}

static bool use(const struct cuda_calls *cuda, gnf_context *context)
{
    float x[COUNT], y[COUNT];
    CUdeviceptr in, out;
    gnf_plan *plan;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i * 7919 % 1000) / 100;
    if (gnf_plan_create(&plan, context, problem, NULL) != GNF_OK)
        return complain("gnf_plan_create", gnf_error_message()), false;
    if (cuda->cuMemAlloc(&in, sizeof x) || cuda->cuMemAlloc(&out, sizeof y) ||
        cuda->cuMemcpyHtoD(in, x, sizeof x))
        return complain("device memory", "failed"), false;
    gnf_arguments arguments = {.size = sizeof arguments, .x = in, .y = out};
    if (gnf_execute(plan, &arguments, NULL) != GNF_OK)
        return complain("gnf_execute", gnf_error_message()), false;
    if (cuda->cuMemcpyDtoH(y, out, sizeof y) || cuda->cuMemFree(in) || cuda->cuMemFree(out))
        return complain("the answer", "failed"), false;
    gnf_plan_destroy(&plan);
    compare(y);
    return true;
}

/* One thread: its own context, so that threads meet in the cache as processes do. */
static void *work(void *user)
{
    const struct cuda_calls *cuda = user;
    CUcontext primary;
    gnf_context *context;
    gnf_context_options options = {.size = sizeof options,
                                   .cache_dir = shared->folder,
                                   .jit = shared->jit,
                                   .log = log_line,
                                   .log_level = GNF_LOG_INFO};
    bool ok = !cuda->cuDevicePrimaryCtxRetain(&primary, 0) && !cuda->cuCtxSetCurrent(primary);
    pthread_barrier_wait(&shared->barrier);
    if (!ok)
        return complain("primary context", "failed"), NULL;
    if (gnf_context_create(&context, &options) != GNF_OK)
        return complain("gnf_context_create", gnf_error_message()), NULL;
    ok = use(cuda, context);
    gnf_context_destroy(&context);
    return ok ? user : NULL;
}

static int run_process(void)
{
    struct cuda_calls cuda;
    pthread_t threads[64];
    int failed = cuda_open(&cuda);
    if (failed)
        return failed; /* before the barrier: the caller looked whether there is a device */
    for (int i = 0; i < shared->threads; i++)
        if (pthread_create(&threads[i], NULL, work, &cuda))
            abort();
    for (int i = 0; i < shared->threads; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed |= !result;
    }
    return failed;
}

static bool run_processes(int processes)
{
    pid_t children[64];
    pthread_barrierattr_t attributes;
    bool ok = true;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, (unsigned)(processes * shared->threads));
    for (int i = 0; i < processes; i++) {
        children[i] = fork();
        if (children[i] == 0)
            exit(run_process());
        if (children[i] < 0)
            abort();
    }
    for (int i = 0; i < processes; i++) {
        int status;
        waitpid(children[i], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) {
            char text[32];
            snprintf(text, sizeof text, "ended with %#x", (unsigned)status);
            complain("a process", text);
            ok = false;
        }
    }
    pthread_barrier_destroy(&shared->barrier);
    return ok;
}

/* The first answer against float64. */
static void check_answer(void)
{
    for (int g = 0; g < COUNT; g += 196) {
        double mean = 0, variance = 0;
        for (int i = g; i < g + 196; i++)
            mean += (double)(float)(i * 7919 % 1000) / 100 / 196;
        for (int i = g; i < g + 196; i++) {
            double d = i * 7919 % 1000 / 100.0 - mean;
            variance += d * d / 196;
        }
        for (int i = g; i < g + 196; i++)
            if (!(fabs(shared->y[i] - (i * 7919 % 1000 / 100.0 - mean) / sqrt(variance + 1e-5)) < 1e-3))
                complain("the answer", "is wrong");
    }
}

/* The folder's files; with `clear` they are removed. Anything but whole entries is complained of. */
static int list_folder(bool clear)
{
    DIR *folder = opendir(shared->folder);
    struct dirent *item;
    char path[600];
    int entries = 0;
    while (folder && (item = readdir(folder))) {
        const char *dot = strchr(item->d_name, '.');
        if (item->d_name[0] == '.')
            continue;
        entries++;
        snprintf(path, sizeof path, "%s/%s", shared->folder, item->d_name);
        if (clear)
            remove(path);
        else if (!dot || (strcmp(dot, ".cubin") && strcmp(dot, ".target")))
            complain("left behind", item->d_name);
    }
    if (folder)
        closedir(folder);
    return entries;
}

static bool run_round(int processes, int round)
{
    int kernels = 0;
    memset(shared->compiles, 0, sizeof shared->compiles);
    atomic_store(&shared->answers, 0);
    shared->jit = "on";
    run_processes(processes);
    check_answer();
    for (int i = 0; i < MOST_KERNELS && shared->compiles[i].times; i++, kernels++)
        if (shared->compiles[i].times != 1)
            complain("compiled more than once", shared->compiles[i].line);
    if (!kernels)
        complain("compiles", "none");
    if (list_folder(false) < kernels)
        complain("the cache", "has fewer entries than kernels were compiled");
    /* every entry is good: all of it again, and nothing may be compiled or warned of */
    shared->jit = "off";
    run_processes(1);
    if (atomic_load(&shared->answers) != (processes + 1) * shared->threads)
        complain("answers", "too few");
    if (atomic_load(&shared->different))
        complain("answers", "differ");
    if (*shared->complaint)
        fprintf(stderr, "round %d: %s\n", round, shared->complaint);
    return !*shared->complaint;
}

int main(int argc, char **argv)
{
    int processes = argc > 1 ? atoi(argv[1]) : 16, rounds = argc > 3 ? atoi(argv[3]) : 5, status;
    const char *parent = getenv("TMPDIR");
    struct timespec begin, end;
    pthread_mutexattr_t attributes;
    struct cuda_calls cuda;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    if (fork() == 0) /* a process that has called the driver cannot fork */
        exit(cuda_open(&cuda));
    wait(&status);
    if (WEXITSTATUS(status))
        return WEXITSTATUS(status);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->lock, &attributes);
    shared->threads = argc > 2 ? atoi(argv[2]) : 4;
    snprintf(shared->folder, sizeof shared->folder, "%s/gnfuse-many-XXXXXX", parent ? parent : "/tmp");
    if (processes < 1 || processes > 64 || shared->threads < 1 || shared->threads > 64 || rounds < 1 ||
        !mkdtemp(shared->folder))
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    bool ok = true;
    for (int round = 0; ok && round < rounds; round++) {
        ok = run_round(processes, round);
        list_folder(true);
    }
    rmdir(shared->folder);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%d processes, %d threads, %d rounds: %s, %ld s\n", processes, shared->threads, rounds,
           ok ? "ok" : "failed", (long)(end.tv_sec - begin.tv_sec));
    return !ok;
}
