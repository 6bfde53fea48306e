/* What has to be there before `gnfuse tune` begins: problems, kernels, a database that can be written. */
#ifndef TUNING_TUNER_PLAN_H
#define TUNING_TUNER_PLAN_H

#include "tuner.h"

/* All that the child processes are told, and what tuner->args points to. */
struct tuner_plan {
    struct args args; /* --pack names the generated packs too */
    int ordinals[TUNER_MAX_DEVICES];
    int ordinal_count; /* 0: all */
};

/* The problems of the command line, or the shipped ones, each once; tuner->problems is the caller's to free.
 * The first that cannot be measured is the status, before any work. */
gnf_status tuner_plan_problems(struct tuner *tuner, const struct args *args);
gnf_status tuner_plan_devices(struct tuner_plan *plan, const struct args *args);
/* Generates what is in no pack; for the simulator also compiles it for the host. `missing` (may be NULL):
 * only marks the problems whose kernels would have to be generated. */
gnf_status tuner_plan_packs(struct tuner *tuner, struct tuner_plan *plan, bool simulated, bool *missing);

/* tuner_dry.c: lists what would be compiled and measured. Needs jobs; `missing` as above. */
gnf_status tuner_dry_run(struct tuner *tuner, const struct gnf_problem *missing, int missing_count);

#endif
