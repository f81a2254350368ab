#include "cli/tune_measure.h"

#include <stdlib.h>
#include <string.h>

#include "cli/tune_stats.h"
#include "diagnose/joint.h"
#include "policy/policy.h"
#include "segment/table.h"

enum { SIZES = 64 };

/* All operations of a class. */
struct bin {
    struct muster_tune_class class;
    struct muster_tune_choice choice;
    uint64_t votes; /* for `choice`, against all others */
    double *us;
    size_t n;
    double *beat_us;
    size_t beats;
};

/* The operation of a communicator before the one at hand. */
struct previous {
    uint64_t *begin_ns; /* of each member; 0: not timed */
    uint64_t number;
    size_t bin; /* of bins; SIZE_MAX: none */
};

struct bins {
    struct bin *bin;
    size_t n;
};

bool muster_tune_same_class(const struct muster_tune_class *a, const struct muster_tune_class *b)
{
    return a->func == b->func && a->size_log2 == b->size_log2 && a->ranks == b->ranks &&
           a->nodes == b->nodes;
}

static struct bin *bin_of(struct bins *bins, const struct muster_tune_class *class)
{
    for (size_t i = 0; i < bins->n; i++) {
        if (muster_tune_same_class(&bins->bin[i].class, class)) {
            return &bins->bin[i];
        }
    }
    if (!muster_grow(&bins->bin, bins->n, sizeof *bins->bin)) {
        return NULL;
    }
    struct bin *bin = &bins->bin[bins->n++];
    *bin = (struct bin){.class = *class};
    return bin;
}

/* The majority, if there is one, in one pass (Boyer and Moore). */
static void vote(struct bin *bin, const struct muster_tune_choice *choice)
{
    if (bin->votes == 0) {
        bin->choice = *choice;
    }
    bool same = bin->choice.algo == choice->algo && bin->choice.proto == choice->proto &&
                bin->choice.channels == choice->channels;
    bin->votes = same ? bin->votes + 1 : bin->votes - 1;
}

static double duration_us(const struct muster_joint *joint)
{
    unsigned func = joint->any->func;
    bool rooted = func == MUSTER_FUNC_BROADCAST || func == MUSTER_FUNC_REDUCE;
    uint64_t shortest = UINT64_MAX, longest = 0;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        if (joint->op[i]) {
            uint64_t d = joint->op[i]->end_ns - joint->op[i]->begin_ns;
            shortest = d < shortest ? d : shortest;
            longest = d > longest ? d : longest;
        }
    }
    return (double)(rooted ? longest : shortest) / 1000;
}

/* What passed since the previous operation began, if this is the next. */
static bool add_beat(struct bins *bins, const struct muster_joint *joint,
                     const struct previous *previous)
{
    double sum_us = 0;
    unsigned n = 0;
    if (previous->bin == SIZE_MAX || joint->any->number != previous->number + 1) {
        return true;
    }
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        uint64_t before = previous->begin_ns[i];
        if (joint->op[i] && before && joint->op[i]->begin_ns > before) {
            sum_us += (double)(joint->op[i]->begin_ns - before) / 1000;
            n++;
        }
    }
    struct bin *bin = &bins->bin[previous->bin];
    if (!n) {
        return true;
    }
    if (!muster_grow(&bin->beat_us, bin->beats, sizeof *bin->beat_us)) {
        return false;
    }
    bin->beat_us[bin->beats++] = sum_us / n;
    return true;
}

static void remember(struct previous *previous, const struct muster_joint *joint, size_t bin)
{
    previous->number = joint->any->number;
    previous->bin = bin;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        previous->begin_ns[i] = joint->op[i] ? joint->op[i]->begin_ns : 0;
    }
}

static bool add(struct bins *bins, const struct muster_joint *joint, struct previous *previous)
{
    const struct muster_view_class *of = &joint->view->class[joint->any->class];
    struct muster_tune_class class = {.func = of->func,
                                      .size_log2 = of->size_log2,
                                      .ranks = joint->comm->nranks,
                                      .nodes = joint->comm->nnodes};
    struct muster_tune_choice choice = {
        .algo = of->algo, .proto = of->proto, .channels = joint->any->channels};
    if (!add_beat(bins, joint, previous)) {
        return false;
    }
    remember(previous, joint, SIZE_MAX);
    if (!muster_policy_available(of->func) || of->size_log2 >= SIZES || of->graph || !choice.algo) {
        return true;
    }
    struct bin *bin = bin_of(bins, &class);
    if (!bin || !muster_grow(&bin->us, bin->n, sizeof *bin->us)) {
        return false;
    }
    bin->us[bin->n++] = duration_us(joint);
    vote(bin, &choice);
    previous->bin = (size_t)(bin - bins->bin);
    return true;
}

static bool add_comm(struct bins *bins, const struct muster_view *view, uint32_t comm)
{
    struct muster_joint joint;
    struct previous previous = {.bin = SIZE_MAX};
    bool whole = true;
    if (!muster_joint_possible(&view->comm[comm])) {
        return true;
    }
    previous.begin_ns = calloc(view->comm[comm].members, sizeof *previous.begin_ns);
    if (!previous.begin_ns || muster_joint_begin(&joint, view, comm)) {
        free(previous.begin_ns);
        return false;
    }
    while (whole && muster_joint_next(&joint)) {
        whole = add(bins, &joint, &previous);
    }
    muster_joint_end(&joint);
    free(previous.begin_ns);
    return whole;
}

static int by_class(const void *left, const void *right)
{
    const struct muster_tune_class *a = &((const struct muster_tune_point *)left)->class;
    const struct muster_tune_class *b = &((const struct muster_tune_point *)right)->class;
    if (a->func != b->func) {
        return a->func < b->func ? -1 : 1;
    }
    if (a->ranks != b->ranks) {
        return a->ranks < b->ranks ? -1 : 1;
    }
    if (a->nodes != b->nodes) {
        return a->nodes < b->nodes ? -1 : 1;
    }
    return (a->size_log2 > b->size_log2) - (a->size_log2 < b->size_log2);
}

static bool keep(struct muster_tune_sample *sample, struct bins *bins)
{
    sample->rare = 0;
    sample->point = calloc(bins->n + 1, sizeof *sample->point);
    sample->points = 0;
    for (size_t i = 0; sample->point && i < bins->n; i++) {
        struct bin *bin = &bins->bin[i];
        size_t beats = bin->beats >= MUSTER_TUNE_OPS ? bin->beats : 0;
        sample->rare += bin->n < MUSTER_TUNE_OPS;
        if (bin->n >= MUSTER_TUNE_OPS) {
            sample->point[sample->points++] =
                (struct muster_tune_point){.class = bin->class,
                                           .choice = bin->choice,
                                           .us = muster_tune_median(bin->us, bin->n),
                                           .beat_us = muster_tune_median(bin->beat_us, beats),
                                           .ops = (uint32_t)bin->n};
        }
    }
    if (sample->point) {
        qsort(sample->point, sample->points, sizeof *sample->point, by_class);
    }
    return sample->point != NULL;
}

int muster_tune_measure_view(const struct muster_view *view, struct muster_tune_sample *sample,
                             struct muster_err *err)
{
    struct bins bins = {.bin = NULL};
    bool whole = true;
    for (uint32_t i = 0; whole && i < view->comms; i++) {
        whole = add_comm(&bins, view, i);
    }
    whole = whole && keep(sample, &bins);
    for (size_t i = 0; i < bins.n; i++) {
        free(bins.bin[i].us);
        free(bins.bin[i].beat_us);
    }
    free(bins.bin);
    if (!whole) {
        return muster_fail(err, "out of memory for the measurements");
    }
    if (sample->points) {
        return 0;
    }
    muster_tune_sample_free(sample);
    return muster_fail(err,
                       "no collective was timed on two ranks often enough (at least %d of one "
                       "size after the first three)",
                       MUSTER_TUNE_OPS);
}

int muster_tune_measure(const char *dir, struct muster_tune_sample *sample, struct muster_err *err)
{
    struct muster_run_query query = {.run = &dir, .runs = 1};
    struct muster_run run;
    struct muster_view view;
    if (muster_run_load(&query, &run, err)) {
        return -1;
    }
    int rc = muster_view_of_run(&run, &view, err);
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
    for (size_t i = 0; i < sample->points; i++) {
        if (muster_tune_same_class(&sample->point[i].class, class)) {
            return &sample->point[i];
        }
    }
    return NULL;
}
