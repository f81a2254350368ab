/*
 * Whether a rank is late throughout, or one rank after the other by turns. GPUs change their clocks
 * for a tenth of a second, hosts fall behind for seconds: operations next to each other are no
 * evidence apart. So the record is cut into parts, and what counts is the difference between a
 * rank's and another's hits, part by part. If both were late by the same chances, its sign would be
 * a coin in each part, and sum / sqrt(sum of squares) above z has a probability of at most
 * exp(-z * z / 2), whatever the shape of the noise (Hoeffding).
 */
#include <math.h>
#include <stdlib.h>

#include "diagnose/late_build.h"

#define SURE        1.7 /* z that is demanded */
#define SURE_BESIDE 1.2 /* of a rank beside a guilty one */
#define OF_POSSIBLE 0.8 /* of sqrt(parts), the highest z that so many parts can give */
enum {
    ALONE = 2,  /* times as many hits as any other rank */
    LONGER = 3, /* than another rank was late in one go */
};

struct sides {
    const struct muster_late_comm *comm;
    const uint32_t *hits; /* any */
    uint32_t n, own, own_hits;
    unsigned scale, from, parts;
    bool beside;
};

/* Ranks that may be late as well: beside a guilty one the most frequent others are not compared. */
static uint32_t others_left_out(uint32_t n)
{
    uint32_t most = n / 8 > 2 ? n / 8 : 2;
    return n < 4 ? 0 : most - 1;
}

static const uint32_t *parts_of(const struct sides *sides, uint32_t i)
{
    const struct muster_late_tally *tally = &sides->comm->tally[i];
    return i == sides->own ? tally->part[sides->scale] : tally->any_part[sides->scale];
}

/* Late in every part from early on, and about as often in each: a habit, no turn. */
static bool habitual(const struct sides *sides, uint32_t i)
{
    const uint32_t *part = parts_of(sides, i);
    for (unsigned b = 1; b < sides->parts; b++) {
        if (2 * part[b] * sides->parts < sides->hits[i]) {
            return false;
        }
    }
    return true;
}

static unsigned longest_turn(const struct sides *sides, uint32_t other)
{
    const uint32_t *own = parts_of(sides, sides->own);
    const uint32_t *its = parts_of(sides, other);
    unsigned longest = 0;
    unsigned turn = 0;
    for (unsigned b = 0; b < sides->parts; b++) {
        turn = its[b] > 1 && its[b] > own[b] ? turn + 1 : 0;
        longest = turn > longest ? turn : longest;
    }
    return longest;
}

static bool stands_above(const struct sides *sides, uint32_t other)
{
    const uint32_t *own = parts_of(sides, sides->own);
    const uint32_t *its = parts_of(sides, other);
    double sum = 0;
    double squares = 0;
    for (unsigned b = sides->from; b < sides->parts; b++) {
        double d = (double)own[b] - (double)its[b];
        sum += d;
        squares += d * d;
    }
    unsigned parts = sides->parts - sides->from;
    double sure = sides->beside ? SURE_BESIDE : SURE;
    double possible = OF_POSSIBLE * sqrt(parts);
    if (!sides->beside && (sides->own_hits / ALONE < sides->hits[other] ||
                           parts < LONGER * longest_turn(sides, other))) {
        return false;
    }
    return sum > 0 && sum >= (sure < possible ? sure : possible) * sqrt(squares);
}

static int downwards(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    return a > b ? -1 : a < b;
}

/* Which others are left out: those with more hits than `more`, and of those with as many `ties`. */
struct left_out {
    uint32_t more, ties;
};

static struct left_out leave_out(const struct sides *sides, uint32_t *scratch)
{
    struct left_out out = {.more = UINT32_MAX};
    uint32_t others = 0;
    uint32_t room = others_left_out(sides->n);
    for (uint32_t i = 0; i < sides->n; i++) {
        if (i != sides->own) {
            scratch[others++] = sides->hits[i];
        }
    }
    qsort(scratch, others, sizeof *scratch, downwards);
    if (room && room <= others) {
        out.more = scratch[room - 1];
        for (uint32_t i = room; i-- > 0 && scratch[i] == out.more;) {
            out.ties++;
        }
    }
    return out;
}

int muster_late_steady(const struct muster_late_comm *comm, const uint32_t *any_hits, uint32_t n,
                       uint32_t i, unsigned scale, bool beside, bool *steady)
{
    struct sides sides = {.comm = comm,
                          .hits = any_hits,
                          .n = n,
                          .own = i,
                          .scale = scale,
                          .parts = comm->demands.parts,
                          .beside = beside};
    uint32_t *scratch = malloc((n + 1) * sizeof *scratch);
    if (!scratch) {
        return -1;
    }
    struct left_out left = leave_out(&sides, scratch);
    free(scratch);
    while (sides.from + 1 < sides.parts && parts_of(&sides, i)[sides.from] == 0) {
        sides.from++;
    }
    for (unsigned b = 0; b < sides.parts; b++) {
        sides.own_hits += parts_of(&sides, i)[b];
    }
    *steady = true;
    for (uint32_t other = 0; other < n && *steady; other++) {
        /* Half of four ranks is as many as the other half: only a habit is left out there. */
        bool tie = other != i && any_hits[other] == left.more && left.ties;
        left.ties -= tie;
        bool out = (tie || any_hits[other] > left.more) && (n > 4 || habitual(&sides, other));
        *steady = other == i || out || stands_above(&sides, other);
    }
    return 0;
}
