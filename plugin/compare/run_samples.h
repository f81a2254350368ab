/*
 * What of one run can be compared with another: of each class of operations the beat, the transfer
 * and the waiting, of each rank its own time and what it cost the others. Of operations whose times
 * may be compared; the run is cut into blocks of time.
 */
#ifndef MUSTER_COMPARE_RUN_SAMPLES_H
#define MUSTER_COMPARE_RUN_SAMPLES_H

#include "base/arena.h"
#include "compare/bootstrap.h"
#include "view/view.h"

enum muster_compare_measure {
    MUSTER_COMPARE_BEAT,     /* from the start of an operation to that of the next */
    MUSTER_COMPARE_TRANSFER, /* what the rank that waited least needed */
    MUSTER_COMPARE_WAITING,  /* the mean over ranks of what they needed beyond it */
    MUSTER_COMPARE_MEASURES
};

/* Pauses beyond so many times the usual beat count as that many. */
enum { MUSTER_COMPARE_PAUSE = 10 };

/* Operations alike in both runs: communicators are not known by id, which is another in each run.
 */
struct muster_compare_class {
    char comm[MUSTER_SEG_NAME]; /* the communicator's name; "": none */
    uint32_t nranks;
    uint8_t func, size_log2;
    struct muster_blocks *us; /* MUSTER_COMPARE_MEASURES */
};

/* Whether operations of both are the same kind in two runs. */
bool muster_compare_same_class(const struct muster_compare_class *a,
                               const struct muster_compare_class *b);

struct muster_compare_rank {
    int32_t rank;                         /* -1: not known, not compared */
    const char *host;                     /* for people */
    struct muster_blocks own_us, cost_us; /* an operation */
};

struct muster_run_samples {
    struct muster_arena memory;
    struct muster_compare_class *class;
    size_t classes;
    struct muster_compare_rank *rank; /* the view's GPUs */
    size_t ranks;
    uint64_t ops; /* compared across ranks */
};

/* Of a GPU of the view, for people; the view's, or its run's. */
const char *muster_compare_host(const struct muster_view *view, size_t gpu);

/* On failure (no memory) *samples is empty. */
int muster_run_samples_read(const struct muster_view *view, struct muster_run_samples *samples,
                            struct muster_err *err);
void muster_run_samples_free(struct muster_run_samples *samples);

#endif
