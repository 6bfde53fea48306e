/* Ctrl-C. SIGINT is blocked in every thread, so that no library's handler meets it (NVRTC's front end
 * installs one while it runs, and ends the process its own way); one thread waits for it and ends the process
 * by the signal, at once unless somebody holds it back. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <spawn.h>
#include <stdbool.h>

/* Before any other thread is started. */
void interrupt_start(void);

/* Between the two an interrupt waits, so that what was begun can be cleared away; release ends the process if
 * one came. Pairs may nest. Thread-safety: safe. */
void interrupt_hold(void);
void interrupt_release(void);
/* Whether one came while it is held back. */
bool interrupt_pending(void);

/* A program that is started gets Ctrl-C as usual. Nonzero: an errno. */
int interrupt_spawn_attributes(posix_spawnattr_t *attributes);

#endif
