/* The shipped tuning database against the shipped pack: every line can be read, and is about a problem and a
 * variant that are there. A template that was edited since is a weaker match and no fault, or nobody without
 * that GPU could edit one; how many there are is said. */
#define _GNU_SOURCE 1
#include "problem.h"
#include "scratch.h"
#include "tuned.h"

static const struct gnf_variant *find(const struct gnf_pack *pack, const char *key, const char *name)
{
    int count;
    const struct gnf_variant *variants = gnf_pack_find(pack, key, &count);
    for (int i = 0; i < count; i++)
        if (!strcmp(variants[i].name, name))
            return &variants[i];
    return NULL;
}

/* What is wrong with the record, NULL for nothing. *older: measured with another source of the variant. */
static const char *fault(const struct gnf_pack *pack, const struct gnf_record *record, bool *older)
{
    struct gnf_problem problem;
    char hash[GNF_RECORD_SOURCE_SIZE];
    int count;
    if (gnf_problem_parse(record->problem, &problem) != GNF_OK)
        return gnf_error_message();
    if (strcmp(problem.key, record->key))
        return "the problem has another key";
    if (problem.samples != record->samples)
        return "the problem has another N";
    if (strcmp(problem.text, record->problem))
        return "the problem is not in its canonical form";
    if (!gnf_pack_find(pack, record->key, &count))
        return "no shipped problem has this key";
    const struct gnf_variant *variant = find(pack, record->key, record->variant);
    variant = variant ? variant : find(pack, problem.chain, record->variant);
    if (!variant)
        return "the shipped pack has no such variant";
    if (gnf_pack_source_hash(pack, variant, hash) != GNF_OK)
        return gnf_error_message();
    *older = strcmp(hash, record->source) != 0;
    if (record->device.simulated)
        return "measured in the simulator";
    if (record->status == GNF_RECORD_OK && !(record->time_us > 0))
        return "has no time";
    return record->nvrtc > 0 ? NULL : "the compiler is not known";
}

static void shipped(void **state)
{
    struct scratch_log seen = {0};
    const struct gnf_log log = {scratch_log_line, &seen, GNF_LOG_DEBUG};
    struct gnf_pack *pack;
    struct gnf_tuned *tuned;
    const struct gnf_tuned_line *line;
    int count = 0, bad = 0, old = 0;
    (void)state;
    assert_int_equal(gnf_pack_read(&pack, gnf_embedded_pack, gnf_embedded_pack_size, "embedded"), GNF_OK);
    assert_int_equal(gnf_tuned_load(&tuned, NULL, &log), GNF_OK);
    if (seen.count[GNF_LOG_WARNING])
        fail_msg("%d warnings: %s", seen.count[GNF_LOG_WARNING], seen.last[GNF_LOG_WARNING]);
    for (; (line = gnf_tuned_get(tuned, count)); count++) {
        bool older = false;
        const char *what = fault(pack, &line->record, &older);
        old += older;
        if (what && bad++ < 10)
            print_error("line %d of the shipped lines, %s, %s: %s\n", line->line, line->record.problem,
                        line->record.variant, what);
    }
    if (bad)
        fail_msg("%d of %d shipped records", bad, count);
    print_message("%d shipped records, %d of an older source (gnfuse tune --all measures them again)\n",
                  count, old);
    assert_int_equal(count > 0, gnf_embedded_db_size > 0);
    gnf_tuned_free(tuned);
    gnf_pack_free(pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
