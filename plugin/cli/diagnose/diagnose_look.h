/* One look of `muster diagnose` at a job: what was recorded, and what was found in it. */
#ifndef MUSTER_CLI_DIAGNOSE_DIAGNOSE_LOOK_H
#define MUSTER_CLI_DIAGNOSE_DIAGNOSE_LOOK_H

#include "base/err.h"
#include "diagnose/finding.h"
#include "run/run.h"
#include "view/view.h"

/* Stays where it is from a look to its end: the view points to the run. */
struct muster_look {
    const struct muster_live_job *job; /* NULL: all that the query takes */
    struct muster_run run;             /* zeroed, or of the last time */
    struct muster_view view;
    struct muster_findings findings;
};

/* How to look: the same each time. */
struct muster_look_how {
    struct muster_run_query query;
    uint64_t hang_ns; /* how long nothing may move */
    bool told;        /* also what the job told while it ran */
};

/* Afterwards the look is to be ended, after a failure, too; the run is kept for the next one. */
int muster_look_take(struct muster_look *look, const struct muster_look_how *how,
                     struct muster_err *err);
void muster_look_end(struct muster_look *look);

/* Whether a finding of it is not over. */
bool muster_look_unresolved(const struct muster_look *look);
/* The job's run directory; "": it has none, or the look is at no job of its own. */
const char *muster_look_name(const struct muster_look *look);

#endif
