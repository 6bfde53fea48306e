/* What was measured before: the shipped database, embedded in the library, and the user's own, and the choice
 * that a plan makes of them. They decide only speed: every record is checked against pointers, sizes and the
 * device before use. */
#ifndef GNF_TUNED_H
#define GNF_TUNED_H

#include "log.h"
#include "pack.h"
#include "problem.h"
#include "record.h"

/* Immutable once loaded; thread-safety: safe. */
struct gnf_tuned;

struct gnf_tuned_line {
    struct gnf_record record;
    const char *file; /* "shipped", or the path */
    int line;         /* from 1 */
};

/* Loads the embedded database and then the file (NULL or not there: none). A damaged, foreign or newer line
 * is passed over with one warning that names file, line and field; a last line without a newline that cannot
 * be read was torn by a crash, and is a warning too. After eight of them the rest is counted in one more; a
 * file without any line that can be read, or that is no file, is one warning. Only GNF_OUT_OF_MEMORY fails.
 */
gnf_status gnf_tuned_load(struct gnf_tuned **tuned, const char *path, const struct gnf_log *log);
/* The same with other lines in place of the embedded ones. */
gnf_status gnf_tuned_load_from(struct gnf_tuned **tuned, const void *shipped, size_t size, const char *path,
                               const struct gnf_log *log);
/* One more owner. */
struct gnf_tuned *gnf_tuned_share(struct gnf_tuned *tuned);
/* The last owner's call frees it. NULL is fine. */
void gnf_tuned_free(struct gnf_tuned *tuned);
/* Whether any record is about this key. */
bool gnf_tuned_has(const struct gnf_tuned *tuned, const char *key);
/* All lines that could be read, shipped ones first, in the order of the files; a line that a later one
 * replaces is among them. NULL past the end. They live as long as *tuned. */
const struct gnf_tuned_line *gnf_tuned_get(const struct gnf_tuned *tuned, int i);

/* How well a record fits, best first. */
enum gnf_match {
    GNF_MATCH_EXACT,       /* this problem, N, kernel source, compiler and device */
    GNF_MATCH_OLDER,       /* the same but an older source of the variant, or another NVRTC */
    GNF_MATCH_OTHER_BATCH, /* the same device, another N, at most 8 times as large or small */
    GNF_MATCH_OTHER_GPU,   /* another device of the same capability, N as for another batch */
    GNF_MATCH_NONE
};
/* "exact", "older source", "other batch", "other gpu", "default". */
extern const char *const gnf_match_names[];

/* A variant in the running. */
struct gnf_timing {
    double time_us, spread_us;
    int timings;     /* samples behind them */
    int rank;        /* place in the pack's order: a lower one is the simpler variant */
    bool is_default; /* what the default rule takes */
};
/* The rule that tuner and plan share. Fastest first; what cannot be told from the fastest by the measured
 * noise (the standard errors of both medians, 0.5 % at least) ties with it, and of those the default wins,
 * else the simplest (lowest rank). Returns the index; -1 for none. Times that are not positive and finite
 * never win. */
int gnf_timing_pick(const struct gnf_timing *timings, int count);
/* Noise of one median as used above: 1.25 * (spread / 1.349) / sqrt(timings), in us. Fewer than three timings
 * do not tell their spread, which is then a tenth of the time at least. */
double gnf_timing_error(const struct gnf_timing *timing);

/* A variant that a plan could take; of equal names the first counts. */
struct gnf_candidate {
    const struct gnf_pack *pack;
    const struct gnf_variant *variant;
};
struct gnf_tuned_query {
    const struct gnf_problem *problem; /* N filled in */
    struct gnf_record_device device;
    int nvrtc; /* 0: not known, then it does not count */
    const struct gnf_candidate *candidates;
    int count;
    /* Whether the plan could use the variant (alignment, device limits); where not, it may leave the reason
     * in gnf_error_message(). */
    bool (*legal)(void *user, const struct gnf_candidate *candidate);
    void *user;
    int default_index; /* of the default rule's variant, -1 if none */
    /* May be NULL: called for every record of this key, the taken one too, in the order of the files, with
     * one clause of why it was taken or passed over. For `gnfuse db explain`. */
    void (*explain)(void *user, const struct gnf_tuned_line *line, const char *why);
    void *explain_user;
};
struct gnf_tuned_choice {
    int index; /* of the candidate; -1 where nothing is known */
    enum gnf_match match;
    const struct gnf_tuned_line *line; /* the record it rests on */
};
/* Records are compared only within one file, device and N (times of different runs do not compare). Of the
 * groups that have a legal complete record the best match wins; of equal matches the user's file before the
 * shipped one, the N nearest by ratio, the multiprocessor count nearest. Within a group gnf_timing_pick()
 * decides, and the record it takes says whether the match is exact or of an older source; of one variant the
 * record of the present source counts, unless it was cut short. Where no group has a complete one, incomplete
 * ones count, and where there are none either, slow ones. */
struct gnf_tuned_choice gnf_tuned_choose(const struct gnf_tuned *tuned, const struct gnf_tuned_query *query);

/* The algorithms recorded for the matrix products of a variant of this name (struct gnf_record: gemm): on the
 * same device, of slabs of as many rows, the newest of the user's file first. NULL for none. Lives as long as
 * *tuned, which may be NULL. */
const char *gnf_tuned_gemm(const struct gnf_tuned *tuned, const struct gnf_problem *problem,
                           const struct gnf_record_device *device, const struct gnf_variant *variant);

/* The shipped database, embedded at build time: the files of tuning/db, one after another. */
extern const unsigned char gnf_embedded_db[];
extern const size_t gnf_embedded_db_size;

#endif
