#include "compare/run_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/text.h"
#include "segment/identity.h"
#include "view/measure.h"

/* One operation, all ranks together. */
struct sample {
    uint32_t class;
    uint8_t block;
    float us[MUSTER_COMPARE_MEASURES]; /* NAN: not known */
};

struct reading {
    struct muster_arena memory; /* on the way */
    const struct muster_view *view;
    struct muster_run_samples *samples;
    uint32_t *ended_before; /* of each operation */
    struct sample *sample;
    size_t n;
};

bool muster_compare_same_class(const struct muster_compare_class *a,
                               const struct muster_compare_class *b)
{
    return a->func == b->func && a->size_log2 == b->size_log2 && a->nranks == b->nranks &&
           strcmp(a->comm, b->comm) == 0;
}

/* Its index; SIZE_MAX: no memory. Classes are few: they are looked through. */
static size_t class_of(struct reading *reading, const struct muster_joint *joint)
{
    struct muster_run_samples *samples = reading->samples;
    const struct muster_view_class *class = &joint->view->class[joint->any->class];
    struct muster_compare_class own = {
        .nranks = joint->comm->nranks, .func = class->func, .size_log2 = class->size_log2};
    muster_text_copy(own.comm, sizeof own.comm, joint->comm->name);
    for (size_t i = 0; i < samples->classes; i++)
        if (muster_compare_same_class(&samples->class[i], &own))
            return i;
    own.us = muster_arena_array(&samples->memory, MUSTER_COMPARE_MEASURES, sizeof *own.us);
    *(struct muster_compare_class *)muster_arena_add(&samples->memory, &samples->class,
                                                     &samples->classes, sizeof own) = own;
    return samples->memory.failed ? SIZE_MAX : samples->classes - 1;
}

/* Where in the run it stands, by its place among the operations of its member. */
static uint8_t block_of(const struct muster_joint *joint)
{
    const struct muster_view_member *member = &joint->view->member[joint->any->member];
    uint64_t place = (uint64_t)(joint->any - joint->view->op) - member->first_op;
    return (uint8_t)(place * MUSTER_BLOCKS / member->ops);
}

/* Of ranks that leave together: who came last cost the others their waiting. Gives the mean wait.
 */
static float add_ranks(struct reading *reading, const struct muster_joint *joint, uint8_t block)
{
    uint64_t shortest = muster_joint_span(joint).shortest_ns, sum = 0;
    struct muster_compare_rank *last = NULL;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        if (!op)
            continue;
        struct muster_compare_rank *rank =
            &reading->samples->rank[joint->view->member[joint->comm->first_member + i].gpu];
        uint64_t wait = op->end_ns - op->begin_ns - shortest;
        sum += wait;
        last = wait == 0 ? rank : last;
        if (op->self_known)
            muster_blocks_add(
                &rank->own_us, block,
                (double)muster_view_self_ns(reading->view, reading->ended_before, op) / 1e3);
        muster_blocks_add(&rank->cost_us, block, 0);
    }
    if (last)
        last->cost_us.sum[block] += (double)sum / 1e3;
    return (float)((double)sum / joint->present / 1e3);
}

static int take(void *to, const struct muster_joint *joint, double us, size_t *place)
{
    struct reading *reading = to;
    size_t class = class_of(reading, joint);
    *place = reading->n;
    struct sample *sample =
        muster_arena_add(&reading->memory, &reading->sample, &reading->n, sizeof *sample);
    if (class == SIZE_MAX || reading->memory.failed)
        return -1;
    *sample = (struct sample){.class = (uint32_t) class,
                              .block = block_of(joint),
                              .us = {[MUSTER_COMPARE_BEAT] = NAN,
                                     [MUSTER_COMPARE_TRANSFER] = (float)us,
                                     [MUSTER_COMPARE_WAITING] = NAN}};
    if (muster_joint_ends_together(joint->any->func))
        sample->us[MUSTER_COMPARE_WAITING] = add_ranks(reading, joint, sample->block);
    return 0;
}

static int take_beat(void *to, size_t place, double us)
{
    struct reading *reading = to;
    reading->sample[place].us[MUSTER_COMPARE_BEAT] = (float)us;
    return 0;
}

/* The usual beat of each class. NULL: no memory. */
static double *usual_beats(struct reading *reading)
{
    size_t classes = reading->samples->classes;
    double *usual = muster_arena_array(&reading->memory, classes, sizeof *usual);
    double *beat = muster_arena_array(&reading->memory, reading->n, sizeof *beat);
    size_t *first = muster_arena_array(&reading->memory, classes + 1, sizeof *first);
    if (reading->memory.failed)
        return NULL;
    for (size_t i = 0; i < reading->n; i++)
        first[reading->sample[i].class + 1] +=
            isnan(reading->sample[i].us[MUSTER_COMPARE_BEAT]) ? 0u : 1u;
    for (size_t c = 0; c < classes; c++)
        first[c + 1] += first[c];
    for (size_t i = 0; i < reading->n; i++) {
        float us = reading->sample[i].us[MUSTER_COMPARE_BEAT];
        if (!isnan(us))
            beat[first[reading->sample[i].class]++] = (double)us;
    }
    /* first[c] is now where class c ends. */
    for (size_t c = 0; c < classes; c++) {
        size_t begin = c ? first[c - 1] : 0, n = first[c] - begin;
        muster_sort_double(beat + begin, n);
        usual[c] = n ? beat[begin + n / 2] : 0;
    }
    return usual;
}

static void fill_classes(struct reading *reading)
{
    const double *usual = usual_beats(reading);
    for (size_t i = 0; usual && i < reading->n; i++) {
        const struct sample *sample = &reading->sample[i];
        struct muster_compare_class *class = &reading->samples->class[sample->class];
        for (unsigned m = 0; m < MUSTER_COMPARE_MEASURES; m++) {
            double us = (double)sample->us[m], most = MUSTER_COMPARE_PAUSE * usual[sample->class];
            if (m == MUSTER_COMPARE_BEAT && us > most)
                us = most;
            if (!isnan(us))
                muster_blocks_add(&class->us[m], sample->block, us);
        }
    }
}

const char *muster_compare_host(const struct muster_view *view, size_t gpu)
{
    return view->run
               ? muster_identity_host_text(&view->run->process[view->gpu[gpu].process].identity)
               : view->gpu[gpu].host;
}

int muster_run_samples_read(const struct muster_view *view, struct muster_run_samples *samples,
                            struct muster_err *err)
{
    struct reading reading = {
        .view = view, .samples = samples, .ended_before = muster_view_ended_before(view)};
    const struct muster_measure_reader reader = {&reading, take, take_beat};
    *samples = (struct muster_run_samples){.ranks = view->gpus};
    samples->rank = muster_arena_array(&samples->memory, view->gpus, sizeof *samples->rank);
    bool good = samples->rank && reading.ended_before;
    for (size_t g = 0; good && g < view->gpus; g++) {
        samples->rank[g].rank = view->gpu[g].rank;
        samples->rank[g].host = muster_compare_host(view, g);
    }
    good = good && muster_measure_read(view, &reader) == 0;
    if (good)
        fill_classes(&reading);
    samples->ops = reading.n;
    muster_arena_end(&reading.memory, &samples->memory);
    free(reading.ended_before);
    if (good && !samples->memory.failed)
        return 0;
    muster_run_samples_free(samples);
    return muster_fail_memory(err, "comparing runs");
}

void muster_run_samples_free(struct muster_run_samples *samples)
{
    muster_arena_free(&samples->memory);
    *samples = (struct muster_run_samples){0};
}
