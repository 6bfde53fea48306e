/* A problem's tensors on the device several times over, so that a launch does not find its own in the L2
 * cache: full tensors once a set, the small ones once. No guards; for measuring what was checked before. */
#ifndef CLI_ROTATION_H
#define CLI_ROTATION_H

#include "tensors.h"
#include "timing.h"

struct rotation {
    struct session *session;
    int sets;
    CUdeviceptr slab, small, workspace;
    size_t workspace_size;
    gnf_arguments *arguments; /* one a set */
};
/* One plan on the rotation, the user of a timing_job whose launch is rotation_launch(). */
struct rotation_run {
    const struct rotation *rotation;
    const gnf_plan *plan;
};

/* Uploads every tensor that has data as often as it takes (timing_sets()). Without a workspace. */
gnf_status rotation_create(struct rotation *rotation, struct session *session, const struct tensors *tensors);
/* A zeroed one is fine. */
void rotation_free(struct rotation *rotation);
/* Makes the workspace as large as the plan asks, if it is not. *moved: it has another address, so that graphs
 * captured before must not run again. */
gnf_status rotation_fit(struct rotation *rotation, const gnf_plan *plan, bool *moved);
/* `user` is a struct rotation_run. */
gnf_status rotation_launch(void *user, int set, CUstream stream);

#endif
