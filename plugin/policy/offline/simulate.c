#include "policy/offline/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "policy/offline/policy_asked.h"
#include "segment/totals.h"

enum { NO_CELL = UINT32_MAX };

const char *muster_change_name(enum muster_change change)
{
    static const char *const word[MUSTER_CHANGES] = {"none", "would", "may", "unknown"};
    return word[change];
}

/* ---- Cells ---- */

/* What decides about it, and its size class. */
static void place(const struct muster_simulation *simulation, struct muster_sim_cell *cell)
{
    uint8_t log2 = muster_size_log2(cell->query.bytes);
    cell->rule = muster_policy_match(simulation->policy, &cell->query);
    cell->size = log2 < 64 ? 1ull << log2 : 0;
}

/* What makes a cell. */
struct cell_key {
    uint64_t asked, bytes, ranks, nodes, func, ran;
};

static struct cell_key key_of(const struct muster_sim_cell *cell)
{
    return (struct cell_key){
        .asked = cell->query.func,
        .bytes = cell->query.bytes,
        .ranks = cell->query.ranks,
        .nodes = cell->query.nodes,
        .func = cell->func,
        .ran = (uint64_t)cell->ran.algo << 16 | (uint64_t)cell->ran.proto << 8 | cell->ran.channels,
    };
}

/* Index of the cell, made if missing; NO_CELL: out of memory. */
static uint32_t find_cell(struct muster_simulation *simulation, const struct muster_sim_cell *cell)
{
    const struct cell_key key = key_of(cell);
    simulation->cell_at.key_bytes = sizeof key;
    size_t at = muster_hashmap_find(&simulation->cell_at, &key);
    if (at != SIZE_MAX)
        return (uint32_t)at;
    struct muster_arena *memory = &simulation->memory;
    struct muster_sim_cell *made =
        muster_arena_add(memory, &simulation->cell, &simulation->cells, sizeof *made);
    *made = *cell;
    place(simulation, made);
    memory->failed =
        memory->failed || !muster_hashmap_put(&simulation->cell_at, &key, simulation->cells - 1);
    return memory->failed ? NO_CELL : (uint32_t)(simulation->cells - 1);
}

/* ---- Reading a run ---- */

struct reading {
    struct muster_simulation *simulation;
    const struct muster_view *view;
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

/* What of a recorded operation decides whether and what NCCL asks. */
static struct muster_op op_of(const struct muster_view *view, const struct muster_view_op *op)
{
    const struct muster_view_class *class = &view->class[op->class];
    return (struct muster_op){.func = class->func,
                              .dtype = class->dtype,
                              .algo = class->algo,
                              .proto = class->proto,
                              .channels = op->channels,
                              .count = op->count};
}

static void read_member(struct reading *reading, const struct muster_view_member *member)
{
    const struct muster_view *view = reading->view;
    const struct muster_process *process = &view->run->process[view->gpu[member->gpu].process];
    struct muster_log_comm comm = {.nranks = member->nranks,
                                   .nnodes = view->comm[member->comm].nnodes};
    for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++) {
        struct muster_op op = op_of(view, &view->op[i]);
        enum muster_asked asked;
        uint32_t at = cell_of(reading, process, &op, &comm, &asked);
        count(reading, asked);
        if (at != NO_CELL)
            reading->simulation->cell[at].ops += reading->simulate;
    }
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
    const struct muster_view_gpu *gpu = &view->gpu[view->member[joint->comm->first_member].gpu];
    struct muster_op op = op_of(view, joint->any);
    struct muster_log_comm comm = {.nranks = joint->comm->nranks, .nnodes = joint->comm->nnodes};
    enum muster_asked asked;
    if (!is_whole(joint))
        return 0;
    uint32_t at = cell_of(reading, &view->run->process[gpu->process], &op, &comm, &asked);
    if (at == NO_CELL)
        return 0;
    struct muster_simulation *simulation = reading->simulation;
    muster_samples_add(&simulation->clocks, at, to_ns(us), &simulation->memory);
    *place = at;
    return 0;
}

static int add_beat(void *to, size_t place, double us)
{
    struct muster_simulation *simulation = ((struct reading *)to)->simulation;
    muster_samples_add(&simulation->beats, (uint32_t)place, to_ns(us), &simulation->memory);
    return 0;
}

static void measure(struct reading *reading)
{
    const struct muster_measure_reader reader = {reading, add_clock, add_beat};
    reading->simulation->memory.failed |= muster_measure_read(reading->view, &reader) != 0;
}

static bool has_policy(const struct muster_process *process, const uint8_t *sha256)
{
    return process->segment->policy.state == MUSTER_POLICY_ACTIVE &&
           memcmp(process->segment->policy.sha256, sha256, MUSTER_POLICY_SHA256) == 0;
}

static void add(struct muster_simulation *simulation, const struct muster_view *view, bool simulate,
                const uint8_t *sha256)
{
    struct reading reading = {.simulation = simulation, .view = view, .simulate = simulate};
    const struct muster_process *process = view->run->process;
    for (size_t p = 0; p < view->run->processes && simulate; p++)
        if (!sha256 || has_policy(&process[p], sha256))
            simulation->missing += process[p].ops_missing;
    for (size_t m = 0; m < view->members; m++) {
        const struct muster_view_member *member = &view->member[m];
        if (!sha256 || has_policy(&process[view->gpu[member->gpu].process], sha256))
            read_member(&reading, member);
    }
    if (simulate && !sha256)
        simulation->unknown += view->unattributed;
    if (!sha256)
        measure(&reading);
}

void muster_simulation_add(struct muster_simulation *simulation, const struct muster_view *view,
                           bool simulate)
{
    add(simulation, view, simulate, NULL);
}

void muster_simulation_count(struct muster_simulation *simulation, const struct muster_view *view,
                             const uint8_t *sha256)
{
    add(simulation, view, true, sha256);
}

/* ---- Classes ---- */

/* The median of each cell's samples; 0: too few. */
static void set_medians(struct muster_simulation *simulation, const struct muster_samples *samples,
                        enum muster_measure by)
{
    struct muster_arena memory = {0};
    struct muster_sample_groups groups = muster_samples_group(samples, simulation->cells, &memory);
    for (size_t i = 0; groups.value && i < simulation->cells; i++) {
        size_t first = groups.first[i], n = groups.first[i + 1] - first;
        if (n >= MUSTER_MEASURE_OPS)
            simulation->cell[i].median_ns[by] = muster_quantile_exact(groups.value + first, n, 0.5);
    }
    muster_arena_end(&memory, &simulation->memory);
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

static bool same_family(const struct muster_sim_cell *a, const struct muster_sim_cell *b)
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

/* ---- Effects ---- */

/* Whether the rule that decides about `class` could have led to what ran in `other`. */
static bool is_kept(const struct muster_simulation *simulation,
                    const struct muster_sim_class *class, const struct muster_sim_class *other)
{
    struct muster_variant variant = other->cell->ran;
    uint8_t channels = simulation->policy->rule[class->cell->rule].channels;
    return (class->keeps & muster_policy_combination(variant.algo, variant.proto)) &&
           (!channels || variant.channels <= channels);
}

/* Over the sizes that were measured both ways; 0: none was. */
static double ratio_of(const struct muster_sim_class *class, const struct muster_sim_class *other,
                       enum muster_measure by, uint64_t *covered)
{
    double ran_ns = 0, other_ns = 0;
    *covered = 0;
    for (size_t i = 0, j = 0; i < class->cells && j < other->cells;) {
        const struct muster_sim_cell *a = &class->cell[i], *b = &other->cell[j];
        bool same = a->query.bytes == b->query.bytes;
        if (same && a->ops && a->median_ns[by] && b->median_ns[by]) {
            ran_ns += (double)a->ops * (double)a->median_ns[by];
            other_ns += (double)a->ops * (double)b->median_ns[by];
            *covered += a->ops;
        }
        i += same || a->query.bytes < b->query.bytes;
        j += same || b->query.bytes < a->query.bytes;
    }
    return ran_ns > 0 ? other_ns / ran_ns : 0;
}

static struct muster_sim_effect effect_of(const struct muster_sim_class *class,
                                          const struct muster_sim_class *other)
{
    struct muster_sim_effect effect = {.variant = other->cell->ran};
    uint64_t by_clock, by_beat;
    double beat = ratio_of(class, other, MUSTER_MEASURE_BEAT, &by_beat);
    effect.clock_ratio = ratio_of(class, other, MUSTER_MEASURE_CLOCK, &by_clock);
    effect.by = muster_measure_of(by_beat, class->cell->ran.algo, other->cell->ran.algo);
    effect.covered = effect.by == MUSTER_MEASURE_BEAT ? by_beat : by_clock;
    effect.ratio = effect.by == MUSTER_MEASURE_BEAT    ? beat
                   : effect.by == MUSTER_MEASURE_CLOCK ? effect.clock_ratio
                                                       : 0;
    return effect;
}

/* Whether `a` is to be reported before `b`. */
static bool reports_more(const struct muster_sim_effect *a, const struct muster_sim_effect *b)
{
    if ((a->by == MUSTER_MEASURE_NONE) != (b->by == MUSTER_MEASURE_NONE))
        return b->by == MUSTER_MEASURE_NONE;
    return a->covered != b->covered ? a->covered > b->covered : a->ratio < b->ratio;
}

static void insert(struct muster_sim_class *class, const struct muster_sim_effect *effect)
{
    unsigned at = class->effects;
    for (; at && reports_more(effect, &class->effect[at - 1]); at--)
        if (at < MUSTER_SIM_EFFECTS)
            class->effect[at] = class->effect[at - 1];
    if (at == MUSTER_SIM_EFFECTS)
        return;
    class->effect[at] = *effect;
    class->effects += class->effects < MUSTER_SIM_EFFECTS;
}

static void find_effects(struct muster_simulation *simulation, size_t at)
{
    struct muster_sim_class *class = &simulation->class[at];
    size_t first = at, end = at;
    while (first && same_family(simulation->class[first - 1].cell, class->cell))
        first--;
    while (end < simulation->classes && same_family(simulation->class[end].cell, class->cell))
        end++;
    for (size_t i = first; i < end; i++) {
        const struct muster_sim_class *other = &simulation->class[i];
        if (i == at || !is_kept(simulation, class, other))
            continue;
        struct muster_sim_effect effect = effect_of(class, other);
        if (effect.covered)
            insert(class, &effect);
    }
}

int muster_simulation_finish(struct muster_simulation *simulation)
{
    simulation->class =
        muster_arena_array(&simulation->memory, simulation->cells + 1, sizeof *simulation->class);
    set_medians(simulation, &simulation->clocks, MUSTER_MEASURE_CLOCK);
    set_medians(simulation, &simulation->beats, MUSTER_MEASURE_BEAT);
    if (simulation->memory.failed)
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
            find_effects(simulation, i);
    }
    return 0;
}

void muster_simulation_free(struct muster_simulation *simulation)
{
    muster_hashmap_free(&simulation->cell_at);
    muster_arena_free(&simulation->memory);
}
