/* The command line's parser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options/args.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

const struct command commands[] = {
    {"run", COMMAND_RUN, "PROBLEM", "", NULL},
    {"compile", COMMAND_COMPILE, "PROBLEM", "", NULL},
    {"cache", COMMAND_CACHE, "[stats|verify|clear]", "", NULL},
    {"info", COMMAND_INFO, NULL, "", NULL},
    {"tune", COMMAND_TUNE, "[PROBLEM...]", "", NULL},
    {"db", COMMAND_DB, "[show|explain PROBLEM|merge A B...]", "the database", NULL},
    {"bench", COMMAND_BENCH, "PROBLEM...", "shares", NULL},
    {"compare", COMMAND_COMPARE, "PROBLEM", "", NULL},
    {"worker", COMMAND_WORKER, "measure|compile", NULL, NULL},
    {0},
};

static struct args args;

/* Words separated by spaces, the program's name first. */
static gnf_status parse(const char *line)
{
    static char words[1024];
    char *argv[32] = {"gnfuse"}, *rest = NULL;
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    return args_parse(argc, argv, &args);
}

static void good_lines(void **state)
{
    (void)state;
    assert_int_equal(parse("run f32[1,2]|groupnorm(1) --seed 18446744073709551615 --check -v"), GNF_OK);
    assert_string_equal(args.command->name, "run");
    assert_string_equal(args.operand, "f32[1,2]|groupnorm(1)");
    assert_true(args.seed == UINT64_MAX && args.check && args.verbose && !args.quiet && !args.json);
    assert_int_equal(parse("--device sim run p --in x=a.npy --in w=b=c.npy --pack one --pack two"), GNF_OK);
    assert_true(args.sim && args.device_given);
    assert_int_equal(args.seed, 1);
    assert_string_equal(args.inputs.at[1], "w=b=c.npy");
    assert_string_equal(args.packs.at[1], "two");
    assert_int_equal(parse("run p --device=3"), GNF_OK);
    assert_true(!args.sim && args.device == 3);
    assert_int_equal(parse("compile p --arch sm_90,sm_80 --arch=sm_120a"), GNF_OK);
    assert_int_equal(args.archs.count, 3);
    assert_string_equal(args.archs.at[1], "sm_80");
    assert_string_equal(args.archs.at[2], "sm_120a");
    assert_int_equal(parse("cache"), GNF_OK);
    assert_null(args.operand);
    assert_int_equal(parse("tune"), GNF_OK); /* what else it needs, the command knows */
    assert_null(args.operand);
    assert_true(args.operands.count == 0 && args.budget == 0 && args.hang == 30 && args.jobs == 0);
    assert_int_equal(parse("tune a b --budget 1.5 --hang 1e2 --jobs 1024 --devices 0,1 --db f"), GNF_OK);
    assert_true(args.budget == 1.5 && args.hang == 100 && args.jobs == 1024 && args.operands.count == 2);
    assert_string_equal(args.devices, "0,1");
    assert_string_equal(args.operands.at[1], "b");
    assert_int_equal(parse("tune --all --devices all --again --dry-run --events"), GNF_OK);
    assert_true(args.all && args.again && args.dry_run && args.events);
    assert_int_equal(parse("db merge a b --output c"), GNF_OK);
    assert_true(args.operands.count == 3 && strcmp(args.operand, "merge") == 0);
    assert_int_equal(parse("run -h"), GNF_OK); /* help needs no problem */
    assert_int_equal(parse("--version"), GNF_OK);
    assert_true(args.version && args.command == NULL);
}

static void bad_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"", "no command is given"},
        {"dance", "'dance' is not a command (allowed: run, compile, cache, info, tune, db, bench, compare)"},
        {"run", "PROBLEM is missing"},
        {"run a b", "'b' is too much"},
        {"info a", "'a' is too much"},
        {"run p --seed abc", "--seed: 'abc' is not a whole number (allowed: 0 to 18446744073709551615)"},
        {"run p --seed 18446744073709551616", "is not a whole number"},
        {"run p --seed -1", "'-1' is not a whole number"},
        {"run p --seed", "--seed: needs a value, S"},
        {"run p --device gpu", "--device: 'gpu' is not a device (allowed: sim, or a number from 0 to 255)"},
        {"run p --in x", "--in: 'x' is not NAME=FILE"},
        {"run p --in =f", "is not NAME=FILE"},
        {"compile p --arch 90", "--arch: '90' is not a GPU architecture"},
        {"compile p --arch ,", "is not a GPU architecture"},
        {"compile p --arch sm_90,compute_80", "'compute_80'"},
        {"compile p --seed 1", "--seed: is not an option of compile (see gnfuse compile -h)"},
        {"run p --nonsense", "--nonsense: is not an option"},
        {"run p -x", "-x: is not an option"},
        {"run p --check=yes", "--check=yes: takes no value"},
        {"run p --variant=", "--variant: '' is empty"},
        {"bench", "PROBLEM is missing"},
        {"compare a b", "'b' is too much: one PROBLEM is taken"},
        {"tune p --budget -1",
         "--budget: '-1' is not a number of seconds (allowed: more than 0, to 1000000)"},
        {"tune p --budget 1,5", "--budget: '1,5'"},
        {"tune p --budget 0", "--budget: '0'"},
        {"tune p --budget inf", "--budget: 'inf'"},
        {"tune p --budget 1000001", "--budget: '1000001'"},
        {"tune p --hang nan", "--hang: 'nan'"},
        {"tune p --jobs 0", "--jobs: '0' is not a number of compilers (allowed: 1 to 1024)"},
        {"tune p --jobs 1025", "--jobs: '1025'"},
        {"tune p --devices x",
         "--devices: 'x' is not a list of GPUs (allowed: all, or numbers from 0 to 255"},
        {"tune p --devices=", "--devices: ''"},
        {"tune p --devices all,1", "--devices: 'all,1'"},
        {"tune p --db=", "--db: '' is empty"},
        {"tune p --variant v", "--variant: is not an option of tune"},
        {"bench p --budget 1", "--budget: is not an option of bench"},
        {"compare p --html=", "--html: '' is empty"},
        {"db export --output=", "--output: '' is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(cases[i].line), GNF_INVALID_ARGUMENT);
        if (strstr(gnf_error_message(), cases[i].message) == NULL)
            fail_msg("%s: %s", cases[i].line, gnf_error_message());
    }
}

/* Whoever asked for JSON gets it for a complaint too, in the command's name. */
static void complaints_know_their_form(void **state)
{
    (void)state;
    assert_int_equal(parse("run p --seed abc --json"), GNF_INVALID_ARGUMENT);
    assert_true(args.json);
    assert_string_equal(args.command->name, "run");
}

/* What stands left of the summaries is aligned, or has its line for itself; helpers are not shown. */
static void help_is_aligned(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    args_help(out, NULL);
    assert_int_equal(fclose(out), 0);
    for (const struct command *each = commands; each->name != NULL; each++)
        assert_true((strstr(text, each->name) != NULL) == (each->summary != NULL));
    assert_non_null(strstr(text, "\n  bench PROBLEM...             shares\n"));
    assert_non_null(strstr(text, "\n  db [show|explain PROBLEM|merge A B...]\n"
                                 "                               the database\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(complaints_know_their_form),
        cmocka_unit_test(help_is_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
