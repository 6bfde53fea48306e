/* What a command that needs a device works in: options, packs, an open context with its packs loaded, a
 * stream. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "../context.h"
#include "options/args.h"
#include "packs.h"

struct session {
    const struct args *args;
    struct gnf_options options; /* resolved */
    struct packs packs;
    int given;            /* packs that the context knows */
    bool simulated;       /* the driver is the simulator: times mean nothing */
    gnf_context *context; /* current on this thread */
    CUstream stream;
    int compiles;    /* announced by the library so far */
    char device[16]; /* "sim" or the number, for output */
};

/* Options and packs alone, for commands without a device. */
gnf_status session_open_packs(struct session *session, const struct args *args);
/* All of it. `problem` is what will be run: its kernels are generated, and for the simulator compiled, if
 * need be. */
gnf_status session_open(struct session *session, const struct args *args, const struct gnf_problem *problem);
/* One more problem for an open session, as session_open() would have done it. Not in the simulator, which
 * reads its kernels when it is opened. */
gnf_status session_require(struct session *session, const struct gnf_problem *problem);
void session_close(struct session *session);
/* Waits for the stream. */
gnf_status session_wait(struct session *session);

#endif
