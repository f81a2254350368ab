/* Printing findings: for `muster diagnose`, and at the end of `muster run` and `muster report`. */
#ifndef MUSTER_CLI_CMD_DIAGNOSE_H
#define MUSTER_CLI_CMD_DIAGNOSE_H

#include <stdio.h>

#include "base/terminal.h"
#include "diagnose/finding.h"
#include "view/view.h"

/* The sentence, and below it evidence, limits and advice, indented. */
void muster_diagnose_print(const struct muster_finding *finding,
                           const struct muster_terminal *terminal, FILE *out);

/* Who holds the job back, in at most three lines. */
void muster_verdict_print(const struct muster_view *view, const struct muster_findings *findings,
                          const struct muster_terminal *terminal, FILE *out);

/* The findings of a view that the configuration wants to be shown; what keeps them from being found
 * is one line on standard error. Fills a zeroed *findings, which the caller frees. */
void muster_diagnose_shown(const struct muster_view *view, struct muster_findings *findings);
/* A section of the report; nothing where there are none. */
void muster_diagnose_append(const struct muster_findings *findings,
                            const struct muster_terminal *terminal, FILE *out);

#endif
