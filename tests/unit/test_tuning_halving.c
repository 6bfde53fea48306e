/* The tuner's schedule: who is looked at, sampled, dropped and taken, whatever fails and whenever it is
 * stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "halving_fixture.h"

static void the_fastest_wins(void **state)
{
    (void)state;
    struct world *w = world(12);
    w->at[0].rank = 5; /* the default, wherever it stands in the order, is first */
    for (int i = 0; i < 12; i++)
        w->subject[i].truth = 20 - i;
    run(w);
    assert_int_equal(w->first, 0);
    assert_int_equal(w->winner, 11);
    assert_true(w->complete);
    assert_true(fabs(w->at[11].time_us - 9) < 1e-9 && w->at[11].spread_us < 1e-9);
    assert_true(w->at[11].complete && w->at[11].timings == 24);
    assert_true(fabs(w->at[11].sample[0] - 9) < 1e-9 && fabs(w->at[11].sample[23] - 9) < 1e-9);
    /* the default stays to the end, though twice as slow; the others leave */
    assert_true(w->at[0].status == GNF_RECORD_OK && w->at[0].complete && w->at[0].timings == 24);
    assert_int_equal(w->at[1].status, GNF_RECORD_SLOW);
    assert_string_equal(w->at[1].error, "2.11 times the best after 3 samples");
    assert_int_equal(w->subject[1].samples, 3);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(w->subject[i].checks, 1);
        assert_int_equal(w->subject[i].notes, 2); /* when it was first measured, and at its end */
        assert_true(w->at[i].complete);
    }
    free(w);
}
static void ties_go_to_the_default_then_to_the_simplest(void **state)
{
    (void)state;
    struct world *w = world(5);
    w->at[0].rank = 9;
    run(w);
    assert_int_equal(w->winner, 0);
    free(w);
    w = world(5);
    w->subject[0].truth = 20;
    w->at[1].rank = 8;
    run(w);
    assert_int_equal(w->winner, 2);
    free(w);
}
static void far_too_slow_is_sampled_once(void **state)
{
    (void)state;
    for (int at = 1; at < 20; at += 6) {
        struct world *w = world(20);
        w->subject[at].truth = 10000;
        run(w);
        assert_int_equal(w->subject[at].quick, 1);
        assert_int_equal(w->subject[at].samples, 0);
        assert_int_equal(w->at[at].status, GNF_RECORD_SLOW);
        assert_string_equal(w->at[at].error, "1000.00 times the best after 1 sample");
        assert_true(w->at[at].time_us == 10000 && w->at[at].timings == 1);
        assert_int_equal(w->winner, 0);
        free(w);
    }
    /* one that is slow by less may have met a neighbour: it is looked at again, and no more */
    struct world *w = world(3);
    w->subject[1].truth = 40;
    run(w);
    assert_int_equal(w->subject[1].quick, 3);
    assert_int_equal(w->subject[1].samples, 0);
    assert_string_equal(w->at[1].error, "4.00 times the best after 3 samples");
    free(w);
    /* the best was not known when these were looked at, and the default is never dropped */
    w = world(20);
    for (int i = 0; i < 19; i++)
        w->subject[i].truth = 10000;
    run(w);
    assert_int_equal(w->winner, 19);
    assert_int_equal(w->subject[18].samples, 0);
    assert_true(w->at[0].status == GNF_RECORD_OK && w->at[0].complete);
    free(w);
}

static void times_that_are_none(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *error;
    } cases[] = {{NAN, "the clock gave nan"},
                 {0, "the clock gave 0"},
                 {-1.5, "the clock gave -1.5"},
                 {INFINITY, "the clock gave inf"},
                 {-INFINITY, "the clock gave -inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *w = world(6); /* always so: out at the first look, the default too */
        w->subject[0].bad_probability = w->subject[3].bad_probability = 1;
        w->subject[0].bad = w->subject[3].bad = cases[i].value;
        w->subject[2].truth = 9;
        run(w);
        assert_int_equal(w->winner, 2);
        assert_true(w->complete);
        assert_int_equal(w->at[3].status, GNF_RECORD_FAILED);
        assert_string_equal(w->at[3].error, cases[i].error);
        assert_string_equal(w->at[0].error, cases[i].error);
        assert_true(w->at[3].time_us == 0 && w->subject[3].quick == 3 && w->subject[3].samples == 0);
        free(w);
        for (unsigned seed = 0; seed < 50; seed++) {
            w = world(6); /* now and then: the others count */
            w->random = seed;
            for (int k = 0; k < 6; k++) {
                w->subject[k].bad = cases[i].value;
                w->subject[k].bad_probability = 0.05;
            }
            w->subject[4].truth = 8;
            run(w);
            assert_int_equal(w->winner, 4);
            assert_true(fabs(w->at[4].time_us - 8) < 1e-9);
            assert_true(w->at[4].timings <= 24 && w->at[4].timings >= 12);
            free(w);
        }
        int failed = 0;
        for (unsigned seed = 0; seed < 50; seed++) {
            w = world(6); /* mostly: out in a stage */
            w->random = seed;
            w->subject[5].bad = cases[i].value;
            w->subject[5].bad_probability = 0.65;
            w->subject[5].truth = 5;
            run(w);
            if (w->at[5].status == GNF_RECORD_FAILED) {
                failed++;
                assert_string_equal(w->at[5].error, cases[i].error);
                assert_int_equal(w->winner, 0);
            }
            free(w);
        }
        assert_true(failed >= 45);
    }
}

static void failed_checks(void **state)
{
    (void)state;
    struct world *w = world(8);
    w->subject[0].checked = GNF_RECORD_REFUSED;
    w->subject[2].checked = GNF_RECORD_WRONG;
    w->subject[5].checked = GNF_RECORD_NOT_COMPILED;
    w->subject[6].truth = 9;
    run(w);
    assert_int_equal(w->winner, 6);
    assert_true(w->complete);
    assert_int_equal(w->at[0].status, GNF_RECORD_REFUSED);
    assert_int_equal(w->at[2].status, GNF_RECORD_WRONG);
    assert_int_equal(w->at[5].status, GNF_RECORD_NOT_COMPILED);
    assert_true(w->subject[2].quick == 0 && w->subject[2].notes == 1 && w->at[2].complete);
    assert_string_equal(w->at[2].error, "as the test wants");
    free(w);
}
static void failures_while_timed(void **state)
{
    (void)state;
    /* 0 at its quick sample, then in each stage */
    for (int after = 0; after <= 32; after++) {
        struct world *w = world(5);
        w->subject[2].truth = 9; /* would be the winner */
        w->subject[3].truth = 9.5;
        w->subject[2].fails_after = after;
        run(w);
        assert_int_equal(w->winner, 3);
        assert_true(w->complete);
        assert_int_equal(w->at[2].status, GNF_RECORD_HUNG);
        assert_string_equal(w->at[2].error, "no answer");
        assert_true(w->at[3].timings == 24 && fabs(w->at[3].time_us - 9.5) < 1e-9);
        assert_true(w->at[2].complete);
        free(w);
    }
    struct world *w = world(30); /* all of them, one after another */
    for (int i = 0; i < 30; i++)
        w->subject[i].fails_after = i % 3;
    run(w);
    assert_int_equal(w->winner, -1);
    assert_true(w->complete);
    for (int i = 0; i < 30; i++)
        assert_int_equal(w->at[i].status, GNF_RECORD_HUNG);
    free(w);
}
static void nothing_can_be_measured_any_more(void **state)
{
    (void)state;
    for (int after = 0; after < 102; after += 3) {
        struct world *w = world(10);
        w->breaks = GNF_DRIVER_ERROR;
        w->breaks_after = after;
        w->subject[3].truth = 8;
        assert_int_equal(halving_run(&w->halving, &w->winner, &w->complete), GNF_DRIVER_ERROR);
        assert_false(w->complete);
        assert_true(w->winner < 0 ? after < 3 : truth(w, w->winner) <= truth(w, 0));
        free(w);
    }
    struct world *w = world(10); /* a call that fails as it was told to stop is no failure */
    w->breaks = GNF_IO;
    w->breaks_after = 100;
    w->breaks_by_stop = true;
    run(w);
    assert_false(w->complete);
    free(w);
}

static void stopped_anywhere(void **state)
{
    (void)state;
    bool complete = false;
    int stops = 0;
    for (long at = 1; !complete; at++, stops++) {
        struct world *w = world(30);
        w->random = (uint64_t)at;
        w->noise = 0.03;
        for (int i = 1; i < 30; i++)
            w->subject[i].truth = 8 + i % 7;
        w->stop_at = at;
        run(w);
        complete = w->complete;
        assert_true(complete == (w->asked < at));
        bool measured = w->subject[0].quick > 0;
        assert_true(measured ? w->winner >= 0 : w->winner == -1);
        if (measured)
            assert_true(truth(w, w->winner) <= truth(w, 0));
        for (int i = 0; i < 30; i++) {
            assert_true(complete || !w->at[i].complete || w->at[i].status == GNF_RECORD_SLOW);
            assert_true(w->subject[i].notes == 0 || w->at[i].time_us > 0);
            assert_true(w->subject[i].notes > 0 || !measured || w->subject[i].quick == 0 || i == 0);
        }
        free(w);
    }
    assert_in_range(stops, 70, 300);
    for (unsigned seed = 0; seed < 100; seed++) { /* a single look that flatters does not win */
        struct world *w = world(20);
        w->random = seed;
        w->noise = 0.03;
        for (int i = 1; i < 20; i++)
            w->subject[i].truth = 10.5;
        w->stop_at = 41;
        run(w);
        assert_true(w->subject[18].quick == 1 && w->subject[18].samples == 0);
        assert_int_equal(w->winner, 0);
        free(w);
    }
}
static void resumed(void **state)
{
    (void)state;
    struct world *w = world(8);
    for (int i = 0; i < 6; i++) {
        w->at[i].time_us = 10;
        w->at[i].timings = 1;
    }
    w->at[3].time_us = 9; /* the earlier run's; now it is not so fast */
    w->subject[4].truth = 8;
    w->at[5].status = GNF_RECORD_WRONG;
    w->subject[6].truth = 45;
    run(w);
    assert_int_equal(w->winner, 4);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(w->subject[i].checks, i >= 6);
        assert_int_equal(w->subject[i].quick, i < 6 ? 0 : i == 6 ? 3 : 1);
    }
    assert_true(w->subject[5].samples == 0 && w->subject[5].notes == 0);
    assert_int_equal(w->at[5].status, GNF_RECORD_WRONG);
    assert_true(w->at[4].timings == 24 && w->at[4].complete && w->subject[4].notes == 1);
    assert_int_equal(w->at[6].status, GNF_RECORD_SLOW); /* against the times of the earlier run */
    free(w);
    w = world(8); /* stopped at once: what was known is the answer */
    w->stop_at = 1;
    w->at[0].time_us = 10;
    w->at[5].time_us = 7;
    w->at[0].timings = w->at[5].timings = 24;
    run(w);
    assert_true(w->winner == 5 && !w->complete);
    free(w);
}
static void few_and_many(void **state)
{
    (void)state;
    for (int count = 0; count <= MOST; count = count < 9                          ? count + 1
                                               : count * 2 > MOST && count < MOST ? MOST
                                                                                  : count * 2) {
        struct world *w = world(count);
        w->noise = 0.02;
        for (int i = 1; i < count; i++)
            w->subject[i].truth = 7 + i % 13 + (i == 3 ? -4 : 0);
        run(w);
        assert_true(w->complete);
        assert_int_equal(w->winner, count == 0 ? -1 : count <= 1 ? 0 : count <= 3 ? 1 : 3);
        free(w);
    }
    struct world *w = world(20); /* the default and six others get all samples */
    int finalists = 0;
    w->at[0].rank = 19;
    run(w);
    for (int i = 0; i < 20; i++)
        finalists += w->at[i].timings == 24;
    assert_int_equal(finalists, 7);
    assert_true(w->at[0].timings == 24 && w->at[19].timings == 6);
    assert_string_equal(w->at[19].error, "not among the finalists: 1.00 times the best after 6 samples");
    free(w);
    w = world(MOST);
    for (int i = 0; i < MOST; i++)
        w->subject[i].checked = GNF_RECORD_FAILED;
    run(w);
    assert_true(w->winner == -1 && w->complete);
    free(w);
    w = world(MOST); /* no default, no callbacks that may be left out */
    w->at[0].is_default = false;
    w->halving.note = NULL;
    w->halving.stop = NULL;
    w->subject[200].truth = 4;
    run(w);
    assert_int_equal(w->winner, 200);
    long samples = 0;
    for (int i = 0; i < MOST; i++)
        samples += w->subject[i].samples;
    assert_in_range(samples, 3 * MOST, 3 * MOST + 200);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_wins),
        cmocka_unit_test(ties_go_to_the_default_then_to_the_simplest),
        cmocka_unit_test(far_too_slow_is_sampled_once),
        cmocka_unit_test(times_that_are_none),
        cmocka_unit_test(failed_checks),
        cmocka_unit_test(failures_while_timed),
        cmocka_unit_test(nothing_can_be_measured_any_more),
        cmocka_unit_test(stopped_anywhere),
        cmocka_unit_test(resumed),
        cmocka_unit_test(few_and_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
