/*
 * Once for a job: several `muster run` look at one run directory, and several processes write the
 * same finding there. Whoever makes a finding's claim file first runs its hook.
 */
#ifndef MUSTER_LAUNCH_HOOK_CLAIM_H
#define MUSTER_LAUNCH_HOOK_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/finding_kinds.h"

/* What a line of a process's findings has, as far as hooks go. */
struct muster_hook_line {
    enum muster_finding_kind kind;
    bool resolved;
    uint64_t finding; /* its kind, communicators and ranks: the same whichever process emits it */
};

/* False: not a line of muster's; any bytes may stand there. */
bool muster_hook_line_read(struct muster_hook_line *line, const char *text, size_t bytes);

/* Whether this process is the first to claim the finding, for the `times`-th time that it came up,
 * in the run directory. Where no file can be made: true, for twice is better than never. */
bool muster_hook_claim(const char *dir, uint64_t finding, unsigned times);

#endif
