/* The simulator: where it is, and the host-compiled kernels that it needs. */
#ifndef CLI_SIMULATE_H
#define CLI_SIMULATE_H

#include "packs.h"

/* GNFUSE_CUDA_DRIVER, else the simulator of this build or installation. GNF_NO_DRIVER names the places tried.
 */
gnf_status simulate_find(char path[FILES_PATH_SIZE]);
/* Is that driver library the simulator? By its file name. */
bool simulate_is(const char *driver);
/* Has the problem's kernels, of all its variants, compiled for the host (kept in the cache) and names them in
 * CUDASIM_KERNELS, unless that is set already. Before the driver is opened. */
gnf_status simulate_prepare(struct packs *packs, const struct args *args, const struct gnf_options *options,
                            const struct gnf_problem *problem);

#endif
