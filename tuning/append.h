/* The user's tuning database, opened for appending: whole lines, one at a time, beside any number of other
 * processes that do the same. */
#ifndef TUNING_APPEND_H
#define TUNING_APPEND_H

#include "../runtime/record.h"

struct append; /* Thread-safety: safe */

/* Whether the file could be opened, as far as can be seen without making anything: asked before long work. */
gnf_status append_check(const char *path);
/* Makes the file and its folder (mode 0700) where they are not there. GNF_IO names what cannot be written,
 * before any measuring begins; that a disk is full too, where its file system can say so. */
gnf_status append_open(struct append **append, const char *path);
void append_close(struct append *append);
/* Waits for a line that is being written; later ones are never begun. For a process that ends at once. */
void append_finish(struct append *append);
/* One line, under a lock on the file. A last line that lacks its newline (its writer died) gets one first, so
 * that it spoils nothing but itself. Where the line does not fit (GNF_IO: the disk is full) what was written
 * of it is taken away again. */
gnf_status append_record(struct append *append, const struct gnf_record *record);

#endif
