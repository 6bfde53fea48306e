#include "compiling.h"

#include "child.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 100 };

/* A variant to compile. */
struct item {
    char *problem, *variant;
    bool taken, done;
    gnf_status status;
    char *message; /* where the status is not GNF_OK */
    double ms;
    struct item *next;
};

struct compiling {
    const struct args *args;
    int capability, jobs;
    double limit_s;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    bool stopping;
    struct item *first, *last;
    int added, done, waiting; /* waiting: items that nobody has taken */
    int idle;                 /* threads that wait for items */
    int thread_count;
    pthread_t *threads; /* each has a child of its own */
};

gnf_status compiling_create(struct compiling **out, const struct args *args, int capability, int jobs,
                            double limit_s)
{
    struct compiling *c = calloc(1, sizeof *c);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (c != NULL) {
        c->args = args;
        c->capability = capability;
        c->jobs = jobs > 0 ? jobs : cores > 0 ? (int)cores : 1;
        c->limit_s = limit_s;
        c->threads = calloc((size_t)c->jobs, sizeof *c->threads);
    }
    if (c == NULL || c->threads == NULL) {
        free(c);
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d compilers", jobs);
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out = c;
    return GNF_OK;
}

static gnf_status start_child(const struct compiling *c, struct child *child)
{
    const char *words[CHILD_MAX_WORDS + 1] = {"worker", "compile", "-q"};
    child_tell(words, 3, c->args);
    return child_start(child, words);
}

static bool is_stopping(void *user)
{
    struct compiling *c = user;
    pthread_mutex_lock(&c->lock);
    bool stopping = c->stopping;
    pthread_mutex_unlock(&c->lock);
    return stopping;
}

static gnf_status read_answer(const json_t *answer, double *ms)
{
    json_int_t status = json_integer_value(json_object_get(answer, "status"));
    const char *error = json_string_value(json_object_get(answer, "error"));
    *ms = json_number_value(json_object_get(answer, "ms"));
    if (json_is_true(json_object_get(answer, "ok")))
        return GNF_OK;
    return gnf_fail(status > 0 && status <= GNF_NO_CUBLAS ? (gnf_status)status : GNF_COMPILE_FAILED, "%s",
                    error != NULL ? error : "the compiling process failed");
}

/* Lines without "ok" say that the next kernel of the variant is at work. */
static gnf_status compile(struct compiling *c, struct child *child, const struct item *item, double *ms)
{
    char how[64];
    json_t *answer;
    if (child->pid == 0)
        GNF_TRY(start_child(c, child));
    json_t *request = json_pack("{s:s, s:s, s:i}", "problem", item->problem, "variant", item->variant,
                                "capability", c->capability);
    enum child_answer how_it_went = child_send(child, request) ? CHILD_ANSWERED : CHILD_GONE;
    while (how_it_went == CHILD_ANSWERED) {
        how_it_went = child_receive(child, c->limit_s, is_stopping, c, &answer);
        if (how_it_went != CHILD_ANSWERED)
            break;
        bool final = json_object_get(answer, "ok") != NULL;
        gnf_status status = final ? read_answer(answer, ms) : GNF_OK;
        json_decref(answer);
        if (final)
            return status;
    }
    child_end(child, how_it_went == CHILD_TIMEOUT, how, sizeof how);
    if (how_it_went == CHILD_TIMEOUT)
        return gnf_fail(GNF_COMPILE_FAILED, "took longer than %g s", c->limit_s);
    return gnf_fail(GNF_COMPILE_FAILED, "the compiler crashed (%s)", how);
}

/* With the lock held. */
static struct item *take(struct compiling *c)
{
    struct item *item = c->first;
    while (item != NULL && item->taken)
        item = item->next;
    if (item == NULL)
        return NULL;
    item->taken = true;
    c->waiting--;
    return item;
}

static void *work(void *user)
{
    struct compiling *c = user;
    struct child child = {0};
    pthread_mutex_lock(&c->lock);
    while (!c->stopping) {
        struct item *item = take(c);
        if (item == NULL) {
            c->idle++;
            pthread_cond_wait(&c->changed, &c->lock);
            c->idle--;
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        double ms = 0;
        gnf_status status = compile(c, &child, item, &ms);
        char *message = status != GNF_OK ? strdup(gnf_error_message()) : NULL;
        pthread_mutex_lock(&c->lock);
        item->status = status;
        item->message = message;
        item->ms = ms;
        item->done = true;
        c->done++;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    child_end(&child, true, NULL, 0);
    return NULL;
}

void compiling_destroy(struct compiling *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->thread_count; i++)
        pthread_join(c->threads[i], NULL);
    while (c->first != NULL) {
        struct item *item = c->first;
        c->first = item->next;
        free(item->problem);
        free(item->variant);
        free(item->message);
        free(item);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->threads);
    free(c);
}

/* With the lock held. */
static struct item *find(const struct compiling *c, const char *problem, const char *variant)
{
    struct item *item = c->first;
    while (item != NULL && (strcmp(item->problem, problem) != 0 || strcmp(item->variant, variant) != 0))
        item = item->next;
    return item;
}

/* With the lock held. One more compiler where all are at work, up to the limit. */
static gnf_status start_thread(struct compiling *c)
{
    if (c->waiting <= c->idle || c->thread_count == c->jobs)
        return GNF_OK;
    int failed = pthread_create(&c->threads[c->thread_count], NULL, work, c);
    c->thread_count += failed == 0;
    return c->thread_count > 0
               ? GNF_OK
               : gnf_fail(GNF_OUT_OF_MEMORY, "no thread for a compiler: %s", strerror(failed));
}

gnf_status compiling_add(struct compiling *c, const char *problem, const char *variant)
{
    struct item *item = calloc(1, sizeof *item);
    if (item != NULL) {
        item->problem = strdup(problem);
        item->variant = strdup(variant);
    }
    if (item == NULL || item->problem == NULL || item->variant == NULL) {
        if (item != NULL)
            free(item->problem);
        free(item);
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for one more kernel to compile");
    }
    pthread_mutex_lock(&c->lock);
    if (c->last != NULL)
        c->last->next = item;
    else
        c->first = item;
    c->last = item;
    c->added++;
    c->waiting++;
    gnf_status status = start_thread(c);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return status;
}

static void wait_a_tick(struct compiling *c)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&c->changed, &c->lock, &until);
}

gnf_status compiling_wait(struct compiling *c, const char *problem, const char *variant, double *ms,
                          bool (*stop)(void *user), void *user)
{
    gnf_status status = GNF_OK;
    bool stopped = false;
    *ms = 0;
    pthread_mutex_lock(&c->lock);
    const struct item *item = find(c, problem, variant);
    while (item != NULL && !item->done && !stopped) {
        wait_a_tick(c);
        if (stop != NULL && !item->done) {
            pthread_mutex_unlock(&c->lock);
            stopped = stop(user);
            pthread_mutex_lock(&c->lock);
        }
    }
    if (item == NULL)
        status = gnf_fail(GNF_INVALID_ARGUMENT, "variant '%s' of '%s' is not queued", variant, problem);
    else if (!item->done)
        status = gnf_fail(GNF_IO, "stopped while compiling '%s'", variant);
    else if (item->status != GNF_OK)
        status = gnf_fail(item->status, "%s", item->message != NULL ? item->message : "");
    else
        *ms = item->ms;
    pthread_mutex_unlock(&c->lock);
    return status;
}

int compiling_done(struct compiling *c, int *added)
{
    pthread_mutex_lock(&c->lock);
    int done = c->done;
    *added = c->added;
    pthread_mutex_unlock(&c->lock);
    return done;
}
