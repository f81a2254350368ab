/*
 * Sends and receives: paired by communicator, source, destination and ordinal. Of a pair, who came
 * later ran shorter. Stages differ by design, so a rank is named only if it takes much longer than
 * the others in most of its exchanges, and the finding says that it is the slowest stage. Exchanges
 * of everybody with everybody (experts) are not read: there the load decides who is last.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sort.h"
#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/finding_op.h"
#include "diagnose/late_build.h"

#define MOSTLY 0.6  /* of its exchanges */
#define LONGER 1.5  /* than the other stages, between exchanges */
#define WORTH  0.01 /* of the time */
enum { PARTNERS_MAX = 2 };

/* Operations that overlap on one GPU are one unit: NCCL runs a group of sends and receives as one
 * kernel. Entry i belongs to operation i of the view. */
struct unit {
    uint32_t first;    /* operation that the unit began with */
    uint64_t blame_ns; /* of the unit; at its first operation */
};

struct stages {
    const struct muster_view *view;
    struct unit *unit;
    const struct muster_late_span *span;
    bool experts;
};

static void find_units(const struct stages *stages)
{
    for (size_t g = 0; g < stages->view->gpus; g++) {
        const struct muster_view_gpu *gpu = &stages->view->gpu[g];
        uint64_t end_ns = 0;
        uint32_t first = 0;
        for (uint32_t i = 0; i < gpu->ordered; i++) {
            const struct muster_view_op *op = &stages->view->op[gpu->order[i]];
            first = op->begin_ns >= end_ns ? gpu->order[i] : first;
            end_ns = op->end_ns > end_ns ? op->end_ns : end_ns;
            stages->unit[gpu->order[i]].first = first;
        }
    }
}

static void blame(const struct stages *stages, uint32_t late, uint32_t other)
{
    const struct muster_view_op *own = &stages->view->op[late];
    const struct muster_view_op *its = &stages->view->op[other];
    uint64_t own_ns = own->end_ns - own->begin_ns;
    uint64_t its_ns = its->end_ns - its->begin_ns;
    struct unit *unit = &stages->unit[stages->unit[late].first];
    uint64_t own_self = stages->view->op[stages->unit[late].first].self_ns;
    uint64_t its_self = stages->view->op[stages->unit[other].first].self_ns;
    if (own_ns >= its_ns || own_self == MUSTER_SELF_UNKNOWN || its_self == MUSTER_SELF_UNKNOWN ||
        own_self <= its_self) {
        return;
    }
    uint64_t lateness = its_ns - own_ns;
    uint64_t excess = own_self - its_self;
    uint64_t ns = lateness < excess ? lateness : excess;
    unit->blame_ns = ns > unit->blame_ns ? ns : unit->blame_ns;
}

/* Every send with the receive of the same ordinal. */
static uint64_t pair(const struct stages *stages, struct muster_view_stream from,
                     struct muster_view_stream to)
{
    const struct muster_view_op *op = stages->view->op;
    uint64_t pairs = 0;
    while (from.at < from.end && to.at < to.end) {
        if (op[from.at].number != op[to.at].number) {
            struct muster_view_stream *behind = op[from.at].number < op[to.at].number ? &from : &to;
            behind->at++;
            continue;
        }
        if (muster_view_scored(&op[from.at]) && muster_view_scored(&op[to.at])) {
            blame(stages, from.at, to.at);
            blame(stages, to.at, from.at);
            pairs++;
        }
        from.at++;
        to.at++;
    }
    return pairs;
}

static const struct muster_view_member *by_rank(const struct muster_view *view,
                                                const struct muster_view_comm *comm, int32_t rank)
{
    uint32_t low = comm->first_member;
    uint32_t high = low + comm->members;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (view->member[middle].rank == rank) {
            return &view->member[middle];
        }
        if (view->member[middle].rank < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* All pairs that the member sends in. Partners are counted: with many it is no chain. */
static uint64_t pair_member(struct stages *stages, const struct muster_view_comm *comm,
                            const struct muster_view_member *member)
{
    const struct muster_view *view = stages->view;
    uint64_t pairs = 0;
    unsigned partners = 0;
    uint32_t end = member->first_op + member->ops;
    for (uint32_t i = member->first_op; i < end;) {
        const struct muster_view_op *op = &view->op[i];
        if (op->func != MUSTER_FUNC_SEND || (op->flags & MUSTER_OP_GRAPH)) {
            i++;
            continue;
        }
        struct muster_view_stream from =
            muster_view_stream(view, member, MUSTER_FUNC_SEND, op->peer);
        i = from.end;
        const struct muster_view_member *peer = by_rank(view, comm, op->peer);
        partners++;
        if (peer && peer != member) {
            pairs +=
                pair(stages, from, muster_view_stream(view, peer, MUSTER_FUNC_RECV, member->rank));
        }
    }
    stages->experts |= partners > PARTNERS_MAX;
    return pairs;
}

/* One member's units with sends or receives. */
struct tempo {
    uint32_t units, late; /* late: to blame for what is looked at, from the first such on */
    uint64_t self_ns;     /* median */
    const struct muster_view_op *first;
};

static int tempo(const struct stages *stages, uint32_t m, uint64_t least_ns, struct tempo *to)
{
    const struct muster_view *view = stages->view;
    const struct muster_view_member *member = &view->member[m];
    uint64_t *self = malloc((member->ops + 1) * sizeof *self);
    size_t n = 0;
    memset(to, 0, sizeof *to);
    if (!self) {
        return -1;
    }
    for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++) {
        const struct muster_view_op *op = &view->op[i];
        if (!muster_func_is_p2p(op->func) || !muster_view_scored(op) ||
            stages->unit[i].first != i || op->self_ns == MUSTER_SELF_UNKNOWN) {
            continue;
        }
        self[n++] = op->self_ns;
        bool late = stages->unit[i].blame_ns >= least_ns;
        to->first = to->first ? to->first : late ? op : NULL;
        to->units += to->first != NULL;
        to->late += late;
    }
    to->self_ns = muster_upper_median_u64(self, n);
    free(self);
    return 0;
}

/* The median of the other members' medians. -1: no memory. */
static int others_self(const struct stages *stages, const struct muster_late_guilt *guilt,
                       uint64_t *usual_ns)
{
    const struct muster_view_comm *comm = &stages->view->comm[guilt->comm];
    uint64_t *self = malloc((comm->members + 1) * sizeof *self);
    size_t n = 0;
    int result = self ? 0 : -1;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members && result == 0;
         m++) {
        struct tempo other;
        result = m == guilt->member ? 0 : tempo(stages, m, UINT64_MAX, &other);
        if (m != guilt->member && result == 0) {
            self[n++] = other.self_ns;
        }
    }
    if (result == 0) {
        *usual_ns = muster_upper_median_u64(self, n);
    }
    free(self);
    return result;
}

static bool named(const struct muster_findings *findings, int32_t rank)
{
    for (size_t i = 0; i < findings->n; i++) {
        for (unsigned r = 0; r < findings->finding[i].ranks; r++) {
            if (findings->finding[i].kind == MUSTER_FINDING_LATE_RANK &&
                findings->finding[i].rank[r] == rank) {
                return true;
            }
        }
    }
    return false;
}

static void word(const struct stages *stages, const struct muster_late_guilt *guilt,
                 const struct tempo *own, uint64_t usual_ns, struct muster_finding *finding)
{
    const struct muster_view *view = stages->view;
    const struct muster_view_gpu *gpu = &view->gpu[guilt->gpu];
    const struct muster_view_comm *comm = &view->comm[guilt->comm];
    finding->kind = MUSTER_FINDING_LATE_RANK;
    finding->comm = comm->id;
    finding->rank[finding->ranks++] = gpu->rank;
    muster_text_copy(finding->host, sizeof finding->host, gpu->host);
    finding->gpu = gpu->gpu_index;
    finding->mode = MUSTER_MODE_PERSISTENT;
    muster_finding_set_op(finding, view, comm, own->first);
    finding->since_unix_ns = own->first->enqueue_ns + (uint64_t)gpu->unix_ns;
    finding->cost_s = (double)guilt->cost_ns / (double)MUSTER_NS_PER_S;
    finding->cost_share = guilt->share;
    finding->confidence = muster_confidence_stage();
    muster_finding_say(&finding->evidence,
                       "slowest stage: rank %" PRId32 " came later than its partners to %" PRIu32
                       " of %" PRIu32 " exchanges, by at least %" PRIu64 " us; another rank "
                       "typically to %" PRIu32,
                       gpu->rank, own->late, own->units,
                       (uint64_t)((MUSTER_LATE_FLOOR_NS << guilt->scale) / MUSTER_NS_PER_US),
                       guilt->others);
    muster_finding_say(&finding->evidence,
                       "between exchanges it takes %.1f us, the other stages typically %.1f us",
                       (double)own->self_ns / (double)MUSTER_NS_PER_US,
                       (double)usual_ns / (double)MUSTER_NS_PER_US);
    muster_finding_say(&finding->not_observable,
                       "whether this stage has more work by design, or has become slow");
    snprintf(finding->advice, sizeof finding->advice,
             "compare the work of this stage with the others'; if it is meant to be equal, look at "
             "its GPU's clocks and its host's load");
}

static int name_slow(const struct stages *stages, const struct muster_late_guilts *guilts,
                     struct muster_findings *findings)
{
    for (size_t g = 0; g < guilts->n; g++) {
        const struct muster_late_guilt *guilt = &guilts->guilt[g];
        struct tempo own;
        uint64_t usual_ns;
        if (tempo(stages, guilt->member, MUSTER_LATE_FLOOR_NS << guilt->scale, &own) ||
            others_self(stages, guilt, &usual_ns)) {
            return -1;
        }
        if (!own.first || own.late < MOSTLY * own.units ||
            (double)own.self_ns < LONGER * (double)usual_ns ||
            named(findings, stages->view->gpu[guilt->gpu].rank)) {
            continue;
        }
        struct muster_finding *finding = muster_findings_add(findings);
        if (!finding) {
            return -1;
        }
        word(stages, guilt, &own, usual_ns, finding);
    }
    return 0;
}

/* Whether a unit of sends and receives, with GPU times, begins with the operation. */
static bool is_unit(const struct stages *stages, uint32_t o)
{
    const struct muster_view_op *op = &stages->view->op[o];
    return stages->unit[o].first == o && muster_func_is_p2p(op->func) && muster_view_scored(op);
}

static void tally_units(const struct stages *stages, struct muster_late_comm *comm)
{
    const struct muster_view *view = stages->view;
    const struct muster_view_comm *own = &view->comm[comm->comm];
    for (uint32_t i = 0; i < own->members; i++) {
        const struct muster_view_member *member = &view->member[own->first_member + i];
        uint32_t units = 0;
        uint32_t at = 0;
        for (uint32_t o = member->first_op; o < member->first_op + member->ops; o++) {
            units += is_unit(stages, o);
        }
        for (uint32_t o = member->first_op; o < member->first_op + member->ops; o++) {
            if (is_unit(stages, o)) {
                unsigned part = (unsigned)((uint64_t)at++ * comm->demands.parts / units);
                uint64_t own_ns = stages->unit[o].blame_ns;
                muster_late_add(&comm->tally[i], own_ns, own_ns, part);
            }
        }
    }
}

static int one_comm(struct stages *stages, uint32_t c, struct muster_findings *findings)
{
    const struct muster_view_comm *own = &stages->view->comm[c];
    struct muster_late_comm comm = {.comm = c,
                                    .demands = {.share = WORTH, .parts = MUSTER_LATE_PARTS}};
    struct muster_late_guilts guilts = {0};
    stages->experts = false;
    for (uint32_t m = own->first_member; m < own->first_member + own->members; m++) {
        if (stages->experts && comm.compared) {
            break;
        }
        comm.compared += pair_member(stages, own, &stages->view->member[m]);
    }
    if (!comm.compared) {
        return 0;
    }
    if (stages->experts) {
        muster_finding_say(&findings->not_observable,
                           "communicator %016" PRIx64 ": sends and receives between many ranks "
                           "(experts) are not judged: their load differs by design",
                           own->id);
        return 0;
    }
    comm.tally = calloc(own->members, sizeof *comm.tally);
    if (!comm.tally) {
        return -1;
    }
    tally_units(stages, &comm);
    int result = muster_late_judge(stages->view, &comm, stages->span, &guilts);
    if (result == 0) {
        result = name_slow(stages, &guilts, findings);
    }
    free(comm.tally);
    free(guilts.guilt);
    return result;
}

static bool any_p2p(const struct muster_view *view)
{
    for (size_t i = 0; i < view->classes; i++) {
        if (muster_func_is_p2p(view->class[i].func)) {
            return true;
        }
    }
    return false;
}

int muster_late_stages(const struct muster_view *view, const struct muster_late_span *span,
                       struct muster_findings *findings)
{
    if (!any_p2p(view)) {
        return 0;
    }
    struct stages stages = {.view = view, .span = span};
    stages.unit = calloc(view->ops + 1, sizeof *stages.unit);
    if (!stages.unit) {
        return -1;
    }
    find_units(&stages);
    int result = 0;
    for (uint32_t c = 0; c < view->comms && result == 0; c++) {
        if (muster_joint_possible(&view->comm[c])) {
            result = one_comm(&stages, c, findings);
        }
    }
    free(stages.unit);
    return result;
}
