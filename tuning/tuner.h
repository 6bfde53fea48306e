/* What `gnfuse tune` does, apart from its arguments and its output: problems times kinds of device are jobs;
 * each device has a thread and a measuring process and takes job after job. */
#ifndef TUNING_TUNER_H
#define TUNING_TUNER_H

#include "../runtime/cli/session.h"
#include "append.h"
#include "compiling.h"
#include "halving.h"
#include "measurer.h"
#include <pthread.h>
#include <stdatomic.h>

enum { TUNER_MAX_DEVICES = 64, TUNER_COMPILE_SECONDS = 60, TUNER_ALIGNMENT = 16 };

/* Devices that records do not tell apart. */
struct tuner_kind {
    struct gnf_device facts;
    struct gnf_record_device device;
    int nvrtc, devices;
    bool no_cublaslt;
    int jobs_left; /* that nobody has taken */
    struct compiling *compiling;
};

struct tuner_device {
    struct tuner *tuner;
    int ordinal;
    struct tuner_kind *kind;
    struct measurer *measurer;
    pthread_t thread;
    bool started;
};

/* One variant of a job, and what is known of it: out of the database, or measured now. */
struct tuner_variant {
    const struct gnf_variant *variant;
    const struct gnf_pack *pack;
    char source[GNF_RECORD_SOURCE_SIZE];
    char refused[512]; /* why the device cannot hold it; "" otherwise */
    bool known;        /* the database had a record, and `status` and so on are its */
    bool running;      /* among those that are measured now */
    bool ready;        /* compared with the reference in this run */
    bool measured;     /* has a new record */
    bool have;         /* known or measured: the rest means something */
    enum gnf_record_status status;
    bool complete;
    double time_us, spread_us;
    int timings;
    double max_error;
    char gemm[GNF_RECORD_GEMM_SIZE]; /* "" for none */
    char error[512];
};

enum tuner_state { TUNER_WAITING, TUNER_AT_WORK, TUNER_DONE, TUNER_PRINTED };
enum tuner_step { TUNER_COMPILING, TUNER_CHECKING, TUNER_TIMING };

struct tuner_job {
    struct tuner *tuner;
    struct tuner_kind *kind;
    const struct gnf_problem *problem; /* N filled in */
    struct tuner_variant *variants;
    int count, default_index;
    /* guarded by the tuner's lock */
    enum tuner_state state;
    int finished; /* variants that are known or were looked at */
    int best;     /* fastest so far, -1 for none */
    /* of the thread at work */
    struct tuner_device *device;
    struct halving halving;
    int *variant_of; /* of a candidate */
    double deadline; /* seconds of the monotonic clock; 0: none */
    bool default_seen;
    int clock_mhz;
    gnf_status write_status; /* of the database */
    /* the result */
    bool begun, complete;
    int winner;        /* -1: none */
    char failure[512]; /* why the problem cannot be measured on this device; "" otherwise */
};

struct tuner {
    const struct args *args; /* for child processes: --pack names the generated packs too */
    struct session *session; /* options and packs */
    const char *path;        /* of the user's database */
    struct append *append;
    struct gnf_problem *problems;
    int problem_count;
    struct tuner_device device[TUNER_MAX_DEVICES];
    int device_count;
    struct tuner_kind kind[TUNER_MAX_DEVICES];
    int kind_count;
    struct tuner_job *jobs; /* kind by kind, each in the problems' order */
    int job_count;
    double begin, deadline; /* seconds of the monotonic clock; deadline 0: none */
    atomic_bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int threads; /* at work */
    int kept;    /* variants with a new record */
    /* what is being done, by the device that said so last */
    struct tuner_job *shown_job;
    enum tuner_step shown_step;
    int shown_variant;
    int shown_count; /* variants, for timing */
    unsigned changes;
    gnf_status status; /* of the first thing that ended it all */
    char error[1024];
};

/* Lock and condition, before anything else. */
void tuner_create(struct tuner *tuner);
/* Asks the devices what they are, which starts their measuring processes. `ordinals` as on the command line.
 */
gnf_status tuner_open_devices(struct tuner *tuner, const int *ordinals, int count);
/* The next use of a device starts its process anew. */
gnf_status tuner_restart_devices(struct tuner *tuner);
/* Variants of all jobs, with what the database knows. Then `count` and `known` of each job are right. */
gnf_status tuner_prepare(struct tuner *tuner);
/* Compiles and measures in threads of its own; returns at once. Wait until `threads` is 0. */
gnf_status tuner_start(struct tuner *tuner);
/* Waits for the threads; the status is tuner->status. */
gnf_status tuner_finish(struct tuner *tuner);
void tuner_close(struct tuner *tuner);

/* tuner_recall.c */

/* Variants, hashes, legality, the default. */
gnf_status tuner_job_create(struct tuner_job *job, struct tuner *tuner, struct tuner_kind *kind,
                            const struct gnf_problem *problem);
void tuner_job_free(struct tuner_job *job);
/* Takes from the database what is known, and marks what has to be measured: `again` all of it. */
void tuner_job_recall(struct tuner_job *job, const struct gnf_tuned *tuned, bool again);
/* Strings are the job's: the record is to be written or compared, not freed. */
struct gnf_record tuner_record_of(const struct tuner_job *job, const struct tuner_variant *v);
bool tuner_has_time(const struct tuner_variant *v);
/* The winner of all that is known, where a run has nothing to say; -1 for none. */
int tuner_pick_known(const struct tuner_job *job);
/* How many: measured now; known before and left at that; wrong or impossible. */
void tuner_job_counts(const struct tuner_job *job, int *measured, int *known, int *failed);

/* tuner_job.c */

/* Measures. GNF_OK also where no variant is left. */
gnf_status tuner_job_run(struct tuner_job *job, struct tuner_device *device);
/* As one line: a compiler's log has many. */
void tuner_copy_line(char *out, size_t size, const char *text);

#endif
