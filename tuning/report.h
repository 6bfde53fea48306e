/* A comparison as one page: no script, no request, light and dark, wide and narrow. */
#ifndef TUNING_REPORT_H
#define TUNING_REPORT_H

#include "../runtime/status.h"
#include "compare_table.h"
#include "report_markup.h"

/* The page, malloc'ed. The table must be sorted. GNF_OUT_OF_MEMORY. */
gnf_status report_page(const struct compare_table *table, char **page, size_t *size);

/* Its parts, for report.c. */
/* The class that gives a strategy its colour: "s0" to "s6", "sg" for the shape-generic one. */
void report_colour(const struct compare_table *table, const struct compare_row *row, char out[4]);
/* "fastest", "plan", "default": what a row is beside its place. Returns how many. */
int report_roles(const struct compare_table *table, const struct compare_row *row, const char *out[3]);
/* <title>: a tooltip, which is also what a screen reader says. */
void report_title(struct markup *page, const struct compare_table *table, const struct compare_row *row);
/* Distance of an axis' ticks: 1, 2 or 5 times a power of ten, some five of them below the top. */
double report_tick(double top);
/* Achieved bandwidth of every variant under the copy's. Nothing without times. */
void report_roofline(struct markup *page, const struct compare_table *table);
/* A row a variant: its time as a bar. */
void report_bars(struct markup *page, const struct compare_table *table);
/* Decimals that a time or a bandwidth deserves: three or four digits. */
int report_decimals(double value);

#endif
