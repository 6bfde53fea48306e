#include "worker.h"

#include "../runtime/cli/interrupt.h"
#include "../runtime/monotonic.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEAT_MS = 200, SAME_MS = 100 };

struct worker {
    int output;
    char *line; /* getline()'s */
    size_t line_size;
    pthread_mutex_t lock; /* of the output */
    atomic_bool host;
    int at; /* what was told last, and when */
    int64_t told;
};

/* Not PR_SET_PDEATHSIG: that goes by the thread that started us, which may end long before the process. */
static void *watch(void *user)
{
    struct worker *worker = user;
    for (;;) {
        struct pollfd input = {.fd = STDIN_FILENO};
        if (poll(&input, 1, BEAT_MS) > 0 && (input.revents & (POLLHUP | POLLERR)))
            _exit(EXIT_SUCCESS);
        if (atomic_load(&worker->host))
            worker_send(worker, json_pack("{s:b}", "alive", 1));
    }
}

gnf_status worker_create(struct worker **out)
{
    struct worker *worker = calloc(1, sizeof *worker);
    pthread_t thread;
    if (worker == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "worker: no memory");
    interrupt_hold();
    pthread_mutex_init(&worker->lock, NULL);
    worker->at = -1;
    worker->output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (worker->output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
        pthread_create(&thread, NULL, watch, worker) != 0) {
        gnf_status status = gnf_fail(GNF_IO, "worker: %s", strerror(errno));
        free(worker);
        return status;
    }
    pthread_detach(thread);
    *out = worker;
    return GNF_OK;
}

json_t *worker_read(struct worker *worker)
{
    ssize_t length = getline(&worker->line, &worker->line_size, stdin);
    return length > 0 ? json_loadb(worker->line, (size_t)length, 0, NULL) : NULL;
}

void worker_send(struct worker *worker, json_t *object)
{
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    if (text == NULL)
        _exit(EXIT_FAILURE); /* without memory for an answer the parent shall not wait for it */
    size_t length = strlen(text), sent = 0;
    text[length++] = '\n';
    pthread_mutex_lock(&worker->lock);
    while (sent < length) {
        ssize_t more = write(worker->output, text + sent, length - sent);
        if (more > 0)
            sent += (size_t)more;
        else if (errno != EINTR)
            _exit(EXIT_SUCCESS); /* nobody reads any more */
    }
    pthread_mutex_unlock(&worker->lock);
    free(text);
}

json_t *worker_words(const char *text)
{
    json_t *words = json_string(text);
    char *copy = words == NULL ? strdup(text) : NULL;
    for (char *c = copy; c != NULL && *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    if (copy != NULL)
        words = json_string(copy);
    free(copy);
    return words;
}

json_t *worker_failure(gnf_status status)
{
    return json_pack("{s:b, s:i, s:o}", "ok", 0, "status", (int)status, "error",
                     worker_words(gnf_error_message()));
}

void worker_host(struct worker *worker, bool busy)
{
    atomic_store(&worker->host, busy);
}

void worker_at(struct worker *worker, int index)
{
    int64_t now = gnf_now_ms();
    if (index == worker->at && now - worker->told < SAME_MS)
        return;
    worker->at = index;
    worker->told = now;
    worker_send(worker, json_pack("{s:b, s:i}", "alive", 1, "at", index));
}
