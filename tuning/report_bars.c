/* Times as bars. */
#include "report.h"

#include <math.h>

struct bars {
    struct markup *page;
    const struct compare_table *table;
    double end; /* us at the right edge */
};

static double percent(const struct bars *bars, double us)
{
    return us >= bars->end ? 100 : us <= 0 ? 0 : 100 * us / bars->end;
}

static void rect(const struct bars *bars, const char *class, double from, double to, int y, int height)
{
    markup_format(bars->page, "<rect class=\"%s\" y=\"%d\" height=\"%d\" x=\"", class, y, height);
    markup_number(bars->page, percent(bars, from), 2);
    markup_raw(bars->page, "%\" width=\"");
    markup_number(bars->page, percent(bars, to) - percent(bars, from), 2);
    markup_raw(bars->page, "%\"/>");
}

static void upright(const struct bars *bars, const char *class, double us, int top, int bottom)
{
    markup_format(bars->page, "<line class=\"%s\" y1=\"%d\" y2=\"%d\" x1=\"", class, top, bottom);
    markup_number(bars->page, percent(bars, us), 2);
    markup_raw(bars->page, "%\" x2=\"");
    markup_number(bars->page, percent(bars, us), 2);
    markup_raw(bars->page, "%\"/>");
}

static void bar(const struct bars *bars, const struct compare_row *row)
{
    struct markup *page = bars->page;
    const struct compare_table *table = bars->table;
    double cold = row->cold.median_us, half = row->cold.spread_us / 2;
    char colour[4];
    report_colour(table, row, colour);
    markup_format(page, "<svg class=\"bar %s\" width=\"100%%\" height=\"24\" role=\"img\">", colour);
    report_title(page, table, row);
    rect(bars, "time", 0, cold, 6, 12);
    if (cold > bars->end)
        markup_raw(page, "<text class=\"cut\" x=\"99%\" text-anchor=\"end\" y=\"16\">longer</text>");
    if (table->copy_us > 0)
        upright(bars, "floor", table->copy_us, 0, 24);
    if (cold <= bars->end) {
        rect(bars, "spread", cold - half, cold + half, 11, 2);
        upright(bars, "spread", cold - half, 8, 16);
        upright(bars, "spread", cold + half, 8, 16);
    }
    if (row->hot.count > 0 && row->hot.median_us <= bars->end) {
        markup_raw(page, "<circle class=\"hot\" r=\"4\" cy=\"12\" cx=\"");
        markup_number(page, percent(bars, row->hot.median_us), 2);
        markup_raw(page, "%\"/>");
    }
    markup_raw(page, "</svg>");
}

static void bar_row(const struct bars *bars, const struct compare_row *row)
{
    struct markup *page = bars->page;
    const char *role[3];
    int count = report_roles(bars->table, row, role);
    markup_raw(page, "<div class=\"row\"><span class=\"name\">");
    markup_text(page, row->name);
    for (int i = 0; i < count; i++)
        markup_format(page, " <b class=\"tag\">%s</b>", role[i]);
    markup_raw(page, "</span>");
    if (row->cold.count == 0) {
        markup_format(page, "<span class=\"bar none\">%s", compare_row_status(row));
        if (row->measured.error[0] != '\0') {
            markup_raw(page, ": ");
            markup_text(page, row->measured.error);
        }
        markup_raw(page, "</span>");
    } else {
        bar(bars, row);
        markup_raw(page, "<span class=\"value\">");
        markup_number(page, row->cold.median_us, report_decimals(row->cold.median_us));
        markup_raw(page, " us");
        if (row->copy_fraction > 0) {
            markup_raw(page, " <small>");
            markup_number(page, 100 * row->copy_fraction, 0);
            markup_raw(page, "%</small>");
        }
        markup_raw(page, "</span>");
    }
    markup_raw(page, "</div>\n");
}

static void scale(const struct bars *bars)
{
    double step = report_tick(bars->end);
    struct markup *page = bars->page;
    markup_raw(
        page,
        "<div class=\"row scale\" aria-hidden=\"true\"><span></span><svg width=\"100%\" height=\"20\">");
    for (int i = 0; i * step <= bars->end; i++) {
        double at = percent(bars, i * step);
        upright(bars, "grid", i * step, 0, 5);
        markup_format(page, "<text class=\"tick\" y=\"17\" text-anchor=\"%s\" x=\"",
                      i == 0    ? "start"
                      : at > 95 ? "end"
                                : "middle");
        markup_number(page, at, 2);
        markup_raw(page, "%\">");
        markup_number(page, i * step, step < 0.1 ? 2 : step < 1 ? 1 : 0);
        markup_raw(page, i == 0 ? " us</text>" : "</text>");
    }
    markup_raw(page, "</svg><span></span></div>\n");
}

void report_bars(struct markup *page, const struct compare_table *table)
{
    const struct compare_row *fastest = compare_table_fastest(table);
    if (fastest == NULL)
        return;
    struct bars bars = {.page = page, .table = table, .end = 0};
    /* What is far slower than the best would press the others flat: its bar is cut. */
    double most = fmax(4 * fastest->cold.median_us, 1.2 * table->copy_us);
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].cold.count > 0)
            bars.end = fmax(bars.end, table->rows[i].cold.median_us + table->rows[i].cold.spread_us / 2);
    bars.end = 1.02 * fmin(fmax(bars.end, table->copy_us), most);
    markup_raw(page,
               "<figure>\n<figcaption><b>Time of a launch.</b> <span class=\"key\"><i></i>cold: inputs not "
               "in the L2 "
               "cache; the whisker spans the middle half of the samples</span> <span class=\"key\"><i "
               "class=\"dot\"></i>hot: the same inputs again</span>");
    if (table->copy_us > 0)
        markup_raw(page, " <span class=\"key\"><i class=\"dash\"></i>a copy of the same bytes; percentages "
                         "are shares of its "
                         "bandwidth</span>");
    markup_raw(page, "</figcaption>\n<div class=\"bars\">\n");
    for (int i = 0; i < table->count; i++)
        bar_row(&bars, &table->rows[i]);
    scale(&bars);
    markup_raw(page, "</div>\n</figure>\n");
}
