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

/* Over the sizes that were measured both ways. */
static struct muster_sim_effect effect_of(const struct muster_sim_class *class,
                                          const struct muster_sim_class *other)
{
    struct muster_sim_effect effect = {.variant = other->cell->ran};
    double ran_ns = 0, other_ns = 0;
    for (size_t i = 0, j = 0; i < class->cells && j < other->cells;) {
        const struct muster_sim_cell *a = &class->cell[i], *b = &other->cell[j];
        bool same = a->query.bytes == b->query.bytes;
        if (same && a->ops && a->median_ns && b->median_ns) {
            ran_ns += (double)a->ops * (double)a->median_ns;
            other_ns += (double)a->ops * (double)b->median_ns;
            effect.covered += a->ops;
        }
        i += same || a->query.bytes < b->query.bytes;
        j += same || b->query.bytes < a->query.bytes;
    }
    effect.ratio = ran_ns > 0 ? other_ns / ran_ns : 0;
    return effect;
}

/* Keeps the most covered ones, the fastest first among equals. */
static void insert(struct muster_sim_class *class, const struct muster_sim_effect *effect)
{
    unsigned at = class->effects;
    for (; at; at--) {
        const struct muster_sim_effect *before = &class->effect[at - 1];
        if (before->covered > effect->covered ||
            (before->covered == effect->covered && before->ratio <= effect->ratio))
            break;
        if (at < MUSTER_SIM_EFFECTS)
            class->effect[at] = *before;
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
