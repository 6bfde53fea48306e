/* What a measuring child holds: a session for its life, one problem at a time. */
#ifndef TUNING_MEASURING_H
#define TUNING_MEASURING_H

#include "../runtime/cli/bindings.h"
#include "../runtime/cli/rotation.h"
#include "measured.h"
#include "worker.h"

/* A variant of the problem. */
struct subject {
    gnf_plan *plan;
    struct rotation_run run;
    struct timing_job cold, hot; /* graphs, made when first timed */
    bool picked, repicked;       /* algorithms of linear's products: found; others than before */
    char *gemm;                  /* gnf_plan_gemm_text() then, or NULL */
};

enum { MEASURING_PRODUCTS = 16, MEASURING_GEMMS = 2 };
/* Algorithms that were found for a way to compute linear's product. */
struct picked {
    enum gnf_method method;
    int chunks;
    int gemms, taken[MEASURING_GEMMS];
};

struct measuring {
    struct worker *worker;
    struct args args; /* of the session */
    struct session session;
    bool open;   /* the session is */
    bool broken; /* the context is, or the inputs are: nothing more can be measured here */
    int compiles;

    bool ready; /* the rest is of a problem */
    struct gnf_problem problem;
    struct tensors tensors;
    double *reference;
    void *y, *logical; /* host memory for y in memory order, and in logical order where that is another */
    struct bindings bindings;
    struct rotation rotation; /* made when first timed */
    struct timing_clock clock;
    struct subject **subjects;
    int subject_count;
    struct picked picked[MEASURING_PRODUCTS];
    int picked_count;
    unsigned shuffle;
    int clock_mhz;    /* when last timed */
    double worked_ms; /* when the device last worked, by the host's clock */
};

/* A request does its work and adds to the answer. A status other than GNF_OK is answered in its place. */
typedef gnf_status (*measuring_request)(struct measuring *m, const json_t *request, json_t *answer);
gnf_status measuring_check(struct measuring *m, const json_t *request, json_t *answer);
gnf_status measuring_time(struct measuring *m, const json_t *request, json_t *answer);

/* Plans the variant if that was not done. *out where GNF_OK is returned and *subject is NULL: why it cannot
 * be measured; another status: the request cannot be. */
gnf_status measuring_subject(struct measuring *m, const char *variant, struct subject **subject,
                             struct measured *out);
/* Memory for the subject's launches. The graphs of all are dropped where it had to move (*moved). */
gnf_status measuring_fit(struct measuring *m, struct subject *subject, bool *moved);
/* Has the subject's plan take the fastest algorithm for each of its matrix products, if that was not done and
 * there is a clock to tell. `at`: its index in the request. */
gnf_status measuring_pick(struct measuring *m, struct subject *subject, int at);
/* After a failure of the driver: finds out whether the context survived it. */
void measuring_inspect(struct measuring *m);

#endif
