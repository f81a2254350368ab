/* A guilty rank's operations once more: where in the step, how often, and what its host did. */
#include <stdlib.h>
#include <string.h>

#include "diagnose/late_build.h"
#include "segment/table.h"

#define HALF 0.5
#define MOST 0.7 /* of the operations it was late in: what is true of so many is said of all */
enum {
    NEAR = 64,        /* operations around one, for how soon a launch can begin */
    KEEP_MAX = 65536, /* operations looked at for the cause */
};

/* One operation of the rank. */
struct sight {
    uint64_t blame_ns;
    int64_t queue_ns;  /* begin on the GPU's clock minus call on the host's: means something only
                          beside another one */
    int64_t behind_ns; /* its call after the others' of this host */
    bool hit, host;
};

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* How much later than the median of the others of its host the call came. */
static bool behind(const struct muster_late_walk *walk, uint32_t own, int64_t *scratch,
                   int64_t *behind_ns)
{
    const struct muster_joint *joint = &walk->joint;
    const struct muster_view *view = joint->view;
    const struct muster_view_member *member = &view->member[joint->comm->first_member];
    const struct muster_view_gpu *gpu = &view->gpu[member[own].gpu];
    size_t n = 0;
    /* NCCL shows a replay when it runs, not when it was called. */
    if (!gpu->host_times || (joint->op[own]->flags & MUSTER_OP_GRAPH)) {
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
    qsort(scratch, n, sizeof *scratch, by_value);
    *behind_ns = (int64_t)joint->op[own]->enqueue_ns - scratch[n / 2];
    return true;
}

static int64_t soonest(const struct sight *sight, size_t n, size_t at)
{
    size_t from = at > NEAR ? at - NEAR : 0;
    size_t to = at + NEAR < n ? at + NEAR : n;
    int64_t least = sight[at].queue_ns;
    for (size_t i = from; i < to; i++) {
        least = sight[i].queue_ns < least ? sight[i].queue_ns : least;
    }
    return least;
}

/* The host, if its calls came late and the GPU then began at once; the GPU, if the calls stood
 * in its queue for as long as it was late. Arrival alone proves nothing: hosts run ahead. */
static void find_cause(const struct sight *sight, size_t n, struct muster_late_detail *detail)
{
    uint32_t at_once = 0;
    for (size_t i = 0; i < n; i++) {
        if (!sight[i].hit || !sight[i].host) {
            continue;
        }
        double late = HALF * (double)sight[i].blame_ns;
        double queued = (double)(sight[i].queue_ns - soonest(sight, n, i));
        detail->host_known++;
        detail->arrived_late += (double)sight[i].behind_ns >= late;
        detail->waited_in_queue += queued >= (double)sight[i].blame_ns;
        at_once += queued < late;
    }
    double enough = MOST * detail->host_known;
    if (!detail->host_known) {
        return;
    }
    if (detail->arrived_late >= enough && at_once >= enough) {
        detail->cause = MUSTER_CAUSE_HOST;
    } else if (detail->waited_in_queue >= enough &&
               detail->arrived_late < (1 - MOST) * detail->host_known) {
        detail->cause = MUSTER_CAUSE_GPU;
    }
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

static void note_place(struct muster_late_place *place)
{
    place->first = place->hits ? place->first : place->seen;
    place->hits++;
}

int muster_late_look(const struct muster_view *view, const struct muster_late_guilt *guilt,
                     struct muster_late_detail *detail)
{
    struct muster_late_walk walk;
    struct sight *sight = NULL;
    size_t n = 0;
    uint32_t own = guilt->member - view->comm[guilt->comm].first_member;
    int64_t *scratch = calloc(view->comm[guilt->comm].members + 1, sizeof *scratch);
    memset(detail, 0, sizeof *detail);
    detail->class = MUSTER_VIEW_NONE;
    int result = !scratch || muster_late_walk_begin(&walk, view, guilt->comm) ? -1 : 0;
    if (result) {
        free(scratch);
        return -1;
    }
    while (result == 0 && muster_late_walk_next(&walk)) {
        const struct muster_view_op *op = walk.joint.op[own];
        struct sight now = {.blame_ns = walk.blame_ns[own]};
        if (!op) {
            continue;
        }
        now.hit = now.blame_ns >= MUSTER_LATE_FLOOR_NS << guilt->scale;
        if (now.hit) {
            note_place(walk.place);
            detail->first = detail->first ? detail->first : op;
        }
        if (n == KEEP_MAX) {
            continue;
        }
        now.queue_ns = (int64_t)(op->begin_ns - op->enqueue_ns);
        now.host = now.hit && behind(&walk, own, scratch, &now.behind_ns);
        result = muster_grow(&sight, n, sizeof *sight) ? 0 : -1;
        if (result == 0) {
            sight[n++] = now;
        }
    }
    find_cause(sight, n, detail);
    sum_places(&walk.places, detail);
    muster_late_walk_end(&walk);
    free(sight);
    free(scratch);
    return result;
}
