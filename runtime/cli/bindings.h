/* A problem's tensors on the device, ready for one plan after another, each execution under guard. */
#ifndef CLI_BINDINGS_H
#define CLI_BINDINGS_H

#include "buffers.h"
#include "tensors.h"

struct bindings {
    struct session *session;
    const struct tensors *tensors; /* not owned */
    bool misaligned;
    int shared; /* the tensor whose memory y takes, or -1 */
    struct buffer input[TENSORS_MAX], y, workspace;
    struct buffer prepared;        /* what gnf_prepare_weight() filled for the plan: */
    const gnf_plan *prepared_plan; /* NULL for none */
    gnf_arguments arguments;
    void *scratch; /* host memory for one tensor in memory order, where that is not the logical one */
};

/* Uploads every tensor that has data. Misaligned: x stands one element beyond an aligned address, y and
 * weight three, the others two. `shared` names a full tensor in whose place y will be written, or is -1. */
gnf_status bindings_create(struct bindings *bindings, struct session *session, const struct tensors *tensors,
                           bool misaligned, int shared);
/* A zeroed one is fine. */
void bindings_free(struct bindings *bindings);

/* One execution on poisoned y and workspace; waits for its end. Another plan than that of the run before has
 * the weight prepared first, as far as it wants that. */
gnf_status bindings_run(struct bindings *bindings, const gnf_plan *plan);
/* y as it stands on the device, in memory order: tensors->y_elements elements. */
gnf_status bindings_result(struct bindings *bindings, void *y);
/* Looks at all guards, and with `inputs` whether the inputs still hold their values. *fault: "" or one
 * clause. */
gnf_status bindings_inspect(struct bindings *bindings, bool inputs, char *fault, size_t size);

#endif
