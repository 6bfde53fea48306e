/* The one argument of every kernel: rendered into each source and included by the runtime, so that the layout is
 * written once. Pointers are device addresses; sizes are elements. `scalar` holds the run-time scalars of the stages
 * (eps, bounds, slopes) in the order of the problem text, defaults filled in. */
enum { GNF_KERNEL_OPERANDS = 6, GNF_KERNEL_SCALARS = 16 };

struct gnf_kernel_args {
    const void *x;
    void *y;
    const void *gamma; /* null: all ones */
    const void *beta;  /* null: all zeros */
    void *workspace;
    const void *operand[GNF_KERNEL_OPERANDS];
    long long samples;        /* N */
    long long group_channels; /* C / G */
    long long groups;         /* G */
    long long spatial;        /* product of the spatial sizes */
    long long chunks;         /* statistics chunks a group, for strategies that have a workspace */
    long long tiles;          /* blocks a unit of the kernel being launched */
    float scalar[GNF_KERNEL_SCALARS];
};
