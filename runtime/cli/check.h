/* Every variant of a problem against the float64 reference, under guards and poison. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "bindings.h"
#include "compare.h"
#include "data_sets.h"

struct check_variant {
    const struct gnf_variant *variant;
    gnf_plan *plan;    /* NULL where it cannot run on this device */
    char skipped[256]; /* why; "" otherwise */
    int passed, failed;
    double max_error; /* largest over the results that passed or failed by their error */
};
struct check_result {
    const char *variant, *data, *mode; /* mode: aligned, repeat, misaligned, in-place-of-NAME */
    bool ok;
    double max_error;
    char text[384];
};
struct check {
    struct session *session;
    const struct gnf_problem *problem;
    struct tensors tensors;
    struct data_set data[DATA_SETS_MAX]; /* filled by check_prepare() */
    int data_count;
    struct check_variant *variants;
    int variant_count;
    /* Called for each result. */
    void (*report)(void *user, const struct check_result *result);
    void *user;
    /* Called before each variant of each data set. */
    void (*step)(void *user, const char *data, const char *variant);
    bool lost; /* a launch failed and took the context with it: the rest was not checked */
};

/* Plans every variant of the list (compiling what is in no cache). */
gnf_status check_prepare(struct check *check, const struct pack_variant *list, int count);
/* Runs all data sets. Failures are reported and counted, and GNF_OK returned; another status says that it
 * could not be carried through. A launch that the driver refuses is a failure, sets check->lost and ends the
 * run: the status is the launch's. */
gnf_status check_run(struct check *check, uint64_t seed);
void check_free(struct check *check);

#endif
