#define _GNU_SOURCE 1 /* pipe2, posix_spawn_file_actions_addclosefrom_np */
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* TICK: how often a child is looked after that is silent, in ms. A longer line than LINE_MAX_BYTES comes in
 * pieces. */
enum { READ_BYTES = 4096, LINE_MAX_BYTES = 1 << 20, TICK = 100, END_MS = 2000, END_TICK = 5 };

/* ---- start ---- */

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int add_files(posix_spawn_file_actions_t *actions, int out, int error)
{
    int failed = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(actions, error, STDERR_FILENO);
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 34)
    if (!failed)
        failed = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
#endif
#endif
    return failed;
}

/* What the host blocks or ignores is its own affair: a child that ignores SIGCHLD could not wait for its own
 * children. */
static int add_signals(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int failed = posix_spawnattr_setsigmask(attributes, &none);
    if (!failed)
        failed = posix_spawnattr_setsigdefault(attributes, &all);
    if (!failed)
        failed = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return failed;
}

/* An errno, 0 for success. */
static int spawn(pid_t *pid, const char *program, char *const arguments[], char *const environment[], int out,
                 int error)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed)
        return failed;
    failed = posix_spawnattr_init(&attributes);
    if (!failed) {
        failed = add_files(&actions, out, error);
        if (!failed)
            failed = add_signals(&attributes);
        if (!failed)
            failed = posix_spawnp(pid, program, &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

gnf_status gnf_process_start(struct gnf_process *process, const char *program, char *const arguments[],
                             char *const environment[])
{
    int out[2] = {-1, -1}, error[2] = {-1, -1};
    *process = (struct gnf_process){.out = {.fd = -1}, .error = {.fd = -1}};
    bool piped = !pipe2(out, O_CLOEXEC) && !pipe2(error, O_CLOEXEC);
    int failed = piped ? spawn(&process->pid, program, arguments, environment, out[1], error[1]) : errno;
    close_end(&out[1]);
    close_end(&error[1]);
    if (failed) {
        process->pid = 0;
        close_end(&out[0]);
        close_end(&error[0]);
        return gnf_fail(failed == ENOMEM ? GNF_OUT_OF_MEMORY : GNF_IO,
                        "the program '%s' cannot be started: %s", program, strerror(failed));
    }
    process->out.fd = out[0];
    process->error.fd = error[0];
    return GNF_OK;
}

/* ---- lines ---- */

static void drop_taken(struct gnf_lines *lines)
{
    if (lines->taken)
        memmove(lines->data, lines->data + lines->taken, lines->used - lines->taken);
    lines->used -= lines->taken;
    lines->taken = 0;
}

/* The first line in the buffer; NULL if none is whole. Past the end of the pipe the rest is a line too. */
static char *next_line(struct gnf_lines *lines)
{
    drop_taken(lines);
    char *newline = lines->used ? memchr(lines->data, '\n', lines->used) : NULL;
    if (newline)
        lines->taken = (size_t)(newline - lines->data) + 1;
    else if (lines->used && (lines->fd < 0 || lines->used >= LINE_MAX_BYTES))
        lines->taken = lines->used;
    else
        return NULL;
    if (!newline)
        newline = lines->data + lines->used; /* fill() leaves a byte */
    *newline = '\0';
    return lines->data;
}

static void fill(struct gnf_lines *lines)
{
    drop_taken(lines);
    if (lines->room < lines->used + READ_BYTES + 1) {
        size_t room = 2 * lines->used + READ_BYTES + 1;
        char *larger = realloc(lines->data, room);
        if (!larger) { /* what is buffered is lost, not the child */
            lines->used = 0;
            if (!lines->room)
                close_end(&lines->fd);
            return;
        }
        lines->data = larger;
        lines->room = room;
    }
    ssize_t got = read(lines->fd, lines->data + lines->used, READ_BYTES);
    if (got > 0)
        lines->used += (size_t)got;
    else if (got == 0 || errno != EINTR)
        close_end(&lines->fd);
}

/* ---- its end ---- */

/* While this is false the pid is the child's: nobody else can have it before somebody has waited for it. */
static bool is_gone(struct gnf_process *process)
{
    if (!process->pid)
        return true;
    int status;
    pid_t got = waitpid(process->pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    if (got == process->pid) {
        process->known = true;
        process->status = status;
    }
    process->pid = 0;
    return true;
}

enum gnf_process_event gnf_process_read(struct gnf_process *process, int milliseconds, char **line)
{
    for (;;) {
        if ((*line = next_line(&process->out)))
            return GNF_PROCESS_LINE;
        if ((*line = next_line(&process->error)))
            return GNF_PROCESS_ERROR_LINE;
        if (process->out.fd < 0 && process->error.fd < 0)
            return GNF_PROCESS_ENDED;
        struct pollfd files[] = {{.fd = process->out.fd, .events = POLLIN},
                                 {.fd = process->error.fd, .events = POLLIN}};
        /* Gone before the look at its pipes, so that nothing it wrote is missed. */
        bool gone = is_gone(process);
        int tick = gone ? 0 : milliseconds < TICK ? milliseconds : TICK;
        int ready = poll(files, 2, tick);
        if (ready > 0) {
            if (files[0].revents)
                fill(&process->out);
            if (files[1].revents)
                fill(&process->error);
            continue;
        }
        if (gone) { /* a child of its own may hold the pipes open */
            close_end(&process->out.fd);
            close_end(&process->error.fd);
            continue;
        }
        milliseconds -= tick;
        if (milliseconds <= 0)
            return GNF_PROCESS_NOTHING;
    }
}

void gnf_process_signal(struct gnf_process *process, int signal)
{
    if (!is_gone(process))
        kill(process->pid, signal);
}

void gnf_process_end(struct gnf_process *process)
{
    close_end(&process->out.fd);
    close_end(&process->error.fd);
    for (int waited = 0; !is_gone(process); waited += END_TICK) {
        if (waited >= END_MS)
            kill(process->pid, SIGKILL);
        poll(NULL, 0, END_TICK);
    }
    free(process->out.data);
    free(process->error.data);
    process->out = process->error = (struct gnf_lines){.fd = -1};
}

void gnf_process_describe(const struct gnf_process *process, char *text, size_t size)
{
    if (!process->known)
        snprintf(text, size, "exit status not known");
    else if (WIFSIGNALED(process->status))
        snprintf(text, size, "killed by signal %d", WTERMSIG(process->status));
    else
        snprintf(text, size, "exit status %d", WEXITSTATUS(process->status));
}
