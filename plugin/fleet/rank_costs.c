#include "fleet/rank_costs.h"

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

struct places {
    struct muster_rank_costs *costs;
    const size_t *place;
};

static struct muster_rank_cost *cost_of(void *arg, const struct muster_view *view, uint32_t process)
{
    const struct places *places = arg;
    size_t at = places->place[process];
    (void)view;
    return at < places->costs->n ? &places->costs->cost[at] : NULL;
}

bool muster_rank_costs_take(struct muster_rank_costs *costs, const struct muster_join *join,
                            const struct muster_run *run, const struct muster_view *view)
{
    struct muster_arena memory = {0};
    struct places places = {.costs = costs, .place = places_of(join, run, &memory)};
    muster_rank_costs_free(costs);
    costs->cost = muster_arena_array(&costs->memory, join->processes + 1, sizeof *costs->cost);
    costs->n = costs->cost ? join->processes : 0;
    if (places.place && costs->cost)
        muster_joint_costs_add(&(struct muster_joint_costs){.of = cost_of, .arg = &places}, view,
                               &memory);
    muster_arena_end(&memory, &costs->memory);
    return !costs->memory.failed;
}

void muster_rank_costs_free(struct muster_rank_costs *costs)
{
    muster_arena_free(&costs->memory);
    *costs = (struct muster_rank_costs){0};
}
