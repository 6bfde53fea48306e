#include "report.h"

#include "../runtime/cli/output.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const char style[] =
    ":root{--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d8dee4;--card:#f6f8fa;--roof:#c9184a;\n"
    "--c0:#0072b2;--c1:#d55e00;--c2:#00916a;--c3:#b0489a;--c4:#96690a;--c5:#6f57d9;--c6:#3f7f3f;--cg:#6e7781}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9aa4af;--line:#30363d;--card:#161b22;--roof:#ff7b9c;\n"
    "--c0:#58a6ff;--c1:#ff9650;--c2:#3ccfa5;--c3:#e58fd3;--c4:#e3b341;--c5:#ab9bff;--c6:#8fce7f;--cg:#9aa4ae}}\n"
    ".s0{--c:var(--c0)}.s1{--c:var(--c1)}.s2{--c:var(--c2)}.s3{--c:var(--c3)}.s4{--c:var(--c4)}.s5{--c:var(--c5)}\n"
    ".s6{--c:var(--c6)}.sg{--c:var(--cg)}\n"
    "body{margin:0 auto;max-width:1200px;padding:16px;background:var(--bg);color:var(--fg);\n"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}\n"
    "h1{font-size:1.35em;margin:.4em 0}h2{font-size:1.15em}\n"
    "code,.name,td:first-child,pre{font-family:ui-monospace,Consolas,'DejaVu Sans Mono',monospace}code,.name{font-size:.87em}\n"
    "h1 code{font-size:.92em;overflow-wrap:anywhere}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.87em;background:var(--card);padding:8px 12px;border-radius:6px}\n"
    "dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(155px,1fr));gap:10px;margin:16px 0}\n"
    "dl div{background:var(--card);border-radius:6px;padding:8px 12px}dt{color:var(--dim);font-size:.8em}dd{margin:0}\n"
    "figure{margin:28px 0}figcaption{color:var(--dim);max-width:78em;margin-bottom:8px}figcaption b{color:var(--fg)}\n"
    ".key{margin-right:14px}.legend{margin:4px 0}\n"
    ".key i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:5px;background:var(--c,var(--dim))}\n"
    ".key i.dot{border-radius:50%;background:var(--bg);box-shadow:inset 0 0 0 2px var(--fg)}\n"
    ".key i.dash{width:0;border-radius:0;background:none;border-left:2px dashed var(--roof)}\n"
    "svg{display:block;overflow:visible}circle,rect{fill:var(--c)}\n"
    "svg text{fill:var(--dim);font-size:12px}.plot text{paint-order:stroke;stroke:var(--bg);stroke-width:4px}\n"
    ".grid{stroke:var(--line)}.axis{stroke:var(--dim)}.spread{stroke:var(--fg);fill:var(--fg)}\n"
    ".plot .spread{stroke:var(--c);stroke-width:2}.plot circle{stroke:var(--bg)}\n"
    ".plot .ring{fill:none;stroke:var(--fg);stroke-width:1.5}\n"
    "line.roof{stroke:var(--roof);stroke-width:2}svg text.roof{fill:var(--roof)}line.peak{stroke:var(--dim);stroke-dasharray:2 4}\n"
    "svg text.role{fill:var(--fg)}svg text.band{fill:var(--c);font-weight:600}svg text.cut{fill:var(--bg);font-size:11px}\n"
    ".row{display:grid;grid-template-columns:330px 1fr 110px;gap:0 10px;align-items:center;min-height:24px}\n"
    ".value{text-align:right;font-size:.93em;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    ".value small{color:var(--dim);display:inline-block;width:3em}\n"
    ".none{color:var(--dim);font-size:.87em;grid-column:2/4;overflow-wrap:anywhere}\n"
    ".tag{font:600 11px system-ui,sans-serif;background:var(--fg);color:var(--bg);border-radius:4px;padding:1px 5px}\n"
    ".floor{stroke:var(--roof);stroke-width:1.5;stroke-dasharray:4 3}.hot{fill:var(--bg);stroke:var(--fg);stroke-width:2}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.77em;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "th{text-align:right;vertical-align:bottom;color:var(--dim);font-weight:600}td{text-align:right}\n"
    "td:first-child,th:first-child{text-align:left;position:sticky;left:0;background:var(--bg)}.left{text-align:left}\n"
    "td,th{padding:3px 6px;border-bottom:1px solid var(--line)}tr.strong td{font-weight:600}\n"
    "td.why{white-space:normal;color:var(--dim)}\n"
    "@media(max-width:640px){.row{grid-template-columns:1fr auto;margin-bottom:6px}\n"
    ".row .bar,.row.scale svg{grid-column:1/3;grid-row:2}.row.scale span,text.band{display:none}}\n";
/* clang-format on */

static void time_us(struct markup *page, double us)
{
    markup_number(page, us, report_decimals(us));
}

static void version(struct markup *page, int version)
{
    if (version > 0)
        markup_format(page, "%d.%d", version / 1000, version % 1000 / 10);
    else
        markup_raw(page, "not known");
}

static void fact(struct markup *page, const char *name)
{
    markup_format(page, "<div><dt>%s</dt><dd>", name);
}

static void end_fact(struct markup *page)
{
    markup_raw(page, "</dd></div>\n");
}

static void facts(struct markup *page, const struct compare_table *table)
{
    char size[32];
    markup_raw(page, "<dl>\n");
    fact(page, "GPU");
    markup_text(page, table->gpu);
    markup_format(page, ", %d multiprocessors", table->multiprocessors);
    end_fact(page);
    fact(page, "Driver and compiler");
    markup_raw(page, "CUDA ");
    version(page, table->driver);
    markup_raw(page, ", NVRTC ");
    version(page, table->nvrtc);
    end_fact(page);
    fact(page, "Date");
    markup_text(page, table->date);
    end_fact(page);
    fact(page, "Bytes read and written");
    output_bytes(size, sizeof size, (double)table->bytes);
    markup_text(page, size);
    end_fact(page);
    if (table->copy_us > 0) {
        fact(page, "Copy of as many bytes");
        time_us(page, table->copy_us);
        markup_raw(page, " us, ");
        markup_number(page, compare_gbps(table, table->copy_us), 0);
        markup_raw(page, " GB/s");
        end_fact(page);
    }
    markup_raw(page, "</dl>\n");
}

static const struct compare_row *row_that(const struct compare_table *table, bool planned)
{
    for (int i = 0; i < table->count; i++)
        if (planned ? table->rows[i].planned : table->rows[i].is_default)
            return &table->rows[i];
    return NULL;
}

static void code(struct markup *page, const char *text)
{
    markup_raw(page, "<code>");
    markup_text(page, text);
    markup_raw(page, "</code>");
}

static void against(struct markup *page, const struct compare_row *row, const struct compare_row *fastest)
{
    if (fastest == NULL || row->cold.count == 0 || row == fastest)
        return;
    markup_raw(page, ", ");
    markup_number(page, 100 * (row->cold.median_us / fastest->cold.median_us - 1), 1);
    markup_raw(page, "% slower than the fastest");
}

static void verdict(struct markup *page, const struct compare_table *table)
{
    const struct compare_row *fastest = compare_table_fastest(table), *row;
    markup_raw(page, "<p>");
    if (table->simulated)
        markup_raw(page, table->timed
                             ? "<b>These times are simulated</b>: they say nothing about any GPU. "
                             : "This was the simulator, whose times mean nothing: there are none here. ");
    if (!table->complete)
        markup_raw(page, "<b>Not complete</b>: the budget ended it. ");
    if (fastest != NULL) {
        markup_raw(page, "Fastest is ");
        code(page, fastest->name);
        markup_raw(page, " with ");
        time_us(page, fastest->cold.median_us);
        markup_raw(page, " us");
        if (fastest->copy_fraction > 0) {
            markup_raw(page, ", ");
            markup_number(page, 100 * fastest->copy_fraction, 0);
            markup_raw(page, "% of the copy's bandwidth");
        }
        if (fastest->tflops > 0) {
            markup_raw(page, ", ");
            markup_number(page, fastest->tflops, report_decimals(fastest->tflops));
            markup_raw(page, " TFLOP/s, if linear or conv2d took all of it");
        }
        markup_raw(page, ". ");
    }
    if ((row = row_that(table, true)) != NULL) {
        markup_raw(page, "A plan takes ");
        code(page, row->name);
        markup_raw(page, " (");
        markup_text(page, table->match != NULL ? table->match : "");
        markup_raw(page, ")");
        against(page, row, fastest);
        markup_raw(page, row->is_default ? ", the default rule's choice as well. " : ". ");
    } else if (table->no_plan[0] != '\0') {
        markup_raw(page, "No plan can be made: ");
        markup_text(page, table->no_plan);
        markup_raw(page, ". ");
    }
    if ((row = row_that(table, false)) != NULL && !row->planned) {
        markup_raw(page, "The default rule's choice is ");
        code(page, row->name);
        against(page, row, fastest);
        markup_raw(page, ". ");
    }
    if (table->timed)
        markup_format(page,
                      "Times are medians of up to %d samples, taken round by round of all variants in turns.",
                      table->rounds);
    markup_raw(page, "</p>\n");
}

static void cell(struct markup *page, const char *before, double value, int decimals)
{
    markup_raw(page, "<td>");
    if (value >= 0) {
        markup_raw(page, before);
        markup_number(page, value, decimals);
    } else {
        markup_raw(page, "–");
    }
    markup_raw(page, "</td>");
}

static void times(struct markup *page, const struct compare_times *times)
{
    int decimals = report_decimals(times->median_us);
    cell(page, "", times->count > 0 ? times->median_us : -1, decimals);
    cell(page, "±", times->count > 0 ? times->spread_us / 2 : -1, decimals);
}

static void table_row(struct markup *page, const struct compare_table *table, const struct compare_row *row)
{
    const struct measured *measured = &row->measured;
    const char *role[3];
    int roles = report_roles(table, row, role);
    markup_format(page, "<tr%s><td>", row->planned ? " class=\"strong\"" : "");
    markup_text(page, row->name);
    for (int i = 0; i < roles; i++)
        markup_format(page, " <b class=\"tag\">%s</b>", role[i]);
    markup_raw(page, "</td><td class=\"left\">");
    markup_text(page, row->parameters);
    markup_raw(page, "</td>");
    if (!compare_row_ok(row)) {
        markup_format(page, "<td class=\"why left\" colspan=\"%d\">%s", table->flop > 0 ? 12 : 11,
                      compare_row_status(row));
        if (measured->error[0] != '\0') {
            markup_raw(page, ": ");
            markup_text(page, measured->error);
        }
        markup_raw(page, "</td></tr>\n");
        return;
    }
    cell(page, "", measured->registers, 0);
    cell(page, "", measured->spills, 0);
    cell(page, "", measured->shared_bytes / 1e3, 1);
    cell(page, "", 100 * measured->occupancy, 0);
    if (measured->compile_ms > 0)
        cell(page, "", measured->compile_ms, 0);
    else
        markup_raw(page, "<td>cached</td>");
    markup_raw(page, "<td>");
    markup_scientific(page, measured->max_error);
    markup_raw(page, "</td>");
    times(page, &row->cold);
    times(page, &row->hot);
    cell(page, "", row->copy_fraction > 0 ? 100 * row->copy_fraction : -1, 1);
    if (table->flop > 0)
        cell(page, "", row->tflops > 0 ? row->tflops : -1, report_decimals(row->tflops));
    markup_raw(page, "</tr>\n");
}

static void numbers(struct markup *page, const struct compare_table *table)
{
    markup_raw(page, "<h2>All numbers</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>variant</th><th "
                     "class=\"left\">parameters</th><th>registers</th><th>spills<br>B</th><th>shared<br>kB</"
                     "th><th>occupancy<br>%</th><th>compile<br>ms</th><th>error</th><th>cold<br>us</th><th></"
                     "th><th>hot<br>us</th><th></th><th>of the<br>copy, %</th>");
    if (table->flop > 0)
        markup_raw(page, "<th>product<br>TFLOP/s</th>");
    markup_raw(page, "</tr></thead>\n<tbody>\n");
    for (int i = 0; i < table->count; i++)
        table_row(page, table, &table->rows[i]);
    markup_raw(
        page,
        "</tbody></table></div>\n<p>error: the largest |err| / max(1, |ref|) against a float64 reference. "
        "±: half the distance of the quartiles. of the copy: the copy's time divided by the cold time. "
        "shared: memory a block. occupancy: resident warps of the most that a multiprocessor "
        "takes. spills: bytes a thread that did not fit in registers.</p>\n");
}

gnf_status report_page(const struct compare_table *table, char **out, size_t *size)
{
    struct markup page = {0};
    *out = NULL;
    markup_raw(
        &page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
        "dark\">\n<title>");
    markup_text(&page, table->problem);
    markup_raw(&page, " on ");
    markup_text(&page, table->gpu);
    markup_raw(&page, "</title>\n<style>\n");
    markup_raw(&page, style);
    markup_raw(&page, "</style>\n</head>\n<body>\n<h1>Variants of <code>");
    markup_text(&page, table->problem);
    markup_raw(&page, "</code></h1>\n");
    verdict(&page, table);
    facts(&page, table);
    report_roofline(&page, table);
    report_bars(&page, table);
    numbers(&page, table);
    markup_raw(&page, "<h2>Again</h2>\n<pre>");
    markup_text(&page, table->command);
    markup_raw(&page, "</pre>\n</body>\n</html>\n");
    if (page.failed) {
        markup_free(&page);
        return gnf_fail(GNF_OUT_OF_MEMORY, "no memory for the page");
    }
    *out = page.text;
    *size = page.used;
    return GNF_OK;
}
