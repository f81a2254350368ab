/* What the parts of the report share while it is built. */
#ifndef MUSTER_EXPORT_BUILD_H
#define MUSTER_EXPORT_BUILD_H

#include "export/report.h"
#include "export/samples.h"

/* One communicator of one process: one rank's part in it. */
struct muster_member {
    uint64_t id;
    uint32_t process; /* index */
    uint32_t uid;
    int32_t rank;
    uint32_t nranks, nnodes;
    int32_t gpu_index;
    const char *gpu_pci, *gpu_uuid, *name;
    const struct muster_seg_comm *segment; /* NULL: only the log knows it */
    bool other;                            /* the entry of those without one of their own */
    uint32_t comm;                         /* index in the report */
    uint32_t entry;                        /* index in the report's ranks */
};

/* A row of the report under way: a class of operations, or a rank. */
struct muster_totals {
    uint64_t count, bytes, graph, api_only;
    uint64_t timed[MUSTER_SOURCES];
    uint64_t sum_ns[MUSTER_SOURCES];
    struct muster_hist *hist; /* of durations by `source`; NULL: there are none, or all are known */
    uint8_t source;           /* the best that timed any */
};

/* A timed operation that may be compared with the same one on other ranks. */
struct muster_peer_op {
    uint64_t number, count, ns;
    uint32_t stream; /* communicator and graph flag: one numbering of operations */
    uint32_t member;
    uint32_t class;
    uint8_t func;
};

struct muster_class_key {
    uint32_t comm;
    int32_t rank, peer;
    uint8_t func, algo, proto, size_log2;
};

enum { MUSTER_NO_COMM = UINT32_MAX, MUSTER_NO_CLASS = UINT32_MAX };

struct muster_class {
    struct muster_class_key key;
    uint32_t nranks;
    bool mixed; /* communicators of different sizes */
    uint32_t channels;
    struct muster_totals totals;
};

struct muster_build {
    const struct muster_run *run;
    struct muster_report *report;
    struct muster_member *member; /* by (process, uid) */
    size_t members;
    size_t *first_member;       /* of each process; processes + 1 entries */
    uint32_t *first_entry;      /* of each process */
    struct muster_totals *rank; /* of each rank entry */
    struct muster_class *class;
    size_t classes, class_room;
    uint32_t *class_at; /* open addressing: index + 1 */
    size_t class_slots;
    struct muster_samples by_class, by_rank;
    struct muster_samples transfer; /* of jointly timed operations, by class */
    struct muster_peer_op *peer_op;
    size_t peer_ops, peer_op_room;
    uint64_t strays; /* operations of a communicator that nothing describes */
};

/* members.c: who is there. Fills member, the report's comm and rank. -1: out of memory. */
int muster_build_members(struct muster_build *build);
/* NULL: nothing describes it. */
const struct muster_member *muster_build_member(const struct muster_build *build, size_t process,
                                                uint32_t uid);

/* classes.c: index of the class, made if `make`; MUSTER_NO_CLASS: none, or out of memory. */
uint32_t muster_build_class(struct muster_build *build, const struct muster_class_key *key,
                            bool make);

/* totals.c: adds a segment's row, or one operation. -1: out of memory. */
int muster_totals_add_row(struct muster_totals *totals, const struct muster_seg_row *row);
void muster_totals_add_op(struct muster_totals *totals, const struct muster_op *op, uint64_t bytes);
/* p50 and p99 in us of n values, if they are all that `totals` counts, else of its histogram;
 * NAN where nothing is timed. The first value is value[0]. */
void muster_totals_quantiles(const struct muster_totals *totals, const uint64_t *value, size_t n,
                             double *p50_us, double *p99_us);
/* What the times of an operation come from: MUSTER_SOURCE_NONE if they cannot be true. */
unsigned muster_op_source(const struct muster_op *op);

/* tally.c: counts everything, compares the ranks. -1: out of memory. */
int muster_build_tally(struct muster_build *build);

/* joint.c: offers an operation for comparison; compares. -1: out of memory. */
int muster_build_offer(struct muster_build *build, const struct muster_member *member,
                       uint32_t class, const struct muster_op *op);
int muster_build_joint(struct muster_build *build);

/* gaps.c. -1: out of memory. */
int muster_build_gaps(struct muster_build *build);

#endif
