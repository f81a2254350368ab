#include "cli/simulate.h"

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
                       enum muster_pace by, uint64_t *covered)
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
    double beat = ratio_of(class, other, MUSTER_PACE_BEAT, &by_beat);
    effect.clock_ratio = ratio_of(class, other, MUSTER_PACE_CLOCK, &by_clock);
    effect.by = muster_pace_of(by_beat, class->cell->ran.algo, other->cell->ran.algo);
    effect.covered = effect.by == MUSTER_PACE_BEAT ? by_beat : by_clock;
    effect.ratio = effect.by == MUSTER_PACE_BEAT    ? beat
                   : effect.by == MUSTER_PACE_CLOCK ? effect.clock_ratio
                                                    : 0;
    return effect;
}

/* Whether `a` is to be told before `b`. */
static bool tells_more(const struct muster_sim_effect *a, const struct muster_sim_effect *b)
{
    if ((a->by == MUSTER_PACE_NONE) != (b->by == MUSTER_PACE_NONE))
        return b->by == MUSTER_PACE_NONE;
    return a->covered != b->covered ? a->covered > b->covered : a->ratio < b->ratio;
}

static void insert(struct muster_sim_class *class, const struct muster_sim_effect *effect)
{
    unsigned at = class->effects;
    for (; at && tells_more(effect, &class->effect[at - 1]); at--) {
        if (at < MUSTER_SIM_EFFECTS)
            class->effect[at] = class->effect[at - 1];
    }
    if (at == MUSTER_SIM_EFFECTS)
        return;
    class->effect[at] = *effect;
    class->effects += class->effects < MUSTER_SIM_EFFECTS;
}

void muster_simulation_effects(struct muster_simulation *simulation, size_t at)
{
    struct muster_sim_class *class = &simulation->class[at];
    size_t first = at, end = at;
    while (first && muster_sim_same_family(simulation->class[first - 1].cell, class->cell))
        first--;
    while (end < simulation->classes &&
           muster_sim_same_family(simulation->class[end].cell, class->cell))
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
