/* Findings over time: what is new, and what is over. One thread. */
#ifndef MUSTER_DIAGNOSE_FINDING_CHANGES_H
#define MUSTER_DIAGNOSE_FINDING_CHANGES_H

#include "diagnose/finding.h"

enum { MUSTER_WATCH_MAX = 256 }; /* remembered; the oldest resolved ones give way */

struct muster_watch {
    struct muster_findings known;       /* resolved and retracted ones included */
    unsigned missed[MUSTER_WATCH_MAX];  /* looks in a row that did not find known[i] */
    unsigned unfound[MUSTER_WATCH_MAX]; /* likewise, of muster_watch_drop_over */
    struct muster_findings maybe;       /* late ranks and slow transfers that the last look found */
    unsigned looks[MUSTER_WATCH_MAX];   /* in a row that found them */
    uint64_t window_unix_ns; /* what is looked at reaches back to then; 0: to the start */
    size_t alive;            /* processes */
    unsigned hold;           /* looks during which no hang is taken for resolved */
};

/* Emitted once when a finding is new, and once when it is resolved or retracted. */
typedef void muster_watch_emit(void *arg, const struct muster_finding *finding);

/* Same kind, communicator, operation and first culprit; of hang_dead a culprit is enough. */
bool muster_watch_same(const struct muster_finding *a, const struct muster_finding *b);

/* `now`: all that holds at this moment. A known hang that is not among it is resolved, or, if the
 * same operation now has another reason, retracted; findings of other kinds stand for the run.
 * Leaves late_rank and slow_transfer to muster_watch_slow. */
void muster_watch_update(struct muster_watch *watch, const struct muster_findings *now,
                         muster_watch_emit *emit, void *arg);

/* How many processes live, before each update. Where some have just gone, a hang that is not found
 * any more is not resolved: the job is leaving, or another finding is on its way. */
void muster_watch_alive(struct muster_watch *watch, size_t alive);

/* How far back goes what the next looks look at, since 1970; 0, as it begins: to the beginning. */
void muster_watch_window(struct muster_watch *watch, uint64_t since_unix_ns);

/* The same for late_rank and slow_transfer of `now`. They rest on counts, so that a late rank is
 * emitted only if it was found two times in a row, a slow transfer, which may be a moment's, ten
 * times; or if `last`: there will be no other time. Who is held against one other rank alone is
 * emitted only once that was found for 10 s. And only if it cost 1 % of what was looked at and 10
 * ms, which does not retract what was emitted. Of a late rank that is known no more is emitted, in
 * whatever communicator it is late and by how much. What is known and is not found any more as many
 * times in a row as it takes to emit it, and once more, is retracted, while what is looked at still
 * holds what it rested on (muster_watch_window); afterwards it stands for the run.
 */
void muster_watch_slow(struct muster_watch *watch, const struct muster_findings *now, bool last,
                       muster_watch_emit *emit, void *arg);

/* For those who show what holds now: a known late_rank or slow_transfer of which `now`, three times
 * in a row, has none of that kind with that first culprit, in whatever communicator, is resolved.
 * What was retracted is over already, and is not emitted again. After muster_watch_slow; `emit` may
 * be NULL. */
void muster_watch_drop_over(struct muster_watch *watch, const struct muster_findings *now,
                            muster_watch_emit *emit, void *arg);

/* Whether what is known, and not over, has at least what `finding` has, of late ranks and slow
 * transfers. */
bool muster_watch_knows(const struct muster_watch *watch, const struct muster_finding *finding);

/* Whether a look at once may emit what the last one found. */
bool muster_watch_suspects(const struct muster_watch *watch);

/* Nothing more can be looked at: what was found once is emitted. */
void muster_watch_end(struct muster_watch *watch, muster_watch_emit *emit, void *arg);

/* Of all kinds; of hangs alone, without processes that nobody waits for yet; of processes that are
 * gone. */
size_t muster_watch_unresolved(const struct muster_watch *watch);
size_t muster_watch_hanging(const struct muster_watch *watch);
size_t muster_watch_gone(const struct muster_watch *watch);
void muster_watch_free(struct muster_watch *watch);

#endif
