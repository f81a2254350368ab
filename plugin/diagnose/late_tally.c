/* What counts as late, and how it is counted. docs/diagnosis.md says what the figures rest on. */
#include "base/clock.h"
#include "diagnose/late_build.h"

#define SHARE_MIN 0.003 /* of the time without long pauses: less is not worth a finding */
/* Of the usual self time. Clean H200 differ by up to 0.125 for blocks of 20 ms, in single
 * operations by 0.145, over seconds by 0.043. */
#define RELATIVE      0.25
#define RELATIVE_LONG 0.08
#define LONG_NS       (10 * MUSTER_NS_PER_S)
/* From few timed blocks only what is plain. */
#define RELATIVE_FEW 1.0
#define SHARE_FEW    0.03
enum { STRETCHES_MIN = 4 };

struct muster_late_demands muster_late_demands(const struct muster_late_walk *walk,
                                               const struct muster_late_span *span)
{
    const struct muster_view_comm *comm = walk->joint.comm;
    const struct muster_view *view = walk->joint.view;
    const struct muster_view_member *member = &view->member[comm->first_member];
    bool sampled = walk->end.stretch > 1;
    uint64_t length_ns = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        sampled |= view->gpu[member[i].gpu].timing == MUSTER_TIMING_AUTO;
        length_ns =
            span[member[i].gpu].length_ns > length_ns ? span[member[i].gpu].length_ns : length_ns;
    }
    bool few = sampled && walk->end.stretch < STRETCHES_MIN;
    bool by_stretch = sampled && !few && walk->end.stretch < MUSTER_LATE_PARTS;
    return (struct muster_late_demands){
        .relative = few                   ? RELATIVE_FEW
                    : length_ns < LONG_NS ? RELATIVE
                                          : RELATIVE_LONG,
        .share = few ? SHARE_FEW : SHARE_MIN,
        .parts = by_stretch ? walk->end.stretch : MUSTER_LATE_PARTS,
        .few = few,
    };
}

unsigned muster_late_scale(uint64_t blame_ns)
{
    unsigned scale = 0;
    if (blame_ns < MUSTER_LATE_FLOOR_NS) {
        return MUSTER_LATE_SCALES;
    }
    while (scale + 1 < MUSTER_LATE_SCALES && blame_ns >= MUSTER_LATE_FLOOR_NS << (scale + 1)) {
        scale++;
    }
    return scale;
}

void muster_late_add(struct muster_late_tally *tally, uint64_t blame_ns, uint64_t counted_ns,
                     unsigned part)
{
    unsigned scale = muster_late_scale(counted_ns);
    unsigned any = muster_late_scale(blame_ns);
    if (scale < MUSTER_LATE_SCALES) {
        tally->hits[scale]++;
        tally->sum_ns[scale] += counted_ns;
        tally->part[scale][part]++;
    }
    if (any < MUSTER_LATE_SCALES) {
        tally->any_hits[any]++;
        tally->any_part[any][part]++;
    }
}
