#include "tune/tune_measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "policy/policy.h"
#include "tune/tune_stats.h"

enum { SIZES = 64 };

/* All operations of a class. */
struct bin {
    struct muster_tune_class class;
    struct muster_tune_choice choice;
    uint64_t votes; /* for `choice`, against all others */
    struct muster_tune_class after;
    uint64_t after_votes;
    double *us;
    size_t n;
    double *beat_us;
    size_t beats;
};

struct bins {
    struct muster_arena arena;
    struct bin *bin;
    size_t n;
    const struct muster_view_comm *comm; /* of the operation before */
    struct muster_tune_class before;
};

bool muster_tune_same_class(const struct muster_tune_class *a, const struct muster_tune_class *b)
{
    return a->func == b->func && a->size_log2 == b->size_log2 && a->ranks == b->ranks &&
           a->nodes == b->nodes;
}

static struct bin *bin_of(struct bins *bins, const struct muster_tune_class *class)
{
    for (size_t i = 0; i < bins->n; i++)
        if (muster_tune_same_class(&bins->bin[i].class, class))
            return &bins->bin[i];
    struct bin *bin = muster_arena_add(&bins->arena, &bins->bin, &bins->n, sizeof *bin);
    bin->class = *class;
    return bin;
}

/* The majority, if there is one, in one pass (Boyer and Moore). */
static void vote(struct bin *bin, const struct muster_tune_choice *choice)
{
    if (bin->votes == 0)
        bin->choice = *choice;
    bool same = bin->choice.algo == choice->algo && bin->choice.proto == choice->proto &&
                bin->choice.channels == choice->channels;
    bin->votes = same ? bin->votes + 1 : bin->votes - 1;
}

static void vote_after(struct bin *bin, const struct muster_tune_class *before)
{
    if (bin->after_votes == 0)
        bin->after = *before;
    bool same = muster_tune_same_class(&bin->after, before);
    bin->after_votes = same ? bin->after_votes + 1 : bin->after_votes - 1;
}

static int add(void *to, const struct muster_joint *joint, double us, size_t *place)
{
    struct bins *bins = to;
    const struct muster_view_class *of = &joint->view->class[joint->any->class];
    struct muster_tune_class class = {.func = of->func,
                                      .size_log2 = of->size_log2,
                                      .ranks = joint->comm->nranks,
                                      .nodes = joint->comm->nnodes};
    struct muster_tune_choice choice = {
        .algo = of->algo, .proto = of->proto, .channels = joint->any->channels};
    if (!muster_policy_available(of->func) || of->size_log2 >= SIZES || of->graph || !choice.algo)
        return 0;
    struct bin *bin = bin_of(bins, &class);
    if (bins->arena.failed)
        return -1;
    *(double *)muster_arena_add(&bins->arena, &bin->us, &bin->n, sizeof us) = us;
    vote(bin, &choice);
    if (bins->comm == joint->comm)
        vote_after(bin, &bins->before);
    bins->comm = joint->comm;
    bins->before = class;
    *place = (size_t)(bin - bins->bin);
    return 0;
}

static int add_beat(void *to, size_t place, double us)
{
    struct bins *bins = to;
    struct bin *bin = &bins->bin[place];
    *(double *)muster_arena_add(&bins->arena, &bin->beat_us, &bin->beats, sizeof us) = us;
    return bins->arena.failed ? -1 : 0;
}

static int by_class(const void *left, const void *right)
{
    const struct muster_tune_class *a = &((const struct muster_tune_point *)left)->class;
    const struct muster_tune_class *b = &((const struct muster_tune_point *)right)->class;
    if (a->func != b->func)
        return a->func < b->func ? -1 : 1;
    if (a->ranks != b->ranks)
        return a->ranks < b->ranks ? -1 : 1;
    if (a->nodes != b->nodes)
        return a->nodes < b->nodes ? -1 : 1;
    return (a->size_log2 > b->size_log2) - (a->size_log2 < b->size_log2);
}

static bool keep(struct muster_tune_sample *sample, struct bins *bins)
{
    sample->rare = 0;
    sample->point = calloc(bins->n + 1, sizeof *sample->point);
    sample->points = 0;
    for (size_t i = 0; sample->point && i < bins->n; i++) {
        struct bin *bin = &bins->bin[i];
        size_t beats = bin->beats >= MUSTER_MEASURE_OPS ? bin->beats : 0;
        sample->rare += bin->n < MUSTER_MEASURE_OPS;
        if (bin->n >= MUSTER_MEASURE_OPS) {
            sample->point[sample->points++] =
                (struct muster_tune_point){.class = bin->class,
                                           .choice = bin->choice,
                                           .us = muster_tune_median(bin->us, bin->n),
                                           .beat_us = muster_tune_median(bin->beat_us, beats),
                                           .ops = (uint32_t)bin->n,
                                           .after = bin->after};
        }
    }
    if (sample->point)
        qsort(sample->point, sample->points, sizeof *sample->point, by_class);
    return sample->point != NULL;
}

int muster_tune_measure_view(const struct muster_view *view, struct muster_tune_sample *sample,
                             struct muster_err *err)
{
    struct bins bins = {.bin = NULL};
    struct muster_measure_reader reader = {&bins, add, add_beat};
    bool whole =
        muster_measure_read(view, &reader) == 0 && !bins.arena.failed && keep(sample, &bins);
    muster_arena_free(&bins.arena);
    if (!whole)
        return muster_fail_memory(err, "the measurements");
    if (sample->points)
        return 0;
    muster_tune_sample_free(sample);
    return muster_fail(err,
                       "no collective was timed on two ranks often enough (at least %d of one "
                       "size after the first three)",
                       MUSTER_MEASURE_OPS);
}

int muster_tune_measure(const char *dir, struct muster_tune_sample *sample, struct muster_err *err)
{
    struct muster_run_query query = {.run = &dir, .runs = 1, .streamed = true};
    struct muster_run run;
    struct muster_view view;
    if (muster_run_load(&query, &run, err))
        return -1;
    int rc = muster_view_of_run_aligned(&run, &view, err);
    if (rc == 0) {
        rc = muster_tune_measure_view(&view, sample, err);
        muster_view_free(&view);
    }
    muster_run_free(&run);
    return rc;
}

void muster_tune_sample_free(struct muster_tune_sample *sample)
{
    free(sample->point);
    *sample = (struct muster_tune_sample){.point = NULL};
}

const struct muster_tune_point *muster_tune_find(const struct muster_tune_sample *sample,
                                                 const struct muster_tune_class *class)
{
    for (size_t i = 0; i < sample->points; i++)
        if (muster_tune_same_class(&sample->point[i].class, class))
            return &sample->point[i];
    return NULL;
}
