/*
 * Whether a rank is late more often, and for more, than chance and the ranks' turns explain. No
 * shape of the noise is assumed: what the other ranks of the same communicator are to blame for, at
 * the same size of delay, is the yardstick. docs/diagnosis.md says what the thresholds were chosen
 * on.
 */
#include <stdlib.h>
#include <string.h>

#include "diagnose/late_build.h"
#include "segment/table.h"

#define CHANCE      0.01 /* that a clean communicator names somebody by luck, at one size of delay */
#define SHARE_MIN   0.005 /* of the covered time: less is not worth a finding */
#define DOMINANCE   3     /* as often, and for as much, as the other ranks typically */
#define CONCENTRATE 0.7   /* of the cost: the delays that make up this much are the delays */
enum { HITS_MIN = 8 };

/* P(at least `hits` of hits + others fall on one of two sides that are equally likely). */
static double by_luck(uint32_t hits, uint32_t others)
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

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* At one size of delay, and all above: what each member has, and what others typically have. */
struct level {
    uint32_t *hits;
    uint64_t *sum_ns;
    uint32_t usual_hits;
    uint64_t usual_ns;
    uint32_t most_hits;
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

/* The lower median of the others, for a member that is above it. */
static uint64_t usual(struct judging *judging)
{
    qsort(judging->sorted, judging->n, sizeof *judging->sorted, by_value);
    return judging->sorted[(judging->n - 2) / 2];
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
    judging->memory = calloc(cells + n, sizeof *judging->sorted + sizeof *judging->level[0].hits);
    if (!judging->memory) {
        return -1;
    }
    uint64_t *sums = judging->memory;
    uint32_t *hits = (uint32_t *)(sums + cells + n);
    judging->sorted = sums + cells;
    for (unsigned j = MUSTER_LATE_SCALES; j-- > 0;) {
        struct level *level = &judging->level[j];
        const struct level *above = j + 1 < MUSTER_LATE_SCALES ? level + 1 : NULL;
        level->hits = hits + (size_t)j * n;
        level->sum_ns = sums + (size_t)j * n;
        for (uint32_t i = 0; i < n; i++) {
            level->hits[i] = comm->tally[i].hits[j] + (above ? above->hits[i] : 0);
            level->sum_ns[i] = comm->tally[i].sum_ns[j] + (above ? above->sum_ns[i] : 0);
            level->most_hits =
                level->hits[i] > level->most_hits ? level->hits[i] : level->most_hits;
            level->most_ns = level->sum_ns[i] > level->most_ns ? level->sum_ns[i] : level->most_ns;
            judging->sorted[i] = level->hits[i];
        }
        level->usual_hits = (uint32_t)usual(judging);
        memcpy(judging->sorted, level->sum_ns, n * sizeof *judging->sorted);
        level->usual_ns = usual(judging);
    }
    return 0;
}

static bool stands_out(const struct judging *judging, uint32_t hits, uint32_t others)
{
    return hits >= HITS_MIN && hits / DOMINANCE >= others &&
           by_luck(hits, others) * judging->n <= CHANCE;
}

static bool guilty_at(const struct judging *judging, uint32_t i, unsigned j, uint64_t covered_ns)
{
    const struct level *level = &judging->level[j];
    return stands_out(judging, level->hits[i], level->usual_hits) &&
           level->sum_ns[i] / DOMINANCE >= level->usual_ns &&
           (double)level->sum_ns[i] >= SHARE_MIN * (double)covered_ns;
}

/* The size of the delays that make up most of what the member is to blame for. */
static unsigned main_scale(const struct judging *judging, uint32_t i, unsigned lowest,
                           uint64_t covered_ns)
{
    unsigned scale = lowest;
    double enough = CONCENTRATE * (double)judging->level[lowest].sum_ns[i];
    for (unsigned j = lowest; j < MUSTER_LATE_SCALES; j++) {
        if ((double)judging->level[j].sum_ns[i] >= enough && guilty_at(judging, i, j, covered_ns)) {
            scale = j;
        }
    }
    return scale;
}

static int add_guilt(const struct judging *judging, uint32_t i, unsigned lowest,
                     uint64_t covered_ns, struct muster_late_guilts *guilts)
{
    const struct muster_view_comm *comm = &judging->view->comm[judging->comm->comm];
    if (!muster_grow(&guilts->guilt, guilts->n, sizeof *guilts->guilt)) {
        return -1;
    }
    unsigned scale = main_scale(judging, i, lowest, covered_ns);
    guilts->guilt[guilts->n++] = (struct muster_late_guilt){
        .comm = judging->comm->comm,
        .member = comm->first_member + i,
        .gpu = judging->view->member[comm->first_member + i].gpu,
        .scale = scale,
        .hits = judging->level[scale].hits[i],
        .others = judging->level[scale].usual_hits,
        .cost_ns = judging->level[scale].sum_ns[i],
        .compared = judging->comm->compared,
        .share = (double)judging->level[scale].sum_ns[i] / (double)(covered_ns ? covered_ns : 1),
    };
    return 0;
}

int muster_late_judge(const struct muster_view *view, const struct muster_late_comm *comm,
                      struct muster_late_guilts *guilts)
{
    struct judging judging;
    if (set_up(&judging, view, comm)) {
        return -1;
    }
    int result = 0;
    for (uint32_t i = 0; i < judging.n && result == 0; i++) {
        if (judging.level[0].hits[i] < HITS_MIN) {
            continue;
        }
        uint32_t gpu = view->member[view->comm[comm->comm].first_member + i].gpu;
        uint64_t covered_ns = muster_late_covered_ns(view, gpu);
        for (unsigned j = 0; j < MUSTER_LATE_SCALES; j++) {
            if (guilty_at(&judging, i, j, covered_ns)) {
                result = add_guilt(&judging, i, j, covered_ns, guilts);
                break;
            }
        }
    }
    free(judging.memory);
    return result;
}

uint64_t muster_late_smallest_ns(const struct muster_view *view,
                                 const struct muster_late_comm *comm)
{
    struct judging judging;
    uint64_t smallest = 0;
    if (set_up(&judging, view, comm)) {
        return 0;
    }
    uint32_t gpu = view->member[view->comm[comm->comm].first_member].gpu;
    uint64_t covered_ns = muster_late_covered_ns(view, gpu);
    uint32_t hits = (uint32_t)(comm->compared / 5);
    for (unsigned j = 0; j < MUSTER_LATE_SCALES && !smallest; j++) {
        const struct level *level = &judging.level[j];
        uint64_t delay_ns = MUSTER_LATE_FLOOR_NS << j;
        uint64_t sum_ns = delay_ns * hits;
        if (stands_out(&judging, hits, level->most_hits) && sum_ns / DOMINANCE >= level->most_ns &&
            (double)sum_ns >= SHARE_MIN * (double)covered_ns) {
            smallest = delay_ns;
        }
    }
    free(judging.memory);
    return smallest;
}

uint64_t muster_late_covered_ns(const struct muster_view *view, uint32_t gpu)
{
    const struct muster_view_gpu *own = &view->gpu[gpu];
    uint64_t covered_ns = 0;
    uint64_t end = 0;
    for (uint32_t i = 0; i < own->ordered; i++) {
        const struct muster_view_op *op = &view->op[own->order[i]];
        if (op->end_ns > end) {
            uint64_t from = op->self_ns == MUSTER_SELF_UNKNOWN && op->begin_ns > end ? op->begin_ns
                            : end                                                    ? end
                                                                                     : op->begin_ns;
            covered_ns += op->end_ns - from;
            end = op->end_ns;
        }
    }
    return covered_ns;
}
