/* Databases for tests, line by line, and a pack of four variants that they are about. */
#ifndef GNF_TUNED_FIXTURE_H
#define GNF_TUNED_FIXTURE_H

#include "make_pack.h"
#include "scratch.h"
#include "tuned.h"

/* clang-format off */
#define TUNED_VARIANT(name, part) \
    "{\"name\":\"" name "\",\"strategy\":\"s\",\"parameters\":{},\"alignment\":4,\"capability\":70,\"workspace\":0," \
    "\"group_max\":0,\"kernels\":[{\"entry\":\"k_" name "\",\"parts\":[" part "],\"block\":32,\"shared\":0,\"unit\":" \
    "\"group\",\"units_per_block\":1,\"span\":\"none\",\"tile\":1,\"cap\":1}]}"
static const char tuned_manifest[] =
    "{\"format\":1,\"generator\":\"t\",\"parts\":[[0,2],[2,2],[4,2],[6,2]],\"entries\":[{\"key\":"
    "\"f32[*,64,1] | groupnorm(8)\",\"generic\":false,\"variants\":["
    TUNED_VARIANT("a", "0") "," TUNED_VARIANT("b", "1") "," TUNED_VARIANT("c", "2") "," TUNED_VARIANT("d", "3") "]}]}";
/* clang-format on */
static const char tuned_parts[] = "AABBCCDD";

struct tuned_fixture {
    struct gnf_pack *pack;
    const struct gnf_variant *variant; /* a, b, c, d */
    int count;
    struct gnf_candidate candidate[8];
    struct gnf_problem problem; /* N = 100 */
    struct gnf_record base;     /* exact for variant a, complete, 10 us */
    struct gnf_tuned_query query;
    bool illegal[8];
    int asked;
    struct scratch_log seen;
    struct gnf_log log;
    char text[1 << 17]; /* the database under construction */
    size_t length;
};
static struct tuned_fixture fixture;

static inline bool tuned_legal(void *user, const struct gnf_candidate *candidate)
{
    struct tuned_fixture *f = user;
    f->asked++;
    return !f->illegal[candidate - f->candidate];
}

static inline int tuned_setup(void **state)
{
    size_t size;
    unsigned char *data = make_pack(tuned_manifest, strlen(tuned_manifest), tuned_parts, &size);
    memset(&fixture, 0, sizeof fixture);
    if (gnf_pack_read(&fixture.pack, data, size, "t") != GNF_OK)
        return -1;
    free(data);
    if (gnf_problem_parse("f32[100,64] | groupnorm(8)", &fixture.problem) != GNF_OK)
        return -1;
    fixture.variant = gnf_pack_find(fixture.pack, fixture.problem.key, &fixture.count);
    if (!fixture.variant)
        return -1;
    for (int i = 0; i < fixture.count; i++)
        fixture.candidate[i] = (struct gnf_candidate){fixture.pack, &fixture.variant[i]};
    fixture.base = (struct gnf_record){
        .key = fixture.problem.key,
        .problem = fixture.problem.text,
        .samples = 100,
        .variant = "a",
        .device = {.gpu = "G", .capability = 90, .multiprocessors = 132, .memory = 100000, .l2_bytes = 50},
        .nvrtc = 12080,
        .complete = true,
        .time_us = 10,
        .timings = 40,
        .date = "2026-11-29T18:03:11Z",
    };
    fixture.query = (struct gnf_tuned_query){
        .problem = &fixture.problem,
        .device = fixture.base.device,
        .nvrtc = 12080,
        .candidates = fixture.candidate,
        .count = fixture.count,
        .legal = tuned_legal,
        .user = &fixture,
        .default_index = -1,
    };
    fixture.log = (struct gnf_log){scratch_log_line, &fixture.seen, GNF_LOG_DEBUG};
    return scratch_setup(state);
}

static inline int tuned_teardown(void **state)
{
    gnf_pack_free(fixture.pack);
    return scratch_teardown(state);
}

/* Appends any bytes. */
static inline void tuned_put(const char *bytes)
{
    size_t length = strlen(bytes);
    assert_true(fixture.length + length < sizeof fixture.text);
    memcpy(fixture.text + fixture.length, bytes, length + 1);
    fixture.length += length;
}

/* Appends the record, of the present source of its variant where it says none. */
static inline void tuned_add(struct gnf_record record)
{
    char *line;
    for (int i = 0; i < fixture.count && !record.source[0]; i++)
        if (!strcmp(fixture.variant[i].name, record.variant))
            assert_int_equal(gnf_pack_source_hash(fixture.pack, &fixture.variant[i], record.source), GNF_OK);
    if (!record.source[0])
        strcpy(record.source, "00000000000000000000000000000000");
    assert_int_equal(gnf_record_write(&record, &line), GNF_OK);
    tuned_put(line);
    free(line);
}

/* Writes what was appended into a file, and starts over. */
static inline const char *tuned_file(const char *name)
{
    const char *path = scratch_path(name);
    scratch_write(path, fixture.text, fixture.length);
    fixture.length = 0;
    return path;
}

/* Takes out what was appended, to be freed, and starts over. */
static inline char *tuned_text(void)
{
    char *text = strdup(fixture.text);
    assert_non_null(text);
    fixture.length = 0;
    return text;
}

/* RECORD(.variant = "b", .time_us = 9) appends fixture.base with these fields changed. */
#define RECORD(...)                                                                                          \
    do {                                                                                                     \
        struct gnf_record r = fixture.base;                                                                  \
        const struct gnf_record zero = {0}, changed = {__VA_ARGS__};                                         \
        if (changed.variant)                                                                                 \
            r.variant = changed.variant;                                                                     \
        if (changed.samples)                                                                                 \
            r.samples = changed.samples;                                                                     \
        if (changed.time_us != 0)                                                                            \
            r.time_us = changed.time_us;                                                                     \
        if (changed.spread_us != 0)                                                                          \
            r.spread_us = changed.spread_us;                                                                 \
        if (changed.nvrtc)                                                                                   \
            r.nvrtc = changed.nvrtc;                                                                         \
        if (memcmp(changed.source, zero.source, sizeof zero.source))                                         \
            memcpy(r.source, changed.source, sizeof r.source);                                               \
        if (changed.device.capability)                                                                       \
            r.device = changed.device;                                                                       \
        r.status = changed.status;                                                                           \
        r.error = changed.error;                                                                             \
        tuned_add(r);                                                                                        \
    } while (0)

/* Loads the shipped text (NULL: none) and the file (NULL: none). */
static inline struct gnf_tuned *load(const char *shipped, const char *path)
{
    struct gnf_tuned *tuned;
    memset(&fixture.seen, 0, sizeof fixture.seen);
    if (gnf_tuned_load_from(&tuned, shipped, shipped ? strlen(shipped) : 0, path, &fixture.log) != GNF_OK)
        fail_msg("%s", gnf_error_message());
    return tuned;
}

/* What is appended so far, as the user's file. */
static inline struct gnf_tuned *load_user(void)
{
    return load(NULL, tuned_file("tuned.jsonl"));
}

/* The user's file decides for this variant ("" for none), with this match. */
static inline void chooses(struct gnf_tuned *tuned, const char *variant, enum gnf_match match)
{
    const struct gnf_tuned_choice choice = gnf_tuned_choose(tuned, &fixture.query);
    const char *got = choice.index < 0 ? "" : fixture.variant[choice.index].name;
    if (strcmp(got, variant) || choice.match != match)
        fail_msg("'%s' (%s), wanted '%s' (%s)", got, gnf_match_names[choice.match], variant,
                 gnf_match_names[match]);
    if (choice.index >= 0)
        assert_string_equal(choice.line->record.variant, variant);
    else
        assert_null(choice.line);
    gnf_tuned_free(tuned);
}

#endif
