#include "args.h"

#include "../../number.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct option_row {
    const char *name;
    char letter;          /* short form, or 0 */
    const char *argument; /* what help calls it; NULL for a switch */
    unsigned commands;    /* command_bits that take it */
    gnf_status (*set)(struct args *args, const char *value);
    const char *help;
};

static gnf_status bad_value(const char *option, const char *value, const char *what, const char *allowed)
{
    return gnf_fail(GNF_INVALID_ARGUMENT, "--%s: '%s' is not %s (allowed: %s)", option, value, what, allowed);
}

/* Digits alone: no sign, no space, no locale. */
static bool whole_number(const char *text, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (unsigned)(*text - '0'), &value) || value > most)
            return false;
    }
    *out = value;
    return true;
}

static gnf_status append(struct args_list *list, const char *option, const char *value)
{
    if (list->count == ARGS_MAX_LIST)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--%s: '%s' is one too many (allowed: %d)", option, value,
                        ARGS_MAX_LIST);
    list->at[list->count++] = value;
    return GNF_OK;
}

static gnf_status set_device(struct args *args, const char *value)
{
    uint64_t ordinal = 0;
    args->sim = strcmp(value, "sim") == 0;
    args->device_given = true;
    if (!args->sim && !whole_number(value, 255, &ordinal))
        return bad_value("device", value, "a device", "sim, or a number from 0 to 255");
    args->device = (int)ordinal;
    return GNF_OK;
}

static gnf_status set_seed(struct args *args, const char *value)
{
    if (!whole_number(value, UINT64_MAX, &args->seed))
        return bad_value("seed", value, "a whole number", "0 to 18446744073709551615");
    return GNF_OK;
}

static gnf_status set_input(struct args *args, const char *value)
{
    const char *equals = strchr(value, '=');
    if (equals == NULL || equals == value || equals[1] == '\0')
        return bad_value("in", value, "NAME=FILE", "a tensor of the problem and a .npy file: x=input.npy");
    return append(&args->inputs, "in", value);
}

/* sm_ and two or three digits, then a or f for what runs on that one or its family alone. */
static bool is_arch(const char *text)
{
    if (strncmp(text, "sm_", 3) != 0)
        return false;
    size_t digits = strspn(text + 3, "0123456789");
    const char *rest = text + 3 + digits;
    return digits >= 2 && digits <= 3 &&
           (*rest == '\0' || ((*rest == 'a' || *rest == 'f') && rest[1] == '\0'));
}

static gnf_status set_archs(struct args *args, const char *value)
{
    char *copy = args->arch_text + args->arch_used, *rest = NULL;
    size_t size = strlen(value) + 1;
    if (size > sizeof args->arch_text - args->arch_used)
        return gnf_fail(GNF_INVALID_ARGUMENT, "--arch: '%s' makes the lists longer than %zu bytes", value,
                        sizeof args->arch_text);
    memcpy(copy, value, size);
    args->arch_used += size;
    int before = args->archs.count;
    for (char *one = strtok_r(copy, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
        if (!is_arch(one))
            return bad_value("arch", one, "a GPU architecture", "a list like sm_80,sm_90");
        GNF_TRY(append(&args->archs, "arch", one));
    }
    if (args->archs.count == before)
        return bad_value("arch", value, "a GPU architecture", "a list like sm_80,sm_90");
    return GNF_OK;
}

static gnf_status set_text(const char **field, const char *option, const char *value)
{
    if (*value == '\0')
        return gnf_fail(GNF_INVALID_ARGUMENT, "--%s: '' is empty", option);
    *field = value;
    return GNF_OK;
}

static gnf_status set_variant(struct args *args, const char *value)
{
    return set_text(&args->variant, "variant", value);
}

static gnf_status set_cache_dir(struct args *args, const char *value)
{
    return set_text(&args->cache_dir, "cache-dir", value);
}

static gnf_status set_out(struct args *args, const char *value)
{
    return set_text(&args->out, "out", value);
}

static gnf_status set_output_dir(struct args *args, const char *value)
{
    return set_text(&args->output_dir, "output-dir", value);
}

static gnf_status set_pack(struct args *args, const char *value)
{
    return append(&args->packs, "pack", value);
}

/* Seconds: digits with an optional fraction, in no locale. */
static gnf_status set_seconds(double *field, const char *option, const char *value)
{
    enum { MOST = 1000000 };
    float seconds;
    if (gnf_number_float(value, strlen(value), &seconds) != GNF_NUMBER_OK || !(seconds > 0) || seconds > MOST)
        return bad_value(option, value, "a number of seconds", "more than 0, to 1000000");
    *field = seconds;
    return GNF_OK;
}

static gnf_status set_budget(struct args *args, const char *value)
{
    return set_seconds(&args->budget, "budget", value);
}

static gnf_status set_hang(struct args *args, const char *value)
{
    return set_seconds(&args->hang, "hang", value);
}

static gnf_status set_jobs(struct args *args, const char *value)
{
    uint64_t jobs;
    if (!whole_number(value, 1024, &jobs) || jobs == 0)
        return bad_value("jobs", value, "a number of compilers", "1 to 1024");
    args->jobs = (int)jobs;
    return GNF_OK;
}

static gnf_status set_db(struct args *args, const char *value)
{
    return set_text(&args->db, "db", value);
}

static gnf_status set_html(struct args *args, const char *value)
{
    return set_text(&args->html, "html", value);
}

static gnf_status set_output(struct args *args, const char *value)
{
    return set_text(&args->output, "output", value);
}

static gnf_status set_devices(struct args *args, const char *value)
{
    size_t length = strspn(value, "0123456789,");
    if (strcmp(value, "all") != 0 && (length == 0 || value[length] != '\0'))
        return bad_value("devices", value, "a list of GPUs", "all, or numbers from 0 to 255 like 0,1");
    args->devices = value;
    return GNF_OK;
}

static gnf_status set_all(struct args *args, const char *value)
{
    (void)value;
    args->all = true;
    return GNF_OK;
}

static gnf_status set_dry_run(struct args *args, const char *value)
{
    (void)value;
    args->dry_run = true;
    return GNF_OK;
}

static gnf_status set_again(struct args *args, const char *value)
{
    (void)value;
    args->again = true;
    return GNF_OK;
}

static gnf_status set_events(struct args *args, const char *value)
{
    (void)value;
    args->events = true;
    return GNF_OK;
}

static gnf_status set_each_weight(struct args *args, const char *value)
{
    (void)value;
    args->each_weight = true;
    return GNF_OK;
}

static gnf_status set_check(struct args *args, const char *value)
{
    (void)value;
    args->check = true;
    return GNF_OK;
}

static gnf_status set_json(struct args *args, const char *value)
{
    (void)value;
    args->json = true;
    return GNF_OK;
}

static gnf_status set_quiet(struct args *args, const char *value)
{
    (void)value;
    args->quiet = true;
    return GNF_OK;
}

static gnf_status set_verbose(struct args *args, const char *value)
{
    (void)value;
    args->verbose = true;
    return GNF_OK;
}

static gnf_status set_help(struct args *args, const char *value)
{
    (void)value;
    args->help = true;
    return GNF_OK;
}

static gnf_status set_version(struct args *args, const char *value)
{
    (void)value;
    args->version = true;
    return GNF_OK;
}

enum {
    ON_DEVICE = COMMAND_INFO | COMMAND_KERNELS | COMMAND_RUN | COMMAND_CHECK | COMMAND_TUNE | COMMAND_DB |
                COMMAND_BENCH | COMMAND_COMPARE | COMMAND_WORKER,
    WITH_KERNELS = COMMAND_KERNELS | COMMAND_RUN | COMMAND_CHECK | COMMAND_COMPILE | COMMAND_TUNE |
                   COMMAND_DB | COMMAND_BENCH | COMMAND_COMPARE | COMMAND_WORKER,
    NAMES_VARIANT = COMMAND_KERNELS | COMMAND_RUN | COMMAND_CHECK | COMMAND_COMPILE | COMMAND_BENCH |
                    COMMAND_COMPARE | COMMAND_WORKER,
    WITH_DB = COMMAND_INFO | COMMAND_KERNELS | COMMAND_RUN | COMMAND_TUNE | COMMAND_DB | COMMAND_BENCH |
              COMMAND_COMPARE,
    WITH_DATA = COMMAND_RUN | COMMAND_CHECK | COMMAND_TUNE | COMMAND_BENCH | COMMAND_COMPARE | COMMAND_WORKER
};

static const struct option_row rows[] = {
    {"check", 0, NULL, COMMAND_RUN, set_check, "compare with the float64 host reference"},
    {"each-weight", 0, NULL, COMMAND_RUN | COMMAND_BENCH, set_each_weight,
     "linear's weight is not prepared ahead: each launch takes it as it is"},
    {"in", 0, "NAME=FILE", COMMAND_RUN, set_input,
     "a tensor from a .npy file (f4, f2, or u2 for bf16); repeatable"},
    {"out", 0, "FILE", COMMAND_RUN, set_out, "write y to a .npy file"},
    {"arch", 0, "LIST", COMMAND_COMPILE, set_archs, "GPU architectures: sm_80,sm_90"},
    {"output-dir", 0, "D", COMMAND_COMPILE, set_output_dir, "write the cubins into this folder"},
    {"all", 0, NULL, COMMAND_TUNE, set_all, "every shipped problem"},
    {"budget", 0, "S", COMMAND_TUNE | COMMAND_COMPARE, set_budget, "seconds it may take (no limit)"},
    {"devices", 0, "LIST", COMMAND_TUNE, set_devices, "GPUs that share the work: 0,1 or all"},
    {"again", 0, NULL, COMMAND_TUNE, set_again, "measure also what is known"},
    {"dry-run", 0, NULL, COMMAND_TUNE, set_dry_run, "list what would be compiled and measured"},
    {"hang", 0, "S", COMMAND_TUNE | COMMAND_COMPARE, set_hang,
     "seconds after which a kernel counts as hung (30)"},
    {"jobs", 0, "N", COMMAND_TUNE | COMMAND_COMPARE, set_jobs, "compilers at once (one a core)"},
    {"events", 0, NULL, COMMAND_TUNE, set_events,
     "progress and report as JSON objects, one a line, on standard output"},
    {"html", 0, "FILE", COMMAND_COMPARE, set_html, "write a page with a roofline plot"},
    {"output", 0, "FILE", COMMAND_DB, set_output, "write merged or exported records here"},
    {"db", 0, "FILE", WITH_DB, set_db, "the user's tuning database"},
    {"device", 0, "N|sim", ON_DEVICE, set_device, "a GPU's number (default 0), or the simulator"},
    {"variant", 0, "NAME", NAMES_VARIANT, set_variant,
     "this variant instead of the one a plan would take, or of all"},
    {"pack", 0, "FILE", COMMAND_INFO | WITH_KERNELS, set_pack,
     "load a kernel pack; repeatable, last one first"},
    {"seed", 0, "S", WITH_DATA, set_seed, "of random data (default 1)"},
    {"cache-dir", 0, "D", COMMAND_ALL, set_cache_dir, "folder of compiled kernels and generated packs"},
    {"json", 0, NULL, COMMAND_ALL, set_json, "one JSON object on standard output"},
    {"quiet", 'q', NULL, COMMAND_ALL, set_quiet, "warnings and results only"},
    {"verbose", 'v', NULL, COMMAND_ALL, set_verbose, "more detail"},
    {"help", 'h', NULL, COMMAND_ALL, set_help, "this help; after a command, the command's"},
    {"version", 0, NULL, COMMAND_ALL, set_version, "the version"},
};
enum { ROWS = sizeof rows / sizeof rows[0], FIRST_ROW = 256 };

static const struct option_row *row_of(int code)
{
    for (int i = 0; i < ROWS; i++)
        if (code == FIRST_ROW + i || (rows[i].letter != 0 && code == rows[i].letter))
            return &rows[i];
    return NULL;
}

static const struct command *command_named(const char *name)
{
    for (const struct command *command = commands; command->name != NULL; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static gnf_status unknown_command(const char *name)
{
    char allowed[256] = "";
    for (const struct command *command = commands; command->name != NULL; command++)
        if (command->summary != NULL)
            snprintf(allowed + strlen(allowed), sizeof allowed - strlen(allowed), "%s%s",
                     command == commands ? "" : ", ", command->name);
    return gnf_fail(GNF_INVALID_ARGUMENT, "'%s' is not a command (allowed: %s)", name, allowed);
}

/* What getopt_long wants, made of the rows: long options, and letters after ':' so that it tells a missing
 * value from an unknown option. */
static void getopt_tables(struct option *longs, char *letters)
{
    *letters++ = ':';
    for (int i = 0; i < ROWS; i++) {
        longs[i] = (struct option){rows[i].name, rows[i].argument ? required_argument : no_argument, NULL,
                                   FIRST_ROW + i};
        if (rows[i].letter != 0)
            *letters++ = rows[i].letter;
    }
    *letters = '\0';
    longs[ROWS] = (struct option){0};
}

/* The first word that is a command's name; NULL where none is. */
static const struct command *mentioned_command(int argc, char **argv)
{
    const struct command *command = NULL;
    for (int i = 1; i < argc && command == NULL; i++)
        command = command_named(argv[i]);
    return command;
}

static gnf_status bad_option(int code, int argc, char **argv)
{
    const struct command *command = mentioned_command(argc, argv);
    char letter[3] = {'-', (char)optopt, '\0'};
    const struct option_row *row = row_of(optopt);
    const char *word = argv[optind - 1];
    if (code == ':')
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: needs a value, %s", word, row ? row->argument : "");
    if (row != NULL && row->argument == NULL && strchr(word, '=') != NULL)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: takes no value", word);
    bool is_letter = optopt > 0 && optopt < FIRST_ROW;
    return gnf_fail(GNF_INVALID_ARGUMENT, "%s: is not an option (see gnfuse %s%s-h)",
                    is_letter ? letter : word, command ? command->name : "", command ? " " : "");
}

static gnf_status take_operands(struct args *args, int count, char **operands, const unsigned char *given)
{
    if (count == 0)
        return args->help || args->version
                   ? GNF_OK
                   : gnf_fail(GNF_INVALID_ARGUMENT, "no command is given (see gnfuse -h)");
    args->command = command_named(operands[0]);
    if (args->command == NULL)
        return unknown_command(operands[0]);
    for (int i = 0; i < ROWS; i++)
        if (given[i] && !(rows[i].commands & args->command->bit))
            return gnf_fail(GNF_INVALID_ARGUMENT, "--%s: is not an option of %s (see gnfuse %s -h)",
                            rows[i].name, operands[0], operands[0]);
    if (args->help || args->version)
        return GNF_OK;
    args->operand = count > 1 ? operands[1] : NULL;
    const char *wanted = args->command->operand;
    if (count > 1 && wanted == NULL)
        return gnf_fail(GNF_INVALID_ARGUMENT, "'%s' is too much: no argument is taken", operands[1]);
    bool several = wanted != NULL && (strstr(wanted, "...") != NULL || strchr(wanted, ' ') != NULL);
    for (int i = 1; i < count; i++)
        GNF_TRY(append(&args->operands, args->command->name, operands[i]));
    if (count > 2 && !several)
        return gnf_fail(GNF_INVALID_ARGUMENT, "'%s' is too much: one %s is taken; put the problem in quotes",
                        operands[2], wanted);
    if (count == 1 && wanted != NULL && wanted[0] != '[')
        return gnf_fail(GNF_INVALID_ARGUMENT, "%.*s is missing (see gnfuse %s -h)", (int)strcspn(wanted, "."),
                        wanted, operands[0]);
    return GNF_OK;
}

gnf_status args_parse(int argc, char **argv, struct args *args)
{
    struct option longs[ROWS + 1];
    char letters[ROWS + 2];
    unsigned char given[ROWS] = {0};
    memset(args, 0, sizeof *args);
    args->seed = 1;
    args->hang = 30;
    getopt_tables(longs, letters);
    opterr = 0;
    optind = 0; /* GNU getopt starts afresh */
    gnf_status status = GNF_OK;
    int code;
    while (status == GNF_OK && (code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (code == ':' || code == '?') {
            status = bad_option(code, argc, argv);
        } else {
            const struct option_row *row = row_of(code);
            given[row - rows] = 1;
            status = row->set(args, optarg);
        }
    }
    /* After a complaint, still find out in what form and in whose name to print it. */
    for (int i = 1; i < argc && status != GNF_OK; i++)
        args->json |= strcmp(argv[i], "--json") == 0;
    if (status != GNF_OK)
        args->command = mentioned_command(argc, argv);
    return status != GNF_OK ? status : take_operands(args, argc - optind, argv + optind, given);
}

static void option_help(FILE *out, const struct option_row *row)
{
    char left[64];
    int used = row->letter ? snprintf(left, sizeof left, "-%c, --%s", row->letter, row->name)
                           : snprintf(left, sizeof left, "    --%s", row->name);
    if (row->argument != NULL)
        snprintf(left + used, sizeof left - (size_t)used, " %s", row->argument);
    fprintf(out, "  %-24s %s\n", left, row->help);
}

void args_help(FILE *out, const struct command *command)
{
    enum { COLUMN = 28 }; /* a longer left side gets a line of its own */
    if (command == NULL) {
        fputs("usage: gnfuse COMMAND [PROBLEM] [OPTION...]\n\n", out);
        for (const struct command *each = commands; each->name != NULL; each++) {
            char left[64];
            if (each->summary == NULL)
                continue;
            int used = snprintf(left, sizeof left, "%s %s", each->name, each->operand ? each->operand : "");
            bool wide = used > COLUMN;
            fprintf(out, "  %s%s%*s %s\n", left, wide ? "\n  " : "", wide ? COLUMN : COLUMN - used, "",
                    each->summary);
        }
        fputs("\nA problem is one line of text: 'f16[2,320,64,64] | groupnorm(32) | silu'\n", out);
    } else {
        fprintf(out, "usage: gnfuse %s%s%s [OPTION...]\n\n%s\n", command->name, command->operand ? " " : "",
                command->operand ? command->operand : "",
                command->summary ? command->summary : "a helper of tune and compare");
    }
    fputs("\n", out);
    for (int i = 0; i < ROWS; i++)
        if (command == NULL ? rows[i].commands == COMMAND_ALL : (rows[i].commands & command->bit) != 0)
            option_help(out, &rows[i]);
    if (command == NULL)
        fputs(
            "\nMore options: gnfuse COMMAND -h; environment variables: gnfuse info\n"
            "Exit status: 0 done, 1 a check failed, 2 bad usage or problem, 3 no usable device or library,\n"
            "4 reported by the driver or the compiler\n",
            out);
}
