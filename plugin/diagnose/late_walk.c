/* What each rank is to blame for in each operation of a communicator. */
#include <stdlib.h>
#include <string.h>

#include "diagnose/late_build.h"

enum {
    PLACE_MIN = 5, /* a place met less often is no part of a step */
};

static size_t hash(uint32_t class, uint32_t before)
{
    uint64_t x = ((uint64_t) class << 32 | before) * 0x9e3779b97f4a7c15ull;
    return (size_t)(x >> 29);
}

static bool grow(struct muster_late_places *places)
{
    struct muster_late_places more = {.slots = places->slots ? 2 * places->slots : 64,
                                      .used = places->used};
    more.place = calloc(more.slots, sizeof *more.place);
    if (!more.place) {
        return false;
    }
    for (size_t i = 0; i < places->slots; i++) {
        if (places->place[i].count) {
            size_t at = hash(places->place[i].class, places->place[i].before) & (more.slots - 1);
            while (more.place[at].count) {
                at = (at + 1) & (more.slots - 1);
            }
            more.place[at] = places->place[i];
        }
    }
    free(places->place);
    *places = more;
    return true;
}

struct muster_late_place *muster_late_place(struct muster_late_places *places, uint32_t class,
                                            uint32_t before, bool make)
{
    if (make && 2 * places->used >= places->slots && !grow(places)) {
        return NULL;
    }
    size_t at = places->slots ? hash(class, before) & (places->slots - 1) : 0;
    while (places->slots && places->place[at].count) {
        if (places->place[at].class == class && places->place[at].before == before) {
            return &places->place[at];
        }
        at = (at + 1) & (places->slots - 1);
    }
    if (!make) {
        return NULL;
    }
    places->place[at] = (struct muster_late_place){.class = class, .before = before};
    places->used++;
    return &places->place[at];
}

/* Operations that all ranks leave together, and broadcasts, where the root can be late. */
static bool readable(unsigned func)
{
    switch (func) {
    case MUSTER_FUNC_ALL_REDUCE:
    case MUSTER_FUNC_ALL_GATHER:
    case MUSTER_FUNC_REDUCE_SCATTER:
    case MUSTER_FUNC_ALL_TO_ALL:
    case MUSTER_FUNC_BROADCAST:
        return true;
    default:
        return false;
    }
}

enum {
    LAGS_MIN = 4,
    LAG_LASTS = 32, /* operations: about a step */
};

enum { HOLE = 64 }; /* operations: a longer one ends a stretch; drops leave shorter ones */

static void pass(struct muster_late_position *at, const struct muster_view_op *op)
{
    bool graph = op->flags & MUSTER_OP_GRAPH;
    bool new = !at->begun || graph != at->graph || op->number > at->number + HOLE;
    at->stretch += new;
    at->index++;
    at->number = op->number;
    at->graph = graph;
    at->begun = true;
}

unsigned muster_late_part_of(const struct muster_late_walk *walk, unsigned parts)
{
    if (walk->end.stretch >= parts) {
        return (unsigned)((uint64_t)(walk->at.stretch - 1) * parts / walk->end.stretch);
    }
    return (unsigned)((walk->at.index - 1) * parts / walk->end.index);
}

/* Whether there are self times to compare. */
static bool knows_self(const struct muster_late_walk *walk)
{
    unsigned known = 0;
    for (uint32_t i = 0; i < walk->joint.comm->members && known < 2; i++) {
        const struct muster_view_op *op = walk->joint.op[i];
        known += op && op->self_ns != MUSTER_SELF_UNKNOWN;
    }
    return known == 2;
}

int muster_late_walk_begin(struct muster_late_walk *walk, const struct muster_view *view,
                           uint32_t comm)
{
    memset(walk, 0, sizeof *walk);
    uint32_t n = view->comm[comm].members;
    walk->blame_ns = calloc(4 * (size_t)n + 1, sizeof *walk->blame_ns);
    walk->lag = calloc(n + 1, sizeof *walk->lag);
    if (!walk->blame_ns || !walk->lag || muster_joint_begin(&walk->joint, view, comm)) {
        free(walk->blame_ns);
        free(walk->lag);
        return -1;
    }
    walk->late_ns = walk->blame_ns + n;
    walk->scratch = walk->late_ns + n;
    walk->counted_ns = walk->scratch + n;
    int result = 0;
    while (result == 0 && muster_joint_next(&walk->joint)) {
        const struct muster_view_op *op = walk->joint.any;
        if (readable(op->func)) {
            struct muster_late_place *place =
                muster_late_place(&walk->places, op->class, op->before, true);
            result = place ? 0 : -1;
            if (place) {
                place->count++;
            }
        }
        if (readable(op->func) && knows_self(walk)) {
            pass(&walk->end, op);
        }
    }
    muster_joint_end(&walk->joint);
    if (result || muster_joint_begin(&walk->joint, view, comm) || muster_late_calls_begin(walk)) {
        muster_late_walk_end(walk);
        return -1;
    }
    return 0;
}

void muster_late_walk_end(struct muster_late_walk *walk)
{
    muster_late_calls_end(&walk->calls);
    muster_joint_end(&walk->joint);
    free(walk->places.place);
    free(walk->blame_ns);
    free(walk->lag);
    memset(walk, 0, sizeof *walk);
}

/* The value of rank `k` (from 0) of n in ascending order; reorders. */
static uint64_t select_kth(uint64_t *value, size_t n, size_t k)
{
    size_t low = 0;
    size_t high = n - 1;
    while (low < high) {
        uint64_t pivot = value[low + (high - low) / 2];
        size_t i = low;
        size_t j = high;
        for (;;) {
            while (value[i] < pivot) {
                i++;
            }
            while (value[j] > pivot) {
                j--;
            }
            if (i >= j) {
                break;
            }
            uint64_t swap = value[i];
            value[i++] = value[j];
            value[j--] = swap;
        }
        size_t split = i == j && value[i] <= pivot ? i : i - 1;
        split = split < low ? low : split;
        if (k <= split) {
            high = split;
        } else {
            low = split + 1;
        }
    }
    return value[low];
}

/* What self times are measured against: the lower third, so that a third of the ranks may be
 * guilty together; the smaller of two or three. MUSTER_SELF_UNKNOWN: fewer than two are known. */
static uint64_t usual_self(struct muster_late_walk *walk)
{
    size_t n = 0;
    for (uint32_t i = 0; i < walk->joint.comm->members; i++) {
        const struct muster_view_op *op = walk->joint.op[i];
        if (op && op->self_ns != MUSTER_SELF_UNKNOWN) {
            walk->scratch[n++] = op->self_ns;
        }
    }
    return n < 2 ? MUSTER_SELF_UNKNOWN : select_kth(walk->scratch, n, (n - 1) / 3);
}

static uint64_t duration(const struct muster_view_op *op)
{
    return op->end_ns - op->begin_ns;
}

/* A root of a broadcast leaves when it has sent: it was late if even the receiver that waited
 * least ran longer. Of receivers nothing is known. */
static void root_lateness(struct muster_late_walk *walk)
{
    const struct muster_joint *joint = &walk->joint;
    const struct muster_view *view = joint->view;
    const struct muster_view_member *first = &view->member[joint->comm->first_member];
    uint64_t shortest = UINT64_MAX;
    int32_t root = view->class[joint->any->class].root;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        if (joint->op[i] && first[i].rank != root && duration(joint->op[i]) < shortest) {
            shortest = duration(joint->op[i]);
        }
    }
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        uint64_t own = joint->op[i] ? duration(joint->op[i]) : UINT64_MAX;
        bool is = joint->op[i] && first[i].rank == root && shortest != UINT64_MAX;
        walk->late_ns[i] = is && shortest > own ? shortest - own : 0;
    }
}

static void set_lateness(struct muster_late_walk *walk)
{
    const struct muster_joint *joint = &walk->joint;
    uint64_t longest = 0;
    if (joint->any->func == MUSTER_FUNC_BROADCAST) {
        root_lateness(walk);
        return;
    }
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        uint64_t own = joint->op[i] ? duration(joint->op[i]) : 0;
        longest = own > longest ? own : longest;
    }
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        walk->late_ns[i] = joint->op[i] ? longest - duration(joint->op[i]) : 0;
    }
}

uint64_t muster_late_least_ns(const struct muster_late_walk *walk)
{
    double own_ns = walk->relative * (double)walk->usual_ns;
    return own_ns > (double)MUSTER_LATE_FLOOR_NS ? (uint64_t)own_ns : MUSTER_LATE_FLOOR_NS;
}

/* Whether lags outlast operations here, as the other ranks show: whoever was late mostly still is
 * in the next one. Of the rank itself it could be its own lateness. */
static bool lags_last(const struct muster_late_walk *walk, const struct muster_late_lag *own)
{
    uint32_t known = walk->lags_known - own->known;
    return 2 * (walk->lags_last - own->lasts) >= known;
}

static void note_lag(struct muster_late_walk *walk, struct muster_late_lag *lag, uint64_t own_ns)
{
    if (lag->before_ns >= MUSTER_LATE_FLOOR_NS) {
        lag->lags++;
        lag->carried += 2 * own_ns >= lag->before_ns;
        bool known = lag->lags >= LAGS_MIN;
        bool lasts = known && 4 * lag->carried >= 3 * lag->lags;
        walk->lags_known += known - lag->known;
        walk->lags_last += (uint32_t)lasts - lag->lasts;
        lag->known = known;
        lag->lasts = lasts;
    }
    lag->before_ns = own_ns;
}

/* Where computing goes on while an operation waits, a lag is seen again in each of the next
 * operations, although self times are short there: what was too little where it came from is no
 * more later on. */
static void set_counted(struct muster_late_walk *walk)
{
    uint64_t least_ns = muster_late_least_ns(walk);
    for (uint32_t i = 0; i < walk->joint.comm->members; i++) {
        struct muster_late_lag *lag = &walk->lag[i];
        uint64_t own_ns = walk->blame_ns[i];
        note_lag(walk, lag, own_ns);
        bool last = lags_last(walk, lag) && walk->at.index < lag->until;
        lag->small_ns = last ? lag->small_ns : 0;
        bool counts = own_ns >= least_ns && own_ns >= lag->small_ns + MUSTER_LATE_FLOOR_NS;
        walk->counted_ns[i] = counts ? own_ns - lag->small_ns : 0;
        if (own_ns < least_ns) {
            lag->until = walk->at.index + LAG_LASTS;
        }
        lag->small_ns = own_ns < least_ns || own_ns < lag->small_ns ? own_ns : lag->small_ns;
    }
}

/* Of each member; false: nothing usual to compare with. */
static bool set_blame(struct muster_late_walk *walk)
{
    const struct muster_joint *joint = &walk->joint;
    const struct muster_view_op *any = joint->any;
    walk->place = readable(any->func)
                      ? muster_late_place(&walk->places, any->class, any->before, false)
                      : NULL;
    walk->usual_ns =
        walk->place && walk->place->count >= PLACE_MIN ? usual_self(walk) : MUSTER_SELF_UNKNOWN;
    if (walk->usual_ns == MUSTER_SELF_UNKNOWN) {
        return false;
    }
    set_lateness(walk);
    walk->place->seen++;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        bool known = op && op->self_ns != MUSTER_SELF_UNKNOWN && op->self_ns > walk->usual_ns;
        uint64_t excess = known ? op->self_ns - walk->usual_ns : 0;
        walk->blame_ns[i] = excess < walk->late_ns[i] ? excess : walk->late_ns[i];
    }
    muster_late_carry(walk);
    set_counted(walk);
    return true;
}

/* After a hole nothing is known of the operation before. */
static void forget_lags(struct muster_late_walk *walk)
{
    for (uint32_t i = 0; i < walk->joint.comm->members; i++) {
        walk->lag[i].before_ns = walk->lag[i].small_ns = 0;
    }
}

bool muster_late_walk_next(struct muster_late_walk *walk)
{
    while (muster_joint_next(&walk->joint)) {
        if (walk->joint.any->number != walk->calls.number + 1) {
            forget_lags(walk);
        }
        bool found = set_blame(walk);
        if (readable(walk->joint.any->func) && knows_self(walk)) {
            pass(&walk->at, walk->joint.any);
        }
        muster_late_calls_note(walk);
        if (found) {
            return true;
        }
    }
    return false;
}
