#include "child.h"

#include "../runtime/cli/interrupt.h"
#include "../runtime/monotonic.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { FIRST_ROOM = 4096, MOST_ROOM = 64 << 20, TICK_MS = 100, GRACE_MS = 1000 };

/* Closed on exec, and above the three standard ones, so that the child's dup2() calls cannot overwrite one
 * another's source where this program was started with some of those closed. */
static bool make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        int high = ends[i] > STDERR_FILENO ? ends[i] : fcntl(ends[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (high != ends[i])
            close(ends[i]);
        ends[i] = high;
    }
    if (ends[0] >= 0 && ends[1] >= 0)
        return true;
    close(ends[0]);
    close(ends[1]);
    return false;
}

static int spawn(struct child *child, const char *const arguments[], int input, int output)
{
    const char *words[CHILD_MAX_WORDS + 2] = {"gnfuse"};
    for (int i = 0; arguments[i] != NULL && i < CHILD_MAX_WORDS; i++)
        words[i + 1] = arguments[i];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0)
        return failed;
    failed = interrupt_spawn_attributes(&attributes);
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
        if (failed == 0)
            failed = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        if (failed == 0)
            failed = posix_spawn(&child->pid, child->program != NULL ? child->program : "/proc/self/exe",
                                 &actions, &attributes, (char **)(uintptr_t)words, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

gnf_status child_start(struct child *child, const char *const arguments[])
{
    int to[2], from[2];
    child->pid = 0;
    child->used = 0;
    if (!make_pipe(to))
        return gnf_fail(GNF_IO, "no pipe to a child process: %s", strerror(errno));
    if (!make_pipe(from)) {
        int reason = errno;
        close(to[0]);
        close(to[1]);
        return gnf_fail(GNF_IO, "no pipe to a child process: %s", strerror(reason));
    }
    int failed = spawn(child, arguments, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    child->to = to[1];
    child->from = from[0];
    if (failed == 0)
        return GNF_OK;
    close(to[1]);
    close(from[0]);
    child->pid = 0;
    return gnf_fail(GNF_IO, "this program cannot be started as a child: %s", strerror(failed));
}

void child_tell(const char *words[], int count, const struct args *args)
{
    if (args->cache_dir != NULL) {
        words[count++] = "--cache-dir";
        words[count++] = args->cache_dir;
    }
    for (int i = 0; i < args->packs.count; i++) {
        words[count++] = "--pack";
        words[count++] = args->packs.at[i];
    }
    words[count] = NULL;
}

bool child_send(struct child *child, json_t *object)
{
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (text == NULL)
        return false;
    size_t length = strlen(text), sent = 0;
    text[length++] = '\n'; /* in the place of the end */
    while (child->pid != 0 && sent < length) {
        ssize_t more = write(child->to, text + sent, length - sent);
        if (more > 0)
            sent += (size_t)more;
        else if (more == 0 || errno != EINTR)
            break;
    }
    free(text);
    return sent == length;
}

/* False where there is no more, or no room. */
static bool read_more(struct child *child)
{
    if (child->used == child->size) {
        size_t size = child->size > 0 ? 2 * child->size : FIRST_ROOM;
        char *buffer = size <= MOST_ROOM ? realloc(child->buffer, size) : NULL;
        if (buffer == NULL)
            return false;
        child->buffer = buffer;
        child->size = size;
    }
    ssize_t more = read(child->from, child->buffer + child->used, child->size - child->used);
    if (more > 0)
        child->used += (size_t)more;
    return more > 0 || (more < 0 && errno == EINTR);
}

/* Takes the first whole line, the first `searched` bytes being known to hold no end of one. */
static bool take_line(struct child *child, size_t searched, json_t **object)
{
    char *end =
        child->used > searched ? memchr(child->buffer + searched, '\n', child->used - searched) : NULL;
    if (end == NULL)
        return false;
    size_t length = (size_t)(end - child->buffer);
    *object = json_loadb(child->buffer, length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(*object)) {
        json_decref(*object);
        *object = NULL;
    }
    child->used -= length + 1;
    memmove(child->buffer, end + 1, child->used);
    return true;
}

enum child_answer child_receive(struct child *child, double seconds, bool (*stop)(void *user), void *user,
                                json_t **object)
{
    int64_t end = gnf_now_ms() + (int64_t)(seconds * 1000);
    size_t searched = 0;
    *object = NULL;
    if (child->pid == 0)
        return CHILD_GONE;
    for (;;) {
        if (take_line(child, searched, object))
            return *object != NULL ? CHILD_ANSWERED : CHILD_GONE;
        searched = child->used;
        int64_t left = end - gnf_now_ms();
        if (left <= 0 || (stop != NULL && stop(user)))
            return CHILD_TIMEOUT;
        struct pollfd wait = {.fd = child->from, .events = POLLIN};
        int64_t tick = left > TICK_MS ? TICK_MS : left, back = gnf_now_ms() + tick;
        int ready = poll(&wait, 1, (int)tick);
        int64_t late = gnf_now_ms() - back; /* Ctrl-Z stops the child as well as us, and that is no silence */
        end += late > 0 ? late : 0;
        if ((ready > 0 && !read_more(child)) || (ready < 0 && errno != EINTR))
            return CHILD_GONE;
    }
}

/* Whether it has gone, within so long. */
static bool reap(struct child *child, int64_t patience_ms, int *state)
{
    int64_t end = gnf_now_ms() + patience_ms;
    for (;;) {
        pid_t gone = waitpid(child->pid, state, WNOHANG);
        if (gone == child->pid || (gone < 0 && errno != EINTR))
            return true;
        if (gnf_now_ms() >= end)
            return false;
        const struct timespec nap = {0, 2000000};
        nanosleep(&nap, NULL);
    }
}

void child_end(struct child *child, bool kill_it, char *how, size_t size)
{
    int state = 0;
    if (how != NULL && size > 0)
        how[0] = '\0';
    if (child->pid != 0) {
        close(child->to); /* which ends it by itself */
        if (kill_it || !reap(child, GRACE_MS, &state)) {
            /* One that died before has this state already, and the signal means nothing to it. */
            kill(child->pid, SIGKILL);
            while (waitpid(child->pid, &state, 0) < 0 && errno == EINTR)
                continue;
        }
        close(child->from);
        if (how != NULL && WIFSIGNALED(state))
            snprintf(how, size, "killed by signal %d", WTERMSIG(state));
        else if (how != NULL)
            snprintf(how, size, "exit status %d", WEXITSTATUS(state));
    }
    free(child->buffer);
    *child = (struct child){.program = child->program};
}
