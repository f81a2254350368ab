/*
 * What playing a trace needs to know beforehand: its events numbered from 0, with parents and
 * the operations of every group.
 */
#ifndef MUSTER_REPLAY_REPLAY_PLAN_H
#define MUSTER_REPLAY_REPLAY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "replay/replay_ids.h"
#include "trace/trace.h"

#define MUSTER_PLAN_NONE MUSTER_IDS_NONE

struct muster_plan_event {
    uint32_t parent;                                 /* event, MUSTER_PLAN_NONE: none */
    uint32_t group;                                  /* COLL, P2P: the GROUP event */
    uint32_t first_member, last_member, next_member; /* a GROUP's operations */
    uint8_t kind;
    /* The player's. */
    bool fresh;       /* GROUP_API: the mask that it read is still its first operation's */
    unsigned mask;    /* as NCCL keeps it for the event and its descendants */
    unsigned op_mask; /* GROUP_API: of its first operation with a mask */
    bool captured;    /* COLL_API: into a graph, so that it runs nothing */
    void *handle;     /* the plugin's; NULL: none, or not delivered */
};

struct muster_plan {
    struct muster_arena memory; /* of all that follows */
    uint32_t *event_of;         /* by call: event, or context of init and fini; NONE: none */
    uint32_t *context_of;       /* by call: of a start */
    struct muster_plan_event *event;
    uint32_t events, contexts;
    pid_t pid; /* of the recorded process, by its proxy operations; 0: none seen */
};

int muster_plan_make(struct muster_plan *plan, const struct muster_trace *trace,
                     struct muster_err *err);
void muster_plan_free(struct muster_plan *plan);

#endif
