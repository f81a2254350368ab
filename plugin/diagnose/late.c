#include "diagnose/late.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "diagnose/late_build.h"

enum {
    VERDICTS_MAX = 6,   /* communicators whose clean verdict is told */
    CARRIED_WORTH = 20, /* one in so many operations is worth saying */
};

static void count(const struct muster_late_walk *walk, struct muster_late_comm *comm,
                  struct muster_late_part *part)
{
    unsigned now = muster_late_part_of(walk, comm->demands.parts);
    uint64_t least_ns = muster_late_least_ns(walk);
    unsigned open = muster_late_scale(least_ns - 1);
    comm->compared++;
    comm->carried += walk->carried;
    for (unsigned j = open < MUSTER_LATE_SCALES ? open + 1 : 0; j < MUSTER_LATE_SCALES; j++) {
        comm->open[j]++;
    }
    for (uint32_t i = 0; i < walk->joint.comm->members; i++) {
        part[i].late_ns += walk->late_ns[i];
        part[i].blame_ns += walk->blame_ns[i];
        muster_late_add(&comm->tally[i], walk->blame_ns[i], walk->counted_ns[i], now);
    }
}

static int tally(const struct muster_view *view, struct muster_late_comm *comm,
                 const struct muster_late_span *span, struct muster_late_part *part)
{
    struct muster_late_walk walk;
    uint32_t n = view->comm[comm->comm].members;
    comm->tally = calloc(n, sizeof *comm->tally);
    if (!comm->tally || muster_late_walk_begin(&walk, view, comm->comm)) {
        return -1;
    }
    comm->demands = muster_late_demands(&walk, span);
    walk.relative = comm->demands.relative;
    while (muster_late_walk_next(&walk)) {
        count(&walk, comm, part + view->comm[comm->comm].first_member);
    }
    muster_late_walk_end(&walk);
    return 0;
}

static int one_comm(const struct muster_view *view, struct muster_late_comm *comm,
                    const struct muster_late_span *span, struct muster_late_part *part,
                    struct muster_late_guilts *guilts)
{
    size_t before = guilts->n;
    int result = tally(view, comm, span, part);
    if (result == 0 && comm->compared) {
        result = muster_late_judge(view, comm, span, guilts);
        comm->guilty = guilts->n > before;
        comm->smallest_ns = muster_late_smallest_ns(view, comm, span);
    }
    free(comm->tally);
    comm->tally = NULL;
    return result;
}

static int by_compared(const void *left, const void *right)
{
    const struct muster_late_comm *a = left;
    const struct muster_late_comm *b = right;
    return a->compared > b->compared ? -1 : a->compared < b->compared;
}

/* Where the hosts are what all wait for, and none of them is slower than the others. */
static void say_carried(const struct muster_view *view, const struct muster_late_comm *comm,
                        struct muster_finding_lines *to)
{
    if (comm->carried * CARRIED_WORTH >= comm->compared && comm->carried) {
        muster_finding_say(to,
                           "communicator %016" PRIx64 ": in %" PRIu64 " of %" PRIu64
                           " operations all waited for a host that was behind, but took no "
                           "longer from call to call than the others': nobody's lateness",
                           view->comm[comm->comm].id, comm->carried, comm->compared);
    }
}

/* What the verdict on each communicator without a culprit is worth. */
static void say_verdicts(const struct muster_view *view, struct muster_late_comm *comm, size_t n,
                         struct muster_finding_lines *to)
{
    size_t told = 0;
    size_t left = 0;
    qsort(comm, n, sizeof *comm, by_compared);
    for (size_t c = 0; c < n; c++) {
        const struct muster_view_comm *own = &view->comm[comm[c].comm];
        if (comm[c].guilty || own->nranks == 1) {
            continue;
        }
        if (told == VERDICTS_MAX) {
            left++;
            continue;
        }
        told++;
        if (own->members < own->nranks) {
            muster_finding_say(to,
                               "communicator %016" PRIx64 ": %u of %u ranks are not observed; "
                               "waits for them cannot be told from transfers",
                               own->id, own->nranks - own->members, own->nranks);
        }
        if (comm[c].smallest_ns) {
            muster_finding_say(to,
                               "communicator %016" PRIx64 ": no rank of the %u seen (of %u) is "
                               "late; one that is late by %" PRIu64 " us in a fifth of the "
                               "%" PRIu64 " operations compared would have been named",
                               own->id, own->members, own->nranks,
                               (uint64_t)(comm[c].smallest_ns / MUSTER_NS_PER_US),
                               comm[c].compared);
        } else {
            muster_finding_say(to,
                               "communicator %016" PRIx64 ": %" PRIu64 " operations could be "
                               "compared between the %u ranks seen (of %u), too few or too "
                               "uneven to name a late rank",
                               own->id, comm[c].compared, own->members, own->nranks);
        }
    }
    for (size_t c = 0; c < n; c++) {
        say_carried(view, &comm[c], to);
    }
    if (left) {
        muster_finding_say(to, "%zu more communicators without a late rank", left);
    }
}

int muster_diagnose_late(const struct muster_view *view, struct muster_findings *findings,
                         struct muster_err *err)
{
    struct muster_late_guilts guilts = {0};
    struct muster_late_comm *comm = calloc(view->comms + 1, sizeof *comm);
    struct muster_late_part *part = calloc(view->members + 1, sizeof *part);
    struct muster_late_span *span = muster_late_spans(view);
    size_t n = 0;
    int result = comm && part && span ? 0 : -1;
    for (uint32_t c = 0; c < view->comms && result == 0; c++) {
        if (view->comm[c].id && view->comm[c].twice) {
            muster_finding_say(&findings->not_observable,
                               "communicator %016" PRIx64 ": a rank was recorded twice, its ranks "
                               "are not compared",
                               view->comm[c].id);
        }
        if (muster_joint_possible(&view->comm[c])) {
            comm[n].comm = c;
            result = one_comm(view, &comm[n++], span, part, &guilts);
        }
    }
    if (result == 0) {
        result = muster_late_word(view, &guilts, part, findings);
    }
    if (result == 0) {
        result = muster_late_stages(view, span, findings);
    }
    if (result == 0) {
        say_verdicts(view, comm, n, &findings->not_observable);
    }
    free(comm);
    free(part);
    free(span);
    free(guilts.guilt);
    return result ? muster_fail_memory(err, "looking for late ranks") : 0;
}
