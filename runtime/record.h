/* One line of a tuning database (JSON Lines): one variant, measured at one size on one GPU. A later line for
 * the same key replaces an earlier one, unless it is unfinished and that was finished. */
#ifndef GNF_RECORD_H
#define GNF_RECORD_H

#include "driver.h"
#include <stdbool.h>

enum {
    GNF_RECORD_FORMAT = 1,
    GNF_RECORD_SOURCE_SIZE = 33,
    GNF_RECORD_GEMM_SIZE = 288,
    GNF_RECORD_LINE_MAX = 16384
};

enum gnf_record_status {
    GNF_RECORD_OK,           /* measured; `complete` tells whether with all samples */
    GNF_RECORD_SLOW,         /* left early: too slow to win; time_us is of the samples it had */
    GNF_RECORD_WRONG,        /* its result is not the reference's, or it wrote outside its tensors */
    GNF_RECORD_FAILED,       /* the driver reported an error, or the measuring process died */
    GNF_RECORD_HUNG,         /* no answer within the limit */
    GNF_RECORD_REFUSED,      /* the device cannot hold it */
    GNF_RECORD_NOT_COMPILED, /* the compiler refused it, or took too long */
    GNF_RECORD_STATUS_COUNT
};
/* "ok", "slow", ... as in the file. */
extern const char *const gnf_record_status_names[GNF_RECORD_STATUS_COUNT];

/* What a record was measured on. `gpu` is a label and never compared. */
struct gnf_record_device {
    char gpu[128];
    int capability, multiprocessors;
    int64_t memory, l2_bytes;
    bool simulated; /* a simulated device's records never count for a GPU, nor the other way round */
};

struct gnf_record {
    char *key;       /* of the problem (struct gnf_problem); says all sizes but N */
    char *problem;   /* canonical text with N, for people */
    int64_t samples; /* N */
    char *variant;
    char source[GNF_RECORD_SOURCE_SIZE]; /* gnf_pack_source_hash() of the variant: 32 hexadecimal digits */
    struct gnf_record_device device;
    int nvrtc; /* version, 13000 */
    enum gnf_record_status status;
    bool complete;             /* all samples were taken (or the status is final) */
    bool is_default;           /* the default rule's choice when this was measured */
    double time_us, spread_us; /* median of a launch with cold L2, distance of the quartiles; 0: none */
    int timings;               /* samples behind the median */
    double max_error;          /* |err| / max(1, |ref|); NaN: not known */
    int clock_mhz;             /* of the multiprocessors while measured; 0: not known */
    char *gemm;                /* the algorithms of its matrix products (linear.h), NULL for none */
    char date[24];             /* 2026-11-29T18:03:11Z */
    char *error;               /* one line where the status is not OK, else NULL */
};

/* Reads one line (no newline needed). GNF_INVALID_ARGUMENT: the message names the field and what is wrong
 * with it ("time_us is missing"), but not the line; nothing is to be freed then. A newer format is
 * GNF_NOT_SUPPORTED. Unknown fields are ignored. Locale-free. */
gnf_status gnf_record_read(struct gnf_record *record, const char *line, size_t length);
/* One line with its newline, malloc'ed; fields in a fixed order, numbers locale-free, so that equal records
 * are equal bytes. GNF_OUT_OF_MEMORY. */
gnf_status gnf_record_write(const struct gnf_record *record, char **line);
void gnf_record_free(struct gnf_record *record);

void gnf_record_device_of(const struct gnf_device *device, bool simulated, struct gnf_record_device *out);
/* Same capability, multiprocessors, L2, simulated or not, and memory within 5 % (drivers reserve
 * differently). */
bool gnf_record_same_device(const struct gnf_record_device *a, const struct gnf_record_device *b);
/* Are both about the same key, N, variant, source, device and compiler? */
bool gnf_record_same(const struct gnf_record *a, const struct gnf_record *b);

#endif
