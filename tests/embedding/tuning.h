/* What the tests of gnf_tune() with the fake program share: a context, options, and what the program wrote
 * down. */
#ifndef EMBEDDING_TUNING_H
#define EMBEDDING_TUNING_H

#include "fixture.h"

static const char problem[] = "f32[*,6,7] | groupnorm(3) | add(r: full)";
extern const gnf_tune_options plain; /* N = 3 */
extern char self[4096];              /* this program */
extern char said[600], db[600];      /* what the program writes down; the context's database */
extern gnf_context *shared;
extern gnf_tune_report report; /* of the last tune() */

/* As cmocka's group setup and teardown. GNFUSE_PROGRAM is this program. */
int tuning_setup(void **state);
int tuning_teardown(void **state);

gnf_status tune(gnf_context *context, const gnf_tune_options *options);
/* The same with the fake program's way, the shared context, N = 3 and whatever other options are given. */
#define TUNE(way, ...)                                                                                       \
    (tuning_way(way),                                                                                        \
     tune(shared, &(gnf_tune_options){.size = sizeof(gnf_tune_options), .samples = 3, __VA_ARGS__}))
/* How the program is to behave; what it wrote down is forgotten. */
void tuning_way(const char *way);
const char *read_said(void);
int count_said(const char *line);
double now_s(void);

#endif
