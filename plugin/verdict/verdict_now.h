/* What a job that runs shows before anything has lasted long enough to be called a hang. */
#ifndef MUSTER_VERDICT_VERDICT_NOW_H
#define MUSTER_VERDICT_VERDICT_NOW_H

#include <stdbool.h>

#include "verdict/verdict_writer.h"
#include "view/view.h"

/* Somebody has waited for 2 s in one operation: who, where and for whom, as lines of a verdict.
 * False: nobody has, and nothing is printed. */
bool muster_verdict_write_now(struct muster_verdict_writer *writer, const struct muster_view *view);

#endif
