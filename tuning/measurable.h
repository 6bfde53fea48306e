/* What can be timed, and where. */
#ifndef TUNING_MEASURABLE_H
#define TUNING_MEASURABLE_H

#include "../runtime/problem.h"
#include <stdbool.h>

/* Parses the text. Besides what gnf_problem_parse() returns: GNF_INVALID_ARGUMENT where N is *, as times
 * depend on it, or where there is nothing to compute. */
gnf_status measurable_parse(const char *text, struct gnf_problem *problem);
/* Whether times are worth a look: a GPU's, or the simulator's where a simulated clock is set. */
bool measurable_clock(bool simulated);

#endif
