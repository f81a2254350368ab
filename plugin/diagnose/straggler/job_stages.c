/* Stages of a pipeline that no other rank is like. */
#include <math.h>

#include "base/sort.h"
#include "diagnose/straggler/job_graph.h"

#define STAGES 1.5 /* stages may differ by so much by design, in each exchange and in all */
#define TIMED  0.9 /* of the operations of a GPU: fewer do not tell what it did in all */

/* Own times of the units of one member that begin with one function; logs, so that a pause counts
 * for little. */
struct pace {
    double sum;
    uint32_t n;
};

static bool is_stage(const struct muster_graph *graph, const struct muster_unit *unit,
                     uint32_t comm)
{
    const struct muster_turn *turn = &graph->turn[unit->turn];
    return turn->comm == comm && turn->p2p && !turn->alike && !unit->evaluated &&
           unit->own_ns != MUSTER_NO_SHORT;
}

static struct pace *pace_of(const struct muster_graph *graph, struct pace (*pace)[2],
                            const struct muster_unit *unit)
{
    const struct muster_view_op *op = &graph->view->op[muster_unit_op(graph, unit)];
    return &pace[op->member][op->func == MUSTER_FUNC_RECV];
}

/* What a stage usually takes: the lower median of the stages. */
static int64_t usual_stage(const struct muster_view_comm *comm, struct pace (*pace)[2], bool recv,
                           double *scratch)
{
    size_t n = 0;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
        if (pace[m][recv].n)
            scratch[n++] = exp(pace[m][recv].sum / pace[m][recv].n);
    muster_sort_double(scratch, n);
    return n < 2 ? MUSTER_NO_OWN : (int64_t)(STAGES * scratch[(n - 1) / 2]);
}

/* What each GPU did by itself in all, at positions that come again. */
static double *own_of_gpus(const struct muster_graph *graph)
{
    double *sum = muster_arena_array(graph->making, graph->view->gpus + 1, sizeof *sum);
    for (size_t u = 0; u < graph->units && sum; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (unit->own_ns != MUSTER_NO_SHORT && muster_unit_knows(graph, unit, MUSTER_EDGE_LAST)) {
            int64_t own = muster_unit_own(graph, unit, MUSTER_EDGE_LAST);
            sum[muster_unit_gpu(graph, unit)] += own > 0 ? (double)own : 0;
        }
    }
    return sum;
}

/* What all stages usually do by themselves in all; the lower median. */
static double usual_sum(const struct muster_view *view, const struct muster_view_comm *comm,
                        const double *of_gpu, double *scratch)
{
    for (uint32_t m = 0; m < comm->members; m++)
        scratch[m] = of_gpu[view->member[comm->first_member + m].gpu];
    muster_sort_double(scratch, comm->members);
    return comm->members ? scratch[(comm->members - 1) / 2] : 0;
}

/* Whether nearly all that each GPU of the communicator did was timed: only then its sum is. */
static bool all_timed(const struct muster_view *view, const struct muster_view_comm *comm,
                      const double *timed)
{
    bool all = true;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
        all &= timed[view->member[m].gpu] >= TIMED;
    return all;
}

/* Of each GPU the share of its operations that have GPU times. 1 where it is in one communicator
 * alone: all ranks time the same of it. */
static double *timed_of_gpus(const struct muster_view *view, struct muster_arena *memory)
{
    double *timed = muster_arena_array(memory, view->gpus + 1, sizeof *timed);
    double *ops = muster_arena_array(memory, view->gpus + 1, sizeof *ops);
    uint32_t *comms = muster_arena_array(memory, view->gpus + 1, sizeof *comms);
    bool whole = !memory->failed;
    for (size_t o = 0; o < view->ops && whole; o++) {
        uint32_t gpu = view->member[view->op[o].member].gpu;
        timed[gpu] += muster_source_is_gpu(view->op[o].source);
        ops[gpu]++;
    }
    for (size_t m = 0; m < view->members && whole; m++)
        comms[view->member[m].gpu] += view->member[m].ops > 0;
    for (size_t g = 0; g < view->gpus && whole; g++)
        timed[g] = comms[g] < 2 ? 1 : timed[g] / ops[g];
    return timed;
}

/* Whether any exchange is of ranks that do not all do the same. */
static bool any_stages(const struct muster_graph *graph)
{
    bool any = false;
    for (size_t t = 0; t < graph->turns && !any && graph->first_partner; t++)
        any = graph->turn[t].p2p && !graph->turn[t].alike;
    return any;
}

/* Stages that no other rank is like are compared with the other stages: they differ by design, but
 * not by much. */
void muster_graph_stages(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    if (!any_stages(graph))
        return;
    struct muster_arena *memory = graph->making;
    struct pace(*pace)[2] = muster_arena_array(memory, view->members + 1, sizeof *pace);
    double *scratch = muster_arena_array(memory, view->members + 1, sizeof *scratch);
    int64_t(*usual)[2] = muster_arena_array(memory, view->comms + 1, sizeof *usual);
    double *of_gpu = own_of_gpus(graph);
    double *sum = muster_arena_array(memory, view->comms + 1, sizeof *sum);
    double *timed = timed_of_gpus(view, memory);
    if (memory->failed)
        return;
    for (size_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (is_stage(graph, unit, view->member[muster_unit_member(graph, unit)].comm)) {
            struct pace *own = pace_of(graph, pace, unit);
            own->sum += log1p((double)muster_unit_own_ns(graph, unit));
            own->n++;
        }
    }
    for (size_t c = 0; c < view->comms; c++) {
        usual[c][0] = usual_stage(&view->comm[c], pace, false, scratch);
        usual[c][1] = usual_stage(&view->comm[c], pace, true, scratch);
        bool whole = all_timed(view, &view->comm[c], timed);
        sum[c] = whole ? usual_sum(view, &view->comm[c], of_gpu, scratch) : INFINITY;
    }
    for (size_t u = 0; u < graph->units; u++) {
        struct muster_unit *unit = &graph->unit[u];
        uint32_t comm = view->member[muster_unit_member(graph, unit)].comm;
        int64_t its = usual[comm][view->op[muster_unit_op(graph, unit)].func == MUSTER_FUNC_RECV];
        if (is_stage(graph, unit, comm) && its != MUSTER_NO_OWN) {
            bool slow = of_gpu[muster_unit_gpu(graph, unit)] > STAGES * sum[comm];
            int64_t own_ns = muster_unit_own_ns(graph, unit);
            int64_t excess_ns = slow || own_ns < its ? own_ns - its : 0;
            unit->evaluated = unit->stage = true;
            muster_unit_set_excess(graph, unit, excess_ns, muster_unit_host(graph, unit));
        }
    }
}
