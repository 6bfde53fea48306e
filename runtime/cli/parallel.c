#include "parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_THREADS = 16 };

struct loop {
    int64_t count, grain;
    void (*body)(void *user, int64_t begin, int64_t end);
    void *user;
    _Atomic int64_t next;
};

static void *loop_work(void *argument)
{
    struct loop *loop = argument;
    for (;;) {
        int64_t begin = atomic_fetch_add(&loop->next, loop->grain);
        if (begin >= loop->count)
            return NULL;
        int64_t end = loop->count - begin < loop->grain ? loop->count : begin + loop->grain;
        loop->body(loop->user, begin, end);
    }
}

void parallel_for(int64_t count, int64_t grain, void (*body)(void *user, int64_t begin, int64_t end),
                  void *user)
{
    struct loop loop = {.count = count, .grain = grain > 0 ? grain : 1, .body = body, .user = user};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t pieces = count / loop.grain + (count % loop.grain != 0);
    pthread_t thread[MOST_THREADS];
    int started = 0;
    for (int i = 1; i < processors && i < MOST_THREADS && i < pieces; i++) {
        if (pthread_create(&thread[started], NULL, loop_work, &loop) != 0)
            break;
        started++;
    }
    loop_work(&loop);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}
