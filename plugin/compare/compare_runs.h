/*
 * Two runs beside each other: what became slower from A to B, where, and by how much. The interval
 * of a change rests on what the ups and downs inside the runs allow; two runs of the same job
 * differ by more than that (docs/reference/compare.md). Pure.
 */
#ifndef MUSTER_COMPARE_COMPARE_RUNS_H
#define MUSTER_COMPARE_COMPARE_RUNS_H

#include <stdio.h>

#include "base/terminal.h"
#include "compare/run_samples.h"
#include "diagnose/finding.h"

/* Less is not reported: share of the beat. */
#define MUSTER_COMPARE_LEAST 0.03

struct muster_compare_side {
    const struct muster_view *view; /* its operations may be gone: muster_view_drop_ops */
    const struct muster_findings *findings;
    struct muster_run_samples samples;
};

struct muster_compared_class {
    const struct muster_compare_class *a, *b;
    struct muster_change change[MUSTER_COMPARE_MEASURES]; /* beat, transfer: a share; waiting: us */
    double weight; /* its operations' part of all beats of A */
    bool shown;
};

struct muster_compared_rank {
    const struct muster_compare_rank *a, *b;
    struct muster_change own, cost; /* us an operation */
    bool shown;
};

struct muster_compared {
    struct muster_arena memory;
    struct muster_compare_side side[2]; /* A, B */
    enum muster_compare_measure by;     /* what `whole` rests on: beat, or transfer without beats */
    struct muster_change whole;         /* a share, weighted by A's operations */
    double usual_us;                    /* A's mean of it; NAN: not known */
    struct muster_compared_class *class; /* worst first */
    size_t classes;
    size_t only[2];                    /* classes that only A, only B has */
    struct muster_compared_rank *rank; /* worst first; none where the numbers of ranks differ */
    size_t ranks;
};

/* What of a run is compared; afterwards its operations are needed no more, so that two runs are
 * never in memory together. Findings and view are the caller's, and stay. -1: no memory, *side is
 * empty. */
int muster_compare_side_read(const struct muster_view *view, const struct muster_findings *findings,
                             struct muster_compare_side *side, struct muster_err *err);
void muster_compare_side_free(struct muster_compare_side *side);

/* The sides go into *compared and are empty afterwards. -1: no memory, or nothing that both runs
 * have; what is missing is in err. muster_compare_free in any case. */
int muster_compare_runs(struct muster_compare_side *a, struct muster_compare_side *b,
                        struct muster_compared *compared, struct muster_err *err);
void muster_compare_free(struct muster_compared *compared);

/* A hang of B's that A does not have and that is not over; NULL: none. B's. */
const struct muster_finding *muster_compare_hang(const struct muster_compared *compared);

/* Whether B hangs, or is certainly slower, and by more than `limit`, a share. */
bool muster_compare_worse(const struct muster_compared *compared, double limit);
/* Whether that is known. */
bool muster_compare_knows(const struct muster_compared *compared);

/* Whether the other side has a finding of that kind about that rank, or communicator. */
bool muster_compare_has(const struct muster_findings *findings,
                        const struct muster_finding *finding);

/* Whether the other side has no class, or rank, like that one of a side (0: A, 1: B). */
bool muster_compare_class_is_only(const struct muster_compared *compared, unsigned side,
                                  size_t class);
bool muster_compare_rank_is_only(const struct muster_compared *compared, unsigned side,
                                 size_t rank);

/* limit: NAN: none. */
void muster_compare_text(const struct muster_compared *compared, double limit,
                         const struct muster_terminal *terminal, FILE *out);
void muster_compare_json(const struct muster_compared *compared, double limit, FILE *out);

/* From which change of a rank's time on it counts, of changes that are certain; 0 where nothing
 * shows how long operations take. */
double muster_compare_least_us(const struct muster_compared *compared);

#endif
