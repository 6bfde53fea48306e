#include "compare_print.h"

#include "../runtime/cli/output.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST = 140, CELL = 40, MOST_PARAMETERS = 12, NAME_LENGTH = 24 };

/* --- JSON --- */

static void set_times(json_t *object, const struct compare_times *times, const char *median,
                      const char *spread)
{
    if (times->count == 0)
        return;
    json_object_set_new(object, median, output_number(times->median_us));
    json_object_set_new(object, spread, output_number(times->spread_us));
}

static json_t *json_of(const struct compare_row *row)
{
    const struct measured *measured = &row->measured;
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:s, s:b}", "name", row->name, "strategy", row->strategy,
                  "parameters", row->parameters, "generic", row->generic, "plan", row->planned, "default",
                  row->is_default, "status", compare_row_status(row), "ok", compare_row_ok(row));
    if (measured->error[0] != '\0')
        json_object_set_new(object, "error", json_string(measured->error));
    if (!compare_row_ok(row))
        return object;
    json_object_set_new(object, "registers", json_integer(measured->registers));
    json_object_set_new(object, "spills", json_integer(measured->spills));
    json_object_set_new(object, "shared_bytes", json_integer(measured->shared_bytes));
    json_object_set_new(object, "occupancy", output_number(measured->occupancy));
    if (measured->compile_ms > 0)
        json_object_set_new(object, "compile_ms", output_number(measured->compile_ms));
    json_object_set_new(object, "max_error", output_number(measured->max_error));
    set_times(object, &row->cold, "time_us", "spread_us");
    set_times(object, &row->hot, "hot_us", "hot_spread_us");
    if (row->cold.count > 0)
        json_object_set_new(object, "timing_samples", json_integer(row->cold.count));
    if (row->copy_fraction > 0)
        json_object_set_new(object, "copy_fraction", output_number(row->copy_fraction));
    if (row->tflops > 0)
        json_object_set_new(object, "tflops", output_number(row->tflops));
    if (measured->gemm[0] != '\0')
        json_object_set_new(object, "gemm", json_string(measured->gemm));
    return object;
}

gnf_status compare_print_json(const struct compare_table *table, const char *key, uint64_t seed)
{
    json_t *variants = json_array();
    for (int i = 0; i < table->count; i++)
        json_array_append_new(variants, json_of(&table->rows[i]));
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:b, s:b, s:s, s:i, s:i, s:s, s:o}", "problem",
        table->problem, "key", key, "device", table->device, "gpu", table->gpu, "simulated", table->simulated,
        "samples", (json_int_t)table->samples, "seed", (json_int_t)seed, "bytes", (json_int_t)table->bytes,
        "ok", compare_table_ok(table), "complete", table->complete, "date", table->date, "driver",
        table->driver, "nvrtc", table->nvrtc, "command", table->command, "variants", variants);
    if (table->copy_us > 0)
        json_object_set_new(object, "copy_us", output_number(table->copy_us));
    if (table->flop > 0)
        json_object_set_new(object, "flop", json_real(table->flop));
    if (table->match != NULL)
        json_object_set_new(object, "match", json_string(table->match));
    return output_json(object);
}

/* --- text --- */

typedef void (*cell_function)(const struct compare_row *row, char out[CELL]);

struct column {
    const char *head, *unit;
    cell_function cell;
};

static void decimal(char out[CELL], double value)
{
    snprintf(out, CELL, "%.*f", value < 99.995 ? 2 : value < 999.95 ? 1 : 0, value);
}

static void cell_registers(const struct compare_row *row, char out[CELL])
{
    snprintf(out, CELL, "%d", row->measured.registers);
}

static void cell_spills(const struct compare_row *row, char out[CELL])
{
    snprintf(out, CELL, "%d", row->measured.spills);
}

static void cell_shared(const struct compare_row *row, char out[CELL])
{
    snprintf(out, CELL, "%.1f", row->measured.shared_bytes / 1e3);
}

static void cell_occupancy(const struct compare_row *row, char out[CELL])
{
    snprintf(out, CELL, "%.0f", 100 * row->measured.occupancy);
}

static void cell_compile(const struct compare_row *row, char out[CELL])
{
    if (row->measured.compile_ms > 0)
        snprintf(out, CELL, "%.0f", row->measured.compile_ms);
    else
        snprintf(out, CELL, "cached");
}

static void cell_error(const struct compare_row *row, char out[CELL])
{
    snprintf(out, CELL, "%.1e", row->measured.max_error);
}

static void cell_time(const struct compare_times *times, bool spread, char out[CELL])
{
    if (times->count == 0)
        snprintf(out, CELL, "-");
    else
        decimal(out, spread ? times->spread_us / 2 : times->median_us);
}

static void cell_cold(const struct compare_row *row, char out[CELL])
{
    cell_time(&row->cold, false, out);
}

static void cell_cold_spread(const struct compare_row *row, char out[CELL])
{
    cell_time(&row->cold, true, out);
}

static void cell_hot(const struct compare_row *row, char out[CELL])
{
    cell_time(&row->hot, false, out);
}

static void cell_hot_spread(const struct compare_row *row, char out[CELL])
{
    cell_time(&row->hot, true, out);
}

static void cell_share(const struct compare_row *row, char out[CELL])
{
    if (row->copy_fraction > 0)
        snprintf(out, CELL, "%.0f", 100 * row->copy_fraction);
    else
        snprintf(out, CELL, "-");
}

static void cell_rate(const struct compare_row *row, char out[CELL])
{
    if (row->tflops > 0)
        decimal(out, row->tflops);
    else
        snprintf(out, CELL, "-");
}

/* "±" is two bytes and one column: heads are ASCII, so that widths are bytes. */
static const struct column columns[] = {
    {"regs", "", cell_registers},  {"spill", "B", cell_spills},     {"shared", "kB", cell_shared},
    {"occ", "%", cell_occupancy},  {"compile", "ms", cell_compile}, {"error", "", cell_error},
    {"cold", "us", cell_cold},     {"+-", "us", cell_cold_spread},  {"hot", "us", cell_hot},
    {"+-", "us", cell_hot_spread}, {"copy", "%", cell_share},       {"rate", "TFLOP/s", cell_rate},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

struct layout {
    const struct compare_table *table;
    int name, width[COLUMNS];
    int columns;    /* the rate is last, and only of problems with linear or conv2d */
    int parameters; /* columns of their own, 0 where there is no room */
    char parameter[MOST_PARAMETERS][NAME_LENGTH];
    int parameter_width[MOST_PARAMETERS];
};

/* The value of "threads" in "items 4, threads 256"; *length 0 where there is none. */
static const char *value_of(const char *parameters, const char *name, int *length)
{
    size_t size = strlen(name);
    for (const char *at = parameters; at != NULL && *at != '\0';) {
        if (strncmp(at, name, size) == 0 && at[size] == ' ') {
            *length = (int)strcspn(at + size + 1, ",");
            return at + size + 1;
        }
        at = strchr(at, ',');
        at = at != NULL ? at + strspn(at, ", ") : NULL;
    }
    *length = 0;
    return "";
}

static void widen(int *width, int to)
{
    *width = to > *width ? to : *width;
}

/* Every parameter that any variant has, in the order of their first mention. False where there are more than
 * a table can show. */
static bool find_parameters(struct layout *layout)
{
    for (int i = 0; i < layout->table->count; i++) {
        const char *at = layout->table->rows[i].parameters;
        while (at != NULL && *at != '\0') {
            int length = (int)strcspn(at, " ,"), k = 0;
            while (k < layout->parameters && (strncmp(layout->parameter[k], at, (size_t)length) != 0 ||
                                              layout->parameter[k][length] != '\0'))
                k++;
            if (k == MOST_PARAMETERS || length >= NAME_LENGTH)
                return false;
            if (k == layout->parameters)
                snprintf(layout->parameter[layout->parameters++], NAME_LENGTH, "%.*s", length, at);
            at = strchr(at, ',');
            at = at != NULL ? at + strspn(at, ", ") : NULL;
        }
    }
    return true;
}

static int full_width(const struct layout *layout)
{
    int width = 3 + layout->name;
    for (int k = 0; k < layout->parameters; k++)
        width += 1 + layout->parameter_width[k];
    for (int c = 0; c < layout->columns; c++)
        width += 1 + layout->width[c];
    return width;
}

static void lay_out(struct layout *layout, bool verbose)
{
    const struct compare_table *table = layout->table;
    char cell[CELL];
    int length;
    layout->columns = table->flop > 0 ? COLUMNS : COLUMNS - 1;
    if (!find_parameters(layout))
        layout->parameters = 0;
    layout->name = (int)strlen("variant");
    for (int k = 0; k < layout->parameters; k++)
        layout->parameter_width[k] = (int)strlen(layout->parameter[k]);
    for (int c = 0; c < layout->columns; c++)
        layout->width[c] = (int)(strlen(columns[c].head) > strlen(columns[c].unit) ? strlen(columns[c].head)
                                                                                   : strlen(columns[c].unit));
    for (int i = 0; i < table->count; i++) {
        const struct compare_row *row = &table->rows[i];
        widen(&layout->name, (int)strlen(row->name));
        for (int k = 0; k < layout->parameters; k++) {
            value_of(row->parameters, layout->parameter[k], &length);
            widen(&layout->parameter_width[k], length);
        }
        for (int c = 0; c < layout->columns && compare_row_ok(row); c++) {
            columns[c].cell(row, cell);
            widen(&layout->width[c], (int)strlen(cell));
        }
    }
    /* The names hold all parameters, so these go first. */
    if (full_width(layout) > WIDEST && !verbose)
        layout->parameters = 0;
}

static void print_head(const struct layout *layout)
{
    printf("   %-*s", layout->name, "variant");
    for (int k = 0; k < layout->parameters; k++)
        printf(" %*s", layout->parameter_width[k], layout->parameter[k]);
    for (int c = 0; c < layout->columns; c++)
        printf(" %*s", layout->width[c], columns[c].head);
    printf("\n   %-*s", layout->name, "");
    for (int k = 0; k < layout->parameters; k++)
        printf(" %*s", layout->parameter_width[k], "");
    for (int c = 0; c < layout->columns; c++)
        printf(" %*s", layout->width[c], columns[c].unit);
    printf("\n");
}

static void print_row(const struct layout *layout, const struct compare_row *row, bool verbose)
{
    char cell[CELL];
    int used =
        printf("%c%c %-*s", row->planned ? '*' : ' ', row->is_default ? 'd' : ' ', layout->name, row->name);
    for (int k = 0; k < layout->parameters; k++) {
        int length;
        const char *value = value_of(row->parameters, layout->parameter[k], &length);
        used += printf(" %*.*s", layout->parameter_width[k], length, value);
    }
    if (!compare_row_ok(row)) {
        const char *why = row->measured.error;
        int room = WIDEST - used - (int)strlen(compare_row_status(row)) - 3;
        printf(" %s%s", compare_row_status(row), why[0] != '\0' ? ": " : "");
        if ((int)strlen(why) <= room || verbose)
            printf("%s\n", why);
        else
            printf("%.*s...\n", room > 3 ? room - 3 : 0, why);
        return;
    }
    for (int c = 0; c < layout->columns; c++) {
        columns[c].cell(row, cell);
        printf(" %*s", layout->width[c], cell);
    }
    printf("\n");
}

static void print_version(const char *what, int version)
{
    if (version > 0)
        printf(", %s %d.%d", what, version / 1000, version % 1000 / 10);
}

static void print_summary(const struct compare_table *table)
{
    char size[32];
    printf("problem  %s\n", table->problem);
    printf("device   %s (%s), %d multiprocessors", table->gpu, table->device, table->multiprocessors);
    print_version("driver", table->driver);
    print_version("NVRTC", table->nvrtc);
    output_bytes(size, sizeof size, (double)table->bytes);
    printf("\nbytes    %s read and written by a launch\n", size);
    if (table->flop > 0)
        printf("product  %.3g GFLOP\n", 1e-9 * table->flop);
    if (table->copy_us > 0)
        printf("copy     %.2f us for as many bytes, %.0f GB/s: about the least that a kernel can take\n",
               table->copy_us, compare_gbps(table, table->copy_us));
    else if (table->timed)
        printf("copy     not measured%s\n", table->simulated ? ": its bandwidth would be no GPU's" : "");
    if (!table->timed)
        printf("time     none: this was the simulator, whose times mean nothing\n");
    else
        printf("time     %s of %d rounds in turns; +-: half the distance of the quartiles;\n"
               "         cold: inputs not in the L2 cache; hot: the same ones again\n",
               table->simulated ? "simulated, no GPU's; medians" : "medians", table->rounds);
    printf("\n");
}

static void print_notes(const struct compare_table *table)
{
    bool any = false;
    for (int i = 0; i < table->count; i++)
        any |= table->rows[i].is_default;
    printf("\n");
    if (table->match != NULL)
        printf("* a plan takes it (%s)", table->match);
    else
        printf("no plan can be made: %s", table->no_plan);
    printf(any ? "   d the default rule's\n" : "\n");
    printf("spill: bytes a thread that did not fit in registers; occ: resident warps of the most that a "
           "multiprocessor takes;\nerror: largest |err| / max(1, |ref|) against float64%s\n",
           table->copy_us > 0 ? "; copy: share of the copy's bandwidth, cold" : "");
    if (table->flop > 0)
        printf(
            "rate: of linear or conv2d, as if it took all of the cold time; its weight is the same in every "
            "launch, linear's prepared ahead\n");
    if (!table->complete)
        printf("not complete: the budget ended it\n");
}

gnf_status compare_print_text(const struct compare_table *table, bool verbose)
{
    struct layout layout = {.table = table};
    lay_out(&layout, verbose);
    print_summary(table);
    print_head(&layout);
    for (int i = 0; i < table->count; i++)
        print_row(&layout, &table->rows[i], verbose);
    print_notes(table);
    return output_flush();
}
