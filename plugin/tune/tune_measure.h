/*
 * What one run of `muster tune` measured: per class of operations what they took and how NCCL
 * carried them out. A class is a collective, a power of two of bytes, and the communicator's ranks
 * and nodes: what a rule can match.
 */
#ifndef MUSTER_TUNE_TUNE_MEASURE_H
#define MUSTER_TUNE_TUNE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "view/measure.h"
#include "view/view.h"

struct muster_tune_class {
    uint8_t func;      /* enum muster_func */
    uint8_t size_log2; /* bytes in [2^n, 2^(n + 1)) */
    uint32_t ranks, nodes;
};

struct muster_tune_choice {
    uint8_t algo, proto; /* 0: no opinion, or not known */
    uint8_t channels;    /* 0: likewise */
};

struct muster_tune_point {
    struct muster_tune_class class;
    struct muster_tune_choice choice; /* of most operations */
    double us;                        /* median of an operation, by the quickest rank's clock */
    double beat_us; /* median from its begin to that of the communicator's next one; 0: unknown */
    uint32_t ops;
    struct muster_tune_class
        after; /* what its communicator did before most of them; func 0: not known */
};

struct muster_tune_sample {
    struct muster_tune_point *point; /* by func, ranks, nodes, size */
    size_t points;
    size_t rare; /* classes left out: too few operations */
};

/* From a run directory recorded with full timing: beat and clock of each class
 * (view/measure.h). Classes with fewer operations than MUSTER_MEASURE_OPS are left out, fewer
 * beats are unknown. -1 where nothing was timed. Free the sample with muster_tune_sample_free. */
int muster_tune_measure(const char *dir, struct muster_tune_sample *sample, struct muster_err *err);
/* The same from what was loaded. */
int muster_tune_measure_view(const struct muster_view *view, struct muster_tune_sample *sample,
                             struct muster_err *err);
void muster_tune_sample_free(struct muster_tune_sample *sample);

bool muster_tune_same_class(const struct muster_tune_class *a, const struct muster_tune_class *b);
/* NULL: not measured. */
const struct muster_tune_point *muster_tune_find(const struct muster_tune_sample *sample,
                                                 const struct muster_tune_class *class);

#endif
