/* Since when nothing has moved in each communicator. One thread. */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_MOTION_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_MOTION_H

#include "base/clock.h"
#include "base/hashmap.h"
#include "diagnose/live/live_peers.h"

struct muster_live_motion {
    uint64_t id;
    uint64_t mark, next; /* of all its ranks: when it moved last, and as it is gone through */
    uint64_t since_ns;
    uint64_t moved_ns; /* the newest of its ranks */
    uint64_t calls;
    bool seen; /* in this round */
    bool idle; /* all its ranks called the same, and all of it has ended: nobody waits in it */
};

/* Zeroed to begin with. */
struct muster_live_motions {
    struct muster_live_motion *motion;
    size_t n;
    struct muster_hashmap by_id;
    bool from_outside; /* the job may have stood still for long when the first look comes */
};

/* Takes what `n` processes show. A communicator that is new here has stood still for as long as it
 * has in `before`, which may be NULL; else, from outside, since the newest call or end of its
 * ranks. Returns whether anything moved. Without memory communicators are left out. */
bool muster_live_motions_take(struct muster_live_motions *motions,
                              const struct muster_live_peer *peer, size_t n,
                              const struct muster_live_motions *before, uint64_t now_ns);

/* Whether one in which somebody may wait has stood still for `hang_ns`, and that was not so at
 * `evaluated_ns`, or that is `again_ns` ago. */
bool muster_live_motions_due(const struct muster_live_motions *motions, uint64_t hang_ns,
                             uint64_t evaluated_ns, uint64_t again_ns, uint64_t now_ns);

/* How long until what stands still is evaluated once more. While nothing was found: after 10 s,
 * then after twice as long each time, as what would make a difference moves, and that is seen; so
 * seldom that it takes a thousandth of a processor. To begin with: MUSTER_LIVE_AGAIN_NS. `fresh`:
 * something had not stood still for `hang_ns` the last time; `cost_ns`: of a processor. */
#define MUSTER_LIVE_AGAIN_NS (10 * MUSTER_NS_PER_S)
uint64_t muster_live_again_ns(uint64_t again_ns, bool found, bool fresh, uint64_t cost_ns);

void muster_live_motions_free(struct muster_live_motions *motions);

#endif
