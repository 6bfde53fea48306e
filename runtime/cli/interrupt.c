#include "interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int holds;
static bool pending;

static sigset_t interrupts(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

/* By the signal, so that a shell sees it; whatever handler a library has put there. */
static void end_process(void)
{
    sigset_t set = interrupts();
    signal(SIGINT, SIG_DFL);
    pthread_kill(pthread_self(), SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + SIGINT); /* not reached */
}

static void *watch(void *unused)
{
    sigset_t set = interrupts();
    int number;
    while (sigwait(&set, &number) == 0) {
        pthread_mutex_lock(&lock);
        if (holds == 0)
            end_process();
        pending = true;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

void interrupt_start(void)
{
    sigset_t set = interrupts();
    struct sigaction now;
    pthread_t thread;
    /* Ignored, as in a shell's background job, it is to stay ignored. */
    if (sigaction(SIGINT, NULL, &now) != 0 || now.sa_handler == SIG_IGN)
        return;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&thread, NULL, watch, NULL) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void interrupt_hold(void)
{
    pthread_mutex_lock(&lock);
    holds++;
    pthread_mutex_unlock(&lock);
}

void interrupt_release(void)
{
    pthread_mutex_lock(&lock);
    if (--holds == 0 && pending)
        end_process();
    pthread_mutex_unlock(&lock);
}

bool interrupt_pending(void)
{
    pthread_mutex_lock(&lock);
    bool came = pending;
    pthread_mutex_unlock(&lock);
    return came;
}

int interrupt_spawn_attributes(posix_spawnattr_t *attributes)
{
    sigset_t mask;
    int failed = posix_spawnattr_init(attributes);
    if (failed)
        return failed;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    sigdelset(&mask, SIGINT);
    failed = posix_spawnattr_setsigmask(attributes, &mask);
    if (!failed)
        failed = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
    if (failed)
        posix_spawnattr_destroy(attributes);
    return failed;
}
