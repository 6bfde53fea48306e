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
    /* Of linear: last, since a source without one leaves them out. `samples`, x, y and full operands are those of the rows at hand. */
    const void *weight;  /* [OUT, IN], as given */
    const void *bias;    /* [OUT]; null: all zeros */
    float *product;      /* partial sums [sums, samples, OUT] of x * weight^T */
    float *row_scale;    /* [samples]: powers of two that undo the scaling of x's rows; 0: a row the split cannot hold */
    float *column_scale; /* [OUT]: the same of weight's rows */
    float *row_norm;     /* [samples]: ||row|| / sqrt(IN) of x's rows as they are scaled; anything where the scale is 0 */
    float *column_norm;  /* [OUT]: ||row|| of weight's rows as they are given; anything where the scale is 0 */
    unsigned char *repaired; /* [samples, max(OUT - 16, 0) / 128 + 1]: 1 where the first sum is the product, of 128 columns */
    void *split_x;       /* [samples, parts, padded], fp16: hi, lo; or tiles of both */
    void *split_weight;  /* [OUT, parts, padded], fp16: lo, hi; or tiles of hi and lo */
    long long inputs;    /* IN */
    long long padded;    /* IN rounded up, zeros behind */
    /* Of conv2d and maxpool2d: `product` is conv2d's output without the bias, laid out as y would be, row_scale
     * has a float a sample and split_weight what the variant's weights kernel makes of weight [OUT, IN, K, K]. */
    long long height, width;         /* of x */
    long long out_height, out_width; /* as groupnorm sees them: of conv2d's output, else of x; spatial is their product */
    long long kernel, stride, padding;     /* of conv2d */
    long long pool_kernel, pool_stride;     /* of maxpool2d */
    long long pooled_height, pooled_width; /* of its output */
};
