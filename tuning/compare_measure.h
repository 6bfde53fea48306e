/* Measures every variant of a problem, each as long as the others: for `gnfuse compare`. */
#ifndef TUNING_COMPARE_MEASURE_H
#define TUNING_COMPARE_MEASURE_H

#include "../runtime/cli/session.h"
#include "compare_table.h"

struct compare {
    const struct args *args;
    struct gnf_problem problem;
    struct session session;    /* packs and options; no device is open in this process while it measures */
    struct args child_args;    /* --pack names the generated packs too */
    struct gnf_device facts;   /* the device's, as the measuring process sees them */
    bool no_cublaslt;          /* none can be loaded there */
    struct pack_variant *list; /* in the packs' order */
    struct compare_table table;
};

/* Fills the table: compiles in parallel, checks, times. What a variant does wrong is its row's; another
 * status than GNF_OK says that nothing can be measured. Free it in any case. */
gnf_status compare_measure(struct compare *compare, const struct args *args);
void compare_free(struct compare *compare);

#endif
