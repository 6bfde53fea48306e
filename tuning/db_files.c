/* merge and export. */
#include "db.h"

#include "../runtime/cli/output.h"
#include "db_lines.h"
#include <stdio.h>
#include <string.h>

static void on_damage(void *user, const char *file, int line, const char *what)
{
    json_t *left_out = user;
    fprintf(stderr, "gnfuse: warning: %s: line %d: %s; left out\n", file, line, what);
    json_array_append_new(left_out, json_pack("{s:s, s:i, s:s}", "file", file, "line", line, "error", what));
}

/* Writes what is kept, and tells about it. `left_out` becomes part of the answer. */
static gnf_status deliver(const struct args *args, const struct db_lines *lines, json_t *left_out)
{
    int newer, records = db_lines_kept(lines, &newer);
    GNF_TRY(db_lines_write(lines, args->output));
    if (args->json)
        return output_json(json_pack("{s:b, s:s, s:i, s:i, s:i, s:O}", "ok", 1, "output", args->output,
                                     "records", records, "newer", newer, "replaced",
                                     lines->count - records - newer, "left_out", left_out));
    if (args->output != NULL && !args->quiet)
        printf("%s: %d records\n", args->output, records);
    return GNF_OK;
}

/* Records and a JSON object cannot both go to standard output. */
static gnf_status check_output(const struct args *args)
{
    if (args->json && args->output == NULL)
        return gnf_fail(GNF_INVALID_ARGUMENT,
                        "--json: the records themselves go to standard output (allowed: with --output FILE)");
    if (args->output != NULL && files_check_writable(args->output) != GNF_OK)
        return gnf_fail_more(GNF_IO, " (--output)");
    return GNF_OK;
}

gnf_status db_merge(const struct args *args)
{
    GNF_TRY(check_output(args));
    struct db_lines lines = {.complain = on_damage, .user = json_array()};
    gnf_status status = GNF_OK;
    for (int i = 1; i < args->operands.count && status == GNF_OK; i++)
        status = db_lines_read(&lines, args->operands.at[i]);
    if (status == GNF_OK) {
        db_lines_settle(&lines, DB_BY_DATE);
        status = deliver(args, &lines, lines.user);
    }
    json_decref(lines.user);
    db_lines_free(&lines);
    return status;
}

/* The device at hand; *there is false where there is none and none was asked for. */
static gnf_status find_device(const struct args *args, struct gnf_record_device *device, bool *there)
{
    struct session session;
    gnf_status status = session_open(&session, args, NULL);
    *there = status == GNF_OK;
    if (status == GNF_OK) {
        gnf_record_device_of(&session.context->device, session.simulated, device);
        session_close(&session);
    }
    return status != GNF_OK && (args->device_given || (status != GNF_NO_DRIVER && status != GNF_NO_DEVICE))
               ? status
               : GNF_OK;
}

/* A newer format's lines do not say in words of ours what they are of. The simulator's are nobody's to ship,
 * unless it was asked for. */
static void drop_others(struct db_lines *lines, const struct gnf_record_device *device)
{
    for (int i = 0; i < lines->count; i++) {
        struct db_line *line = &lines->at[i];
        line->dropped |= line->record.key == NULL ||
                         (device != NULL ? !gnf_record_same_device(&line->record.device, device)
                                         : line->record.device.simulated);
    }
}

gnf_status db_export(const struct args *args)
{
    GNF_TRY(check_output(args));
    struct session session;
    struct gnf_record_device device;
    bool there;
    GNF_TRY(find_device(args, &device, &there));
    GNF_TRY(session_open_packs(&session, args));
    struct db_lines lines = {.complain = on_damage, .user = json_array()};
    const char *path = session.options.db;
    gnf_status status =
        path != NULL ? db_lines_read(&lines, path)
                     : gnf_fail(GNF_IO, "no tuning database: no home folder is set (allowed: --db FILE)");
    if (status == GNF_OK) {
        db_lines_settle(&lines, DB_BY_ORDER);
        drop_others(&lines, there ? &device : NULL);
        if (db_lines_kept(&lines, NULL) == 0)
            fprintf(stderr, "gnfuse: warning: %s: has no record of %s\n", path,
                    there ? device.gpu : "any GPU");
        status = deliver(args, &lines, lines.user);
    }
    json_decref(lines.user);
    db_lines_free(&lines);
    session_close(&session);
    return status;
}
