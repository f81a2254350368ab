#include "fleet/thinning.h"

#include <string.h>

#include "base/clock.h"

/* A level's windows are random: over so long even a sparse one has some. */
#define PERIOD_NS (4 * MUSTER_NS_PER_S)
#define CALM_NS   (10 * MUSTER_NS_PER_S)
enum { BEHIND_S = 8 }; /* what waits takes longer: two windows of a level that fits just so */

bool muster_thinning_takes(struct muster_thinning *thinning, uint64_t comm_id, uint64_t number)
{
    bool takes = false;
    for (unsigned level = 0; level <= MUSTER_SAMPLING_SPARSEST; level++) {
        if (!muster_sampling_takes(comm_id, number / MUSTER_SAMPLING_WINDOW, level))
            break;
        thinning->seen[level]++;
        takes |= level == thinning->level;
    }
    return takes;
}

static unsigned fitting(const struct muster_thinning *thinning, uint64_t took_ns, unsigned bytes)
{
    unsigned level = 0;
    uint64_t most = bytes * took_ns / MUSTER_NS_PER_S / MUSTER_THINNING_OP_BYTES;
    while (level < MUSTER_SAMPLING_SPARSEST && thinning->seen[level] > most)
        level++;
    return level;
}

static void begin_period(struct muster_thinning *thinning, uint64_t now_ns)
{
    thinning->since_ns = now_ns;
    memset(thinning->seen, 0, sizeof thinning->seen);
}

bool muster_thinning_turn(struct muster_thinning *thinning, uint64_t now_ns, unsigned bytes)
{
    uint64_t took = now_ns - thinning->since_ns;
    if (thinning->since_ns == 0) { /* what came at first came of any time before */
        begin_period(thinning, now_ns);
        return false;
    }
    /* A period that is full before its time need not be waited for. */
    unsigned level = fitting(thinning, took < PERIOD_NS ? PERIOD_NS : took, bytes);
    bool sparser = level > thinning->level;
    if (!sparser && took < PERIOD_NS)
        return false;
    if (sparser) {
        thinning->level = level;
        thinning->calm_ns = 0;
    } else if (level == thinning->level) {
        thinning->calm_ns = 0;
    } else if (thinning->calm_ns == 0) {
        thinning->calm_ns = now_ns;
    } else if (now_ns - thinning->calm_ns >= CALM_NS) {
        thinning->level--;
        thinning->calm_ns = 0;
    }
    begin_period(thinning, now_ns);
    return sparser;
}

unsigned muster_thinning_behind(const struct muster_thinning *thinning, unsigned bytes,
                                size_t waiting)
{
    bool behind = waiting * MUSTER_THINNING_OP_BYTES > BEHIND_S * (size_t)bytes;
    return behind && thinning->level < MUSTER_SAMPLING_SPARSEST ? thinning->level + 1 : 0;
}
