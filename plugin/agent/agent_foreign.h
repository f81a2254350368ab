/* Jobs on this host whose plugin writes another segment format: logged once for each, as nothing of
 * them is shown. */
#ifndef MUSTER_AGENT_AGENT_FOREIGN_H
#define MUSTER_AGENT_AGENT_FOREIGN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "segment/reap.h"

enum { MUSTER_AGENT_FORMATS = 4 }; /* that are logged, ever */

/* To begin with: {0}. One thread. */
struct muster_agent_foreign {
    uint32_t logged[MUSTER_AGENT_FORMATS];
    unsigned formats;
};

/* Looks at the living ones of those found; a line for each format that is new. */
void muster_agent_foreign_look(struct muster_agent_foreign *foreign,
                               const struct muster_found *found, size_t n, FILE *log);

#endif
