#include "db_lines.h"

#include "../runtime/cli/files.h"
#include "../runtime/cli/output.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_newer(const struct db_line *line)
{
    return line->record.key == NULL;
}

static gnf_status append(struct db_lines *lines, const struct db_line *line)
{
    if (lines->count == lines->room) {
        int room = lines->room > 0 ? 2 * lines->room : 256;
        struct db_line *larger = realloc(lines->at, (size_t)room * sizeof *larger);
        if (larger == NULL)
            return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d records", room);
        lines->at = larger;
        lines->room = room;
    }
    lines->at[lines->count] = *line;
    lines->at[lines->count].order = lines->count;
    lines->count++;
    return GNF_OK;
}

static bool is_blank(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && memchr(" \t\r", text[i], 3) != NULL)
        i++;
    return i == length;
}

static gnf_status take(struct db_lines *lines, const char *path, int number, const char *text, size_t length,
                       bool ended)
{
    struct db_line line = {0};
    gnf_status status = gnf_record_read(&line.record, text, length);
    if (status == GNF_OK) {
        status = gnf_record_write(&line.record, &line.text);
    } else if (status == GNF_NOT_SUPPORTED && ended) {
        line.text = malloc(length + 2);
        status = line.text != NULL ? GNF_OK : gnf_fail(GNF_OUT_OF_MEMORY, "no memory for a line");
        if (status == GNF_OK) {
            memcpy(line.text, text, length);
            memcpy(line.text + length, "\n", 2);
        }
    } else if (status != GNF_OUT_OF_MEMORY) {
        char what[1024];
        snprintf(what, sizeof what, "%s%s",
                 ended ? "" : "has no end (a write was cut short): ", gnf_error_message());
        lines->damaged++;
        lines->complain(lines->user, path, number, what);
        return GNF_OK;
    }
    if (status == GNF_OK)
        status = append(lines, &line);
    if (status != GNF_OK) {
        gnf_record_free(&line.record);
        free(line.text);
    }
    return status;
}

gnf_status db_lines_read(struct db_lines *lines, const char *path)
{
    void *data;
    size_t size;
    GNF_TRY(files_read(path, &data, &size));
    const char *at = data, *end = at + size;
    gnf_status status = GNF_OK;
    for (int number = 1; at < end && status == GNF_OK; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline != NULL ? newline : end) - at);
        if (!is_blank(at, length))
            status = take(lines, path, number, at, length, newline != NULL);
        at += length + 1;
    }
    free(data);
    return status;
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* 0 where both are about the same thing but for the memory of the device, which is not compared exactly. */
static int by_subject(const struct db_line *a, const struct db_line *b)
{
    const struct gnf_record *x = &a->record, *y = &b->record;
    if (is_newer(a) || is_newer(b))
        return is_newer(a) - is_newer(b);
    int order = strcmp(x->key, y->key);
    order = order != 0 ? order : ORDER(x->samples, y->samples);
    order = order != 0 ? order : ORDER(x->device.simulated, y->device.simulated);
    order = order != 0 ? order : ORDER(x->device.capability, y->device.capability);
    order = order != 0 ? order : ORDER(x->device.multiprocessors, y->device.multiprocessors);
    order = order != 0 ? order : ORDER(x->device.l2_bytes, y->device.l2_bytes);
    order = order != 0 ? order : strcmp(x->variant, y->variant);
    order = order != 0 ? order : strcmp(x->source, y->source);
    return order != 0 ? order : ORDER(x->nvrtc, y->nvrtc);
}

static int by_date(const void *a, const void *b)
{
    const struct db_line *x = a, *y = b;
    int order = by_subject(x, y);
    if (order == 0 && !is_newer(x))
        order = strcmp(x->record.date, y->record.date);
    return order != 0 ? order : strcmp(x->text, y->text);
}

static int by_order(const void *a, const void *b)
{
    const struct db_line *x = a, *y = b;
    int order = by_subject(x, y);
    return order != 0 ? order : ORDER(x->order, y->order);
}

static bool replaces(const struct db_line *newer, const struct db_line *line)
{
    return is_newer(line) ? strcmp(newer->text, line->text) == 0
                          : gnf_record_same_device(&newer->record.device, &line->record.device);
}

void db_lines_settle(struct db_lines *lines, enum db_newest newest)
{
    if (lines->count == 0)
        return;
    qsort(lines->at, (size_t)lines->count, sizeof *lines->at, newest == DB_BY_DATE ? by_date : by_order);
    for (int i = 0; i < lines->count; i++)
        for (int k = i + 1; k < lines->count && !lines->at[i].dropped; k++) {
            if (by_subject(&lines->at[i], &lines->at[k]) != 0)
                break;
            lines->at[i].dropped = replaces(&lines->at[k], &lines->at[i]);
        }
}

int db_lines_kept(const struct db_lines *lines, int *newer)
{
    int records = 0, unknown = 0;
    for (int i = 0; i < lines->count; i++) {
        records += !lines->at[i].dropped && !is_newer(&lines->at[i]);
        unknown += !lines->at[i].dropped && is_newer(&lines->at[i]);
    }
    if (newer != NULL)
        *newer = unknown;
    return records;
}

static gnf_status print(const struct db_lines *lines)
{
    for (int i = 0; i < lines->count; i++)
        if (!lines->at[i].dropped)
            fputs(lines->at[i].text, stdout);
    return output_flush();
}

gnf_status db_lines_write(const struct db_lines *lines, const char *path)
{
    struct output_file file;
    if (path == NULL)
        return print(lines);
    GNF_TRY(output_open(&file, path));
    gnf_status status = GNF_OK;
    for (int i = 0; i < lines->count && status == GNF_OK; i++)
        if (!lines->at[i].dropped)
            status = output_write(&file, lines->at[i].text, strlen(lines->at[i].text));
    if (status == GNF_OK)
        return output_finish(&file);
    output_abandon(&file);
    return status;
}

void db_lines_free(struct db_lines *lines)
{
    for (int i = 0; i < lines->count; i++) {
        gnf_record_free(&lines->at[i].record);
        free(lines->at[i].text);
    }
    free(lines->at);
    lines->at = NULL;
    lines->count = lines->room = 0;
}
