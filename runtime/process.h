/* Another program as a child: a clean start, its lines of output, its end. The host may do with SIGCHLD what
 * it likes. */
#ifndef GNF_PROCESS_H
#define GNF_PROCESS_H

#include "status.h"
#include <stdbool.h>
#include <sys/types.h>

/* Lines of one pipe. */
struct gnf_lines {
    int fd; /* -1 past the end */
    char *data;
    size_t used, room;
    size_t taken; /* bytes of the line given out last */
};
struct gnf_process {
    pid_t pid; /* 0: none, or waited for */
    struct gnf_lines out, error;
    bool known; /* `status` is what waitpid() gave; not where the host took it away */
    int status;
};
enum gnf_process_event {
    GNF_PROCESS_LINE,       /* of standard output */
    GNF_PROCESS_ERROR_LINE, /* of standard error */
    GNF_PROCESS_NOTHING,    /* for so long */
    GNF_PROCESS_ENDED       /* and all its lines are read */
};

/* Starts `program` (searched on PATH if it has no slash) with standard input empty, both outputs read here,
 * no other file open, default signals and none blocked. GNF_IO, GNF_OUT_OF_MEMORY. */
gnf_status gnf_process_start(struct gnf_process *process, const char *program, char *const arguments[],
                             char *const environment[]);
/* Waits for a line for up to `milliseconds`. *line is NULL or lives until the next call; it has no newline.
 */
enum gnf_process_event gnf_process_read(struct gnf_process *process, int milliseconds, char **line);
/* If it is still there. */
void gnf_process_signal(struct gnf_process *process, int signal);
/* Waits, kills what has not gone after two seconds, and frees. */
void gnf_process_end(struct gnf_process *process);
/* After that: "exit status 3", "killed by signal 9". */
void gnf_process_describe(const struct gnf_process *process, char *text, size_t size);

#endif
