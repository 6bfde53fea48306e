/* What the two figures share. Places across are percentages, so that lettering keeps its size on any screen.
 */
#include "report.h"

#include <math.h>
#include <string.h>

enum { COLOURS = 7 };

int report_decimals(double value)
{
    return value < 99.995 ? 2 : value < 999.95 ? 1 : 0;
}

/* In the pack's order, that a strategy has the same colour whatever the times are. */
static int strategy_number(const struct compare_table *table, const struct compare_row *row)
{
    int number = 0;
    const struct compare_row *first = row;
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].strategy, row->strategy) == 0 && table->rows[i].rank < first->rank)
            first = &table->rows[i];
    for (int i = 0; i < table->count; i++) {
        const struct compare_row *other = &table->rows[i];
        bool leads = other->rank < first->rank && !other->generic;
        for (int k = 0; k < table->count && leads; k++)
            leads =
                table->rows[k].rank >= other->rank || strcmp(table->rows[k].strategy, other->strategy) != 0;
        number += leads;
    }
    return number;
}

void report_colour(const struct compare_table *table, const struct compare_row *row, char out[4])
{
    out[0] = 's';
    out[1] = (char)(row->generic ? 'g' : '0' + strategy_number(table, row) % COLOURS);
    out[2] = '\0';
}

int report_roles(const struct compare_table *table, const struct compare_row *row, const char *out[3])
{
    int count = 0;
    if (row == compare_table_fastest(table))
        out[count++] = "fastest";
    if (row->planned)
        out[count++] = "plan";
    if (row->is_default)
        out[count++] = "default";
    return count;
}

void report_title(struct markup *page, const struct compare_table *table, const struct compare_row *row)
{
    markup_raw(page, "<title>");
    markup_text(page, row->name);
    markup_raw(page, ": ");
    if (row->cold.count == 0) {
        markup_text(page, row->measured.error[0] != '\0' ? row->measured.error : compare_row_status(row));
    } else {
        markup_number(page, row->cold.median_us, report_decimals(row->cold.median_us));
        markup_raw(page, " us cold");
        if (row->hot.count > 0) {
            markup_raw(page, ", ");
            markup_number(page, row->hot.median_us, report_decimals(row->hot.median_us));
            markup_raw(page, " us hot");
        }
        markup_raw(page, ", ");
        markup_number(page, compare_gbps(table, row->cold.median_us), 0);
        markup_raw(page, " GB/s");
    }
    markup_raw(page, "</title>");
}

double report_tick(double top)
{
    double power = pow(10, floor(log10(top / 6)));
    double rest = top / 6 / power;
    return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}
