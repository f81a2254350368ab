/* The report as text, JSON and CSV, all from the tables of report/columns.h. Output errors are
 * the FILE's: check ferror at the end. */
#ifndef MUSTER_REPORT_REPORT_OUTPUT_H
#define MUSTER_REPORT_REPORT_OUTPUT_H

#include <stdio.h>

#include "base/json.h"
#include "base/terminal.h"
#include "report/report.h"
#include "report/rows_shown.h"

enum muster_report_rows {
    MUSTER_ROWS_BOTH, /* ranks, and the operations that took longest */
    MUSTER_ROWS_RANK,
    MUSTER_ROWS_OP, /* as many as there are, by report->by */
    MUSTER_ROWS_RULE,
};

enum { MUSTER_SHOW_TOP = 20 };

/* How. All zero: as programs and tests want it, every row in the order of the report. */
struct muster_report_show {
    enum muster_report_rows rows;
    size_t top;       /* at most so many rows of a table, MUSTER_BY_RANK_SIZE: of a rank; 0: all */
    const char *sort; /* a column, muster_column_find; NULL: none */
    bool worst;       /* ranks without `sort`: the worst first */
    struct muster_terminal terminal; /* text; a width of 0: MUSTER_TERMINAL_USUAL */
};

/* What of the table is shown; a column that it lacks does not sort. */
struct muster_rows_choice muster_report_choice_of(const struct muster_table *table, unsigned by,
                                                  const struct muster_report_show *show);
/* Whether a table of what is shown has the column show->sort; without it true. */
bool muster_report_can_sort(const struct muster_report *report,
                            const struct muster_report_show *show);

/* For people. -1: out of memory. */
int muster_report_text(const struct muster_report *report, const struct muster_report_show *show,
                       FILE *out);

/* One line, wrapped: the run, how many ranks, hosts, how old. -1: out of memory. */
int muster_report_scope(const struct muster_run *run, size_t ranks, unsigned width, FILE *out);

/* {"version", "run", "ranks", "ops", "net", "rules", "tags", "gaps"}: docs/reference/report.md; and
 * what `more` adds. */
void muster_report_json(const struct muster_report *report,
                        void (*more)(const void *arg, struct muster_json *json), const void *arg,
                        FILE *out);

/* One header and one kind of row; absent values are empty. -1: out of memory. */
int muster_report_csv(const struct muster_report *report, const struct muster_report_show *show,
                      FILE *out);

#endif
