/*
 * The operations of all processes of a run, one process after another: a second thread reads and
 * decodes the logs, a few thousand operations ahead of who takes them. Between the files of this
 * folder.
 */
#ifndef MUSTER_VIEW_READ_AHEAD_H
#define MUSTER_VIEW_READ_AHEAD_H

#include "base/err.h"
#include "run/run.h"

struct muster_read_ahead;

/* NULL: no second processor may be used, or no memory for it; then muster_process_read_ops does.
 * The run stays until the end. */
struct muster_read_ahead *muster_read_ahead_begin(const struct muster_run *run);

/* As muster_process_read_ops of the next process, from the first on. */
int muster_read_ahead_next(struct muster_read_ahead *ahead, muster_op_taker take, void *to,
                           struct muster_err *err);

/* At any time; NULL is nothing. */
void muster_read_ahead_end(struct muster_read_ahead *ahead);

#endif
