/*
 * One look of `muster diagnose` at a job: what was recorded, what was found in it, and how people
 * and programs (docs/reference/diagnose.md) are shown that; findings also at the end of a report.
 */
#ifndef MUSTER_CLI_DIAGNOSE_DIAGNOSE_LOOK_H
#define MUSTER_CLI_DIAGNOSE_DIAGNOSE_LOOK_H

#include <stdio.h>

#include "base/err.h"
#include "base/terminal.h"
#include "diagnose/diagnose.h"
#include "run/run.h"
#include "view/view.h"

/* Stays where it is from a look to its end: the view points to the run. */
struct muster_look {
    const struct muster_live_job *job; /* NULL: all that the query takes */
    struct muster_run run;             /* zeroed, or of the last time */
    struct muster_view view;
    struct muster_findings findings;
    struct muster_windows windows; /* of the looks before */
};

/* How to look: the same each time. */
struct muster_look_how {
    struct muster_run_query query;
    uint64_t hang_ns; /* how long nothing may move */
    bool follows;     /* again and again, while it runs; else also what the job emitted meanwhile */
};

/* How long nothing may move before it is a hang: `seconds`, or as configured where they are 0. */
uint64_t muster_look_hang_ns(uint64_t seconds);

/* Afterwards the look is to be ended, after a failure, too; the run is kept for the next one. */
int muster_look_take(struct muster_look *look, const struct muster_look_how *how,
                     struct muster_err *err);
void muster_look_end(struct muster_look *look);

/* Whether a finding of it is not over. */
bool muster_look_unresolved(const struct muster_look *look);
/* The job's run directory; "": it has none, or the look is at no job of its own. */
const char *muster_look_name(const struct muster_look *look);

/* ---- one finding, one verdict ---- */

/* The sentence, and below it evidence, limits and advice, indented. `job`, unless NULL, stands
 * before the sentence. */
void muster_finding_print(const struct muster_finding *finding, const char *job,
                          const struct muster_terminal *terminal, FILE *out);

/* Who holds the job back, in at most three lines. False: there was no memory, which they report. */
bool muster_verdict_print(const struct muster_view *view, const struct muster_findings *findings,
                          const struct muster_terminal *terminal, FILE *out);

/* The findings of a view, and what its run emitted meanwhile, that the configuration wants to be
 * shown; what keeps them from being found is one line on standard error. Fills a zeroed *findings,
 * which the caller frees. `meanwhile`: of muster_diagnose_view_meanwhile. */
void muster_diagnose_shown(const struct muster_view *view, const struct muster_meanwhile *meanwhile,
                           struct muster_findings *findings);
/* A section of the report; nothing where there are none. */
void muster_diagnose_append(const struct muster_findings *findings,
                            const struct muster_terminal *terminal, FILE *out);

/* ---- several looks ---- */

/* Puts first what somebody has to see first: hangs, then what costs most, then what cannot be
 * known, then what nobody holds back. */
void muster_looks_order(struct muster_look **look, size_t n);

/* Of several each under a heading that names its job. */
void muster_looks_text(struct muster_look *const *look, size_t n, FILE *out);
/* One document. Of several, what is of one job names which. */
void muster_looks_json(struct muster_look *const *look, size_t n, FILE *out);

#endif
