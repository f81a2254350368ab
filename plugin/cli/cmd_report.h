/* Printing the report of runs, for `muster report` and for the end of `muster run` and `demo`. */
#ifndef MUSTER_CLI_CMD_REPORT_H
#define MUSTER_CLI_CMD_REPORT_H

#include <stdio.h>

#include "base/err.h"
#include "run/run.h"

enum muster_report_format { MUSTER_FORMAT_TEXT, MUSTER_FORMAT_JSON, MUSTER_FORMAT_CSV };
enum muster_report_choice {
    MUSTER_SHOW_DEFAULT, /* text: ranks and what took longest; CSV: ranks */
    MUSTER_SHOW_RANK,
    MUSTER_SHOW_OP,
    MUSTER_SHOW_COMM,
    MUSTER_SHOW_SIZE,
    MUSTER_SHOW_RANK_SIZE,
    MUSTER_SHOW_RULE,
};

struct muster_report_request {
    enum muster_report_format format;
    enum muster_report_choice choice;
    const char *sort;     /* a column; NULL: the usual order */
    size_t top;           /* rows of a table; 0: all */
    bool top_given;       /* else text shows 20 */
    const char *perfetto; /* NULL: no timeline */
    bool whole;           /* the timeline of the whole run */
    const char *with;     /* traces packed into the timeline, between commas; NULL: none */
    const char *html;     /* NULL: no page */
    const char *command;  /* as it was given, for the page */
    size_t job, jobs;     /* the run is number `job`, from 0, of so many that live: text of several
                             stands under headings */
};

/* Output errors are left in `out`. */
int muster_report_print(const struct muster_run_query *query,
                        const struct muster_report_request *request, FILE *out,
                        struct muster_err *err);

#endif
