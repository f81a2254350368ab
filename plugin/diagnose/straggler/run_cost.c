#include "diagnose/straggler/run_cost.h"

#include "base/sort.h"

/* Numbers of a stream that stand together in what is said of the whole run. */
enum { BLOCK = 64 };

/* Operations of one stream whose numbers follow each other: what was timed of them. */
struct block {
    uint64_t first, last; /* numbers */
    uint32_t ops;
    uint32_t units, compared; /* where the rank is late, and of these those that would show it */
    double excess_ns;
};

/* What is known of the run, stream by stream: a communicator's collectives, or what goes to a peer,
 * or comes from it. */
struct in_run {
    const struct muster_graph *graph;
    const struct muster_keyed *late; /* by operation: a GPU's units where it is late */
    size_t lates, at;
    double timed_ns, run_ns;
    uint64_t from; /* numbers of the stream that nothing stands for yet */
    struct block before, own;
};

/* Those without numbers stand for themselves. */
static void stand_for(struct in_run *run, uint64_t to)
{
    const struct block *block = &run->before;
    if (!block->ops)
        return;
    uint64_t numbers = to - run->from > block->ops ? to - run->from : block->ops;
    double seen = block->compared ? (double)block->units / block->compared : 1;
    run->run_ns += block->excess_ns * seen * (double)numbers / block->ops;
    run->from = to;
}

/* A block that tells nothing of the rank leaves its numbers to its neighbours. */
static void end_block(struct in_run *run)
{
    const struct block *own = &run->own;
    if (own->ops && (own->compared || !own->units)) {
        stand_for(run, run->before.last + (own->first - run->before.last + 1) / 2);
        run->before = *own;
    }
    run->own = (struct block){0};
}

/* Whether it would have shown if it was late: it did, what it followed and others of its turn were
 * timed, or it was ready before its communicator was. */
static bool is_compared(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_position *position = &graph->position[graph->seat[unit->seat].position];
    bool beside = graph->turn[unit->turn].units > 1 ||
                  (graph->first_partner && graph->first_partner[u] < graph->first_partner[u + 1]);
    bool ready = unit->edge == MUSTER_EDGE_OWN && unit->edge != position->edge;
    return unit->evaluated || ready || (beside && muster_unit_own_ns(graph, unit) != MUSTER_NO_OWN);
}

static void add_op(struct in_run *run, uint32_t op)
{
    const struct muster_graph *graph = run->graph;
    const struct muster_view_op *own = &graph->view->op[op];
    struct block *block = &run->own;
    if (!muster_source_is_gpu(own->source))
        return;
    if (block->ops && block->first / BLOCK != own->number / BLOCK)
        end_block(run);
    block->first = block->ops++ ? block->first : own->number;
    block->last = own->number;
    if (run->at == run->lates || run->late[run->at].key != op)
        return;
    uint32_t u = run->late[run->at++].value;
    const struct muster_unit *unit = &graph->unit[u];
    int64_t excess_ns = unit->evaluated ? muster_unit_excess_ns(graph, unit) : 0;
    block->units++;
    block->compared += is_compared(graph, u);
    block->excess_ns += excess_ns > 0 ? (double)excess_ns : 0;
    run->timed_ns += excess_ns > 0 ? (double)excess_ns : 0;
}

static void add_member(struct in_run *run, const struct muster_view_member *member)
{
    const struct muster_view_op *op = run->graph->view->op;
    uint32_t i = member->first_op, end = i + member->ops;
    while (run->at < run->lates && run->late[run->at].key < i)
        run->at++;
    while (i < end) {
        uint32_t first = i;
        run->from = op[first].number;
        run->before = (struct block){0};
        for (; i < end && muster_view_same_stream(&op[first], &op[i]); i++)
            add_op(run, i);
        end_block(run);
        stand_for(run, op[i - 1].number + 1);
    }
}

static void add_gpu(struct in_run *run, uint32_t gpu, struct muster_arena *memory)
{
    const struct muster_graph *graph = run->graph;
    uint32_t first = graph->first_unit[gpu], end = graph->first_unit[gpu + 1];
    struct muster_keyed *late = muster_arena_array(memory, end - first + 1, sizeof *late);
    struct muster_keyed *room = muster_arena_array(memory, end - first + 1, sizeof *room);
    run->at = run->lates = 0;
    for (uint32_t u = first; u < end && !memory->failed; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (graph->seat[unit->seat].culprit)
            late[run->lates++] =
                (struct muster_keyed){.key = muster_unit_op(graph, unit), .value = u};
    }
    run->late = memory->failed ? late : muster_sort_keyed(late, room, run->lates);
    for (size_t m = 0; m < graph->view->members && !memory->failed; m++)
        if (graph->view->member[m].gpu == gpu)
            add_member(run, &graph->view->member[m]);
}

void muster_run_cost(const struct muster_graph *graph, const struct muster_view_span *span,
                     struct muster_suspects *suspects, size_t s)
{
    struct muster_suspect *own = &suspects->suspect[s];
    struct in_run run = {.graph = graph};
    struct muster_arena scratch = {0};
    for (uint32_t g = 0; g < graph->view->gpus; g++)
        if (suspects->group[g] == s)
            add_gpu(&run, g, &scratch);
    double run_ns = own->gain_ns * (run.timed_ns > 0 ? run.run_ns / run.timed_ns : 1);
    double most_ns = (double)span[own->gpu].run_ns;
    own->run_ns = run_ns < most_ns ? run_ns : most_ns;
    muster_arena_end(&scratch, graph->memory);
}
