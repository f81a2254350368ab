/*
 * Whether a rank is late more often, and for more, than chance and the ranks' turns explain. No
 * shape of the noise is assumed: what the other ranks of the same communicator are to blame for, at
 * the same size of delay, is the yardstick. docs/diagnosis.md says what the thresholds were chosen
 * on.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "diagnose/late_build.h"
#include "segment/table.h"

#define CHANCE      0.008 /* that a clean job names somebody by luck, at one size of delay */
#define ALSO_CHANCE 0.5   /* the same for another rank beside a guilty one */
#define DOMINANCE   3     /* as often, and for as much, as the other ranks typically */
#define CONCENTRATE 0.7   /* of the cost: the delays that make up this much are the delays */
enum {
    HITS_MIN = 8,
    ALSO_MIN = 4,  /* beside another guilty rank */
    ALSO_PART = 5, /* of what the guiltiest is to blame for */
    EVEN = 3,      /* octaves */
};
#define CHANCE_TURNS     0.02 /* that one who is late now and then is so by luck */
#define CHANCE_FEW_TURNS 0.5  /* the same, where nobody else ever is as late */
enum {
    TURNS_MIN = 3,
    HITS_FEW = 6, /* where little is seen */
    VERDICT = 4,  /* times as often as others: that much even one who stands out by parts shows */
};

double muster_late_by_luck(uint32_t hits, uint32_t others)
{
    uint32_t n = hits + others;
    if (n > 200) {
        /* With three times as many on one side this is below 1e-12. */
        return hits / DOMINANCE >= others ? 0 : 1;
    }
    double term = 1; /* C(n, n) / 2^n, then downwards */
    for (uint32_t i = 0; i < n; i++) {
        term /= 2;
    }
    double sum = term;
    for (uint32_t k = n; k > hits; k--) {
        term = term * k / (n - k + 1);
        sum += term;
    }
    return sum;
}

bool muster_late_beyond_luck(const struct muster_late_guilt *guilt, uint32_t turns, size_t ranks)
{
    if (guilt->high == 0) {
        return turns >= TURNS_MIN &&
               muster_late_by_luck(turns, 0) * (double)ranks <= CHANCE_FEW_TURNS;
    }
    double others = (double)guilt->high * turns / guilt->hits;
    return muster_late_by_luck(turns, (uint32_t)ceil(others)) * (double)ranks <= CHANCE_TURNS;
}

/* At one size of delay, and all above: what each member has, and what others typically have. */
struct level {
    uint32_t *hits;
    uint32_t *any_hits; /* with those too short to count */
    uint64_t *sum_ns;
    uint64_t *even_ns; /* the same with long delays cut to a few times the size of delay: one pause
                          must not outweigh what happens in every step */
    uint32_t usual_hits, high_hits;
    uint64_t all_hits;
    uint64_t usual_ns;
    uint32_t most_hits, most_any;
    uint64_t most_ns;
};

struct judging {
    const struct muster_view *view;
    const struct muster_late_comm *comm;
    uint32_t n;
    struct level level[MUSTER_LATE_SCALES];
    uint64_t *sorted;
    void *memory;
};

/* The upper median of the others, for a member that is above it. */
static uint64_t usual(struct judging *judging)
{
    muster_sort_u64(judging->sorted, judging->n);
    return judging->sorted[(judging->n - 1) / 2];
}

/* Ranks that may be late now and then, each by itself; more of them are how the job is. */
static uint32_t guilty_at_most(uint32_t n)
{
    uint32_t most = n / 8 > 2 ? n / 8 : 2;
    return n / 2 < most ? n / 2 : most;
}

static uint64_t even(const struct judging *judging, uint32_t i, unsigned j)
{
    unsigned cut = j + EVEN < MUSTER_LATE_SCALES ? j + EVEN : MUSTER_LATE_SCALES - 1;
    const struct level *from = &judging->level[j];
    const struct level *to = &judging->level[cut];
    return from->sum_ns[i] - to->sum_ns[i] + to->hits[i] * (MUSTER_LATE_FLOOR_NS << cut);
}

static int set_up(struct judging *judging, const struct muster_view *view,
                  const struct muster_late_comm *comm)
{
    uint32_t n = view->comm[comm->comm].members;
    size_t cells = (size_t)n * MUSTER_LATE_SCALES;
    memset(judging, 0, sizeof *judging);
    judging->view = view;
    judging->comm = comm;
    judging->n = n;
    judging->memory =
        calloc(2 * cells + n, sizeof *judging->sorted + sizeof *judging->level[0].hits);
    if (!judging->memory) {
        return -1;
    }
    uint64_t *sums = judging->memory;
    uint32_t *hits = (uint32_t *)(sums + 2 * cells + n);
    judging->sorted = sums + 2 * cells;
    for (unsigned j = MUSTER_LATE_SCALES; j-- > 0;) {
        struct level *level = &judging->level[j];
        const struct level *above = j + 1 < MUSTER_LATE_SCALES ? level + 1 : NULL;
        level->hits = hits + (size_t)j * n;
        level->any_hits = hits + cells + (size_t)j * n;
        level->sum_ns = sums + (size_t)j * n;
        level->even_ns = sums + cells + (size_t)j * n;
        for (uint32_t i = 0; i < n; i++) {
            level->hits[i] = comm->tally[i].hits[j] + (above ? above->hits[i] : 0);
            level->any_hits[i] = comm->tally[i].any_hits[j] + (above ? above->any_hits[i] : 0);
            level->sum_ns[i] = comm->tally[i].sum_ns[j] + (above ? above->sum_ns[i] : 0);
            level->most_hits =
                level->hits[i] > level->most_hits ? level->hits[i] : level->most_hits;
            level->even_ns[i] = even(judging, i, j);
            level->most_ns =
                level->even_ns[i] > level->most_ns ? level->even_ns[i] : level->most_ns;
            level->most_any =
                level->any_hits[i] > level->most_any ? level->any_hits[i] : level->most_any;
            judging->sorted[i] = level->any_hits[i];
            level->all_hits += level->any_hits[i];
        }
        level->usual_hits = (uint32_t)usual(judging);
        level->high_hits = (uint32_t)judging->sorted[n - 1 - guilty_at_most(n)];
        memcpy(judging->sorted, level->even_ns, n * sizeof *judging->sorted);
        level->usual_ns = usual(judging);
    }
    return 0;
}

/* All the delays of this size are one rank's, and so many that luck is out: enough where there is
 * little to see. */
static bool all_its_own(const struct judging *judging, uint32_t hits, const struct level *level)
{
    return judging->comm->demands.few && hits >= HITS_FEW && level->all_hits == hits &&
           pow(judging->n, -(double)hits) * (double)judging->view->members <= CHANCE;
}

static bool stands_out(const struct judging *judging, uint32_t hits, uint32_t others)
{
    return hits >= HITS_MIN && hits / DOMINANCE >= others &&
           muster_late_by_luck(hits, others) * (double)judging->view->members <= CHANCE;
}

/* Beside a rank that is guilty already at this size of delay, another one need not stand out by
 * itself. */
static bool stands_beside(const struct judging *judging, uint32_t hits, const struct level *level)
{
    return stands_out(judging, level->most_hits, level->usual_hits) && hits >= ALSO_MIN &&
           hits >= level->most_hits / DOMINANCE && hits / DOMINANCE >= level->usual_hits &&
           muster_late_by_luck(hits, level->usual_hits) * judging->n <= ALSO_CHANCE;
}

/* -1: no memory. */
static int guilty_at(const struct judging *judging, uint32_t i, unsigned j,
                     const struct muster_late_span *span, bool *guilty, bool *is_beside)
{
    const struct level *level = &judging->level[j];
    bool alone = stands_out(judging, level->hits[i], level->usual_hits) ||
                 all_its_own(judging, level->hits[i], level);
    bool beside =
        level->hits[i] < level->most_hits && stands_beside(judging, level->hits[i], level);
    *is_beside = beside;
    *guilty = (alone || beside) && level->even_ns[i] / DOMINANCE >= level->usual_ns &&
              level->even_ns[i] >= level->most_ns / ALSO_PART &&
              (double)level->even_ns[i] >= judging->comm->demands.share * (double)span->active_ns;
    return *guilty ? muster_late_steady(judging->comm, level->any_hits, judging->n, i, j, beside,
                                        guilty)
                   : 0;
}

/* What it is to blame for from this size of delay on, up to where the others' are as frequent. */
static uint64_t cost(const struct judging *judging, uint32_t i, unsigned scale)
{
    unsigned end = scale + 1;
    while (end < MUSTER_LATE_SCALES && judging->level[end].hits[i] &&
           judging->level[end].hits[i] / DOMINANCE >= judging->level[end].usual_hits) {
        end++;
    }
    uint64_t beyond_ns = end < MUSTER_LATE_SCALES ? judging->level[end].sum_ns[i] : 0;
    return judging->level[scale].sum_ns[i] - beyond_ns;
}

/* The size of the delays that make up most of what the member is to blame for. -1: no memory. */
static int main_scale(const struct judging *judging, uint32_t i, unsigned lowest,
                      const struct muster_late_span *span, unsigned *scale)
{
    double enough = CONCENTRATE * (double)cost(judging, i, lowest);
    int result = 0;
    *scale = lowest;
    for (unsigned j = lowest; j < MUSTER_LATE_SCALES && result == 0; j++) {
        bool guilty = false;
        bool beside;
        if ((double)cost(judging, i, j) >= enough) {
            result = guilty_at(judging, i, j, span, &guilty, &beside);
        }
        *scale = guilty ? j : *scale;
    }
    return result;
}

static int add_guilt(const struct judging *judging, uint32_t i, unsigned lowest,
                     const struct muster_late_span *span, struct muster_late_guilts *guilts)
{
    const struct muster_view_comm *comm = &judging->view->comm[judging->comm->comm];
    unsigned scale;
    if (!muster_grow(&guilts->guilt, guilts->n, sizeof *guilts->guilt) ||
        main_scale(judging, i, lowest, span, &scale)) {
        return -1;
    }
    uint64_t cost_ns = cost(judging, i, scale);
    guilts->guilt[guilts->n++] = (struct muster_late_guilt){
        .demands = judging->comm->demands,
        .comm = judging->comm->comm,
        .member = comm->first_member + i,
        .gpu = judging->view->member[comm->first_member + i].gpu,
        .scale = scale,
        .hits = judging->level[scale].hits[i],
        .others = judging->level[scale].usual_hits,
        .high = judging->level[scale].high_hits,
        .cost_ns = cost_ns,
        .compared = judging->comm->compared,
        .covered_ns = span->covered_ns,
        .active_ns = span->active_ns,
        .share = (double)cost_ns / (double)(span->covered_ns ? span->covered_ns : 1),
    };
    return 0;
}

/* part[] of each size, with what is above. */
static void add_up_parts(struct muster_late_tally *tally)
{
    for (unsigned j = MUSTER_LATE_SCALES - 1; j-- > 0;) {
        for (unsigned b = 0; b < MUSTER_LATE_PARTS; b++) {
            tally->part[j][b] += tally->part[j + 1][b];
            tally->any_part[j][b] += tally->any_part[j + 1][b];
        }
    }
}

static int judge_member(const struct judging *judging, uint32_t i,
                        const struct muster_late_span *span, struct muster_late_guilts *guilts)
{
    const struct muster_view_comm *comm = &judging->view->comm[judging->comm->comm];
    const struct muster_late_span *own = &span[judging->view->member[comm->first_member + i].gpu];
    bool guilty = false;
    bool beside = false;
    int result = 0;
    unsigned j = 0;
    while (j < MUSTER_LATE_SCALES && result == 0 && !guilty) {
        result = guilty_at(judging, i, j++, own, &guilty, &beside);
    }
    if (result == 0 && guilty) {
        result = add_guilt(judging, i, j - 1, own, guilts);
        guilts->guilt[guilts->n - 1].beside = beside;
    }
    return result;
}

/* Beside somebody who is not guilty after all nobody is. */
static void drop_lonely(struct muster_late_guilts *guilts, size_t from)
{
    bool any = false;
    for (size_t g = from; g < guilts->n; g++) {
        any |= !guilts->guilt[g].beside;
    }
    guilts->n = any ? guilts->n : from;
}

int muster_late_judge(const struct muster_view *view, struct muster_late_comm *comm,
                      const struct muster_late_span *span, struct muster_late_guilts *guilts)
{
    struct judging judging;
    size_t before = guilts->n;
    if (set_up(&judging, view, comm)) {
        return -1;
    }
    int result = 0;
    for (uint32_t i = 0; i < judging.n; i++) {
        add_up_parts(&comm->tally[i]);
    }
    for (uint32_t i = 0; i < judging.n && result == 0; i++) {
        if (judging.level[0].hits[i] >= ALSO_MIN) {
            result = judge_member(&judging, i, span, guilts);
        }
    }
    drop_lonely(guilts, before);
    free(judging.memory);
    return result;
}

uint64_t muster_late_smallest_ns(const struct muster_view *view,
                                 const struct muster_late_comm *comm,
                                 const struct muster_late_span *span)
{
    struct judging judging;
    uint64_t smallest = 0;
    if (set_up(&judging, view, comm)) {
        return 0;
    }
    uint32_t gpu = view->member[view->comm[comm->comm].first_member].gpu;
    for (unsigned j = 0; j < MUSTER_LATE_SCALES && !smallest; j++) {
        const struct level *level = &judging.level[j];
        uint32_t hits = (uint32_t)(comm->open[j] / 5);
        uint64_t delay_ns = MUSTER_LATE_FLOOR_NS << j;
        uint64_t sum_ns = delay_ns * hits;
        struct level with = {.all_hits = level->all_hits + hits};
        if ((stands_out(&judging, hits, level->most_any) || all_its_own(&judging, hits, &with)) &&
            hits / VERDICT >= level->most_any && sum_ns / DOMINANCE >= level->most_ns &&
            (double)sum_ns >= comm->demands.share * (double)span[gpu].active_ns) {
            smallest = delay_ns;
        }
    }
    free(judging.memory);
    return smallest;
}
