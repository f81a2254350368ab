#include "cli/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/policy_asked.h"
#include "segment/rows.h"
#include "segment/table.h"

enum { NO_CELL = UINT32_MAX, FIRST_SLOTS = 1024 };

const char *muster_change_word(enum muster_change change)
{
    static const char *const word[MUSTER_CHANGES] = {"none", "would", "may", "unknown"};
    return word[change];
}

/* ---- Cells ---- */

static bool same_query(const struct muster_query *a, const struct muster_query *b)
{
    return a->func == b->func && a->bytes == b->bytes && a->ranks == b->ranks &&
           a->nodes == b->nodes;
}

static size_t slot_of(const struct muster_simulation *simulation,
                      const struct muster_sim_cell *cell)
{
    unsigned ran =
        (unsigned)cell->ran.algo << 16 | (unsigned)cell->ran.proto << 8 | cell->ran.channels;
    uint64_t key[] = {cell->query.func,  cell->query.bytes, cell->query.ranks,
                      cell->query.nodes, cell->func,        ran};
    size_t slot = muster_hash(MUSTER_HASH_SEED, key, sizeof key) & (simulation->cell_slots - 1);
    for (uint32_t at; (at = simulation->cell_at[slot]);
         slot = (slot + 1) & (simulation->cell_slots - 1)) {
        const struct muster_sim_cell *known = &simulation->cell[at - 1];
        if (known->func == cell->func && same_query(&known->query, &cell->query) &&
            muster_variant_same(known->ran, cell->ran))
            break;
    }
    return slot;
}

static bool grow_slots(struct muster_simulation *simulation)
{
    size_t slots = simulation->cell_slots ? 2 * simulation->cell_slots : FIRST_SLOTS;
    uint32_t *at = calloc(slots, sizeof *at);
    if (!at)
        return false;
    free(simulation->cell_at);
    simulation->cell_at = at;
    simulation->cell_slots = slots;
    for (size_t i = 0; i < simulation->cells; i++)
        at[slot_of(simulation, &simulation->cell[i])] = (uint32_t)i + 1;
    return true;
}

/* What decides about it, and its size class. */
static void place(const struct muster_simulation *simulation, struct muster_sim_cell *cell)
{
    uint8_t log2 = muster_size_log2(cell->query.bytes);
    cell->rule = muster_policy_match(simulation->policy, &cell->query);
    cell->size = log2 < 64 ? 1ull << log2 : 0;
}

/* Index of the cell, made if missing; NO_CELL: out of memory. */
static uint32_t find_cell(struct muster_simulation *simulation, const struct muster_sim_cell *cell)
{
    if (2 * simulation->cells >= simulation->cell_slots && !grow_slots(simulation))
        return NO_CELL;
    size_t slot = slot_of(simulation, cell);
    if (simulation->cell_at[slot])
        return simulation->cell_at[slot] - 1;
    if (!muster_grow(&simulation->cell, simulation->cells, sizeof *simulation->cell))
        return NO_CELL;
    simulation->cell[simulation->cells] = *cell;
    place(simulation, &simulation->cell[simulation->cells++]);
    simulation->cell_at[slot] = (uint32_t)simulation->cells;
    return (uint32_t)simulation->cells - 1;
}

/* ---- Reading a run ---- */

struct reading {
    struct muster_simulation *simulation;
    const struct muster_run *run;
    bool simulate;
};

static void count(struct reading *reading, enum muster_asked asked)
{
    struct muster_simulation *simulation = reading->simulation;
    if (!reading->simulate)
        return;
    simulation->asked += asked == MUSTER_ASKED;
    simulation->never += asked == MUSTER_ASKED_NEVER;
    simulation->unknown += asked == MUSTER_ASKED_UNKNOWN;
}

/* Where an operation belongs; NO_CELL with anything but MUSTER_ASKED, or without memory. */
static uint32_t cell_of(struct reading *reading, const struct muster_process *process,
                        const struct muster_op *op, const struct muster_log_comm *comm,
                        enum muster_asked *asked)
{
    struct muster_simulation *simulation = reading->simulation;
    struct muster_sim_cell cell = {.func = op->func, .ran = {op->algo, op->proto, op->channels}};
    *asked = muster_policy_asked(process, op, comm, simulation->nvlink_domains, &cell.query);
    return *asked == MUSTER_ASKED ? find_cell(simulation, &cell) : NO_CELL;
}

static int read_op(struct reading *reading, const struct muster_process *process,
                   const struct muster_op *op)
{
    enum muster_asked asked;
    uint32_t at = cell_of(reading, process, op, muster_process_comm(process, op->comm), &asked);
    count(reading, asked);
    if (asked != MUSTER_ASKED)
        return 0;
    if (at == NO_CELL)
        return -1;
    reading->simulation->cell[at].ops += reading->simulate;
    return 0;
}

/* ---- Measuring a run ---- */

static uint64_t to_ns(double us)
{
    return (uint64_t)(us * 1000 + 0.5);
}

/* Whether every rank of the communicator timed it, and carried it out alike. */
static bool is_whole(const struct muster_joint *joint)
{
    const struct muster_view_class *class = joint->view->class;
    const struct muster_view_class *of = &class[joint->any->class];
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        if (!op || class[op->class].algo != of->algo || class[op->class].proto != of->proto ||
            class[op->class].dtype != of->dtype || op->channels != joint->any->channels)
            return false;
    }
    return joint->present == joint->comm->nranks;
}

static int add_clock(void *to, const struct muster_joint *joint, double us, size_t *place)
{
    struct reading *reading = to;
    const struct muster_view *view = joint->view;
    const struct muster_view_class *class = &view->class[joint->any->class];
    const struct muster_view_gpu *gpu = &view->gpu[view->member[joint->comm->first_member].gpu];
    struct muster_op op = {.func = class->func,
                           .dtype = class->dtype,
                           .algo = class->algo,
                           .proto = class->proto,
                           .channels = joint->any->channels,
                           .count = joint->any->count};
    struct muster_log_comm comm = {.nranks = joint->comm->nranks, .nnodes = joint->comm->nnodes};
    enum muster_asked asked;
    if (!is_whole(joint))
        return 0;
    uint32_t at = cell_of(reading, &reading->run->process[gpu->process], &op, &comm, &asked);
    if (asked != MUSTER_ASKED)
        return 0;
    if (at == NO_CELL || muster_samples_add(&reading->simulation->clocks, at, to_ns(us)))
        return -1;
    *place = at;
    return 0;
}

static int add_beat(void *to, size_t place, double us)
{
    struct reading *reading = to;
    return muster_samples_add(&reading->simulation->beats, (uint32_t)place, to_ns(us));
}

static int measure(struct reading *reading)
{
    const struct muster_pace_reader reader = {reading, add_clock, add_beat};
    struct muster_view view;
    if (muster_view_of_run(reading->run, &view, NULL))
        return -1;
    int result = muster_pace_read(&view, &reader);
    muster_view_free(&view);
    return result;
}

static bool has_policy(const struct muster_process *process, const uint8_t *sha256)
{
    return process->segment && process->segment->policy.state == MUSTER_POLICY_ACTIVE &&
           memcmp(process->segment->policy.sha256, sha256, MUSTER_POLICY_SHA256) == 0;
}

static int add(struct muster_simulation *simulation, const struct muster_run *run, bool simulate,
               const uint8_t *sha256)
{
    struct reading reading = {.simulation = simulation, .run = run, .simulate = simulate};
    int result = 0;
    for (size_t p = 0; p < run->processes && result == 0; p++) {
        const struct muster_process *process = &run->process[p];
        if (sha256 && !has_policy(process, sha256))
            continue;
        simulation->missing += simulate ? process->ops_missing : 0;
        for (size_t i = 0; i < process->ops && result == 0; i++)
            result = read_op(&reading, process, &process->op[i]);
    }
    return result == 0 && !sha256 ? measure(&reading) : result;
}

int muster_simulation_add(struct muster_simulation *simulation, const struct muster_run *run,
                          bool simulate)
{
    return add(simulation, run, simulate, NULL);
}

int muster_simulation_count(struct muster_simulation *simulation, const struct muster_run *run,
                            const uint8_t *sha256)
{
    return add(simulation, run, true, sha256);
}

/* ---- Classes ---- */

/* The median of each cell's samples; 0: too few. */
static int set_medians(struct muster_simulation *simulation, const struct muster_samples *samples,
                       enum muster_pace by)
{
    struct muster_sample_groups groups;
    if (muster_samples_group(samples, simulation->cells, &groups))
        return -1;
    for (size_t i = 0; i < simulation->cells; i++) {
        size_t first = groups.first[i], n = groups.first[i + 1] - first;
        if (n >= MUSTER_PACE_OPS)
            simulation->cell[i].median_ns[by] = muster_quantile_exact(groups.value + first, n, 0.5);
    }
    muster_sample_groups_free(&groups);
    return 0;
}

static int compare(const uint64_t keys[][2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static int by_family(const struct muster_sim_cell *a, const struct muster_sim_cell *b)
{
    const uint64_t keys[][2] = {
        {a->func, b->func},
        {a->query.func, b->query.func},
        {a->query.ranks, b->query.ranks},
        {a->query.nodes, b->query.nodes},
        {a->size, b->size},
        {(uint64_t)(a->rule + 1), (uint64_t)(b->rule + 1)},
    };
    return compare(keys, sizeof keys / sizeof *keys);
}

static int by_variant(const struct muster_sim_cell *a, const struct muster_sim_cell *b)
{
    const uint64_t keys[][2] = {
        {a->ran.algo, b->ran.algo},
        {a->ran.proto, b->ran.proto},
        {a->ran.channels, b->ran.channels},
    };
    int family = by_family(a, b);
    return family ? family : compare(keys, sizeof keys / sizeof *keys);
}

static int by_size(const void *left, const void *right)
{
    const struct muster_sim_cell *a = left, *b = right;
    int variant = by_variant(a, b);
    if (variant)
        return variant;
    return a->query.bytes < b->query.bytes ? -1 : a->query.bytes > b->query.bytes;
}

bool muster_sim_same_family(const struct muster_sim_cell *a, const struct muster_sim_cell *b)
{
    return by_family(a, b) == 0;
}

static enum muster_change change_of(const struct muster_simulation *simulation,
                                    const struct muster_sim_class *class)
{
    const struct muster_sim_cell *cell = class->cell;
    uint32_t ran = muster_policy_combination(cell->ran.algo, cell->ran.proto);
    if (cell->rule < 0)
        return MUSTER_CHANGE_NONE;
    const struct muster_rule *rule = &simulation->policy->rule[cell->rule];
    /* Where nothing of what the rule keeps exists, nothing is written. */
    if ((!rule->prefer && !rule->avoid && !rule->channels) || !class->keeps)
        return MUSTER_CHANGE_NONE;
    if (!ran)
        return MUSTER_CHANGE_UNKNOWN;
    if (!(class->keeps & ran) || (rule->channels && cell->ran.channels > rule->channels))
        return MUSTER_CHANGE_WOULD;
    return rule->channels && cell->ran.channels < rule->channels ? MUSTER_CHANGE_MAY
                                                                 : MUSTER_CHANGE_NONE;
}

static void add_to_classes(struct muster_simulation *simulation, const struct muster_sim_cell *cell)
{
    struct muster_sim_class *class = &simulation->class[simulation->classes];
    if (simulation->classes && by_variant(class[-1].cell, cell) == 0) {
        class --;
    } else {
        simulation->classes++;
        class->cell = cell;
        if (cell->rule >= 0)
            class->keeps = simulation->policy->advice[cell->rule].keep &
                           muster_policy_available(cell->query.func);
    }
    class->cells++;
    class->ops += cell->ops;
}

int muster_simulation_finish(struct muster_simulation *simulation)
{
    simulation->class = calloc(simulation->cells + 1, sizeof *simulation->class);
    if (!simulation->class || set_medians(simulation, &simulation->clocks, MUSTER_PACE_CLOCK) ||
        set_medians(simulation, &simulation->beats, MUSTER_PACE_BEAT))
        return -1;
    if (simulation->cells)
        qsort(simulation->cell, simulation->cells, sizeof *simulation->cell, by_size);
    for (size_t i = 0; i < simulation->cells; i++)
        add_to_classes(simulation, &simulation->cell[i]);
    for (size_t i = 0; i < simulation->classes; i++) {
        struct muster_sim_class *class = &simulation->class[i];
        class->change = change_of(simulation, class);
        if (class->ops &&
            (class->change == MUSTER_CHANGE_WOULD || class->change == MUSTER_CHANGE_MAY))
            muster_simulation_effects(simulation, i);
    }
    return 0;
}

void muster_simulation_free(struct muster_simulation *simulation)
{
    free(simulation->cell);
    free(simulation->cell_at);
    free(simulation->class);
    muster_samples_free(&simulation->clocks);
    muster_samples_free(&simulation->beats);
}
