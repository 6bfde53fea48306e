/* Lines of tuning databases, to be put together into one file: for `gnfuse db merge` and `export`. */
#ifndef TUNING_DB_LINES_H
#define TUNING_DB_LINES_H

#include "../runtime/record.h"

struct db_line {
    struct gnf_record record; /* all zeros: of a newer format */
    char *text; /* with its newline; of a newer format byte for byte, else as this version writes it */
    int order;  /* in which it was read */
    bool dropped;
};
/* Start from all zeros. */
struct db_lines {
    struct db_line *at;
    int count, room;
    int damaged; /* lines that were left out */
    /* Called for each of those. */
    void (*complain)(void *user, const char *file, int line, const char *what);
    void *user;
};
/* What decides between records of the same thing. */
enum db_newest { DB_BY_DATE, DB_BY_ORDER };

/* Adds the lines of a file. GNF_IO, GNF_OUT_OF_MEMORY. */
gnf_status db_lines_read(struct db_lines *lines, const char *path);
/* Marks those that a newer one replaces, and sorts what is left: by problem, N, device and variant, newer
 * formats last. With DB_BY_DATE the result does not depend on the order of reading. */
void db_lines_settle(struct db_lines *lines, enum db_newest newest);
/* Lines not dropped: records, and those of a newer format (may be NULL). */
int db_lines_kept(const struct db_lines *lines, int *newer);
/* All that is kept, into the file, whole or not at all; NULL: on standard output. */
gnf_status db_lines_write(const struct db_lines *lines, const char *path);
void db_lines_free(struct db_lines *lines);

#endif
