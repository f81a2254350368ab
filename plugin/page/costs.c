#include "page/costs.h"

#include <stdlib.h>
#include <string.h>

#include "view/aligned.h"

/* ---- rows and bins ---- */

/* Ranks while these are few, else hosts, else as many hosts each as fit. GPUs of one host follow
 * each other, as a run's processes stand by rank. */
static void number_rows(struct muster_costs *costs)
{
    const struct muster_view *view = costs->view;
    uint32_t hosts = 0;
    for (uint32_t g = 0; g < view->gpus; g++) {
        hosts += g == 0 || strcmp(view->gpu[g].host, view->gpu[g - 1].host) != 0;
        costs->gpu[g].row = view->gpus <= MUSTER_COST_ROWS ? g : hosts - 1;
    }
    uint32_t rows = view->gpus <= MUSTER_COST_ROWS ? (uint32_t)view->gpus : hosts;
    uint32_t fold = (rows + MUSTER_COST_ROWS - 1) / MUSTER_COST_ROWS;
    for (uint32_t g = 0; g < view->gpus && fold > 1; g++)
        costs->gpu[g].row /= fold;
    costs->rows = fold ? (rows + fold - 1) / fold : 0;
}

static uint64_t on_axis(const struct muster_costs *costs, uint32_t gpu, uint64_t gpu_ns)
{
    return gpu_ns + (uint64_t)muster_gpu_clock_offset(&costs->clocks.gpu[gpu], gpu_ns);
}

static void find_axis(struct muster_costs *costs)
{
    const struct muster_view *view = costs->view;
    costs->begin_ns = UINT64_MAX;
    for (uint32_t g = 0; g < view->gpus; g++) {
        const struct muster_view_gpu *gpu = &view->gpu[g];
        if (!gpu->ordered || costs->clocks.gpu[g].method == MUSTER_CLOCK_UNKNOWN)
            continue;
        uint64_t begin = on_axis(costs, g, view->op[gpu->order[0]].begin_ns);
        uint64_t end = on_axis(costs, g, view->op[gpu->order[gpu->ordered - 1]].end_ns);
        costs->begin_ns = begin < costs->begin_ns ? begin : costs->begin_ns;
        costs->end_ns = end > costs->end_ns ? end : costs->end_ns;
    }
    if (costs->begin_ns >= costs->end_ns)
        costs->begin_ns = costs->end_ns;
}

static uint32_t bins_of(size_t gpus)
{
    size_t bins = gpus ? MUSTER_COST_CELLS / gpus : 0;
    return bins > MUSTER_COST_BINS_MOST    ? MUSTER_COST_BINS_MOST
           : bins < MUSTER_COST_BINS_LEAST ? MUSTER_COST_BINS_LEAST
                                           : (uint32_t)bins;
}

static uint32_t bin_of(const struct muster_costs *costs, uint64_t at_ns)
{
    uint64_t length = costs->end_ns - costs->begin_ns;
    if (at_ns <= costs->begin_ns || length == 0)
        return 0;
    double place = (double)(at_ns - costs->begin_ns) / (double)length * costs->bins;
    return place >= costs->bins ? costs->bins - 1 : (uint32_t)place;
}

/* ---- operation by operation ---- */

static uint32_t gpu_of(const struct muster_joint *joint, uint32_t i)
{
    return joint->view->member[joint->comm->first_member + i].gpu;
}

/* Keeps it if it is among the worst: those that are kept stand with the worst first. */
static void keep_strip(struct muster_costs *costs, const struct muster_joint *joint, uint32_t last,
                       uint64_t wait_ns)
{
    uint32_t members = joint->comm->members, at = costs->strips;
    if (wait_ns == 0 || (at == MUSTER_COST_STRIPS && wait_ns <= costs->strip[at - 1].wait_ns))
        return;
    at -= at == MUSTER_COST_STRIPS;
    costs->strips = at + 1;
    uint32_t *op = costs->strip[at].op; /* nobody's, or of the one that gives way */
    for (uint32_t i = 0; i < members; i++)
        op[i] = joint->op[i] ? (uint32_t)(joint->op[i] - joint->view->op) : MUSTER_VIEW_NONE;
    for (; at > 0 && costs->strip[at - 1].wait_ns < wait_ns; at--)
        costs->strip[at] = costs->strip[at - 1];
    costs->strip[at] = (struct muster_cost_strip){
        .wait_ns = wait_ns,
        .comm = (uint32_t)(joint->comm - joint->view->comm),
        .last = op[last],
        .op = op,
        .longest_ns = muster_joint_span(joint).longest_ns,
    };
}

static void charge(struct muster_costs *costs, const struct muster_joint *joint, uint32_t last,
                   uint64_t wait_ns)
{
    const struct muster_view_op *op = joint->op[last];
    uint32_t gpu = gpu_of(joint, last);
    struct muster_cost_cell *cell =
        &costs->cell[(size_t)gpu * costs->bins + bin_of(costs, on_axis(costs, gpu, op->end_ns))];
    if (wait_ns >= cell->worst_ns) {
        cell->worst_ns = wait_ns;
        cell->worst = (uint32_t)(op - joint->view->op);
    }
    cell->cost_ns += wait_ns;
    cell->ops++;
    costs->gpu[gpu].cost_ns += wait_ns;
    costs->gpu[gpu].last_ops++;
    costs->wait_ns += wait_ns;
    costs->joint++;
}

static void read_op(struct muster_costs *costs, const struct muster_joint *joint)
{
    uint64_t shortest = muster_joint_span(joint).shortest_ns, sum = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < joint->comm->members; i++)
        if (joint->op[i]->end_ns - joint->op[i]->begin_ns == shortest)
            last = i;
    uint32_t late = gpu_of(joint, last);
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        struct muster_cost_gpu *gpu = &costs->gpu[gpu_of(joint, i)];
        uint64_t wait = op->end_ns - op->begin_ns - shortest;
        gpu->ops++;
        gpu->wait_ns += wait;
        if (op->self_known) {
            gpu->own_ns += muster_view_self_ns(costs->view, costs->ended_before, op);
            gpu->own_ops++;
        }
        costs->waited[(size_t)gpu->row * costs->view->gpus + late] += wait;
        sum += wait;
    }
    charge(costs, joint, last, sum);
    keep_strip(costs, joint, last, sum);
}

/* Where all ranks of the communicator are seen: as the report's waited_us. */
static void read_comm(struct muster_costs *costs, uint32_t comm)
{
    const struct muster_view_comm *of = &costs->view->comm[comm];
    const struct muster_joint_rule rule = {.takes = muster_joint_takes_common_end,
                                           .least = of->members};
    struct muster_joint joint;
    if (!muster_joint_possible(of) || of->members != of->nranks)
        return;
    muster_joint_begin(&joint, costs->view, comm, &rule, &costs->memory);
    while (muster_joint_next(&joint))
        read_op(costs, &joint);
}

static int by_cost(const void *left, const void *right, void *costs_)
{
    const struct muster_costs *costs = costs_;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint64_t cost_a = costs->gpu[a].cost_ns, cost_b = costs->gpu[b].cost_ns;
    return cost_a != cost_b ? (cost_a > cost_b ? -1 : 1) : a < b ? -1 : a > b;
}

/* All that is filled later, in the costs' memory. */
static void make_room(struct muster_costs *costs)
{
    struct muster_arena *memory = &costs->memory;
    size_t gpus = costs->view->gpus, most = 0;
    for (uint32_t c = 0; c < costs->view->comms; c++)
        most = costs->view->comm[c].members > most ? costs->view->comm[c].members : most;
    costs->gpu = muster_arena_array(memory, gpus + 1, sizeof *costs->gpu);
    costs->worst_first = muster_arena_array(memory, gpus + 1, sizeof *costs->worst_first);
    costs->cell = muster_arena_array(memory, gpus * costs->bins + 1, sizeof *costs->cell);
    for (uint32_t i = 0; i < MUSTER_COST_STRIPS; i++)
        costs->strip[i].op = muster_arena_array(memory, most + 1, sizeof *costs->strip[i].op);
    if (costs->gpu)
        number_rows(costs);
    costs->waited = muster_arena_array(memory, gpus * costs->rows + 1, sizeof *costs->waited);
}

static void read_all(struct muster_costs *costs)
{
    find_axis(costs);
    for (uint32_t c = 0; c < costs->view->comms; c++)
        read_comm(costs, c);
    for (uint32_t g = 0; g < costs->view->gpus; g++)
        costs->worst_first[g] = g;
    qsort_r(costs->worst_first, costs->view->gpus, sizeof *costs->worst_first, by_cost, costs);
}

int muster_costs_find(const struct muster_view *view, struct muster_costs *costs,
                      struct muster_err *err)
{
    *costs = (struct muster_costs){.view = view, .bins = bins_of(view->gpus)};
    make_room(costs);
    uint32_t *ended_before = muster_view_ended_before(view);
    costs->ended_before = ended_before;
    costs->memory.failed |=
        !ended_before || muster_gpu_clocks_align(view, &costs->clocks, err) != 0;
    if (!costs->memory.failed)
        read_all(costs);
    free(ended_before);
    costs->ended_before = NULL;
    int result = muster_arena_check(&costs->memory, err, "what ranks cost each other");
    if (result)
        muster_costs_free(costs);
    return result;
}

void muster_costs_free(struct muster_costs *costs)
{
    muster_gpu_clocks_free(&costs->clocks);
    muster_arena_free(&costs->memory);
    *costs = (struct muster_costs){0};
}
