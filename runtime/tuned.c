/* Databases: read line by line, whatever they hold, and sorted once. */
#define _GNU_SOURCE 1 /* O_CLOEXEC, memrchr */
#include "tuned_index.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WARNINGS = 8, WARNING_BYTES = 512, BLOCK = 1 << 14 };
static const int64_t file_max = INT64_C(256) << 20;

/* What was wrong with lines of one file, until its end shows whether it is a database at all. */
struct complaints {
    const struct gnf_log *log;
    const char *file;
    int good, bad;
    char text[WARNINGS][WARNING_BYTES];
};

/* ---- one line ---- */

static void complain(struct complaints *complaints, int number, bool torn)
{
    if (complaints->bad++ < WARNINGS)
        snprintf(complaints->text[complaints->bad - 1], WARNING_BYTES, "line %d%s: %s", number,
                 torn ? " has no end (a write was cut short)" : "", gnf_error_message());
}

static void report(const struct complaints *complaints)
{
    const char *file = complaints->file;
    int shown = complaints->bad < WARNINGS ? complaints->bad : WARNINGS;
    if (!complaints->good && complaints->bad > 1) {
        gnf_log_line(complaints->log, GNF_LOG_WARNING,
                     "tuning database %s: none of its %d lines can be read, all are passed over; %s", file,
                     complaints->bad, complaints->text[0]);
        return;
    }
    for (int i = 0; i < shown; i++)
        gnf_log_line(complaints->log, GNF_LOG_WARNING, "tuning database %s: %s; passed over", file,
                     complaints->text[i]);
    if (complaints->bad > shown)
        gnf_log_line(complaints->log, GNF_LOG_WARNING, "tuning database %s: %d more lines passed over", file,
                     complaints->bad - shown);
}

static gnf_status add(struct gnf_tuned *tuned, const struct gnf_record *record, const char *file, int number)
{
    if (tuned->count == tuned->room) {
        int room = tuned->room ? 2 * tuned->room : 256;
        struct gnf_tuned_item *larger = realloc(tuned->item, (size_t)room * sizeof *larger);
        if (!larger)
            return gnf_fail(GNF_OUT_OF_MEMORY, "tuning database %s: no host memory", file);
        tuned->item = larger;
        tuned->room = room;
    }
    tuned->item[tuned->count++] = (struct gnf_tuned_item){
        .line = {.record = *record, .file = file, .line = number},
        .users = file == tuned->path,
    };
    return GNF_OK;
}

static gnf_status take_line(struct gnf_tuned *tuned, struct complaints *complaints, const char *line,
                            size_t length, int number, bool ended)
{
    struct gnf_record record;
    size_t blank = 0;
    while (blank < length && memchr(" \t\r", line[blank], 3))
        blank++;
    if (blank == length)
        return GNF_OK;
    gnf_status status = gnf_record_read(&record, line, length);
    if (status == GNF_OUT_OF_MEMORY)
        return status;
    if (status != GNF_OK) {
        complain(complaints, number, !ended);
        return GNF_OK;
    }
    complaints->good++;
    status = add(tuned, &record, complaints->file, number);
    if (status != GNF_OK)
        gnf_record_free(&record);
    return status;
}

/* ---- one file ---- */

/* Bytes that come block by block, of which the last line has not ended yet. Of a line that is too long to be
 * a record only as much is kept as shows that. */
struct reading {
    struct gnf_tuned *tuned;
    struct complaints *complaints;
    char line[GNF_RECORD_LINE_MAX + 1];
    size_t length;
    int number; /* of lines that ended */
};

static gnf_status end_line(struct reading *reading, bool ended)
{
    size_t length = reading->length;
    reading->length = 0;
    return take_line(reading->tuned, reading->complaints, reading->line, length, ++reading->number, ended);
}

static gnf_status take_block(struct reading *reading, const char *block, size_t size)
{
    while (size) {
        const char *end = memchr(block, '\n', size);
        size_t length = end ? (size_t)(end - block) : size, room = sizeof reading->line - reading->length;
        size_t kept = length < room ? length : room;
        memcpy(reading->line + reading->length, block, kept);
        reading->length += kept;
        if (end)
            GNF_TRY(end_line(reading, true));
        length += end != NULL;
        block += length;
        size -= length;
    }
    return GNF_OK;
}

static gnf_status begin_reading(struct reading **reading, struct gnf_tuned *tuned, const char *file,
                                const struct gnf_log *log)
{
    *reading = calloc(1, sizeof **reading);
    if (*reading)
        (*reading)->complaints = calloc(1, sizeof *(*reading)->complaints);
    if (!*reading || !(*reading)->complaints) {
        free(*reading);
        return gnf_fail(GNF_OUT_OF_MEMORY, "tuning database %s: no host memory", file);
    }
    (*reading)->tuned = tuned;
    (*reading)->complaints->log = log;
    (*reading)->complaints->file = file;
    return GNF_OK;
}

static gnf_status end_reading(struct reading *reading, gnf_status status)
{
    if (status == GNF_OK && reading->length)
        status = end_line(reading, false);
    report(reading->complaints);
    free(reading->complaints);
    free(reading);
    return status;
}

static void unreadable(const struct gnf_tuned *tuned, const struct gnf_log *log, const char *why)
{
    gnf_log_line(log, GNF_LOG_WARNING, "tuning database %s: cannot be read: %s", tuned->path, why);
}

static gnf_status read_blocks(struct reading *reading, int file, const struct gnf_log *log)
{
    char block[BLOCK];
    for (int64_t total = 0; total < file_max;) {
        ssize_t size = read(file, block, sizeof block);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            unreadable(reading->tuned, log, strerror(errno));
        if (size <= 0)
            return GNF_OK;
        total += size;
        GNF_TRY(take_block(reading, block, (size_t)size));
    }
    gnf_log_line(log, GNF_LOG_WARNING, "tuning database %s: only its first %d MiB are read",
                 reading->tuned->path, (int)(file_max >> 20));
    reading->length = 0;
    return GNF_OK;
}

static gnf_status read_file(struct gnf_tuned *tuned, const struct gnf_log *log)
{
    struct reading *reading;
    struct stat info;
    /* A pipe must not be waited for. */
    int file = open(tuned->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            unreadable(tuned, log, strerror(errno));
        return GNF_OK;
    }
    bool known = fstat(file, &info) == 0, regular = known && S_ISREG(info.st_mode);
    gnf_status status = GNF_OK;
    if (known && S_ISCHR(info.st_mode)) { /* /dev/null: none is wanted */
        close(file);
        return GNF_OK;
    }
    if (!regular)
        unreadable(tuned, log,
                   known && S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a regular file");
    else
        status = begin_reading(&reading, tuned, tuned->path, log);
    if (regular && status == GNF_OK)
        status = end_reading(reading, read_blocks(reading, file, log));
    close(file);
    return status;
}

/* ---- the index ---- */

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

int gnf_tuned_order_groups(const struct gnf_tuned_item *a, const struct gnf_tuned_item *b)
{
    const struct gnf_record *x = &a->line.record, *y = &b->line.record;
    int order = ORDER(a->users, b->users);
    order = order ? order : ORDER(x->device.simulated, y->device.simulated);
    order = order ? order : ORDER(x->device.capability, y->device.capability);
    order = order ? order : ORDER(x->device.multiprocessors, y->device.multiprocessors);
    order = order ? order : ORDER(x->device.l2_bytes, y->device.l2_bytes);
    return order ? order : ORDER(x->samples, y->samples);
}

static int order_items(const struct gnf_tuned_item *a, const struct gnf_tuned_item *b)
{
    const struct gnf_record *x = &a->line.record, *y = &b->line.record;
    int order = strcmp(x->key, y->key);
    order = order ? order : gnf_tuned_order_groups(a, b);
    order = order ? order : strcmp(x->variant, y->variant);
    order = order ? order : strcmp(x->source, y->source);
    return order ? order : ORDER(x->nvrtc, y->nvrtc);
}

static int by_order(const void *a, const void *b)
{
    const struct gnf_tuned_item *x = *(struct gnf_tuned_item *const *)a,
                                *y = *(struct gnf_tuned_item *const *)b;
    int order = order_items(x, y);
    return order ? order : ORDER(x, y);
}

/* A run that measures again and is cut short takes nothing away from what an earlier one finished. */
static bool replaces(const struct gnf_record *later, const struct gnf_record *earlier)
{
    bool unfinished = later->status == GNF_RECORD_OK && !later->complete,
         finished = earlier->status == GNF_RECORD_OK && earlier->complete;
    return gnf_record_same_device(&later->device, &earlier->device) && !(unfinished && finished);
}

static gnf_status sort(struct gnf_tuned *tuned)
{
    size_t count = (size_t)tuned->count;
    tuned->sorted = malloc((count + 1) * sizeof(struct gnf_tuned_item *));
    if (!tuned->sorted)
        return gnf_fail(GNF_OUT_OF_MEMORY, "tuning databases: no host memory");
    for (size_t i = 0; i < count; i++)
        tuned->sorted[i] = &tuned->item[i];
    qsort(tuned->sorted, count, sizeof *tuned->sorted, by_order);
    for (int i = 0; i < tuned->count; i++) {
        struct gnf_tuned_item *item = tuned->sorted[i];
        for (int j = i + 1; j < tuned->count && order_items(item, tuned->sorted[j]) == 0; j++)
            if (replaces(&tuned->sorted[j]->line.record, &item->line.record)) {
                item->replaced = tuned->sorted[j];
                break;
            }
    }
    return GNF_OK;
}

/* Of equal keys the first. */
static int lower_bound(const struct gnf_tuned *tuned, const char *key)
{
    int low = 0, high = tuned->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(tuned->sorted[middle]->line.record.key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int gnf_tuned_range(const struct gnf_tuned *tuned, const char *key, int *first)
{
    int end = *first = lower_bound(tuned, key);
    while (end < tuned->count && !strcmp(tuned->sorted[end]->line.record.key, key))
        end++;
    return end - *first;
}

bool gnf_tuned_has(const struct gnf_tuned *tuned, const char *key)
{
    int first = lower_bound(tuned, key);
    return first < tuned->count && !strcmp(tuned->sorted[first]->line.record.key, key);
}

const struct gnf_tuned_line *gnf_tuned_get(const struct gnf_tuned *tuned, int i)
{
    return i >= 0 && i < tuned->count ? &tuned->item[i].line : NULL;
}

/* ---- all of it ---- */

static gnf_status read_shipped(struct gnf_tuned *tuned, const void *shipped, size_t size,
                               const struct gnf_log *log)
{
    struct reading *reading;
    if (!size)
        return GNF_OK;
    GNF_TRY(begin_reading(&reading, tuned, "shipped", log));
    return end_reading(reading, take_block(reading, shipped, size));
}

static gnf_status load(struct gnf_tuned *tuned, const void *shipped, size_t size, const char *path,
                       const struct gnf_log *log)
{
    GNF_TRY(read_shipped(tuned, shipped, size, log));
    if (path && *path) {
        tuned->path = strdup(path);
        if (!tuned->path)
            return gnf_fail(GNF_OUT_OF_MEMORY, "tuning database %s: no host memory", path);
        GNF_TRY(read_file(tuned, log));
    }
    return sort(tuned);
}

gnf_status gnf_tuned_load_from(struct gnf_tuned **out, const void *shipped, size_t size, const char *path,
                               const struct gnf_log *log)
{
    *out = NULL;
    struct gnf_tuned *tuned = calloc(1, sizeof *tuned);
    if (!tuned)
        return gnf_fail(GNF_OUT_OF_MEMORY, "tuning databases: no host memory");
    tuned->owners = 1;
    gnf_status status = load(tuned, shipped, size, path, log);
    if (status != GNF_OK) {
        gnf_tuned_free(tuned);
        return status;
    }
    *out = tuned;
    return GNF_OK;
}

gnf_status gnf_tuned_load(struct gnf_tuned **tuned, const char *path, const struct gnf_log *log)
{
    return gnf_tuned_load_from(tuned, gnf_embedded_db, gnf_embedded_db_size, path, log);
}

struct gnf_tuned *gnf_tuned_share(struct gnf_tuned *tuned)
{
    if (tuned)
        atomic_fetch_add(&tuned->owners, 1);
    return tuned;
}

void gnf_tuned_free(struct gnf_tuned *tuned)
{
    if (!tuned || atomic_fetch_sub(&tuned->owners, 1) > 1)
        return;
    for (int i = 0; i < tuned->count; i++)
        gnf_record_free(&tuned->item[i].line.record);
    free(tuned->item);
    free(tuned->sorted);
    free(tuned->path);
    free(tuned);
}
