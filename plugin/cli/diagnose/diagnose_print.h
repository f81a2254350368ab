/* What one or several looks found, for people and for programs (docs/reference/diagnose.md). */
#ifndef MUSTER_CLI_DIAGNOSE_DIAGNOSE_PRINT_H
#define MUSTER_CLI_DIAGNOSE_DIAGNOSE_PRINT_H

#include <stdio.h>

#include "cli/diagnose/diagnose_look.h"

/* Puts first what somebody has to see first: hangs, then what costs most, then what cannot be told,
 * then what nobody holds back. */
void muster_looks_order(struct muster_look **look, size_t n);

/* Of several each under a heading that names its job. */
void muster_looks_text(struct muster_look *const *look, size_t n, FILE *out);
/* One document. Of several, what is of one job says of which. */
void muster_looks_json(struct muster_look *const *look, size_t n, FILE *out);

#endif
