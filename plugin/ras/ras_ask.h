/* Asks NCCL's RAS service for its report: one question, in a child process with a deadline. */
#ifndef MUSTER_RAS_RAS_ASK_H
#define MUSTER_RAS_RAS_ASK_H

#include "ras/ras_report.h"

/* `where`: HOST:PORT, as NCCL_RAS_ADDR has it. Takes seconds where ranks do not answer NCCL, twenty
 * at most. Fails where nobody answers, and for NCCL before 2.28.7, which knows no JSON. */
int muster_ras_ask(const char *where, struct muster_ras_report *report, struct muster_err *err);

#endif
