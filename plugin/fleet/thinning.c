#include "fleet/thinning.h"

#include "base/clock.h"

/* A level's blocks are random: over so long even a sparse one has some. */
#define PERIOD_NS (4 * MUSTER_NS_PER_S)
enum {
    BLOCK = MUSTER_SAMPLING_WINDOW / 4,
    BLOCK_BITS = 2,
    PLACE_BITS = MUSTER_SAMPLING_SPARSEST + 4,
    SPREAD_BYTES = 12, /* an operation, with its share of those that stand for what is left out */
};

/* Within its window first, then its window's: so each level is part of those of the timing. */
static uint32_t place_of(uint64_t id, uint64_t number)
{
    return muster_sampling_place(~id, number / BLOCK, BLOCK_BITS) |
           muster_sampling_place(id, number / MUSTER_SAMPLING_WINDOW, PLACE_BITS) >> BLOCK_BITS;
}

/* The first that is not sent. */
static uint64_t bound_of(unsigned level)
{
    static const uint64_t quarter[MUSTER_THINNING_STEPS] = {1ull << 32, 3611622603ull,
                                                            3037000500ull, 2553802834ull};
    return quarter[level % MUSTER_THINNING_STEPS] >> level / MUSTER_THINNING_STEPS;
}

bool muster_thinning_has(uint64_t id, uint64_t number, unsigned level)
{
    return place_of(id, number) < bound_of(level);
}

bool muster_thinning_takes(struct muster_thinning *thinning, uint64_t id, uint64_t number,
                           unsigned timed_level)
{
    if (thinning->id != id || thinning->block_plus_1 != number / BLOCK + 1) {
        thinning->id = id;
        thinning->block_plus_1 = number / BLOCK + 1;
        thinning->place = place_of(id, number);
    }
    thinning->seen++;
    thinning->stands_for += 1ull << timed_level;
    return thinning->place < bound_of(thinning->level);
}

/* By what a level sends on the mean, not by its blocks in this period: ranks that call as often
 * agree, and a level stays. */
static unsigned fitting(const struct muster_thinning *thinning, uint64_t took_ns, unsigned bytes)
{
    unsigned level = 0;
    uint64_t most = bytes * took_ns / MUSTER_NS_PER_S;
    if (thinning->seen * MUSTER_THINNING_OP_BYTES <= most)
        return 0;
    for (; level < MUSTER_THINNING_SPARSEST; level++) {
        uint64_t sent = thinning->stands_for * bound_of(level) >> 32;
        if ((sent < thinning->seen ? sent : thinning->seen) * SPREAD_BYTES <= most)
            break;
    }
    return level;
}

static void begin_period(struct muster_thinning *thinning, uint64_t now_ns, unsigned fitted)
{
    thinning->since_ns = now_ns;
    thinning->fitted = fitted;
    thinning->seen = thinning->stands_for = 0;
}

bool muster_thinning_turn(struct muster_thinning *thinning, uint64_t now_ns, unsigned bytes)
{
    uint64_t took = now_ns - thinning->since_ns;
    if (thinning->since_ns == 0) { /* what came at first came of any time before */
        begin_period(thinning, now_ns, 0);
        return false;
    }
    /* A period that is full before its time need not be waited for. */
    unsigned level = fitting(thinning, took < PERIOD_NS ? PERIOD_NS : took, bytes);
    bool sparser = level > thinning->level;
    if (!sparser && took < PERIOD_NS)
        return false;
    thinning->level = sparser || level > thinning->fitted ? level : thinning->fitted;
    begin_period(thinning, now_ns, level);
    return sparser;
}

unsigned muster_thinning_behind(const struct muster_thinning *thinning, unsigned bytes,
                                size_t waiting)
{
    bool behind = waiting * MUSTER_THINNING_OP_BYTES > MUSTER_THINNING_BEHIND_S * (size_t)bytes;
    unsigned level = thinning->level + MUSTER_THINNING_STEPS;
    return !behind ? 0 : level < MUSTER_THINNING_SPARSEST ? level : MUSTER_THINNING_SPARSEST;
}
