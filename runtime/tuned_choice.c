/* Which variant the records speak for. */
#define _GNU_SOURCE 1 /* qsort_r */
#include "linear.h"
#include "tuned_index.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_RATIO = 8 };

const char *const gnf_match_names[] = {
    [GNF_MATCH_EXACT] = "exact",
    [GNF_MATCH_OLDER] = "older source",
    [GNF_MATCH_OTHER_BATCH] = "other batch",
    [GNF_MATCH_OTHER_GPU] = "other gpu",
    [GNF_MATCH_NONE] = "default",
};

/* ---- the rule ---- */

static bool is_time(double value)
{
    return isfinite(value) && value > 0;
}

double gnf_timing_error(const struct gnf_timing *timing)
{
    double spread = is_time(timing->spread_us) ? timing->spread_us : 0;
    if (timing->timings < 3 && spread < 0.1 * timing->time_us)
        spread = 0.1 * timing->time_us;
    return 1.25 * (spread / 1.349) / sqrt(timing->timings > 1 ? timing->timings : 1);
}

/* Whether the noise hides that `other` is slower than the fastest. */
static bool ties(const struct gnf_timing *fastest, const struct gnf_timing *other)
{
    double a = gnf_timing_error(fastest), b = gnf_timing_error(other);
    double noise = sqrt(a * a + b * b), least = 0.005 * fastest->time_us;
    return other->time_us - fastest->time_us <= (noise > least ? noise : least);
}

int gnf_timing_pick(const struct gnf_timing *timings, int count)
{
    int fastest = -1, best = -1;
    for (int i = 0; i < count; i++)
        if (is_time(timings[i].time_us) &&
            (fastest < 0 || timings[i].time_us < timings[fastest].time_us ||
             (timings[i].time_us == timings[fastest].time_us && timings[i].rank < timings[fastest].rank)))
            fastest = i;
    for (int i = 0; i < count && fastest >= 0; i++) {
        if (!is_time(timings[i].time_us) || !ties(&timings[fastest], &timings[i]))
            continue;
        if (timings[i].is_default)
            return i;
        if (best < 0 || timings[i].rank < timings[best].rank)
            best = i;
    }
    return best;
}

/* ---- records of one key ---- */

/* How much a record counts; better ones come first. */
enum worth { COMPLETE, INCOMPLETE, SLOW, WORTHLESS };
enum legality { NOT_ASKED, LEGAL, ILLEGAL };

/* What one file knows of one device and N. */
struct group {
    const struct gnf_tuned_item *first;
    int begin, end;       /* in the sorted order; others of another memory size may be among them */
    enum gnf_match match; /* if the source is the same */
    double ratio;         /* of N, 1 and more */
    int distance;         /* of the multiprocessor counts */
    const struct gnf_tuned_item *winner;
    enum worth worth;
};
struct known {
    const struct gnf_tuned_item *item;
    enum worth worth;
};
struct search {
    const struct gnf_tuned *tuned;
    const struct gnf_tuned_query *query;
    int *by_name; /* indices of the candidates */
    enum legality *legality;
    char (*source)[GNF_RECORD_SOURCE_SIZE]; /* "": not computed yet, "?": cannot be */
    struct known *known;                    /* of each candidate in the group at hand */
    struct gnf_timing *timing;
    int *timing_index;
    struct group *group;
    int group_count;
};

static int by_name(const void *a, const void *b, void *user)
{
    const struct gnf_candidate *candidates = user;
    int i = *(const int *)a, j = *(const int *)b;
    int order = strcmp(candidates[i].variant->name, candidates[j].variant->name);
    return order ? order : i - j;
}

/* The candidate of this name, of several the first; -1 for none. */
static int find_candidate(const struct search *search, const char *name)
{
    int low = 0, high = search->query->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(search->query->candidates[search->by_name[middle]].variant->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == search->query->count)
        return -1;
    int index = search->by_name[low];
    return strcmp(search->query->candidates[index].variant->name, name) ? -1 : index;
}

static bool is_legal(struct search *search, int index)
{
    enum legality *legality = &search->legality[index];
    const struct gnf_tuned_query *query = search->query;
    if (*legality == NOT_ASKED)
        *legality = !query->legal || query->legal(query->user, &query->candidates[index]) ? LEGAL : ILLEGAL;
    return *legality == LEGAL;
}

/* Whether it is about the very source and compiler at hand. Sources are hashed only where that decides
 * something. */
static bool is_current(struct search *search, int index, const struct gnf_record *record)
{
    const struct gnf_candidate *candidate = &search->query->candidates[index];
    char *source = search->source[index];
    if (search->query->nvrtc && search->query->nvrtc != record->nvrtc)
        return false;
    if (!*source && gnf_pack_source_hash(candidate->pack, candidate->variant, source) != GNF_OK)
        strcpy(source, "?");
    return !strcmp(source, record->source);
}

static enum worth worth_of(const struct gnf_record *record)
{
    if (!is_time(record->time_us))
        return WORTHLESS;
    if (record->status == GNF_RECORD_OK)
        return record->complete ? COMPLETE : INCOMPLETE;
    return record->status == GNF_RECORD_SLOW ? SLOW : WORTHLESS;
}

/* ---- groups ---- */

static enum gnf_match match_of(const struct gnf_tuned_query *query, const struct gnf_record *record,
                               double *ratio)
{
    double a = (double)record->samples, b = (double)query->problem->samples;
    *ratio = a > b ? a / b : b / a;
    if (record->device.simulated != query->device.simulated ||
        record->device.capability != query->device.capability || !(*ratio <= BATCH_RATIO))
        return GNF_MATCH_NONE;
    if (!gnf_record_same_device(&record->device, &query->device))
        return GNF_MATCH_OTHER_GPU;
    return record->samples == query->problem->samples ? GNF_MATCH_EXACT : GNF_MATCH_OTHER_BATCH;
}

static bool in_group(const struct group *group, const struct gnf_tuned_item *item)
{
    return gnf_record_same_device(&group->first->line.record.device, &item->line.record.device);
}

/* Sizes of memory are few, so an item's group is among the last ones, if it is there. */
static void put_in_group(struct search *search, int at)
{
    const struct gnf_tuned_item *item = search->tuned->sorted[at];
    const struct gnf_record *record = &item->line.record;
    for (int i = search->group_count - 1; i >= 0; i--) {
        struct group *group = &search->group[i];
        if (gnf_tuned_order_groups(group->first, item) != 0)
            break;
        if (in_group(group, item)) {
            group->end = at + 1;
            return;
        }
    }
    struct group group = {.first = item, .begin = at, .end = at + 1, .worth = WORTHLESS};
    group.match = match_of(search->query, record, &group.ratio);
    group.distance = abs(record->device.multiprocessors - search->query->device.multiprocessors);
    search->group[search->group_count++] = group;
}

static int compare_groups(const struct group *a, const struct group *b)
{
    int order = (int)a->match - (int)b->match;
    order = order ? order : (int)b->first->users - (int)a->first->users;
    order = order ? order : (a->ratio > b->ratio) - (a->ratio < b->ratio);
    return order ? order : a->distance - b->distance;
}

static int by_rank(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int order = compare_groups(x, y);
    return order ? order : x->begin - y->begin;
}

/* Nothing that more samples would change. */
static bool is_settled(const struct gnf_record *record)
{
    return record->status != GNF_RECORD_OK || worth_of(record) == COMPLETE;
}

/* Whether the second of two records of one variant says more. What is settled about the present source does,
 * however good an older one was. */
static bool is_better(struct search *search, int index, const struct known *old, const struct known *new)
{
    if (!old->item)
        return true;
    const struct gnf_record *before = &old->item->line.record, *record = &new->item->line.record;
    bool was_current = is_current(search, index, before), current = is_current(search, index, record);
    if (current != was_current && is_settled(current ? record : before))
        return current;
    if (new->worth != old->worth)
        return new->worth < old->worth;
    return current != was_current ? current : new->item > old->item;
}

/* Which product of linear is fastest turns with N: a record of another N speaks only for tails of the default
 * rule's. */
static bool speaks_here(const struct search *search, int index, const struct gnf_record *record)
{
    const struct gnf_tuned_query *query = search->query;
    return record->samples == query->problem->samples || query->default_index < 0 ||
           query->problem->conv.kernel ||
           gnf_same_product(&query->candidates[index].variant->product,
                            &query->candidates[query->default_index].variant->product);
}

/* Fills in the group's winner, its worth and what match it is. */
static void decide(struct search *search, struct group *group)
{
    const struct gnf_tuned_query *query = search->query;
    int count = 0;
    memset(search->known, 0, (size_t)query->count * sizeof *search->known);
    for (int at = group->begin; at < group->end; at++) {
        const struct gnf_tuned_item *item = search->tuned->sorted[at];
        const struct known known = {item, worth_of(&item->line.record)};
        if (item->replaced || !in_group(group, item))
            continue;
        int index = find_candidate(search, item->line.record.variant);
        if (index < 0 || !is_legal(search, index) || !speaks_here(search, index, &item->line.record))
            continue;
        if (is_better(search, index, &search->known[index], &known))
            search->known[index] = known;
    }
    group->worth = WORTHLESS;
    for (int i = 0; i < query->count; i++)
        if (search->known[i].item && search->known[i].worth < group->worth)
            group->worth = search->known[i].worth;
    for (int i = 0; i < query->count && group->worth < WORTHLESS; i++) {
        if (!search->known[i].item || search->known[i].worth != group->worth)
            continue;
        const struct gnf_record *record = &search->known[i].item->line.record;
        search->timing_index[count] = i;
        search->timing[count++] = (struct gnf_timing){
            .time_us = record->time_us,
            .spread_us = record->spread_us,
            .timings = record->timings,
            .rank = i,
            .is_default = i == query->default_index,
        };
    }
    int picked = gnf_timing_pick(search->timing, count);
    if (picked < 0)
        return;
    int index = search->timing_index[picked];
    group->winner = search->known[index].item;
    if (group->match == GNF_MATCH_EXACT && !is_current(search, index, &group->winner->line.record))
        group->match = GNF_MATCH_OLDER;
}

/* The group that decides, or NULL. */
static struct group *choose_group(struct search *search)
{
    struct group *best = NULL;
    qsort(search->group, (size_t)search->group_count, sizeof *search->group, by_rank);
    for (int i = 0; i < search->group_count; i++) {
        struct group *group = &search->group[i];
        if (group->match == GNF_MATCH_NONE)
            break;
        /* What follows can only be as good as it promises. */
        if (best && best->worth == COMPLETE && group->match > best->match)
            break;
        decide(search, group);
        if (group->winner && (!best || group->worth < best->worth ||
                              (group->worth == best->worth && compare_groups(group, best) < 0)))
            best = group;
    }
    return best;
}

/* ---- why ---- */

/* In tenths of a percent, as text: the separator is no matter of locale. */
static int tenths(double slower, double than)
{
    double percent = 1000 * (slower / than - 1);
    return percent < 1e6 ? (int)(percent + 0.5) : 1000000;
}

__attribute__((format(printf, 3, 4))) static void
say(const struct gnf_tuned_query *query, const struct gnf_tuned_item *item, const char *format, ...)
{
    char why[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    query->explain(query->explain_user, &item->line, why);
}

/* What speaks against the record whatever others there are. True if something does. */
static bool explain_unfit(struct search *search, const struct gnf_tuned_item *item)
{
    const struct gnf_tuned_query *query = search->query;
    const struct gnf_record *record = &item->line.record;
    double ratio;
    int index = find_candidate(search, record->variant);
    bool elsewhere = match_of(query, record, &ratio) == GNF_MATCH_NONE;
    if (item->replaced)
        say(query, item, "replaced by line %d", item->replaced->line.line);
    else if (record->device.simulated != query->device.simulated)
        say(query, item, record->device.simulated ? "measured in the simulator" : "measured on a GPU");
    else if (record->device.capability != query->device.capability)
        say(query, item, "measured on capability %d, here it is %d", record->device.capability,
            query->device.capability);
    else if (elsewhere)
        say(query, item, "N = %" PRId64 " is more than %d times as %s as %" PRId64, record->samples,
            BATCH_RATIO, record->samples > query->problem->samples ? "large" : "small",
            query->problem->samples);
    else if (record->status != GNF_RECORD_OK && record->status != GNF_RECORD_SLOW)
        say(query, item, "%s%s%s", gnf_record_status_names[record->status], record->error ? ": " : "",
            record->error ? record->error : "");
    else if (worth_of(record) == WORTHLESS)
        say(query, item, "has no time");
    else if (index < 0)
        say(query, item, "no loaded pack has this variant");
    else if (!is_legal(search, index))
        say(query, item, "not usable here: %s",
            query->legal(query->user, &query->candidates[index]) ? "" : gnf_error_message());
    else if (!speaks_here(search, index, record))
        say(query, item, "N = %" PRId64 ", and not of the default rule's product", record->samples);
    else
        return false;
    return true;
}

/* Another record of the variant counts: search->known is of its group. */
static bool explain_displaced(struct search *search, const struct gnf_tuned_item *item)
{
    const struct gnf_record *record = &item->line.record;
    int index = find_candidate(search, record->variant);
    const struct gnf_tuned_item *known = search->known[index].item;
    if (known == item)
        return false;
    if (is_current(search, index, record) || !is_current(search, index, &known->line.record))
        say(search->query, item, "line %d %s", known->line.line,
            worth_of(&known->line.record) < worth_of(record) ? "says more" : "is newer");
    else
        say(search->query, item, "line %d is of the %s", known->line.line,
            strcmp(known->line.record.source, record->source) ? "present source" : "present compiler");
    return true;
}

/* Against the taken one of the same group, whose records search->known has. */
static void explain_slower(struct search *search, const struct group *best, const struct gnf_tuned_item *item)
{
    const struct gnf_tuned_query *query = search->query;
    const struct gnf_record *record = &item->line.record, *taken = &best->winner->line.record;
    if (explain_displaced(search, item))
        return;
    if (worth_of(record) > best->worth && worth_of(record) == SLOW)
        say(query, item, "left early: too slow to win");
    else if (worth_of(record) > best->worth)
        say(query, item, "not measured to the end, as others are");
    else if (record->time_us < taken->time_us)
        say(query, item, "faster by no more than the noise: %s wins",
            find_candidate(search, taken->variant) == query->default_index ? "the default"
                                                                           : "the simpler one");
    else if (record->time_us == taken->time_us)
        say(query, item, "no faster than the taken one");
    else
        say(query, item, "slower by %d.%d %%", tenths(record->time_us, taken->time_us) / 10,
            tenths(record->time_us, taken->time_us) % 10);
}

static void explain_group(const struct gnf_tuned_query *query, const struct group *best,
                          const struct group *group, const struct gnf_tuned_item *item)
{
    if (group->match > best->match)
        say(query, item, "%s: a better match is there", gnf_match_names[group->match]);
    else if (group->worth > best->worth)
        say(query, item, "not measured to the end, as records of another size or device are");
    else if (group->first->users != best->first->users)
        say(query, item, "the user's own records come first");
    else if (group->ratio > best->ratio)
        say(query, item, "%s: records of a nearer N come first", gnf_match_names[group->match]);
    else
        say(query, item, "%s: records of a more similar device come first", gnf_match_names[group->match]);
}

/* As decide() sees it. */
static bool holds(const struct search *search, const struct group *group, const struct gnf_tuned_item *item)
{
    for (int at = group->begin; at < group->end; at++)
        if (search->tuned->sorted[at] == item)
            return in_group(group, item);
    return false;
}

/* A size of memory between two others' is in both their groups: the best one is what matters then. */
static struct group *group_of(const struct search *search, struct group *best,
                              const struct gnf_tuned_item *item)
{
    if (best && holds(search, best, item))
        return best;
    for (int i = 0; i < search->group_count; i++)
        if (holds(search, &search->group[i], item))
            return &search->group[i];
    return NULL;
}

static void explain(struct search *search, struct group *best)
{
    const struct gnf_tuned *tuned = search->tuned;
    /* Once more, so that what is known is of this group; and the others' worth is wanted. */
    for (int i = 0; i < search->group_count; i++)
        if (&search->group[i] != best && search->group[i].match != GNF_MATCH_NONE)
            decide(search, &search->group[i]);
    if (best)
        decide(search, best);
    for (int i = 0; i < tuned->count; i++) {
        const struct gnf_tuned_item *item = &tuned->item[i];
        if (strcmp(item->line.record.key, search->query->problem->key) || explain_unfit(search, item))
            continue;
        struct group *group = group_of(search, best, item);
        if (!group)
            continue;
        if (!best) {
            decide(search, group);
            explain_displaced(search, item);
        } else if (item == best->winner) {
            say(search->query, item, "taken: %s", gnf_match_names[best->match]);
        } else if (group == best) {
            explain_slower(search, best, item);
        } else {
            explain_group(search->query, best, group, item);
        }
    }
}

/* ---- the query ---- */

/* One block of memory for all tables; NULL where there is none. */
static void *prepare(struct search *search, int lines)
{
    size_t count = (size_t)search->query->count, groups = (size_t)lines;
    size_t known = count * sizeof *search->known, timing = count * sizeof *search->timing;
    size_t group = groups * sizeof *search->group, whole = count * sizeof(int);
    char *block = calloc(1, known + timing + group + 2 * whole + count * sizeof *search->legality +
                                count * sizeof *search->source);
    if (!block)
        return NULL;
    search->known = (struct known *)(void *)block;
    search->timing = (struct gnf_timing *)(void *)(block + known);
    search->group = (struct group *)(void *)(block + known + timing);
    search->by_name = (int *)(void *)(block + known + timing + group);
    search->timing_index = search->by_name + count;
    search->legality = (enum legality *)(void *)(search->timing_index + count);
    search->source = (char(*)[GNF_RECORD_SOURCE_SIZE])(void *)(search->legality + count);
    for (int i = 0; i < search->query->count; i++)
        search->by_name[i] = i;
    qsort_r(search->by_name, count, sizeof(int), by_name, (void *)search->query->candidates);
    return block;
}

const char *gnf_tuned_gemm(const struct gnf_tuned *tuned, const struct gnf_problem *problem,
                           const struct gnf_record_device *device, const struct gnf_variant *variant)
{
    const struct gnf_tuned_item *best = NULL;
    int first, lines = tuned ? gnf_tuned_range(tuned, problem->key, &first) : 0;
    for (int i = 0; i < lines; i++) {
        const struct gnf_tuned_item *item = tuned->sorted[first + i];
        const struct gnf_record *record = &item->line.record;
        if (record->gemm && !item->replaced && !strcmp(record->variant, variant->name) &&
            gnf_slab_rows(variant, problem, record->samples) ==
                gnf_slab_rows(variant, problem, problem->samples) &&
            gnf_record_same_device(&record->device, device) &&
            (!best || item->users > best->users || (item->users == best->users && item > best)))
            best = item; /* items stand in the order of the files */
    }
    return best ? best->line.record.gemm : NULL;
}

struct gnf_tuned_choice gnf_tuned_choose(const struct gnf_tuned *tuned, const struct gnf_tuned_query *query)
{
    struct gnf_tuned_choice choice = {.index = -1, .match = GNF_MATCH_NONE};
    struct search search = {.tuned = tuned, .query = query};
    int first, lines = tuned ? gnf_tuned_range(tuned, query->problem->key, &first) : 0;
    if (lines == 0)
        return choice;
    void *block = prepare(&search, lines);
    if (!block)
        return choice;
    for (int i = first; i < first + lines; i++)
        put_in_group(&search, i);
    struct group *best = choose_group(&search);
    if (best) {
        choice.index = find_candidate(&search, best->winner->line.record.variant);
        choice.match = best->match;
        choice.line = &best->winner->line;
    }
    if (query->explain)
        explain(&search, best);
    free(block);
    return choice;
}
