/* What is known. */
#include "db.h"

#include "../runtime/cli/generate.h"
#include "../runtime/cli/output.h"
#include "../runtime/tuned_index.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one file knows of one problem, N and device. */
struct group {
    const struct gnf_record **records; /* of each variant the newest */
    int count, lines;
    const struct gnf_record *winner, *standard; /* the default rule's; NULL where not known */
    const char *file, *date;
    bool users;
};

void db_device_text(const struct gnf_record_device *device, char *out, size_t size)
{
    snprintf(out, size, "%s (%d.%d, %d multiprocessors%s)", device->gpu, device->capability / 10,
             device->capability % 10, device->multiprocessors, device->simulated ? ", simulated" : "");
}

void db_time_text(double time_us, char out[32])
{
    if (time_us > 0)
        snprintf(out, 32, "%.*f us", time_us < 99.995 ? 2 : time_us < 999.95 ? 1 : 0, time_us);
    else
        snprintf(out, 32, "-");
}

/* Of two records of one variant, of different sources or compilers, the one of today's counts most likely. */
static void put(struct group *group, const struct gnf_record *record)
{
    group->lines++;
    if (strcmp(record->date, group->date) > 0)
        group->date = record->date;
    for (int i = 0; i < group->count; i++)
        if (strcmp(group->records[i]->variant, record->variant) == 0) {
            if (strcmp(record->date, group->records[i]->date) >= 0)
                group->records[i] = record;
            return;
        }
    group->records[group->count++] = record;
}

/* A problem that was tuned before is likely to have a pack of its own in the cache, as plans find it there.
 */
static void find_pack(struct session *session, const struct gnf_record *record)
{
    int count;
    char path[FILES_PATH_SIZE];
    struct gnf_problem problem;
    if (packs_find(&session->packs, record->key, &count, NULL) == NULL &&
        gnf_problem_parse(record->problem, &problem) == GNF_OK &&
        generate_kept_pack(session->options.cache_dir, &problem, path))
        packs_add(&session->packs, path, true); /* one that cannot be read orders nothing */
}

/* The variant's place in the pack's order, which breaks ties; behind all others where no pack has it. */
static int rank_of(const struct packs *packs, const struct gnf_record *record)
{
    int count;
    const struct gnf_variant *variants = packs_find(packs, record->key, &count, NULL);
    for (int i = 0; i < count; i++)
        if (strcmp(variants[i].name, record->variant) == 0)
            return i;
    return INT32_MAX;
}

static gnf_status decide(struct group *group, const struct packs *packs)
{
    struct gnf_timing *timings = calloc((size_t)group->count + 1, sizeof *timings);
    if (timings == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d records", group->count);
    for (int i = 0; i < group->count; i++) {
        const struct gnf_record *record = group->records[i];
        bool counts = record->status == GNF_RECORD_OK && record->complete;
        timings[i] = (struct gnf_timing){.time_us = counts ? record->time_us : 0,
                                         .spread_us = record->spread_us,
                                         .timings = record->timings,
                                         .rank = rank_of(packs, record),
                                         .is_default = record->is_default};
        if (record->is_default)
            group->standard = record;
    }
    int picked = gnf_timing_pick(timings, group->count);
    group->winner = picked >= 0 ? group->records[picked] : NULL;
    free(timings);
    return GNF_OK;
}

static json_t *json_of(const struct group *group)
{
    const struct gnf_record *any = group->records[0];
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:s, s:i, s:i, s:b, s:i, s:s, s:s}", "problem", any->problem, "key",
                  any->key, "samples", (json_int_t)any->samples, "gpu", any->device.gpu, "capability",
                  any->device.capability, "multiprocessors", any->device.multiprocessors, "simulated",
                  any->device.simulated, "records", group->lines, "date", group->date, "file", group->file);
    if (group->winner != NULL) {
        json_object_set_new(object, "variant", json_string(group->winner->variant));
        json_object_set_new(object, "time_us", output_number(group->winner->time_us));
    }
    if (group->standard != NULL) {
        json_object_set_new(object, "default", json_string(group->standard->variant));
        if (group->standard->time_us > 0)
            json_object_set_new(object, "default_us", output_number(group->standard->time_us));
    }
    return object;
}

static void print_group(const struct group *group, const char *before)
{
    const struct gnf_record *any = group->records[0];
    char time[32], standard[32], device[256];
    if (strcmp(any->problem, before) != 0)
        printf("%s%s\n", before[0] != '\0' ? "\n" : "", any->problem);
    db_time_text(group->winner != NULL ? group->winner->time_us : 0, time);
    db_time_text(group->standard != NULL ? group->standard->time_us : 0, standard);
    db_device_text(&any->device, device, sizeof device);
    printf("  %-36s %10s   default %10s   %3d records to %.10s   %s   %s\n",
           group->winner != NULL ? group->winner->variant : "none complete", time, standard, group->lines,
           group->date, device, group->users ? "the user's" : "shipped");
}

/* The group that begins at `begin` of the sorted items; marks its members. */
static void gather(const struct gnf_tuned *tuned, int begin, bool *seen, struct group *group)
{
    const struct gnf_tuned_item *first = tuned->sorted[begin];
    group->file = first->line.file;
    group->users = first->users;
    group->date = "";
    for (int i = begin; i < tuned->count; i++) {
        const struct gnf_tuned_item *item = tuned->sorted[i];
        if (strcmp(item->line.record.key, first->line.record.key) != 0 ||
            gnf_tuned_order_groups(item, first) != 0)
            break;
        if (seen[i] || !gnf_record_same_device(&item->line.record.device, &first->line.record.device))
            continue;
        seen[i] = true;
        if (item->replaced == NULL)
            put(group, &item->line.record);
    }
}

static gnf_status show(struct session *session, const struct gnf_tuned *tuned, json_t *entries)
{
    bool *seen = calloc((size_t)tuned->count + 1, sizeof *seen);
    const struct gnf_record **records = calloc((size_t)tuned->count + 1, sizeof(struct gnf_record *));
    const char *before = "";
    gnf_status status = seen != NULL && records != NULL
                            ? GNF_OK
                            : gnf_fail(GNF_OUT_OF_MEMORY, "no memory for %d records", tuned->count);
    for (int i = 0; i < tuned->count && status == GNF_OK; i++) {
        struct group group = {.records = records};
        if (seen[i])
            continue;
        gather(tuned, i, seen, &group);
        if (group.count == 0)
            continue;
        find_pack(session, group.records[0]);
        status = decide(&group, &session->packs);
        if (status == GNF_OK && session->args->json)
            json_array_append_new(entries, json_of(&group));
        else if (status == GNF_OK)
            print_group(&group, before);
        before = group.records[0]->problem;
    }
    free(seen);
    free(records);
    return status;
}

gnf_status db_show(const struct args *args)
{
    struct session session;
    struct gnf_tuned *tuned;
    GNF_TRY(session_open_packs(&session, args));
    const char *path = session.options.db;
    gnf_status status = gnf_tuned_load(&tuned, path, &session.options.log);
    if (status == GNF_OK) {
        json_t *entries = json_array();
        if (!args->json)
            printf("the user's database is %s\n\n",
                   path != NULL ? path : "none: no home folder is set, and no --db");
        status = show(&session, tuned, entries);
        if (status == GNF_OK && args->json)
            status = output_json(json_pack("{s:b, s:s?, s:i, s:O}", "ok", 1, "db", path, "records",
                                           tuned->count, "entries", entries));
        else if (status == GNF_OK && tuned->count == 0)
            printf("no records: `gnfuse tune PROBLEM` makes some\n");
        json_decref(entries);
        gnf_tuned_free(tuned);
    }
    session_close(&session);
    return status;
}
