/* The graph as a whole: what is worked out after what, and what its communicators are for: those of
 * one role do the same on other ranks. */
#include "diagnose/straggler/job_graph.h"
#include "base/hash.h"
#include "diagnose/straggler/hash_index.h"

enum { ENDS = 64 }; /* of so many exchanges of stages one sends or receives alone, or more */

/* ---- what communicators are for ---- */

/* How far apart the global ranks of neighbours are, by the first two seen; 0: not known. */
static uint32_t stride_of(const struct muster_view *view, const struct muster_view_comm *comm)
{
    if (comm->members < 2)
        return 0;
    const struct muster_view_member *member = &view->member[comm->first_member];
    int32_t first = view->gpu[member[0].gpu].rank, second = view->gpu[member[1].gpu].rank;
    int64_t apart = (int64_t)member[1].rank - member[0].rank;
    bool known = first >= 0 && second > first && apart > 0;
    return known ? (uint32_t)(((int64_t)second - first) / apart) : 0;
}

/* Of a square grid of ranks both sides are of as many: roles of which a GPU is in two
 * communicators, whose ranks are not as far apart. `used`: what each is used for. Stages send both
 * ways, and are no grid. */
static void find_grids(const struct muster_graph *graph, const uint64_t *used,
                       struct muster_places *grids)
{
    const uint64_t sends = 1ull << MUSTER_FUNC_SEND | 1ull << MUSTER_FUNC_RECV;
    const struct muster_view *view = graph->view;
    struct muster_places met = {.memory = grids->memory};
    for (size_t m = 0; m < view->members && !grids->memory->failed; m++) {
        const struct muster_view_member *member = &view->member[m];
        uint32_t stride = stride_of(view, &view->comm[member->comm]);
        if (!stride || (used[member->comm] & sends))
            continue;
        uint64_t role = graph->role[member->comm];
        uint32_t *first = muster_places_at(&met, muster_hash_number(role, member->gpu));
        if (*first && *first != stride)
            *muster_places_at(grids, role) = 1;
        *first = stride;
    }
}

/* Communicators of as many ranks that are used alike have one role; on a grid those of one side. */
static void set_roles(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    struct muster_places grids = {.memory = graph->making};
    uint64_t *used = muster_arena_array(graph->making, view->comms + 1, sizeof *used);
    if (!used)
        return;
    for (size_t m = 0; m < view->members; m++)
        used[view->member[m].comm] |= view->member[m].funcs;
    for (size_t c = 0; c < view->comms; c++)
        graph->role[c] = muster_hash_number(used[c], view->comm[c].nranks);
    find_grids(graph, used, &grids);
    for (size_t c = 0; c < view->comms && grids.used; c++)
        if (muster_places_find(&grids, graph->role[c]))
            graph->role[c] = muster_hash_number(graph->role[c], stride_of(view, &view->comm[c]));
}

static void set_ranks(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    for (size_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        bool all = comm->members == comm->nranks && !comm->duplicate_rank;
        for (uint32_t m = comm->first_member; m < comm->first_member + comm->members && all; m++)
            graph->ranks[c] += muster_hash_number(MUSTER_HASH_SEED, view->member[m].gpu);
    }
}

void muster_graph_roles(struct muster_graph *graph)
{
    set_roles(graph);
    set_ranks(graph);
}

/* A communicator of stages has ranks of more than one program; or ranks that now exchange, now send
 * or receive alone: all ranks of a ring do the same each time, while the ends of a pipeline have
 * something to send before they have something to receive. */
void muster_graph_find_stages(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    uint32_t(*sends)[2] = muster_arena_array(graph->making, view->comms + 1, sizeof *sends);
    for (size_t u = 0; u < graph->units && graph->any_sends && sends; u++) {
        const struct muster_view_op *op = &view->op[muster_unit_op(graph, &graph->unit[u])];
        if (muster_func_is_p2p(op->func))
            sends[view->member[op->member].comm][muster_unit_is_group(graph, &graph->unit[u])]++;
    }
    for (size_t m = 0; m < view->members && sends; m++) {
        const struct muster_view_member *own = &view->member[m];
        const uint32_t *n = sends[own->comm];
        uint32_t first_gpu = view->member[view->comm[own->comm].first_member].gpu;
        graph->stages[own->comm] |= graph->program[own->gpu] != graph->program[first_gpu] ||
                                    (ENDS * n[0] > n[1] && ENDS * n[1] > n[0]);
    }
}

/* ---- the whole graph ---- */

void muster_graph_make(struct muster_graph *graph, const struct muster_view *view,
                       struct muster_arena *memory)
{
    static void (*const step[])(struct muster_graph *graph) = {
        muster_graph_units, muster_graph_turns,  muster_graph_untimed, muster_graph_order,
        muster_graph_seats, muster_graph_edges,  muster_graph_leads,   muster_graph_usual,
        muster_graph_calls, muster_graph_stages, muster_graph_past};
    struct muster_arena making = {0};
    *graph = (struct muster_graph){.view = view, .memory = memory, .making = &making};
    for (size_t i = 0; i < sizeof step / sizeof *step && !memory->failed && !making.failed; i++)
        step[i](graph);
    graph->label = NULL;
    graph->ranks = NULL;
    graph->of_op = NULL;
    graph->called_after = NULL;
    graph->waited_ns = NULL;
    graph->behind = NULL;
    graph->making = NULL;
    muster_arena_end(&making, memory);
}
