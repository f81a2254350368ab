/*
 * Late ranks and slow transfers while the job runs: the latest operations of this host's processes,
 * evaluated by the functions that evaluate a recorded run. One thread, the live diagnosis' own;
 * looks follow each other so slowly that all of it takes less than 0.6 % of a processor
 * (bench/live_cost).
 */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_SLOW_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_SLOW_H

#include "diagnose/diagnose.h"
#include "diagnose/live/live_run.h"

/* When it was evaluated; zeroed to begin with. */
struct muster_live_slow {
    uint64_t evaluated_ns, rest_ns;
    uint64_t timed;    /* operations, until then */
    uint64_t apart_ns; /* so long after it what was found then may be found again */
    struct muster_windows windows;
};

/* Whether enough came since the last time, and it is not too early for what it costs; `waiting`: or
 * something that was found waits for another look. */
bool muster_live_slow_due(const struct muster_live_slow *slow, const struct muster_live_run *run,
                          uint64_t now_ns, bool waiting);
/* The same, of so many operations timed since their processes began. */
bool muster_live_slow_due_at(const struct muster_live_slow *slow, uint64_t timed, size_t processes,
                             uint64_t now_ns, bool waiting);
/* For jobs that share what one of them may take: until when they have had it, once one of them was
 * evaluated, which has to rest for `rest_ns`. What was left over in the second before is there to
 * be used. 0 at first. */
uint64_t muster_live_slow_paid_ns(uint64_t paid_ns, uint64_t now_ns, uint64_t rest_ns);
/* How long after a look that found these they may be found again: some of their steps, half a
 * minute at most. */
uint64_t muster_live_slow_apart_ns(const struct muster_findings *findings);

/* Adds what holds now to zeroed findings. `look`, unless NULL, sees the view that is evaluated.
 * False: no memory. */
typedef void muster_live_slow_look(void *arg, const struct muster_view *view);
bool muster_live_slow_evaluate(struct muster_live_slow *slow, struct muster_live_run *live,
                               const struct muster_live_peers *peers, uint64_t now_ns,
                               struct muster_findings *findings, muster_live_slow_look *look,
                               void *arg);

#endif
