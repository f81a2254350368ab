#include "fleet/rank_costs.h"

#include "view/aligned.h"

/* Where the run's processes are in the join: it has them in the same order, without some. */
static size_t *places_of(const struct muster_join *join, const struct muster_run *run,
                         struct muster_arena *memory)
{
    size_t *place = muster_arena_array(memory, run->processes + 1, sizeof *place);
    size_t at = 0;
    for (size_t i = 0; place && i < run->processes; i++, at++) {
        while (at < join->processes && join->process[at].segment != run->process[i].segment)
            at++;
        place[i] = at;
    }
    return place;
}

static void add(struct muster_rank_costs *costs, const size_t *place,
                const struct muster_joint *joint)
{
    struct muster_joint_span span = muster_joint_span(joint);
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        uint32_t gpu = joint->view->member[joint->comm->first_member + i].gpu;
        size_t at = place[joint->view->gpu[gpu].process];
        if (!op || at >= costs->n)
            continue;
        uint64_t ns = op->end_ns - op->begin_ns;
        costs->cost[at].operations++;
        costs->cost[at].wait_ns += ns - span.shortest_ns;
        costs->cost[at].late_ns += span.longest_ns - ns;
    }
}

static void add_all(struct muster_rank_costs *costs, const size_t *place,
                    const struct muster_view *view, struct muster_arena *memory)
{
    for (uint32_t c = 0; c < view->comms; c++) {
        const struct muster_joint_rule rule = {.takes = muster_joint_takes_common_end,
                                               .least = view->comm[c].members};
        struct muster_joint joint;
        if (!muster_joint_possible(&view->comm[c]))
            continue;
        muster_joint_begin(&joint, view, c, &rule, memory);
        while (muster_joint_next(&joint))
            add(costs, place, &joint);
    }
}

bool muster_rank_costs_take(struct muster_rank_costs *costs, const struct muster_join *join,
                            const struct muster_run *run, const struct muster_view *view)
{
    struct muster_arena memory = {0};
    const size_t *place = places_of(join, run, &memory);
    muster_rank_costs_free(costs);
    costs->cost = muster_arena_array(&costs->memory, join->processes + 1, sizeof *costs->cost);
    costs->n = costs->cost ? join->processes : 0;
    if (place && costs->cost)
        add_all(costs, place, view, &memory);
    muster_arena_end(&memory, &costs->memory);
    return !costs->memory.failed;
}

void muster_rank_costs_free(struct muster_rank_costs *costs)
{
    muster_arena_free(&costs->memory);
    *costs = (struct muster_rank_costs){0};
}
