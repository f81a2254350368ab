/* What the parts of the report share while it is built. */
#ifndef MUSTER_REPORT_REPORT_INTERNAL_H
#define MUSTER_REPORT_REPORT_INTERNAL_H

#include "base/arena.h"
#include "base/hashmap.h"
#include "report/report.h"
#include "report/samples.h"
#include "view/view.h"

/* What a process means by a communicator's uid. */
struct muster_place {
    uint32_t comm; /* index in the report; 0: `other` */
    int32_t rank;  /* in it; -1: not known */
    uint32_t nranks;
    uint32_t entry; /* index in the report's ranks */
    bool stray;     /* nothing describes it */
};

/* A row of the report under way: a class of operations, or a rank. */
struct muster_totals {
    uint64_t count, bytes, graph, api_only;
    uint64_t to_itself; /* of count: sends and receives of a rank to itself, without times */
    uint64_t timed[MUSTER_SOURCES];
    uint64_t sum_ns[MUSTER_SOURCES];
    double run_ns;            /* the sum if all operations had been timed */
    uint64_t common;          /* of count: functions whose ranks end together */
    struct muster_hist *hist; /* of durations by `source`; NULL: there are none, or all are known */
    uint8_t source;           /* the best that timed any */
};

struct muster_class_key {
    uint32_t comm;
    int32_t rank, peer;
    uint8_t func, algo, proto, size_log2;
};

enum { MUSTER_NO_COMM = UINT32_MAX, MUSTER_NO_CLASS = UINT32_MAX, MUSTER_NO_ENTRY = INT32_MAX };

struct muster_class {
    struct muster_class_key key;
    uint32_t nranks;
    bool mixed; /* communicators of different sizes */
    uint32_t channels;
    struct muster_totals totals;
};

struct muster_build {
    struct muster_arena memory; /* of what is needed on the way */
    const struct muster_run *run;
    const struct muster_view *view;
    struct muster_report *report;
    size_t *first_member;       /* of each process, in the view's by_uid; processes + 1 entries */
    uint32_t *first_entry;      /* of each process */
    struct muster_totals *rank; /* of each rank entry */
    struct muster_class *class;
    size_t classes;
    struct muster_hashmap class_at; /* index */
    struct muster_samples transfer; /* of jointly timed operations, by class */
    uint64_t unattributed;          /* operations of a communicator that nothing describes */
};

/* Without memory, `memory` or the report's has failed, and less is filled. */

/* members.c: who is there. Fills the report's comm and rank, and makes room for the totals of
 * these. False: no memory, and nothing else may be called. */
bool muster_build_members(struct muster_build *build);
struct muster_place muster_build_place(const struct muster_build *build, uint32_t process,
                                       uint32_t uid);

/* Index of the class, made if `make`; MUSTER_NO_CLASS: none, or out of memory. */
uint32_t muster_build_class(struct muster_build *build, const struct muster_class_key *key,
                            bool make);

/* Adds a segment's row. */
void muster_totals_add_row(struct muster_totals *totals, const struct muster_seg_row *row,
                           struct muster_arena *memory);
/* p50 and p99 in us of n values, if they are all that `totals` counts, else of its histogram;
 * NAN where nothing is timed. The first value is value[0]. */
void muster_totals_quantiles(const struct muster_totals *totals, const uint64_t *value, size_t n,
                             double *p50_us, double *p99_us);
/* Counts everything, compares the ranks. */
void muster_build_tally(struct muster_build *build);
/* The row that the report makes of operations like `own`, of that rank in that communicator, which
 * is that entry of the report's ranks (MUSTER_NO_ENTRY: of all). */
struct muster_class_key muster_build_key(const struct muster_build *build, uint32_t comm,
                                         int32_t rank, uint32_t entry,
                                         const struct muster_class_key *own);
/* The durations of one rank's operations, by the source of its row. */
struct muster_times {
    uint64_t *value;
    size_t n;
};
struct muster_times muster_build_rank_times(const struct muster_build *build, uint32_t rank,
                                            struct muster_arena *memory);
/* Of each class, by the source of its row. */
struct muster_sample_groups muster_build_class_times(struct muster_build *build,
                                                     struct muster_arena *memory);

/* waits.c: compares what all ranks timed. */
void muster_build_waits(struct muster_build *build);

/* user_tags.c: fills the report's tags. */
void muster_build_tags(struct muster_build *build);

/* gaps.c */
void muster_build_gaps(struct muster_build *build);

#endif
