/* Measuring in a child process, so that a kernel that breaks its context, hangs or crashes costs a child and
 * nothing else. The parent never touches a GPU. The child is this program again (`gnfuse worker`), which
 * reads one JSON object a line and answers with one (worker.c); it exits when its standard input closes. */
#ifndef TUNING_MEASURER_H
#define TUNING_MEASURER_H

#include "../runtime/cli/options/args.h"
#include "../runtime/problem.h"
#include "../runtime/record.h"

struct measurer; /* one device's; for one thread */

struct measurer_options {
    const struct args *args; /* --device sim, --pack, --cache-dir, --seed, -v are passed on */
    int device;              /* ordinal */
    double hang_s;           /* no answer for so long: the child is killed */
};

/* What a variant is, and whether it is right. */
struct measured {
    enum gnf_record_status status;       /* OK, WRONG, FAILED, HUNG, REFUSED, NOT_COMPILED */
    char error[512];                     /* one line where it is not OK */
    int registers, spills, shared_bytes; /* largest over the kernels; bytes a thread, bytes a block */
    double occupancy;  /* resident warps / the most a multiprocessor takes, of the last kernel */
    double compile_ms; /* 0 where it came out of the cache */
    double max_error;  /* NaN: not compared */
    char gemm[GNF_RECORD_GEMM_SIZE]; /* as in struct gnf_record; "" for none */
};

/* Starts nothing yet: the child starts with the first call that needs it, and again after it was lost. */
gnf_status measurer_create(struct measurer **measurer, const struct measurer_options *options);
/* Ends the child (it is killed if it does not go within a second). NULL is fine. */
void measurer_destroy(struct measurer *measurer);

/* Tensors of random data from the seed and their float64 reference, in the child. `samples` is N. What went
 * before is dropped. A child that was lost gets the same problem again by itself. */
gnf_status measurer_open(struct measurer *measurer, const struct gnf_problem *problem, int64_t samples);
/* Compiles (through the cache), loads and runs the variant once: y refilled with NaN before, all of y
 * compared, guards looked at. GNF_OK whenever *out says how it went; another status: measuring is not
 * possible at all. */
gnf_status measurer_check(struct measurer *measurer, const char *variant, struct measured *out);
/* `rounds` samples of each variant that was checked, in us a launch: sample[i * rounds + r]. Each round takes
 * one sample of every variant, in an order shuffled anew; inputs rotate beyond the L2 unless `hot`. A sample
 * that the clock cannot have meant (0, negative, NaN) is stored as NaN. `quick`: one launch a sample, no
 * graph and no rest, for a first look. *failed: the index of the variant that ended it (status and line in
 * *how), -1 for none; then no sample is valid. */
gnf_status measurer_time(struct measurer *measurer, const char *const *variants, int count, int rounds,
                         bool hot, bool quick, double *sample, int *failed, struct measured *how);
/* The best copy kernel's time for as many bytes as the problem moves, cold. 0 where none can be measured. */
gnf_status measurer_copy(struct measurer *measurer, double *copy_us, int64_t *bytes);
/* The child's device, NVRTC's version, and the multiprocessors' clock at this moment (0: not known). Starts
 * the child. */
gnf_status measurer_device(struct measurer *measurer, struct gnf_record_device *device, int *nvrtc);
int measurer_clock_mhz(struct measurer *measurer);
/* The same device as the library sees it, for gnf_choice_check() and gnf_choice_default(), and how many
 * devices the driver has (may be NULL). Starts the child. */
gnf_status measurer_facts(struct measurer *measurer, struct gnf_device *facts, int *devices);
/* Whether cuBLASLt can be loaded there, which takes a while. Starts the child. */
gnf_status measurer_cublaslt(struct measurer *measurer, bool *there);

#endif
