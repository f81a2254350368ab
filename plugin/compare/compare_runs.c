#include "compare/compare_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/beside_work.h"

enum { A, B };

/* ---- classes ---- */

static const struct muster_compare_class *find_class(const struct muster_run_samples *in,
                                                     const struct muster_compare_class *class)
{
    for (size_t i = 0; i < in->classes; i++)
        if (muster_compare_same_class(&in->class[i], class))
            return &in->class[i];
    return NULL;
}

static void match_classes(struct muster_compared *compared)
{
    const struct muster_run_samples *a = &compared->side[A].samples;
    const struct muster_run_samples *b = &compared->side[B].samples;
    for (size_t i = 0; i < a->classes; i++) {
        const struct muster_compare_class *other = find_class(b, &a->class[i]);
        if (!other) {
            compared->only[A]++;
            continue;
        }
        *(struct muster_compared_class *)muster_arena_add(
            &compared->memory, &compared->class, &compared->classes, sizeof *compared->class) =
            (struct muster_compared_class){.a = &a->class[i], .b = other};
    }
    compared->only[B] = b->classes - compared->classes;
}

/* ---- drawing ---- */

struct draws {
    double a[MUSTER_DRAWS], b[MUSTER_DRAWS];             /* of the one at hand */
    double whole_a[MUSTER_DRAWS], whole_b[MUSTER_DRAWS]; /* of all classes, by weight */
};

/* Draws both sides; false: one of them holds too little. */
static bool draw_both(const struct muster_blocks *a, const struct muster_blocks *b, uint64_t seed,
                      struct draws *draws)
{
    return muster_blocks_draw(a, 2 * seed + 1, draws->a) &&
           muster_blocks_draw(b, 2 * seed + 2, draws->b);
}

static bool same_blocks(const struct muster_blocks *a, const struct muster_blocks *b)
{
    bool same = true;
    for (unsigned i = 0; i < MUSTER_BLOCKS; i++)
        same &= a->sum[i] == b->sum[i] && a->n[i] == b->n[i];
    return same;
}

/* Sides of the same values did not change: no draw has to decide. */
static void find_change(const struct muster_blocks *a, const struct muster_blocks *b, bool relative,
                        uint64_t seed, struct draws *draws, struct muster_change *change)
{
    *change = (struct muster_change){.known = false};
    if (!draw_both(a, b, seed, draws))
        return;
    double before = muster_blocks_mean(a), after = muster_blocks_mean(b);
    if (same_blocks(a, b))
        *change = (struct muster_change){.known = isfinite(before)};
    else
        muster_change_of(before, after, draws->a, draws->b, relative, change);
}

static bool has_measure(const struct muster_compared_class *class, unsigned measure)
{
    return muster_blocks_count(&class->a->us[measure]) &&
           muster_blocks_count(&class->b->us[measure]);
}

static void choose_measure(struct muster_compared *compared)
{
    compared->by = MUSTER_COMPARE_TRANSFER;
    for (size_t i = 0; i < compared->classes; i++)
        if (has_measure(&compared->class[i], MUSTER_COMPARE_BEAT))
            compared->by = MUSTER_COMPARE_BEAT;
}

static void compare_class(struct muster_compared *compared, size_t i, struct draws *draws,
                          double whole[2])
{
    struct muster_compared_class *class = &compared->class[i];
    for (unsigned m = 0; m < MUSTER_COMPARE_MEASURES; m++) {
        const struct muster_blocks *a = &class->a->us[m], *b = &class->b->us[m];
        bool relative = m != MUSTER_COMPARE_WAITING;
        find_change(a, b, relative, i * MUSTER_COMPARE_MEASURES + m, draws, &class->change[m]);
        if (m != (unsigned)compared->by || !class->change[m].known)
            continue;
        double n = (double)muster_blocks_count(a);
        class->weight = n * muster_blocks_mean(a);
        whole[A] += class->weight;
        whole[B] += n * muster_blocks_mean(b);
        for (unsigned d = 0; d < MUSTER_DRAWS; d++) {
            draws->whole_a[d] += n * draws->a[d];
            draws->whole_b[d] += n * draws->b[d];
        }
    }
    class->shown = muster_change_is(&class->change[compared->by], MUSTER_COMPARE_LEAST) ||
                   muster_change_is(&class->change[MUSTER_COMPARE_TRANSFER], MUSTER_COMPARE_LEAST);
}

static bool all_the_same(const struct muster_compared *compared)
{
    for (size_t i = 0; i < compared->classes; i++)
        if (!same_blocks(&compared->class[i].a->us[compared->by],
                         &compared->class[i].b->us[compared->by]))
            return false;
    return true;
}

static int by_loss(const void *left, const void *right)
{
    const struct muster_compared_class *a = left, *b = right;
    double loss_a = a->weight * a->change[0].value, loss_b = b->weight * b->change[0].value;
    return loss_a != loss_b ? (loss_a > loss_b ? -1 : 1) : 0;
}

static void compare_classes(struct muster_compared *compared, struct draws *draws)
{
    double whole[2] = {0, 0};
    uint64_t ops = 0;
    choose_measure(compared);
    for (size_t i = 0; i < compared->classes; i++)
        compare_class(compared, i, draws, whole);
    for (size_t i = 0; i < compared->classes; i++) {
        if (compared->class[i].weight > 0)
            ops += muster_blocks_count(&compared->class[i].a->us[compared->by]);
        if (whole[A] > 0)
            compared->class[i].weight /= whole[A];
    }
    compared->usual_us = ops ? whole[A] / (double)ops : NAN;
    if (whole[A] > 0 && all_the_same(compared))
        compared->whole.known = true;
    else if (whole[A] > 0)
        muster_change_of(whole[A], whole[B], draws->whole_a, draws->whole_b, true,
                         &compared->whole);
    if (compared->classes)
        qsort(compared->class, compared->classes, sizeof *compared->class, by_loss);
}

/* ---- ranks ---- */

static const struct muster_compare_rank *find_rank(const struct muster_run_samples *in,
                                                   int32_t rank)
{
    for (size_t i = 0; i < in->ranks; i++)
        if (in->rank[i].rank == rank)
            return &in->rank[i];
    return NULL;
}

static int by_own(const void *left, const void *right)
{
    const struct muster_compared_rank *a = left, *b = right;
    double own_a = a->own.known ? a->own.value : 0, own_b = b->own.known ? b->own.value : 0;
    return own_a != own_b ? (own_a > own_b ? -1 : 1) : 0;
}

double muster_compare_least_us(const struct muster_compared *compared)
{
    return isnan(compared->usual_us) ? 0 : MUSTER_COMPARE_LEAST * compared->usual_us;
}

/* Some of the ranks, and room to draw for one of them. */
struct part {
    struct muster_compared *compared;
    struct draws *draws;
    size_t from, end;
};

static void compare_part(void *arg)
{
    const struct part *part = arg;
    double least = muster_compare_least_us(part->compared);
    for (size_t i = part->from; i < part->end; i++) {
        struct muster_compared_rank *own = &part->compared->rank[i];
        uint64_t seed = (uint64_t)(own->a - part->compared->side[A].samples.rank);
        find_change(&own->a->own_us, &own->b->own_us, false, 1000003 + seed, part->draws,
                    &own->own);
        find_change(&own->a->cost_us, &own->b->cost_us, false, 2000003 + seed, part->draws,
                    &own->cost);
        own->shown = muster_change_is(&own->own, least) || muster_change_is(&own->cost, least);
    }
}

/* Where all ranks are those of the other run: a rank of a larger job does other work. */
static void compare_ranks(struct muster_compared *compared, struct draws *draws)
{
    const struct muster_run_samples *a = &compared->side[A].samples;
    const struct muster_run_samples *b = &compared->side[B].samples;
    if (a->ranks != b->ranks)
        return;
    compared->rank = muster_arena_array(&compared->memory, a->ranks, sizeof *compared->rank);
    struct draws *more = muster_arena_array(&compared->memory, 1, sizeof *more);
    if (!compared->rank || !more)
        return;
    for (size_t i = 0; i < a->ranks; i++) {
        struct muster_compared_rank own = {.a = &a->rank[i]};
        own.b = own.a->rank < 0 ? NULL : find_rank(b, own.a->rank);
        if (own.b)
            compared->rank[compared->ranks++] = own;
    }
    size_t middle = compared->ranks / 2;
    struct part half[] = {{compared, draws, 0, middle}, {compared, more, middle, compared->ranks}};
    struct muster_beside other;
    muster_beside_begin(&other, compare_part, &half[1]);
    compare_part(&half[0]);
    muster_beside_end(&other);
    qsort(compared->rank, compared->ranks, sizeof *compared->rank, by_own);
}

/* ---- both ---- */

static int check_side(const struct muster_compare_side *side, const char *name,
                      struct muster_err *err)
{
    if (side->samples.classes)
        return 0;
    return muster_fail(err,
                       "%s: no operation was timed on several ranks, so there is nothing to "
                       "compare; `muster report` says why",
                       name);
}

int muster_compare_side_read(const struct muster_view *view, const struct muster_findings *findings,
                             struct muster_compare_side *side, struct muster_err *err)
{
    *side = (struct muster_compare_side){.view = view, .findings = findings};
    if (muster_run_samples_read(view, &side->samples, err) == 0)
        return 0;
    muster_compare_side_free(side);
    return -1;
}

void muster_compare_side_free(struct muster_compare_side *side)
{
    muster_run_samples_free(&side->samples);
    *side = (struct muster_compare_side){.view = NULL};
}

static const char *name_of(const struct muster_compare_side *side, const char *otherwise)
{
    return side->view->run ? side->view->run->source[0] : otherwise;
}

int muster_compare_runs(struct muster_compare_side *a, struct muster_compare_side *b,
                        struct muster_compared *compared, struct muster_err *err)
{
    *compared = (struct muster_compared){.side = {*a, *b}};
    *a = *b = (struct muster_compare_side){.view = NULL};
    for (unsigned side = A; side <= B; side++)
        if (check_side(&compared->side[side], name_of(&compared->side[side], side == A ? "A" : "B"),
                       err))
            return -1;
    match_classes(compared);
    struct draws *draws = muster_arena_array(&compared->memory, 1, sizeof *draws);
    if (draws) {
        compare_classes(compared, draws);
        compare_ranks(compared, draws);
    }
    if (muster_arena_check(&compared->memory, err, "comparing runs"))
        return -1;
    if (compared->classes)
        return 0;
    return muster_fail(err, "the runs have no operations in common: none of the same function, "
                            "size and number of ranks");
}

void muster_compare_free(struct muster_compared *compared)
{
    muster_compare_side_free(&compared->side[A]);
    muster_compare_side_free(&compared->side[B]);
    muster_arena_free(&compared->memory);
    *compared = (struct muster_compared){.side = {{.view = NULL}}};
}

const struct muster_finding *muster_compare_hang(const struct muster_compared *compared)
{
    const struct muster_findings *b = compared->side[B].findings;
    for (size_t i = 0; i < b->n; i++) {
        const struct muster_finding *own = &b->finding[i];
        if (muster_finding_is_hang(own) && !own->resolved && !own->retracted &&
            !muster_compare_has(compared->side[A].findings, own))
            return own;
    }
    return NULL;
}

bool muster_compare_worse(const struct muster_compared *compared, double limit)
{
    return muster_compare_hang(compared) ||
           (compared->whole.known && compared->whole.value > limit && compared->whole.low > 0);
}

bool muster_compare_knows(const struct muster_compared *compared)
{
    return compared->whole.known || muster_compare_hang(compared);
}

bool muster_compare_has(const struct muster_findings *findings,
                        const struct muster_finding *finding)
{
    for (size_t i = 0; i < findings->n; i++) {
        const struct muster_finding *other = &findings->finding[i];
        bool same_rank = finding->ranks == 0 ? other->ranks == 0
                                             : other->ranks && other->rank[0] == finding->rank[0];
        if (other->kind == finding->kind && same_rank)
            return true;
    }
    return false;
}

bool muster_compare_class_is_only(const struct muster_compared *compared, unsigned side,
                                  size_t class)
{
    return !find_class(&compared->side[1 - side].samples,
                       &compared->side[side].samples.class[class]);
}

bool muster_compare_rank_is_only(const struct muster_compared *compared, unsigned side, size_t rank)
{
    int32_t own = compared->side[side].samples.rank[rank].rank;
    return own >= 0 && !find_rank(&compared->side[1 - side].samples, own);
}
