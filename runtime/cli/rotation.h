/* A problem's tensors on the device several times over, so that a launch does not find its own in the L2
 * cache: full tensors once a set; once for all sets the small ones, and the weight, as one layer has
 * one. No guards; for measuring what was checked before. */
#ifndef CLI_ROTATION_H
#define CLI_ROTATION_H

#include "tensors.h"
#include "timing.h"

enum { ROTATION_WEIGHTS = 4 };

/* A prepared weight, which plans of one method of linear's product share. */
struct rotation_weight {
    enum gnf_method method;
    size_t bytes;
    CUdeviceptr data;
};
struct rotation {
    struct session *session;
    int sets;
    CUdeviceptr slab, small, workspace;
    size_t workspace_size;
    int64_t bytes, weight_bytes; /* of all tensors in it, of the weight */
    struct rotation_weight weight[ROTATION_WEIGHTS];
    int weight_count;
    gnf_arguments *arguments; /* one a set */
};
/* One plan on the rotation, the user of a timing_job whose launch is rotation_launch(). */
struct rotation_run {
    const struct rotation *rotation;
    const gnf_plan *plan;
    CUdeviceptr prepared; /* set by rotation_fit() */
};

/* Uploads every tensor that has data as often as it takes (timing_sets()). Without a workspace. */
gnf_status rotation_create(struct rotation *rotation, struct session *session, const struct tensors *tensors);
/* A zeroed one is fine. */
void rotation_free(struct rotation *rotation);
/* Makes the workspace as large as the run's plan asks, if it is not, and the weight prepared as it wants it.
 * *moved: the workspace has another address, so that graphs captured before must not run again. */
gnf_status rotation_fit(struct rotation *rotation, struct rotation_run *run, bool *moved);
/* `user` is a struct rotation_run. */
gnf_status rotation_launch(void *user, int set, CUstream stream);

#endif
