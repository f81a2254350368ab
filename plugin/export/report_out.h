/* The report as text, JSON and CSV, all from the tables of export/columns.h. Output errors are
 * the FILE's: check ferror at the end. */
#ifndef MUSTER_EXPORT_REPORT_OUT_H
#define MUSTER_EXPORT_REPORT_OUT_H

#include <stdio.h>

#include "export/report.h"

enum muster_report_rows {
    MUSTER_ROWS_BOTH, /* ranks, and the operations that took longest */
    MUSTER_ROWS_RANK,
    MUSTER_ROWS_OP, /* as many as there are, by report->by */
    MUSTER_ROWS_RULE,
};

/* For people. -1: out of memory. */
int muster_report_text(const struct muster_report *report, enum muster_report_rows rows, FILE *out);

/* {"version", "run", "ranks", "ops", "net", "rules", "gaps"}: docs/interface.md. */
void muster_report_json(const struct muster_report *report, FILE *out);

/* One header and one kind of row; absent values are empty. */
void muster_report_csv(const struct muster_report *report, enum muster_report_rows rows, FILE *out);

#endif
