/* Which record a plan rests on, and why. */
#define _GNU_SOURCE 1
#include "problem.h"
#include "tuned_fixture.h"
#include <math.h>

#define OLD "00000000000000000000000000000001"

/* ---- the rule ---- */

static struct gnf_timing timing(double time_us, double spread_us, int rank, bool is_default)
{
    return (struct gnf_timing){time_us, spread_us, 25, rank, is_default};
}

static void picks(void **state)
{
    struct gnf_timing row[4] = {timing(10, 0, 0, false), timing(9.99, 0, 1, false), timing(9, 0, 2, false),
                                timing(9.5, 0, 3, true)};
    (void)state;
    assert_int_equal(gnf_timing_pick(row, 0), -1);
    assert_int_equal(gnf_timing_pick(row, 1), 0);
    assert_int_equal(gnf_timing_pick(row, 4), 2);
    /* half a percent is no difference: the simpler one, and before it the default */
    row[0].time_us = 9.04;
    assert_int_equal(gnf_timing_pick(row, 4), 0);
    row[3].time_us = 9.04;
    assert_int_equal(gnf_timing_pick(row, 4), 3);
    row[3].time_us = 9.05;
    assert_int_equal(gnf_timing_pick(row, 4), 0);
    row[0].rank = 7;
    assert_int_equal(gnf_timing_pick(row, 4), 2);
    row[0].rank = 0;
    /* noise: 1.25 * (spread / 1.349) / 5, of both */
    row[0] = timing(10, 2, 0, false);
    row[2] = timing(9, 5, 2, false);
    row[3] = timing(11, 0, 3, true);
    assert_true(fabs(gnf_timing_error(&row[0]) - 1.25 * 2 / 1.349 / 5) < 1e-12);
    assert_int_equal(gnf_timing_pick(row, 4), 2); /* apart by 1; errors .371 and .927, together .998 */
    row[0].time_us = 9.99;
    assert_int_equal(gnf_timing_pick(row, 4), 0);
    /* what is no time never wins, and no spread or count of samples is noise without end */
    const double none[] = {0, -1, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct gnf_timing two[2] = {timing(none[i], 0, 0, true), timing(5, none[i], 1, false)};
        assert_int_equal(gnf_timing_pick(two, 2), 1);
        assert_int_equal(gnf_timing_pick(two, 1), -1);
        two[1].timings = (int)i - 1;
        assert_int_equal(gnf_timing_pick(two, 2), 1);
        assert_true(isfinite(gnf_timing_error(&two[1])));
    }
    /* equal times: order of the rows does not matter */
    struct gnf_timing same[2] = {timing(5, 0, 4, false), timing(5, 0, 3, false)};
    assert_int_equal(gnf_timing_pick(same, 2), 1);
}

/* ---- choosing ---- */

static void fastest(void **state)
{
    (void)state;
    RECORD(.variant = "a", .time_us = 10);
    RECORD(.variant = "b", .time_us = 8);
    RECORD(.variant = "c", .time_us = 9);
    chooses(load_user(), "b", GNF_MATCH_EXACT);
    /* the default and the simplest win ties */
    RECORD(.variant = "a", .time_us = 10);
    RECORD(.variant = "b", .time_us = 8, .spread_us = 4);
    RECORD(.variant = "c", .time_us = 7.9, .spread_us = 4);
    RECORD(.variant = "d", .time_us = 8.1, .spread_us = 4);
    const char *path = tuned_file("ties.jsonl");
    chooses(load(NULL, path), "b", GNF_MATCH_EXACT);
    fixture.query.default_index = 3;
    chooses(load(NULL, path), "d", GNF_MATCH_EXACT);
    fixture.query.default_index = 0;
    chooses(load(NULL, path), "b", GNF_MATCH_EXACT);
    /* a later line replaces an earlier one */
    RECORD(.variant = "b", .time_us = 8);
    RECORD(.variant = "c", .time_us = 9);
    RECORD(.variant = "b", .time_us = 10);
    chooses(load_user(), "c", GNF_MATCH_EXACT);
    RECORD(.variant = "b", .time_us = 8);
    RECORD(.variant = "c", .time_us = 9);
    RECORD(.variant = "b", .status = GNF_RECORD_WRONG, .time_us = 8);
    chooses(load_user(), "c", GNF_MATCH_EXACT);
}

static void never(void **state)
{
    (void)state;
    for (int status = GNF_RECORD_WRONG; status < GNF_RECORD_STATUS_COUNT; status++) {
        RECORD(.variant = "a", .status = (enum gnf_record_status)status, .time_us = 1, .error = "e");
        const char *path = tuned_file("bad.jsonl");
        chooses(load(NULL, path), "", GNF_MATCH_NONE);
    }
    RECORD(.variant = "a", .time_us = -1); /* written as 0: no time */
    chooses(load_user(), "", GNF_MATCH_NONE);
    /* a variant that the pack no longer has */
    RECORD(.variant = "z", .time_us = 1);
    RECORD(.variant = "b", .time_us = 9);
    chooses(load_user(), "b", GNF_MATCH_EXACT);
    RECORD(.variant = "z", .time_us = 1);
    chooses(load_user(), "", GNF_MATCH_NONE);
    /* another problem */
    char *key = fixture.base.key;
    fixture.base.key = "f32[*,64,1] | groupnorm(4)";
    RECORD(.variant = "a");
    fixture.base.key = key;
    chooses(load_user(), "", GNF_MATCH_NONE);
}

static void incomplete(void **state)
{
    (void)state;
    fixture.base.complete = false;
    RECORD(.variant = "a", .time_us = 1);
    fixture.base.complete = true;
    RECORD(.variant = "b", .time_us = 9);
    RECORD(.variant = "c", .status = GNF_RECORD_SLOW, .time_us = 2);
    const char *path = tuned_file("incomplete.jsonl");
    chooses(load(NULL, path), "b", GNF_MATCH_EXACT);
    fixture.illegal[1] = true; /* b: then the incomplete one, and last the slow one */
    chooses(load(NULL, path), "a", GNF_MATCH_EXACT);
    fixture.illegal[0] = true;
    chooses(load(NULL, path), "c", GNF_MATCH_EXACT);
    fixture.illegal[2] = true;
    chooses(load(NULL, path), "", GNF_MATCH_NONE);
    memset(fixture.illegal, 0, sizeof fixture.illegal);
    /* a weaker match that is complete comes before an incomplete one that is exact */
    fixture.base.complete = false;
    RECORD(.variant = "a", .time_us = 1);
    fixture.base.complete = true;
    RECORD(.variant = "b", .time_us = 9, .samples = 200);
    chooses(load_user(), "b", GNF_MATCH_OTHER_BATCH);
}

/* Measuring again and being cut short takes nothing away. */
static void cut_short(void **state)
{
    (void)state;
    for (int finished = 0; finished < 2; finished++) {
        RECORD(.variant = "b", .time_us = 7);
        RECORD(.variant = "a", .time_us = 8);
        fixture.base.complete = false;
        RECORD(.variant = "b", .time_us = 12);
        fixture.base.complete = true;
        if (finished)
            RECORD(.variant = "b", .time_us = 9);
        chooses(load_user(), finished ? "a" : "b", GNF_MATCH_EXACT);
    }
}

static void degraded(void **state)
{
    (void)state;
    RECORD(.variant = "a", .time_us = 7);
    RECORD(.variant = "b", .time_us = 8);
    RECORD(.variant = "c", .time_us = 9);
    RECORD(.variant = "c", .time_us = 9, .source = OLD);
    const char *path = tuned_file("legal.jsonl");
    fixture.illegal[0] = true;
    chooses(load(NULL, path), "b", GNF_MATCH_EXACT);
    assert_int_equal(fixture.asked, 3); /* once a variant */
    fixture.illegal[1] = true;
    chooses(load(NULL, path), "c", GNF_MATCH_EXACT);
    fixture.query.legal = NULL;
    chooses(load(NULL, path), "a", GNF_MATCH_EXACT);
}

static void sources_and_compilers(void **state)
{
    (void)state;
    RECORD(.variant = "b", .source = OLD, .time_us = 8);
    RECORD(.variant = "c", .time_us = 9);
    const char *path = tuned_file("old.jsonl");
    chooses(load(NULL, path), "b", GNF_MATCH_OLDER);
    fixture.illegal[1] = true;
    chooses(load(NULL, path), "c", GNF_MATCH_EXACT);
    fixture.illegal[1] = false;
    /* of one variant's records that of the present source counts, wherever it stands */
    RECORD(.variant = "b", .time_us = 8);
    RECORD(.variant = "c", .time_us = 9);
    RECORD(.variant = "b", .source = OLD, .time_us = 20);
    chooses(load_user(), "b", GNF_MATCH_EXACT);
    RECORD(.variant = "b", .source = OLD, .time_us = 8);
    RECORD(.variant = "b", .time_us = 20);
    RECORD(.variant = "c", .time_us = 9);
    chooses(load_user(), "c", GNF_MATCH_EXACT);
    /* of two older ones the later */
    RECORD(.variant = "b", .source = "00000000000000000000000000000002", .time_us = 20);
    RECORD(.variant = "b", .source = OLD, .time_us = 8);
    RECORD(.variant = "c", .time_us = 9);
    chooses(load_user(), "b", GNF_MATCH_OLDER);
    RECORD(.variant = "b", .source = OLD, .time_us = 20);
    RECORD(.variant = "b", .source = "00000000000000000000000000000002", .time_us = 8);
    RECORD(.variant = "c", .time_us = 9);
    chooses(load_user(), "b", GNF_MATCH_OLDER);
    /* what is settled about the present source counts, however good an older one was */
    for (int status = GNF_RECORD_SLOW; status < GNF_RECORD_STATUS_COUNT; status++) {
        RECORD(.variant = "b", .source = OLD, .time_us = 8);
        RECORD(.variant = "b", .status = (enum gnf_record_status)status, .time_us = 7);
        RECORD(.variant = "c", .time_us = 9);
        chooses(load_user(), "c", GNF_MATCH_EXACT);
    }
    RECORD(.variant = "b", .source = OLD, .time_us = 8);
    RECORD(.variant = "b", .status = GNF_RECORD_WRONG, .time_us = 7);
    chooses(load_user(), "", GNF_MATCH_NONE);
    /* but not what was cut short, or has no time */
    RECORD(.variant = "b", .source = OLD, .time_us = 8);
    RECORD(.variant = "b", .time_us = -1);
    RECORD(.variant = "c", .time_us = 9);
    chooses(load_user(), "b", GNF_MATCH_OLDER);
    RECORD(.variant = "b", .source = OLD, .time_us = 8);
    fixture.base.complete = false;
    RECORD(.variant = "b", .time_us = 20);
    fixture.base.complete = true;
    RECORD(.variant = "c", .time_us = 9);
    chooses(load_user(), "b", GNF_MATCH_OLDER);
    /* another compiler is the same as another source; an unknown one does not count */
    RECORD(.variant = "b", .nvrtc = 13000);
    path = tuned_file("nvrtc.jsonl");
    chooses(load(NULL, path), "b", GNF_MATCH_OLDER);
    fixture.query.nvrtc = 0;
    chooses(load(NULL, path), "b", GNF_MATCH_EXACT);
}

static void batches(void **state)
{
    (void)state;
    RECORD(.variant = "b", .samples = 50);
    const char *path = tuned_file("batch.jsonl");
    const struct {
        int64_t samples;
        enum gnf_match match;
    } rows[] = {{50, GNF_MATCH_EXACT},       {51, GNF_MATCH_OTHER_BATCH}, {400, GNF_MATCH_OTHER_BATCH},
                {401, GNF_MATCH_NONE},       {7, GNF_MATCH_OTHER_BATCH},  {6, GNF_MATCH_NONE},
                {INT64_MAX, GNF_MATCH_NONE}, {0, GNF_MATCH_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture.problem.samples = rows[i].samples;
        chooses(load(NULL, path), rows[i].match == GNF_MATCH_NONE ? "" : "b", rows[i].match);
    }
    fixture.problem.samples = 100;
    /* the nearest by ratio: 300 is 3 times as large, 50 half as large; and times of another N are no matter
     */
    RECORD(.variant = "a", .samples = 300, .time_us = 1);
    RECORD(.variant = "b", .samples = 50, .time_us = 9);
    RECORD(.variant = "c", .samples = 50, .time_us = 8);
    RECORD(.variant = "d", .samples = 10000, .time_us = 1);
    chooses(load_user(), "c", GNF_MATCH_OTHER_BATCH);
    RECORD(.variant = "b", .samples = 50);
    RECORD(.variant = "a", .samples = 150);
    RECORD(.variant = "c", .samples = 201);
    chooses(load_user(), "a", GNF_MATCH_OTHER_BATCH);
    /* any record of this N before those of another */
    RECORD(.variant = "a", .samples = 101, .time_us = 1);
    RECORD(.variant = "b", .source = OLD, .time_us = 50);
    chooses(load_user(), "b", GNF_MATCH_OLDER);
}

static void gpus(void **state)
{
    struct gnf_record_device other = fixture.base.device, far = other, sim = other, cc80 = other,
                             small = other;
    (void)state;
    other.multiprocessors = 114;
    far.multiprocessors = 78;
    sim.simulated = true;
    cc80.capability = 80;
    small.memory = other.memory / 2;
    RECORD(.variant = "c", .device = far);
    RECORD(.variant = "b", .device = other);
    RECORD(.variant = "a", .device = cc80);
    RECORD(.variant = "a", .device = sim);
    chooses(load_user(), "b", GNF_MATCH_OTHER_GPU);
    RECORD(.variant = "b", .device = small);
    chooses(load_user(), "b", GNF_MATCH_OTHER_GPU);
    RECORD(.variant = "b", .device = other);
    RECORD(.variant = "c", .samples = 200);
    chooses(load_user(), "c", GNF_MATCH_OTHER_BATCH);
    RECORD(.variant = "b", .device = other, .samples = 1000); /* too far, on any device */
    RECORD(.variant = "a", .device = cc80);
    RECORD(.variant = "a", .device = sim);
    const char *path = tuned_file("sim.jsonl");
    chooses(load(NULL, path), "", GNF_MATCH_NONE);
    fixture.query.device.simulated = true;
    chooses(load(NULL, path), "a", GNF_MATCH_EXACT);
    RECORD(.variant = "b");
    chooses(load_user(), "", GNF_MATCH_NONE);
    fixture.query.device.simulated = false;
    /* two devices that differ in memory alone keep apart, whatever order their lines are in */
    RECORD(.variant = "a", .time_us = 5);
    RECORD(.variant = "a", .device = small, .time_us = 9);
    RECORD(.variant = "b", .device = small, .time_us = 1);
    RECORD(.variant = "b", .time_us = 6);
    path = tuned_file("memory.jsonl");
    chooses(load(NULL, path), "a", GNF_MATCH_EXACT);
    fixture.query.device.memory = small.memory;
    chooses(load(NULL, path), "b", GNF_MATCH_EXACT);
}

static void files(void **state)
{
    (void)state;
    RECORD(.variant = "a", .time_us = 1);
    RECORD(.variant = "c", .time_us = 2);
    char *shipped = tuned_text();
    /* times of two files do not compare, and the user's come first where the match is equal */
    RECORD(.variant = "b", .time_us = 9);
    chooses(load(shipped, tuned_file("one.jsonl")), "b", GNF_MATCH_EXACT);
    RECORD(.variant = "b", .time_us = 9, .source = OLD);
    chooses(load(shipped, tuned_file("two.jsonl")), "a", GNF_MATCH_EXACT);
    RECORD(.variant = "b", .time_us = 9, .samples = 101);
    chooses(load(shipped, tuned_file("three.jsonl")), "a", GNF_MATCH_EXACT);
    /* a line of the user's does not replace a shipped one */
    RECORD(.variant = "a", .status = GNF_RECORD_FAILED);
    chooses(load(shipped, tuned_file("four.jsonl")), "a", GNF_MATCH_EXACT);
    free(shipped);
}

/* ---- explaining ---- */

static struct {
    int count, taken;
    char why[32][256];
    int line[32];
} told;

static void tell(void *user, const struct gnf_tuned_line *line, const char *why)
{
    assert_ptr_equal(user, &told);
    assert_true(told.count < 32);
    told.taken += strncmp(why, "taken", 5) == 0;
    told.line[told.count] = line->line;
    snprintf(told.why[told.count++], sizeof told.why[0], "%s", why);
}

static bool refuse_d(void *user, const struct gnf_candidate *candidate)
{
    (void)user;
    return strcmp(candidate->variant->name, "d") || gnf_fail(GNF_NOT_SUPPORTED, "d needs more") == GNF_OK;
}

static void explains(void **state)
{
    struct gnf_record_device other = fixture.base.device, sim = other, cc80 = other, less = other,
                             between = other, below = other;
    static const char *const wanted[] = {
        "replaced by line 4",
        "slower by 12.5 %",
        "taken: exact",
        "faster by no more than the noise: the simpler one wins",
        "not usable here: d needs more",
        "no loaded pack has this variant",
        "wrong: 7 elements",
        "measured in the simulator",
        "measured on capability 80, here it is 90",
        "N = 801 is more than 8 times as large as 100",
        "N = 12 is more than 8 times as small as 100",
        "other batch: a better match is there",
        "other gpu: a better match is there",
        "line 1 is of the present source",
        "has no time",
    };
    (void)state;
    other.multiprocessors = 114;
    less.multiprocessors = 100;
    sim.simulated = true;
    cc80.capability = 80;
    RECORD(.variant = "c", .time_us = 1);
    RECORD(.variant = "a", .time_us = 9);
    RECORD(.variant = "b", .time_us = 8);
    RECORD(.variant = "c", .time_us = 7.99);
    RECORD(.variant = "d", .time_us = 1);
    RECORD(.variant = "z", .time_us = 1);
    RECORD(.variant = "a", .status = GNF_RECORD_WRONG, .nvrtc = 1, .error = "7 elements");
    RECORD(.variant = "a", .device = sim);
    RECORD(.variant = "a", .device = cc80);
    RECORD(.variant = "a", .samples = 801);
    RECORD(.variant = "a", .samples = 12);
    RECORD(.variant = "a", .samples = 200);
    RECORD(.variant = "a", .device = other);
    RECORD(.variant = "b", .source = OLD);
    RECORD(.variant = "a", .nvrtc = 2, .time_us = -1);
    struct gnf_tuned *tuned = load_user();
    memset(&told, 0, sizeof told);
    fixture.query.legal = refuse_d;
    fixture.query.explain = tell;
    fixture.query.explain_user = &told;
    chooses(tuned, "b", GNF_MATCH_EXACT);
    assert_int_equal(told.count, (int)(sizeof wanted / sizeof *wanted));
    assert_int_equal(told.taken, 1);
    for (int i = 0; i < told.count; i++) {
        assert_int_equal(told.line[i], i + 1);
        if (i != 13)
            assert_string_equal(told.why[i], wanted[i]);
    }
    assert_string_equal(told.why[13], "line 3 is of the present source");

    /* weaker ones among themselves, and what is worth less */
    fixture.base.complete = false;
    RECORD(.variant = "a");
    fixture.base.complete = true;
    RECORD(.variant = "b", .samples = 200);
    RECORD(.variant = "c", .samples = 200, .status = GNF_RECORD_SLOW);
    RECORD(.variant = "a", .samples = 300);
    RECORD(.variant = "a", .device = other);
    tuned = load_user();
    memset(&told, 0, sizeof told);
    chooses(tuned, "b", GNF_MATCH_OTHER_BATCH);
    assert_string_equal(told.why[0], "not measured to the end, as records of another size or device are");
    assert_string_equal(told.why[1], "taken: other batch");
    assert_string_equal(told.why[2], "left early: too slow to win");
    assert_string_equal(told.why[3], "other batch: records of a nearer N come first");
    assert_string_equal(told.why[4], "other gpu: a better match is there");
    RECORD(.variant = "a", .device = less);
    RECORD(.variant = "b", .device = other);
    tuned = load_user();
    memset(&told, 0, sizeof told);
    chooses(tuned, "b", GNF_MATCH_OTHER_GPU);
    assert_string_equal(told.why[0], "other gpu: records of a more similar device come first");
    /* of two older sources */
    RECORD(.variant = "b", .source = OLD);
    RECORD(.variant = "b", .source = "00000000000000000000000000000002");
    tuned = load_user();
    memset(&told, 0, sizeof told);
    chooses(tuned, "b", GNF_MATCH_OLDER);
    assert_string_equal(told.why[0], "line 2 is newer");
    assert_string_equal(told.why[1], "taken: older source");
    /* sizes of memory that are like the one between them, and not like each other */
    between.memory = 97000;
    below.memory = 94000;
    RECORD(.variant = "a");
    RECORD(.variant = "b", .device = below);
    RECORD(.variant = "c", .device = between);
    tuned = load_user();
    memset(&told, 0, sizeof told);
    chooses(tuned, "a", GNF_MATCH_EXACT);
    assert_int_equal(told.count, 3);
    assert_string_equal(told.why[2], "other gpu: a better match is there");
    /* nothing is left */
    RECORD(.variant = "b", .source = OLD);
    RECORD(.variant = "b", .status = GNF_RECORD_HUNG);
    tuned = load_user();
    memset(&told, 0, sizeof told);
    chooses(tuned, "", GNF_MATCH_NONE);
    assert_string_equal(told.why[0], "line 2 is of the present source");
    assert_string_equal(told.why[1], "hung");
    /* nothing fits */
    RECORD(.variant = "d");
    tuned = load_user();
    memset(&told, 0, sizeof told);
    chooses(tuned, "", GNF_MATCH_NONE);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.taken, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, tuned_setup, tuned_teardown)
    const struct CMUnitTest tests[] = {
        TEST(picks),
        TEST(fastest),
        TEST(never),
        TEST(incomplete),
        TEST(cut_short),
        TEST(degraded),
        TEST(sources_and_compilers),
        TEST(batches),
        TEST(gpus),
        TEST(files),
        TEST(explains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
