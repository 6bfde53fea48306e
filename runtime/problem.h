/* Problem text -> struct gnf_problem. The operations come from the generator's table, gnf_ops.
 *
 * generator/problem.py follows the same rules, and tests/unit/problems.txt holds both parsers to them.
 *
 *     problem  = dtype "[" size {"," size} "]" [":" "nhwc"] "|" stage {"|" stage}
 *     stage    = [name "="] operation ["(" [argument {"," argument}] ")"]
 *     argument = number | parameter "=" number | word       unnamed before named; for add and mul instead:
 *                label | name ":" ("full" | "channel" | "scalar")
 *
 * Space, tab and line ends may stand between any two of these. Whole numbers are at least their default
 * (required ones 1) and at most 2147483647; the others are finite floats, above 0 for eps, and min <= max.
 * linear or conv2d stands first; its output is what the rest of the chain sees. The words tf32 and strict
 * exclude each other and are f32's. Where a size is 0 it counts as 1 for the 63 bits that the tensor's bytes
 * must fit. maxpool2d stands behind groupnorm, once; behind it only labels made there. A full tensor has the
 * sizes of the value at its stage, the same wherever its name stands: behind maxpool2d those of its output.
 * conv2d, maxpool2d and mean(all) need a spatial element. nhwc is dropped where it changes nothing: C or the
 * product of the spatial sizes is 1 or less, of x and, behind conv2d, of its output.
 *
 * Canonical text: one space round "|" and "=", none elsewhere but after "," and ":" of arguments; numbers
 * with the fewest digits that give the same float32 (number.h); labels as written. Required parameters are
 * written first and unnamed. If the operation has any, its other parameters follow as name=value where they
 * differ from their default; if it has none, they stand unnamed up to the last that differs. A set word comes
 * last. No argument, no parentheses. groupnorm(16, eps=0.001)   conv2d(64, 3, padding=1)   hardtanh(-1, 2)
 * hardtanh(-2)   mean(all) Key: the canonical text without labels, with N as *, the spatial sizes multiplied,
 * without float parameters, add and mul as @k (0 for x, k for the output of stage k) or $i:kind (i-th
 * tensor); with conv2d or maxpool2d the spatial sizes stay apart. Chain: the key without sizes and without
 * whole numbers. A canonical text has at most 1000 bytes.
 *
 * Errors: "WHAT (WHERE): allowed is ..." with WHERE "input", "stage 2" before its operation is known, "stage
 * 'add'" or "end of the text"; then the text, cut to 60 bytes round the character, and a caret under it. A
 * missing required parameter is pointed out at the operation, anything else at its first byte; quoted bytes
 * are at most 40.
 */
#ifndef GNF_PROBLEM_H
#define GNF_PROBLEM_H

#include "status.h"
#include <stdbool.h>

enum { GNF_MAX_STAGES = 24, GNF_MAX_PARAMS = 6, GNF_MAX_SCALARS = 16, GNF_MAX_SPATIAL = 3 };
/* A key can be a little longer than its canonical text, which has at most GNF_MAX_TEXT bytes. */
enum { GNF_MAX_TEXT = 1000, GNF_KEY_SIZE = 1152 };

enum gnf_dtype { GNF_F32, GNF_F16, GNF_BF16 };
enum gnf_broadcast { GNF_FULL, GNF_CHANNEL, GNF_SCALAR };
/* What an operation is to the parser and to the reference. */
enum gnf_op_kind {
    GNF_OP_ELEMENTWISE, /* one value in, one out, scalars as parameters */
    GNF_OP_BINARY,      /* add, mul: the value and a label or tensor */
    GNF_OP_GROUPNORM,
    GNF_OP_REDUCTION, /* over channels (keepdim), or over all but N where its `all` parameter is set */
    GNF_OP_LINEAR,
    GNF_OP_CONV2D,
    GNF_OP_MAXPOOL2D
};

struct gnf_param {
    const char *name;
    char type; /* 'i' whole number baked into kernels, 'f' run-time scalar, 'w' word (flag, value 0 or 1) */
    bool required; /* else `value` is the default */
    double value;
};
struct gnf_op {
    const char *name;
    enum gnf_op_kind kind;
    int param_count;
    struct gnf_param param[GNF_MAX_PARAMS];
};
/* Generated from generator/ops.py; ends with a row whose name is NULL. */
extern const struct gnf_op gnf_ops[];

struct gnf_stage {
    const struct gnf_op *op;
    double value[GNF_MAX_PARAMS]; /* in the order of op->param */
    int scalar_at;                /* index into gnf_problem.scalar of the first 'f' parameter */
    int label;     /* binary: 0 for x, k for the output of stage[k - 1]; -1 if it takes a tensor */
    int operand;   /* binary: index into gnf_problem.operand, or -1 */
    char name[32]; /* its label, or "" */
    int at;        /* where its operation stands in the text that was parsed, in bytes */
};
struct gnf_operand {
    char name[32];
    enum gnf_broadcast broadcast;
    int64_t spatial; /* of a full one: elements of a channel, as at its stage */
};
/* conv2d or maxpool2d: a square that moves over height and width of its input. All zeros: there is none. */
struct gnf_window {
    int64_t kernel, stride, padding;
    int64_t input[2], output[2]; /* height, width */
};
struct gnf_problem {
    enum gnf_dtype dtype;
    bool channels_last;
    int64_t samples;  /* N; -1 for * */
    int64_t inputs;   /* IN: C of x where a linear or conv2d comes first, else 0 */
    int64_t channels; /* C that groupnorm sees: of x, or OUT of linear or conv2d */
    int spatial_rank;
    int64_t size[GNF_MAX_SPATIAL]; /* of x */
    int64_t x_spatial;             /* their product, 1 for none */
    int64_t spatial;        /* elements of a channel as groupnorm sees it: of x, or of conv2d's output */
    struct gnf_window conv; /* the first stage, where it is conv2d */
    struct gnf_window pool; /* of maxpool2d */
    int64_t groups;
    int64_t y_channels, y_spatial; /* of the last stage's output */
    int stage_count;
    struct gnf_stage stage[GNF_MAX_STAGES];
    int operand_count;
    struct gnf_operand operand[GNF_MAX_OPERANDS];
    int scalar_count;
    float scalar[GNF_MAX_SCALARS];
    bool tf32;                /* the product of linear or conv2d may be TF32's */
    int norm;                 /* index of the groupnorm stage */
    int reduction;            /* index of the reduction stage, or -1 */
    int pooling;              /* index of the maxpool2d stage, or -1 */
    bool reduces_all;         /* the reduction is over everything but N */
    char text[GNF_KEY_SIZE];  /* canonical text */
    char key[GNF_KEY_SIZE];   /* what specialised kernels depend on */
    char chain[GNF_KEY_SIZE]; /* what the shape-generic kernel depends on: no sizes */
};

/* Locale-free. On failure the message shows the text, a caret under the character, the stage and what is
 * allowed. Any product of sizes that does not fit in 63 bits is GNF_TOO_LARGE. */
gnf_status gnf_problem_parse(const char *text, struct gnf_problem *problem);
/* Fills in N where the text has *: `samples` and `text` change. */
gnf_status gnf_problem_set_samples(struct gnf_problem *problem, int64_t samples);
/* The same with an option's value: 0 or the text's N where that says one, else 1 or more.
 * GNF_INVALID_ARGUMENT. */
gnf_status gnf_problem_take_samples(struct gnf_problem *problem, int64_t given);
/* Writes text, key and chain from the rest. False if the canonical text is too long; *length is what it
 * needs. */
bool gnf_problem_spell(struct gnf_problem *problem, int *length);
/* Elements of x and of y for `samples` samples. GNF_TOO_LARGE where the bytes of these, or of what groupnorm
 * sees, do not fit 63 bits. */
gnf_status gnf_problem_elements(const struct gnf_problem *problem, int64_t samples, int64_t *x, int64_t *y);
/* May y be written in the place of the i-th operand, or of x where i is -1? Of a tensor of y's sizes, of
 * which each element is read for its own place alone. */
bool gnf_problem_in_place(const struct gnf_problem *problem, int i);
size_t gnf_dtype_size(enum gnf_dtype dtype); /* bytes */
const char *gnf_dtype_name(enum gnf_dtype dtype);

#endif
