/* Achieved bandwidth under the copy's. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLOT_HEIGHT = 360, PLOT_TOP = 26, PLOT_BOTTOM = 326, LEAST_BAND = 3, LINE = 15 };

/* A point, or lettering. */
struct mark {
    const struct compare_row *row; /* NULL: lettering */
    double x, y;                   /* percent and pixels, the middle */
};
struct plot {
    struct markup *page;
    const struct compare_table *table;
    double top;           /* GB/s at the upper edge */
    struct markup labels; /* put over all lines and points at the end */
    struct mark *marks;
    int mark_count;
};

static void pixels(struct markup *page, double value)
{
    markup_number(page, value, 1);
}

static double height_of(const struct plot *plot, double gbps)
{
    return PLOT_BOTTOM - (PLOT_BOTTOM - PLOT_TOP) * gbps / plot->top;
}

static void across(const struct plot *plot, const char *class, double y)
{
    markup_format(plot->page, "<line class=\"%s\" x1=\"0\" x2=\"100%%\" y1=\"", class);
    pixels(plot->page, y);
    markup_raw(plot->page, "\" y2=\"");
    pixels(plot->page, y);
    markup_raw(plot->page, "\"/>");
}

static void grid(struct plot *plot)
{
    struct markup *labels = &plot->labels;
    double step = report_tick(plot->top);
    for (int i = 0; i * step < plot->top; i++) {
        double y = height_of(plot, i * step);
        across(plot, i == 0 ? "axis" : "grid", y);
        markup_raw(labels, "<text class=\"tick\" x=\"0\" y=\"");
        pixels(labels, y - 4);
        markup_raw(labels, "\">");
        markup_number(labels, i * step, step < 1 ? 2 : 0);
        markup_raw(labels, i == 0 ? " GB/s</text>" : "</text>");
    }
}

static void roof(struct plot *plot, const char *class, double gbps, const char *what)
{
    struct markup *labels = &plot->labels;
    double y = height_of(plot, gbps);
    across(plot, class, y);
    markup_format(labels, "<text class=\"%s\" x=\"100%%\" text-anchor=\"end\" y=\"", class);
    pixels(labels, y - 6);
    markup_format(labels, "\">%s ", what);
    markup_number(labels, gbps, report_decimals(gbps));
    markup_raw(labels, " GB/s</text>");
}

static void circle(struct markup *page, const char *class, double x, double y, int radius)
{
    markup_format(page, "<circle%s cx=\"", class);
    pixels(page, x);
    markup_raw(page, "%\" cy=\"");
    pixels(page, y);
    markup_format(page, "\" r=\"%d\"/>", radius);
}

/* Does lettering round (x, y) cover a point or other lettering? */
static bool covers(const struct plot *plot, const struct mark *self, double x, double y)
{
    for (int i = 0; i < plot->mark_count; i++) {
        const struct mark *mark = &plot->marks[i];
        if (mark != self && fabs(mark->x - x) < (mark->row != NULL ? 7 : 14) && fabs(mark->y - y + 4) < 11)
            return true;
    }
    return y < PLOT_TOP - 10 || y > PLOT_BOTTOM - 4;
}

static void label(struct plot *plot, const struct mark *mark)
{
    static const int tries[] = {22, -14, 37, -29, 52, -44, 67, -59};
    struct markup *page = &plot->labels;
    const char *role[3];
    int count = report_roles(plot->table, mark->row, role), best = 0;
    const char *anchor = mark->x > 80 ? "end" : mark->x < 20 ? "start" : "middle";
    double middle = mark->x > 80 ? mark->x - 6 : mark->x < 20 ? mark->x + 6 : mark->x;
    if (count == 0)
        return;
    while (best < (int)(sizeof tries / sizeof tries[0]) - 1 &&
           covers(plot, mark, middle, mark->y + tries[best]))
        best++;
    double y = mark->y + tries[best];
    plot->marks[plot->mark_count++] = (struct mark){NULL, middle, y - 4};
    markup_raw(page, "<text class=\"role\" x=\"");
    pixels(page, mark->x);
    markup_format(page, "%%\" text-anchor=\"%s\" y=\"", anchor);
    pixels(page, y);
    markup_raw(page, "\">");
    for (int i = 0; i < count; i++)
        markup_format(page, "%s%s", i ? " = " : "", role[i]);
    markup_raw(page, "</text>");
}

static void point(const struct plot *plot, const struct mark *mark)
{
    struct markup *page = plot->page;
    const struct compare_table *table = plot->table;
    const struct compare_row *row = mark->row;
    const char *role[3];
    char colour[4];
    double half = row->cold.spread_us / 2, x = mark->x;
    double low = height_of(plot, compare_gbps(table, row->cold.median_us + half));
    double high =
        height_of(plot, compare_gbps(table, fmax(row->cold.median_us - half, row->cold.median_us / 2)));
    report_colour(table, row, colour);
    markup_format(page, "<g class=\"%s\">", colour);
    report_title(page, table, row);
    markup_raw(page, "<line class=\"spread\" x1=\"");
    pixels(page, x);
    markup_raw(page, "%\" x2=\"");
    pixels(page, x);
    markup_raw(page, "%\" y1=\"");
    pixels(page, low);
    markup_raw(page, "\" y2=\"");
    pixels(page, high);
    markup_raw(page, "\"/>");
    if (report_roles(table, row, role) > 0)
        circle(page, " class=\"ring\"", x, mark->y, 9);
    circle(page, "", x, mark->y, 5);
    markup_raw(page, "</g>");
}

/* Rows by the pack's order. */
static const struct compare_row *ranked(const struct compare_table *table, int rank)
{
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].rank == rank)
            return &table->rows[i];
    return NULL;
}

static int timed_of(const struct compare_table *table, const char *strategy)
{
    int count = 0;
    for (int i = 0; i < table->count; i++)
        count += table->rows[i].cold.count > 0 && strcmp(table->rows[i].strategy, strategy) == 0;
    return count;
}

static bool leads(const struct compare_table *table, const struct compare_row *row)
{
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].rank < row->rank && strcmp(table->rows[i].strategy, row->strategy) == 0)
            return false;
    return true;
}

/* One band a strategy, wide enough for its name, and where its points are. */
static void bands(struct plot *plot)
{
    const struct compare_table *table = plot->table;
    const double left = 8, right = 99;
    int total = 0;
    for (int rank = 0; rank < table->count; rank++) {
        const struct compare_row *row = ranked(table, rank);
        int count = row != NULL && leads(table, row) ? timed_of(table, row->strategy) : 0;
        total += count > 0 && count < LEAST_BAND ? LEAST_BAND : count;
    }
    double x = left;
    for (int rank = 0; rank < table->count; rank++) {
        const struct compare_row *row = ranked(table, rank);
        int count = row != NULL && leads(table, row) ? timed_of(table, row->strategy) : 0;
        if (count == 0)
            continue;
        double width = (right - left) * (count < LEAST_BAND ? LEAST_BAND : count) / total;
        char colour[4];
        report_colour(table, row, colour);
        markup_format(plot->page, "<text class=\"band %s\" text-anchor=\"middle\" y=\"%d\" x=\"", colour,
                      PLOT_BOTTOM + 20);
        pixels(plot->page, x + width / 2);
        markup_raw(plot->page, "%\">");
        markup_text(plot->page, row->strategy);
        markup_raw(plot->page, "</text>");
        int done = 0;
        for (int other = rank; other < table->count; other++) {
            const struct compare_row *one = ranked(table, other);
            if (one != NULL && one->cold.count > 0 && strcmp(one->strategy, row->strategy) == 0)
                plot->marks[plot->mark_count++] =
                    (struct mark){one, x + width * (done++ + 0.5) / count,
                                  height_of(plot, compare_gbps(table, one->cold.median_us))};
        }
        x += width;
    }
}

static void legend(struct markup *page, const struct compare_table *table)
{
    char colour[4];
    markup_raw(page, "<p class=\"legend\">");
    for (int rank = 0; rank < table->count; rank++) {
        const struct compare_row *row = ranked(table, rank);
        if (row == NULL || !leads(table, row) || timed_of(table, row->strategy) == 0)
            continue;
        report_colour(table, row, colour);
        markup_format(page, "<span class=\"key %s\"><i></i>", colour);
        markup_text(page, row->strategy);
        markup_raw(page, "</span>");
    }
    markup_raw(page, "</p>\n");
}

void report_roofline(struct markup *page, const struct compare_table *table)
{
    const struct compare_row *fastest = compare_table_fastest(table);
    if (fastest == NULL)
        return;
    struct plot plot = {.page = page, .table = table};
    plot.marks = calloc(2 * (size_t)table->count + 1, sizeof *plot.marks);
    page->failed |= plot.marks == NULL;
    if (page->failed)
        return;
    double best = compare_gbps(table, fastest->cold.median_us - fastest->cold.spread_us / 2);
    double copy = compare_gbps(table, table->copy_us);
    bool has_peak = table->peak_gbps > copy;
    plot.top = 1.06 * fmax(fmax(best, copy), has_peak ? table->peak_gbps : 0);
    markup_raw(
        page,
        "<figure>\n<figcaption><b>Roofline.</b> Bytes that must move, divided by the time a variant takes "
        "with cold caches: its bandwidth. GroupNorm does only a few operations a byte, so the memory is "
        "the roof");
    markup_raw(page, copy > 0 ? ", and a plain copy shows how high it hangs in practice. " : ". ");
    markup_raw(
        page,
        "A point a variant, within a strategy in the pack's order of preference; whiskers span the middle "
        "half of the samples.</figcaption>\n");
    legend(page, table);
    markup_format(
        page,
        "<svg class=\"plot\" width=\"100%%\" height=\"%d\" role=\"img\" aria-labelledby=\"roofline\">"
        "<title id=\"roofline\">Achieved bandwidth of each variant: the fastest, ",
        PLOT_HEIGHT);
    markup_text(page, fastest->name);
    markup_raw(page, ", reaches ");
    markup_number(page, compare_gbps(table, fastest->cold.median_us), 0);
    markup_raw(page, " GB/s");
    if (copy > 0) {
        markup_raw(page, "; a copy, ");
        markup_number(page, copy, 0);
        markup_raw(page, " GB/s");
    }
    markup_raw(page, "</title>");
    grid(&plot);
    if (has_peak)
        roof(&plot, "peak", table->peak_gbps, "the memory's nominal");
    if (copy > 0)
        roof(&plot, "roof", copy, "copy of the same bytes:");
    bands(&plot);
    int points = plot.mark_count;
    if (copy > 0)
        plot.marks[plot.mark_count++] = (struct mark){NULL, 88, height_of(&plot, copy) - 10};
    for (int i = 0; i < points; i++)
        point(&plot, &plot.marks[i]);
    for (int i = 0; i < points; i++)
        label(&plot, &plot.marks[i]);
    free(plot.marks);
    markup_raw(page, plot.labels.text != NULL ? plot.labels.text : "");
    page->failed |= plot.labels.failed;
    markup_free(&plot.labels);
    markup_raw(page, "</svg>\n</figure>\n");
}
