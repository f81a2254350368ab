#include "diagnose/straggler/straggler_nobody.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "diagnose/straggler/e_process.h"

enum {
    VERDICTS_MAX = 6, /* communicators whose clean verdict is told */
    FIFTH = 5,
    CARRIED_WORTH = 20,  /* one in so many operations is worth saying */
    COMPARED_LEAST = 20, /* operations: below nothing would have been named */
};

struct verdict {
    uint32_t comm;
    uint64_t compared, carried;
    uint64_t stages; /* of the compared: of ranks that no other is like */
    double usual_ns; /* sum, but for stages */
    double stage_ns; /* the delay that shows at the stage where it has to be longest */
    bool culprit;
};

/* What a seat took by itself as a stage. */
struct stage {
    double own_ns, host_ns; /* sums; of the latter those whose GPU waited for its host */
    uint64_t units;
    uint32_t comm;
};

static int by_compared(const void *left, const void *right)
{
    const struct verdict *a = left, *b = right;
    if (a->compared != b->compared)
        return a->compared > b->compared ? -1 : 1;
    return a->comm < b->comm ? -1 : a->comm > b->comm;
}

static bool is_bound(const struct muster_suspects *suspects, const struct muster_seat *seat)
{
    return seat->culprit && suspects->bound[seat->gpu] < suspects->n;
}

/* By the last unit of each seat: which communicators have a culprit, and no verdict that anybody
 * asks for. Stages are counted by seats, which are in several. */
static void find_culprits(const struct muster_graph *graph, const struct muster_suspects *suspects,
                          struct verdict *verdict)
{
    for (size_t s = 0; s < graph->seats && !graph->any_sends; s++)
        if (is_bound(suspects, &graph->seat[s]))
            verdict[muster_seat_turn(graph, &graph->seat[s])->comm].culprit = true;
}

static void count(const struct muster_graph *graph, const struct muster_suspects *suspects,
                  struct verdict *verdict, struct stage *stages)
{
    find_culprits(graph, suspects, verdict);
    for (size_t t = 0; t < graph->turns; t++) {
        const struct muster_turn *turn = &graph->turn[t];
        if (verdict[turn->comm].culprit && !graph->any_sends)
            continue;
        uint32_t evaluated = 0;
        bool carried = false, stage = false;
        double usual_ns = 0; /* the first's: all are alike */
        for (uint32_t i = 0; i < turn->units; i++) {
            const struct muster_unit *unit = &graph->unit[graph->of_turn[turn->first + i]];
            const struct muster_seat *seat = &graph->seat[unit->seat];
            __builtin_prefetch(unit + 3);
            evaluated += unit->evaluated;
            carried |= unit->carried;
            stage |= unit->stage;
            verdict[turn->comm].culprit |= is_bound(suspects, seat);
            if (unit->evaluated && unit->stage) {
                struct stage *of = &stages[unit->seat];
                double own_ns = (double)muster_unit_own_ns(graph, unit);
                of->own_ns += own_ns;
                of->host_ns += muster_unit_waited_for_call(graph, unit) ? own_ns : 0;
                of->units++;
                of->comm = turn->comm;
            } else if (unit->evaluated && evaluated == 1) {
                usual_ns =
                    (double)(muster_unit_own_ns(graph, unit) - muster_unit_excess_ns(graph, unit));
            }
        }
        verdict[turn->comm].usual_ns += usual_ns;
        verdict[turn->comm].compared += evaluated > 0;
        verdict[turn->comm].carried += carried;
        verdict[turn->comm].stages += stage;
    }
}

static void find_longest(const struct stage *stages, size_t seats, struct verdict *verdict)
{
    for (size_t s = 0; s < seats; s++) {
        double units = stages[s].units ? (double)stages[s].units : 1;
        double more = (MUSTER_STAGES - 1) * stages[s].own_ns / units;
        double far = muster_slice_limit_ns(stages[s].own_ns / units, stages[s].host_ns / units);
        struct verdict *of = &verdict[stages[s].comm];
        more = far > more ? far : more;
        of->stage_ns = stages[s].units && more > of->stage_ns ? more : of->stage_ns;
    }
}

/* The delay that would have been named, in a fifth of the operations: wherever these are, so that
 * it is that of stages where so many are of stages. worth_ns: all of it that is worth a finding. */
static uint64_t smallest_ns(const struct verdict *verdict, double worth_ns)
{
    double turns = (double)verdict->compared;
    double alike = turns - (double)verdict->stages;
    double usual = alike > 0 ? verdict->usual_ns / alike : 0;
    double limit = (double)muster_seat_limit_ns((int64_t)usual);
    if (FIFTH * verdict->stages >= verdict->compared && verdict->stage_ns > limit)
        limit = verdict->stage_ns;
    double worth = worth_ns / (turns / FIFTH);
    return (uint64_t)(limit > worth ? limit : worth);
}

static void note_clean(const struct muster_view_comm *own, const struct verdict *verdict,
                       double worth_ns, struct muster_finding_clean *clean)
{
    if (!clean->compared && verdict->compared) {
        *clean = (struct muster_finding_clean){.comm = own->id,
                                               .seen = own->members,
                                               .nranks = own->nranks,
                                               .compared = verdict->compared};
        clean->least_ns = verdict->compared >= COMPARED_LEAST ? smallest_ns(verdict, worth_ns) : 0;
    }
}

static void put_verdict(const struct muster_view_comm *own, const struct verdict *verdict,
                        double worth_ns, struct muster_finding_lines *to)
{
    if (own->members < own->nranks) {
        muster_finding_line(to,
                            "communicator %016" PRIx64 ": %u of %u ranks are not observed; "
                            "waits for them cannot be told from transfers",
                            own->id, own->nranks - own->members, own->nranks);
    }
    if (verdict->compared >= COMPARED_LEAST) {
        muster_finding_line(to,
                            "ok: communicator %016" PRIx64 " (%u of %u ranks): nobody late in "
                            "%" PRIu64 " compared operations; a %" PRIu64
                            " us delay in one operation of five would have been found",
                            own->id, own->members, own->nranks, verdict->compared,
                            (uint64_t)(smallest_ns(verdict, worth_ns) / MUSTER_NS_PER_US));
    } else {
        muster_finding_line(to,
                            "communicator %016" PRIx64 ": %" PRIu64 " operations could be "
                            "compared between the %u ranks seen (of %u), too few or too "
                            "uneven to name a late rank",
                            own->id, verdict->compared, own->members, own->nranks);
    }
}

static void put_stages(const struct muster_view_comm *own, const struct verdict *verdict,
                       struct muster_finding_lines *to)
{
    if (verdict->stages) {
        muster_finding_line(to,
                            "communicator %016" PRIx64 ": in %" PRIu64 " of %" PRIu64
                            " operations no other rank has the same program: a stage that always "
                            "takes longer is told only where it takes %s",
                            own->id, verdict->stages, verdict->compared,
                            muster_stages_differ_words(own));
    }
}

/* Where the hosts are what all wait for, and none of them is slower than the others. */
static void put_carried(const struct muster_view_comm *own, const struct verdict *verdict,
                        struct muster_finding_lines *to)
{
    if (verdict->carried && verdict->carried * CARRIED_WORTH >= verdict->compared) {
        muster_finding_line(to,
                            "communicator %016" PRIx64 ": in %" PRIu64 " of %" PRIu64
                            " operations all waited for a host that was behind, but took no "
                            "longer from call to call than the others: nobody's fault",
                            own->id, verdict->carried, verdict->compared);
    }
}

void muster_straggler_describe_clean(const struct muster_graph *graph,
                                     const struct muster_suspects *suspects,
                                     const struct muster_view_span *span,
                                     struct muster_findings *findings)
{
    struct muster_finding_lines *to = &findings->not_observable;
    const struct muster_view *view = graph->view;
    struct verdict *verdict = muster_arena_array(graph->memory, view->comms + 1, sizeof *verdict);
    struct stage *stages = muster_arena_array(graph->memory, graph->seats + 1, sizeof *stages);
    size_t shown = 0, left = 0;
    double covered = 0;
    if (!verdict || !stages || !view->comms)
        return;
    for (uint32_t c = 0; c < view->comms; c++)
        verdict[c].comm = c;
    for (size_t g = 0; g < view->gpus; g++)
        covered = (double)span[g].covered_ns > covered ? (double)span[g].covered_ns : covered;
    count(graph, suspects, verdict, stages);
    find_longest(stages, graph->seats, verdict);
    qsort(verdict, view->comms, sizeof *verdict, by_compared);
    double worth_ns = suspects->worth * covered;
    for (size_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *own = &view->comm[verdict[c].comm];
        if (verdict[c].culprit || own->nranks == 1 || own->duplicate_rank || own->members < 2 ||
            !own->id) {
            continue;
        }
        note_clean(own, &verdict[c], worth_ns, &findings->clean);
        if (shown < VERDICTS_MAX) {
            put_verdict(own, &verdict[c], worth_ns, to);
            put_stages(own, &verdict[c], to);
            put_carried(own, &verdict[c], to);
        }
        left += shown >= VERDICTS_MAX;
        shown += shown < VERDICTS_MAX;
    }
    if (left)
        muster_finding_line(to, "%zu more communicators without a late rank", left);
}
