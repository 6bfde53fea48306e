#include "measurable.h"

#include <stdlib.h>

gnf_status measurable_parse(const char *text, struct gnf_problem *problem)
{
    int64_t x, y;
    GNF_TRY(gnf_problem_parse(text, problem));
    if (problem->samples < 0)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "'%s': times depend on N, so it has to be a number, not * (allowed: 1 and more)",
                        text);
    GNF_TRY(gnf_problem_elements(problem, problem->samples, &x, &y));
    return x > 0
               ? GNF_OK
               : gnf_fail(GNF_INVALID_ARGUMENT, "'%s': there is nothing to measure: x has no elements", text);
}

bool measurable_clock(bool simulated)
{
    const char *clock = getenv("CUDASIM_CLOCK");
    return !simulated || (clock != NULL && clock[0] != '\0');
}
