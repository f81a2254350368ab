/* What a GPU's clock does to its computing, and what ranks differ by. */
#include <math.h>

#include "generate.h"

/* Half of the time nothing, else a few percent, seldom much. */
static double draw_state(struct draw *draw)
{
    double kind = draw_unit(draw);
    return kind < 0.5 ? 0 : kind < 0.9 ? 0.05 * draw_unit(draw) : 0.05 + 0.075 * draw_unit(draw);
}

void speed_draw(struct draw *draw, struct speed *speed)
{
    *speed = (struct speed){.offset = 0.025 * draw_unit(draw), .state = draw_state(draw)};
}

double speed_at(struct draw *draw, struct speed *speed, double now_ns)
{
    if (now_ns >= speed->until_ns) {
        speed->state = speed->until_ns > 0 ? draw_state(draw) : speed->state;
        speed->until_ns = now_ns + draw_log(draw, 10e6, 300e6);
    }
    return 1 + speed->offset + speed->state;
}

void deviations_add(struct deviations *deviations, double ns)
{
    double octave = 16 * log2(fabs(ns) + 1);
    deviations->count[octave < DEVIATIONS - 1 ? (unsigned)octave : DEVIATIONS - 1]++;
}

uint64_t deviations_p99(const struct deviations *deviations)
{
    uint64_t all = 0;
    uint64_t below = 0;
    unsigned i = 0;
    for (unsigned k = 0; k < DEVIATIONS; k++)
        all += deviations->count[k];
    while (i + 1 < DEVIATIONS && 100 * (below += deviations->count[i]) < 99 * all)
        i++;
    return (uint64_t)exp2((i + 1) / 16.0);
}
