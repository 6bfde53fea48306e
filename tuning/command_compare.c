#include "../runtime/cli/commands.h"

#include "../runtime/cli/files.h"
#include "../runtime/cli/output.h"
#include "../runtime/plan.h"
#include "compare_measure.h"
#include "compare_print.h"
#include "measurable.h"
#include "report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, COMMAND_SIZE = 16384 };

/* In GB/s, of what the driver says; 0 where it does not. */
static double nominal_bandwidth(const gnf_context *context)
{
    int khz = 0, bits = 0;
    CUdevice device;
    const struct gnf_driver *cuda = &context->driver;
    if (cuda->cuDeviceGet(&device, context->device.ordinal) != CUDA_SUCCESS ||
        cuda->cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device) != CUDA_SUCCESS ||
        cuda->cuDeviceGetAttribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device) !=
            CUDA_SUCCESS)
        return 0;
    return 2.0 * khz * bits / 8 * 1e-6; /* double data rate */
}

static void mark(struct compare_table *table, const char *name, bool planned)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            *(planned ? &table->rows[i].planned : &table->rows[i].is_default) = true;
}

/* What a plan takes here and now, and what it would take if nothing were known. A plan that cannot be made is
 * a line of the output and no failure: all else was measured. */
static gnf_status ask_a_plan(struct compare *compare)
{
    struct compare_table *table = &compare->table;
    struct session session;
    struct gnf_choice choice;
    GNF_TRY(session_open(&session, &compare->child_args, &compare->problem));
    const struct gnf_choice_request request = {
        .context = session.context,
        .problem = &compare->problem,
        .alignment = ALIGNMENT,
        .prepared = true,
    };
    if (gnf_choice_make(&request, &choice) == GNF_OK) {
        table->match = choice.match;
        mark(table, choice.variant->name, true);
    } else {
        snprintf(table->no_plan, sizeof table->no_plan, "%s", gnf_error_message());
    }
    if (gnf_choice_by_rule(&request, &choice) == GNF_OK)
        mark(table, choice.variant->name, false);
    if (!table->simulated)
        table->peak_gbps = nominal_bandwidth(session.context);
    session_close(&session);
    return GNF_OK;
}

static void add_word(char *command, const char *option, const char *value)
{
    char quoted[8192];
    size_t used = strlen(command);
    output_quoted(quoted, sizeof quoted, value);
    bool plain =
        value[strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-")] == '\0';
    snprintf(command + used, COMMAND_SIZE - used, " %s%s", option, plain ? value : quoted);
}

static void spell_command(const struct args *args, const struct compare *compare, char *command)
{
    char number[32];
    snprintf(command, COMMAND_SIZE, "gnfuse compare");
    add_word(command, "", compare->problem.text);
    add_word(command, "--device ", compare->table.device);
    if (args->variant != NULL)
        add_word(command, "--variant ", args->variant);
    snprintf(number, sizeof number, "%llu", (unsigned long long)args->seed);
    add_word(command, "--seed ", number);
    for (int i = 0; i < args->packs.count; i++)
        add_word(command, "--pack ", args->packs.at[i]);
    if (args->db != NULL)
        add_word(command, "--db ", args->db);
    if (args->html != NULL)
        add_word(command, "--html ", args->html);
}

static gnf_status write_page(const char *path, const struct compare_table *table)
{
    char *page;
    size_t size;
    GNF_TRY(report_page(table, &page, &size));
    gnf_status status = files_write(path, page, size);
    free(page);
    return status == GNF_OK ? GNF_OK : gnf_fail_more(status, " (--html)");
}

static gnf_status run(struct compare *compare, const struct args *args, int *exit_status)
{
    struct compare_table *table = &compare->table;
    char device[16], *command = malloc(COMMAND_SIZE);
    if (command == NULL)
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for the command line");
    gnf_status status = compare_measure(compare, args);
    if (status == GNF_OK)
        status = ask_a_plan(compare);
    if (status == GNF_OK) {
        snprintf(device, sizeof device, table->simulated ? "sim" : "%d", args->device);
        table->device = device;
        compare_table_sort(table);
        spell_command(args, compare, command);
        table->command = command;
        *exit_status = compare_table_ok(table) ? 0 : 1;
    }
    if (status == GNF_OK && args->html != NULL)
        status = write_page(args->html, table);
    if (status == GNF_OK)
        status = args->json ? compare_print_json(table, compare->problem.key, args->seed)
                            : compare_print_text(table, args->verbose);
    free(command);
    return status;
}

gnf_status command_compare(const struct args *args, int *exit_status)
{
    struct compare compare = {.args = args};
    GNF_TRY(measurable_parse(args->operand, &compare.problem));
    if (args->html != NULL && files_check_writable(args->html) != GNF_OK)
        return gnf_fail_more(GNF_IO, " (--html)");
    GNF_TRY(session_open_packs(&compare.session, args));
    gnf_status status = run(&compare, args, exit_status);
    compare_free(&compare);
    session_close(&compare.session);
    return status;
}
