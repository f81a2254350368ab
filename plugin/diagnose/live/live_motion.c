#include "diagnose/live/live_motion.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum {
    SPARE = 256,           /* communicators that are gone before their places are given back */
    EVALUATE_SHARE = 1000, /* one part in so many of a processor's time is for evaluating again */
};
#define AGAIN_MOST_NS (16 * MUSTER_LIVE_AGAIN_NS)

static struct muster_live_motion *find(const struct muster_live_motions *motions, uint64_t id)
{
    size_t at = motions->by_id.key_bytes ? muster_hashmap_find(&motions->by_id, &id) : SIZE_MAX;
    return at == SIZE_MAX ? NULL : &motions->motion[at];
}

static struct muster_live_motion *add(struct muster_live_motions *motions, uint64_t id)
{
    motions->by_id.key_bytes = sizeof id;
    if (!muster_grow(&motions->motion, motions->n, sizeof *motions->motion) ||
        !muster_hashmap_put(&motions->by_id, &id, motions->n))
        return NULL;
    motions->motion[motions->n] = (struct muster_live_motion){.id = id};
    return &motions->motion[motions->n++];
}

static void gather(struct muster_live_motions *motions, const struct muster_live_peer *peer)
{
    for (unsigned c = 0; c < peer->comms; c++) {
        struct muster_live_motion *motion = find(motions, peer->comm[c].id);
        if (!motion)
            motion = add(motions, peer->comm[c].id);
        if (!motion)
            continue;
        motion->idle = peer->comm[c].idle &&
                       (!motion->seen || (motion->idle && motion->calls == peer->comm[c].calls));
        motion->calls = peer->comm[c].calls;
        if (peer->comm[c].moved_ns > motion->moved_ns)
            motion->moved_ns = peer->comm[c].moved_ns;
        motion->seen = true;
        motion->next = motion->next * 31 + peer->comm[c].mark + peer->alive;
    }
}

/* Since when one that is new here stands still. */
static uint64_t still_since(const struct muster_live_motions *motions,
                            const struct muster_live_motion *motion,
                            const struct muster_live_motions *before, uint64_t now_ns)
{
    const struct muster_live_motion *earlier = before ? find(before, motion->id) : NULL;
    if (earlier && earlier->since_ns)
        return earlier->since_ns;
    bool known = motions->from_outside && motion->moved_ns && motion->moved_ns < now_ns;
    return known ? motion->moved_ns : now_ns;
}

static bool take_one(const struct muster_live_motions *motions, struct muster_live_motion *motion,
                     const struct muster_live_motions *before, uint64_t now_ns)
{
    bool is_new = motion->since_ns == 0, moved = motion->mark != motion->next;
    if (is_new)
        motion->since_ns = still_since(motions, motion, before, now_ns);
    else if (moved)
        motion->since_ns = now_ns;
    motion->mark = motion->next;
    return is_new || moved;
}

/* Those that are gone make room. */
static void compact(struct muster_live_motions *motions)
{
    size_t kept = 0;
    muster_hashmap_free(&motions->by_id);
    motions->by_id.key_bytes = sizeof(uint64_t);
    for (size_t i = 0; i < motions->n; i++) {
        struct muster_live_motion *motion = &motions->motion[i];
        if (motion->seen && muster_hashmap_put(&motions->by_id, &motion->id, kept))
            motions->motion[kept++] = *motion;
    }
    motions->n = kept;
}

bool muster_live_motions_take(struct muster_live_motions *motions,
                              const struct muster_live_peer *peer, size_t n,
                              const struct muster_live_motions *before, uint64_t now_ns)
{
    bool moved = false;
    size_t gone = 0;
    for (size_t i = 0; i < motions->n; i++) {
        motions->motion[i].seen = false;
        motions->motion[i].next = 0;
    }
    for (size_t i = 0; i < n; i++)
        gather(motions, &peer[i]);
    for (size_t i = 0; i < motions->n; i++)
        if (motions->motion[i].seen)
            moved |= take_one(motions, &motions->motion[i], before, now_ns);
        else
            gone++;
    if (gone > SPARE)
        compact(motions);
    return moved;
}

bool muster_live_motions_due(const struct muster_live_motions *motions, uint64_t hang_ns,
                             uint64_t evaluated_ns, uint64_t again_ns, uint64_t now_ns)
{
    for (size_t i = 0; i < motions->n; i++) {
        uint64_t due = motions->motion[i].since_ns + hang_ns;
        if (motions->motion[i].seen && !motions->motion[i].idle && now_ns >= due &&
            (evaluated_ns < due || now_ns - evaluated_ns >= again_ns))
            return true;
    }
    return false;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t muster_live_again_ns(uint64_t again_ns, bool found, bool fresh, uint64_t cost_ns)
{
    uint64_t longer = 2 * again_ns < AGAIN_MOST_NS ? 2 * again_ns : AGAIN_MOST_NS;
    if (found)
        return MUSTER_LIVE_AGAIN_NS;
    return larger(EVALUATE_SHARE * cost_ns, fresh ? MUSTER_LIVE_AGAIN_NS : longer);
}

void muster_live_motions_free(struct muster_live_motions *motions)
{
    free(motions->motion);
    muster_hashmap_free(&motions->by_id);
    memset(motions, 0, sizeof *motions);
}
