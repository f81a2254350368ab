/* Printing findings: for `muster diagnose`, and at the end of `muster run` and `muster report`. */
#ifndef MUSTER_CLI_DIAGNOSE_H
#define MUSTER_CLI_DIAGNOSE_H

#include <stdio.h>

#include "diagnose/finding.h"
#include "segment/run.h"

/* The sentence, and below it evidence, limits and advice, indented. */
void muster_diagnose_print(const struct muster_finding *finding, FILE *out);

/* The findings of a loaded run, where there are any; nothing else. */
void muster_diagnose_append(const struct muster_run *run, FILE *out);

#endif
