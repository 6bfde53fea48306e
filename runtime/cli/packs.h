/* The packs that a command works with, as the library will search them: the embedded one, GNFUSE_PACK_PATH's,
 * --pack's, and one that is generated where none of them has the problem. Needs no device. */
#ifndef CLI_PACKS_H
#define CLI_PACKS_H

#include "../options.h"
#include "../pack.h"
#include "../problem.h"
#include "files.h"
#include "options/args.h"

enum { PACKS_MAX = 2 * ARGS_MAX_LIST };

struct pack_file {
    struct gnf_pack *pack;
    char *path; /* NULL: the embedded one */
    bool added; /* not in GNFUSE_PACK_PATH: the library has to be given it */
};
struct packs {
    int count; /* searched from the last to the first */
    struct pack_file at[PACKS_MAX];
    char temporary[FILES_PATH_SIZE]; /* folder for what is made where no cache can be used; "" if none */
};
/* One variant of a problem. */
struct pack_variant {
    const struct gnf_variant *variant;
    const struct pack_file *file;
};

gnf_status packs_open(struct packs *packs, const struct args *args, const struct gnf_options *options);
void packs_close(struct packs *packs);
gnf_status packs_add(struct packs *packs, const char *path, bool added);

/* Variants of one key or chain, NULL where no pack has it. */
const struct gnf_variant *packs_find(const struct packs *packs, const char *key, int *count,
                                     const struct pack_file **file);
/* All variants of a problem, the specialised ones first; --variant, if given, picks one of them. The caller
 * frees *list. GNF_NO_KERNEL where there is none, GNF_INVALID_ARGUMENT where none has that name. */
gnf_status packs_variants(const struct packs *packs, const struct gnf_problem *problem, const char *name,
                          struct pack_variant **list, int *count);
/* Makes sure that some pack has the problem's key, by generating one. Where that cannot be done a
 * shape-generic kernel will do, and without one it is GNF_NO_KERNEL, the message naming the command to run
 * elsewhere. */
gnf_status packs_require(struct packs *packs, const struct args *args, const struct gnf_options *options,
                         const struct gnf_problem *problem);

#endif
