/* The runs of `muster tune`: which, in what order, until when. */
#ifndef MUSTER_TUNE_TUNE_SEARCH_H
#define MUSTER_TUNE_TUNE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct muster_tune_plan {
    char *const *argv;  /* the command */
    const char *output; /* file of the policy */
    double budget_s;
    bool quiet; /* no progress on stderr */
};

/* Writes the file, with what is proven until then, after every round and at the end. Returns the
 * exit status: 0; 128 + n where signal n ended it early; -1 with err where nothing could be
 * measured, and nothing was written. */
int muster_tune_search(const struct muster_tune_plan *plan, struct muster_err *err);

#endif
