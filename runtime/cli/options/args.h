/* The command line: one table of options, from which parsing and help are made, and the table of commands. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "../../status.h"
#include <stdbool.h>
#include <stdio.h>

enum { ARGS_MAX_LIST = 256 };

enum command_bit {
    COMMAND_INFO = 1,
    COMMAND_KERNELS = 2,
    COMMAND_RUN = 4,
    COMMAND_CHECK = 8,
    COMMAND_COMPILE = 16,
    COMMAND_CACHE = 32,
    COMMAND_TUNE = 64,
    COMMAND_DB = 128,
    COMMAND_BENCH = 256,
    COMMAND_COMPARE = 512,
    COMMAND_WORKER = 1024,
    COMMAND_ALL = 2047
};

struct args_list {
    int count;
    const char *at[ARGS_MAX_LIST];
};

struct args {
    const struct command *command;
    const char *operand;       /* the problem, or the action of `cache` and `db`; NULL if none was given */
    struct args_list operands; /* all of them, where a command takes several */
    bool help, version;
    bool sim;          /* --device sim */
    int device;        /* --device N */
    bool device_given; /* --device was on the command line */
    const char *variant, *cache_dir, *out, *output_dir, *db, *html, *output;
    const char *devices;                   /* --devices: "0,1" or "all" */
    struct args_list packs, inputs, archs; /* inputs are "NAME=FILE" */
    char arch_text[512];                   /* what archs point into */
    size_t arch_used;
    bool check, json, quiet, verbose, all, dry_run, again, events, each_weight;
    double budget, hang; /* seconds; budget 0: none */
    int jobs;            /* compilers at once; 0: one a core */
    uint64_t seed;
};

/* Does the command's work. A status other than GNF_OK is printed by the caller and becomes the exit status;
 * with GNF_OK it is *exit_status, 0 on entry. */
typedef gnf_status (*command_function)(const struct args *args, int *exit_status);

struct command {
    const char *name;
    enum command_bit bit;
    const char *operand; /* as usage shows it, "[PROBLEM]" if it may be left out, "PROBLEM..." if there may be
                            several; NULL if there is none */
    const char *summary; /* NULL: not shown in the list of commands */
    command_function run;
};
extern const struct command commands[]; /* ends with a row whose name is NULL */

/* Fills *args; strings are argv's own, or in *args, which must stay where it is. On failure
 * GNF_INVALID_ARGUMENT, the message naming option, value and what is allowed; args->json and args->command
 * are right as far as parsing came. */
gnf_status args_parse(int argc, char **argv, struct args *args);
/* Help for one command, or for the program where it is NULL. */
void args_help(FILE *out, const struct command *command);

#endif
