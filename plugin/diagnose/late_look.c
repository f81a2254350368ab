/* A guilty rank's operations once more: where in the step, how often, and what its host did. */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "diagnose/late_build.h"

#define HALF 0.5
#define MOST 0.7 /* of the operations it was late in: what is true of so many is said of all */

/* Operations of the rank that it was late in, as far as the host's times are known. */
struct sights {
    uint32_t behind, queued, at_once; /* called after the others; stood in the queue; did not */
};

/* How much later than the median of the others of its host the call came. */
static bool behind(const struct muster_late_walk *walk, uint32_t own, int64_t *scratch,
                   int64_t *behind_ns)
{
    const struct muster_joint *joint = &walk->joint;
    const struct muster_view *view = joint->view;
    const struct muster_view_member *member = &view->member[joint->comm->first_member];
    const struct muster_view_gpu *gpu = &view->gpu[member[own].gpu];
    size_t n = 0;
    if (joint->op[own]->queued == MUSTER_QUEUED_UNKNOWN) {
        return false;
    }
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_gpu *other = &view->gpu[member[i].gpu];
        if (i != own && joint->op[i] && other->host_times && strcmp(other->host, gpu->host) == 0) {
            scratch[n++] = (int64_t)joint->op[i]->enqueue_ns;
        }
    }
    if (!n) {
        return false;
    }
    muster_sort_i64(scratch, n);
    *behind_ns = (int64_t)joint->op[own]->enqueue_ns - scratch[n / 2];
    return true;
}

/* The host, if its calls came late and the GPU then began at once; the GPU, if the calls stood
 * in its queue for as long as it was late. Arrival alone proves nothing: hosts run ahead. */
static void find_cause(const struct sights *sights, struct muster_late_detail *detail)
{
    double enough = MOST * detail->host_known;
    detail->arrived_late = sights->behind;
    detail->waited_in_queue = sights->queued;
    if (!detail->host_known) {
        return;
    }
    if (sights->behind >= enough && sights->at_once >= enough) {
        detail->cause = MUSTER_CAUSE_HOST;
    } else if (sights->queued >= enough && sights->behind < (1 - MOST) * detail->host_known) {
        detail->cause = MUSTER_CAUSE_GPU;
    }
}

static void sight(const struct muster_view_op *op, uint64_t blame_ns, int64_t behind_ns,
                  struct sights *sights)
{
    uint64_t queued_ns = op->queued * MUSTER_QUEUED_NS;
    double late = HALF * (double)blame_ns;
    sights->behind += (double)behind_ns >= late;
    sights->queued += queued_ns >= blame_ns;
    sights->at_once += (double)queued_ns < late;
}

static void sum_places(const struct muster_late_places *places, struct muster_late_detail *detail)
{
    uint64_t hits = 0;
    uint64_t chances = 0;
    uint32_t most = 0;
    for (size_t i = 0; i < places->slots; i++) {
        const struct muster_late_place *place = &places->place[i];
        if (place->count && place->hits > 1) {
            hits += place->hits;
            chances += place->count - place->first + 1;
        }
        if (place->count && place->hits > most) {
            most = place->hits;
            detail->class = place->class;
        }
    }
    detail->rate = chances ? (double)hits / (double)chances : 0;
}

/* Whether it was not late the time before at this place. */
static bool note_place(struct muster_late_place *place)
{
    bool turn = !place->hits || place->seen != place->last + 1;
    place->first = place->hits ? place->first : place->seen;
    place->last = place->seen;
    place->hits++;
    return turn;
}

int muster_late_look(const struct muster_view *view, const struct muster_late_guilt *guilt,
                     struct muster_late_detail *detail)
{
    struct muster_late_walk walk;
    struct sights sights = {0};
    uint32_t own = guilt->member - view->comm[guilt->comm].first_member;
    int64_t *scratch = calloc(view->comm[guilt->comm].members + 1, sizeof *scratch);
    memset(detail, 0, sizeof *detail);
    detail->class = MUSTER_VIEW_NONE;
    if (!scratch || muster_late_walk_begin(&walk, view, guilt->comm)) {
        free(scratch);
        return -1;
    }
    walk.relative = guilt->demands.relative;
    while (muster_late_walk_next(&walk)) {
        const struct muster_view_op *op = walk.joint.op[own];
        int64_t behind_ns;
        if (!op || walk.counted_ns[own] < MUSTER_LATE_FLOOR_NS << guilt->scale) {
            continue;
        }
        detail->turns += note_place(walk.place);
        detail->first = detail->first ? detail->first : op;
        if (behind(&walk, own, scratch, &behind_ns)) {
            detail->host_known++;
            sight(op, walk.blame_ns[own], behind_ns, &sights);
        }
    }
    find_cause(&sights, detail);
    sum_places(&walk.places, detail);
    muster_late_walk_end(&walk);
    free(scratch);
    return 0;
}
