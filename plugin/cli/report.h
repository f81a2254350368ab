/* Printing the report of runs, for `muster report` and for the end of `muster run` and `demo`. */
#ifndef MUSTER_CLI_REPORT_H
#define MUSTER_CLI_REPORT_H

#include <stdio.h>

#include "base/err.h"
#include "segment/run.h"

enum muster_report_format { MUSTER_FORMAT_TEXT, MUSTER_FORMAT_JSON, MUSTER_FORMAT_CSV };
enum muster_report_choice {
    MUSTER_SHOW_DEFAULT, /* text: ranks and what took longest; CSV: ranks */
    MUSTER_SHOW_RANK,
    MUSTER_SHOW_OP,
    MUSTER_SHOW_COMM,
    MUSTER_SHOW_SIZE,
    MUSTER_SHOW_RULE,
};

/* Output errors are left in `out`. */
int muster_report_print(const struct muster_run_query *query, enum muster_report_format format,
                        enum muster_report_choice choice, FILE *out, struct muster_err *err);

#endif
