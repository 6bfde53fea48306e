/* Tuning from within a program: `gnfuse tune --events` as a child. */
#ifndef GNF_TUNE_H
#define GNF_TUNE_H

#include "context.h"
#include "problem.h"

/* What gnf_plan_create() does with gnf_plan_options.tune: gnf_tune() for a problem and N that this context
 * has not tuned in this way before, one at a time; a failure is a warning in the log. Nothing while the
 * stream captures. True: the database may know more now. */
bool gnf_tune_on_first_use(gnf_context *context, const struct gnf_problem *problem,
                           const gnf_plan_options *options);
/* Frees what that remembers. */
void gnf_tune_forget(gnf_context *context);

/* GNF_INVALID_ARGUMENT for seconds that are negative, NaN or beyond a million; `what` names them. */
gnf_status gnf_tune_check_budget(double seconds, const char *what);

/* The child's command line and environment. */
struct gnf_tune_words {
    char **argument, **environment; /* NULL at the end */
    char **temporary;               /* files to remove, NULL at the end */
};
/* Packs that came from memory are written to temporary files. `text`: the problem with its N. */
gnf_status gnf_tune_words_make(struct gnf_tune_words *words, gnf_context *context, const char *text,
                               const char *program, double budget, bool again);
/* Removes the temporary files too. */
void gnf_tune_words_free(struct gnf_tune_words *words);

#endif
