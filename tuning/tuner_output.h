/* What `gnfuse tune` says: the live line, events, a line or an object for each problem. For the main thread.
 */
#ifndef TUNING_TUNER_OUTPUT_H
#define TUNING_TUNER_OUTPUT_H

#include "../runtime/cli/output.h"
#include "tuner.h"

struct moment {
    const struct tuner_job *job; /* NULL: nothing yet */
    enum tuner_step step;
    int variant, count, done, total; /* done and total of the job */
    int all_done;                    /* of all jobs */
    int best;
    double best_us;
};

struct tuner_output {
    struct tuner *tuner;
    struct progress progress;
    unsigned seen;      /* changes that were shown */
    struct moment last; /* that was sent as an event */
    double sent;
    json_t *reports; /* for --json */
    FILE *text;      /* where a problem's line goes */
};

gnf_status tuner_output_begin(struct tuner_output *output, struct tuner *tuner);
/* Shows what changed since the last call: progress, and the jobs that are done. GNF_IO where nobody reads. */
gnf_status tuner_output_update(struct tuner_output *output);
/* The closing object of --json, and the exit status. */
gnf_status tuner_output_end(struct tuner_output *output, int *exit_status);
/* For --events: the failure of the whole, as the last line. */
void tuner_output_error(gnf_status status);

#endif
