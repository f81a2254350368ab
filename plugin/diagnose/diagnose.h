/* All findings of a run, whoever makes them. */
#ifndef MUSTER_DIAGNOSE_DIAGNOSE_H
#define MUSTER_DIAGNOSE_DIAGNOSE_H

#include "base/err.h"
#include "diagnose/finding.h"
#include "view/view.h"

/* Of a view of a run; of one that was fed by hand without hangs. Fills a zeroed *findings, which
 * the caller frees in any case. */
int muster_diagnose_view(const struct muster_view *view, uint64_t hang_ns,
                         struct muster_findings *findings, struct muster_err *err);

/* What else there is to do with the view; on the caller's thread, and in any case. */
struct muster_meanwhile {
    void (*work)(void *arg);
    void *arg;
};
/* The same; on two processors that is done while late ranks, which take longest, are looked for.
 * NULL: nothing. */
int muster_diagnose_view_meanwhile(const struct muster_view *view, uint64_t hang_ns,
                                   const struct muster_meanwhile *meanwhile,
                                   struct muster_findings *findings, struct muster_err *err);

/* Neither hangs nor divergence: what the job loses while it goes on. */
int muster_diagnose_slow(const struct muster_view *view, struct muster_findings *findings,
                         struct muster_err *err);

/* The windows of a run that is evaluated again and again while it goes on; zeroed to begin with.
 * One that begins where the last one did is no new one: evidence in it may be looked at at any
 * time. */
struct muster_windows {
    uint64_t evaluated, since_unix_ns;
};

/* Sets in the view which of them it is, before it is evaluated. `since_unix_ns`: since when it
 * holds all that it compares; 0: since the run began. */
void muster_windows_take(struct muster_windows *windows, uint64_t since_unix_ns,
                         struct muster_view *view);

/* What was recorded and timed, and still shows nothing of who is late or slow: adds a line for each
 * function that has no common end and was used. */
void muster_diagnose_unread(const struct muster_view *view, struct muster_finding_lines *to);

#endif
