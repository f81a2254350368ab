/*
 * What the job emitted while it ran: the findings files that its leaders wrote into the run
 * directory (docs/reference/diagnose.md has the fields), beside what is found afterwards. Nothing
 * in them is trusted.
 */
#ifndef MUSTER_EMITTED_EMITTED_H
#define MUSTER_EMITTED_EMITTED_H

#include "base/err.h"
#include "diagnose/finding.h"
#include "run/run.h"

/* A findings file's bytes: adds each finding as it was emitted last. A line that is none is left
 * out and noted in emitted->not_observable, by file, line and column. `name` stands there. -1: no
 * memory. */
int muster_emitted_parse(const char *name, const char *bytes, size_t n,
                         struct muster_findings *emitted, struct muster_err *err);

/* Adds to `findings`, which were found in the whole run, what its processes emitted and what is not
 * among them: hangs that are over, what was withdrawn, and what does not show in the whole. What is
 * among them gets a line that it was emitted, too. -1: no memory. */
int muster_emitted_add(const struct muster_run *run, struct muster_findings *findings,
                       struct muster_err *err);

/* The second half of that, of findings that were read. -1: no memory. */
int muster_emitted_merge(const struct muster_findings *emitted, struct muster_findings *findings,
                         struct muster_err *err);

#endif
