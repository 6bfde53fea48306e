/* A result against the float64 reference. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "tensors.h"

/* What an output is filled with before a run: a NaN in every dtype, and not one that arithmetic makes. */
enum { COMPARE_POISON_WORD = 0xffd3 };
#define COMPARE_POISON 0xffd3ffd3u

struct comparison {
    bool ok;
    double max_error; /* of |err| / max(1, |ref|); NaN where a NaN or an infinity does not match */
    int64_t worst;    /* its place in logical C order, -1 for an empty tensor */
    double got, wanted;
    int64_t unwritten;    /* elements that still hold the poison */
    int64_t not_matching; /* NaN or infinity on one side only */
    double mean_error,
        std_error; /* worst group's mean and standard deviation, in units of max(1, rms of the group) */
};

/* |err| <= this * max(1, |ref|). What TF32 makes of a product is looser than what f32 makes of the rest. */
double compare_tolerance(const struct gnf_problem *problem);
/* y and reference in logical C order. Correlation would not see a wrong divisor, so beside every element the
 * mean and deviation of each group of at least 64 elements are compared, at half the tolerance: rounding
 * averages out there. Uses up to 16 threads. GNF_OUT_OF_MEMORY. */
gnf_status compare_run(const struct tensors *tensors, const void *y, const double *reference,
                       struct comparison *result);
/* "max error 1.2e-06 at [0,3,17]: got 0.25, wanted 0.25". */
void compare_text(const struct tensors *tensors, const struct comparison *result, char *out, size_t size);

#endif
