/* The command line's parser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options/args.h"
#include <cmocka.h>
#include <string.h>

const struct command commands[] = {
    {"run", COMMAND_RUN, "PROBLEM", "", NULL},
    {"compile", COMMAND_COMPILE, "PROBLEM", "", NULL},
    {"cache", COMMAND_CACHE, "[stats|verify|clear]", "", NULL},
    {"info", COMMAND_INFO, NULL, "", NULL},
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
        {"dance", "'dance' is not a command (allowed: run, compile, cache, info)"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(complaints_know_their_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
