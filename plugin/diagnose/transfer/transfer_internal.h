/* What the parts of the search for slow transfers share. Between transfer*.c only. Memory is an
 * arena's, checked at the end of the search: once it has failed nothing more is done. */
#ifndef MUSTER_DIAGNOSE_TRANSFER_TRANSFER_INTERNAL_H
#define MUSTER_DIAGNOSE_TRANSFER_TRANSFER_INTERNAL_H

#include "base/hashmap.h"
#include "diagnose/transfer/transfer.h"
#include "view/aligned.h"
#include "view/coverage.h"

/* One transfer: of a collective, the shortest d of all ranks; of a send with its receive, the
 * shortest of both launches and of their partners'. */
struct muster_transfer {
    uint64_t ns, count;
    uint64_t load;  /* of a send: its launch's; else 0 */
    uint32_t class; /* of the view */
    uint32_t place; /* in the order of the communicator's operations, or the pair's */
    const struct muster_view_op *op;
};

/* In order. */
struct muster_transfers {
    struct muster_transfer *at;
    size_t n;
};

/* What one GPU ran as one kernel: all sends and receives in it have its times. */
struct muster_launch {
    uint64_t load;     /* the same for launches of as many parts of the same sizes */
    uint64_t least_ns; /* of it, its partners', and theirs that carry the same, the shortest: the
                          others waited for somebody */
};

struct muster_launches {
    struct muster_launch *at;
    size_t n;
    uint32_t comm;
    struct muster_hashmap *of_member; /* of each of the communicator's: begin and end to place */
};

/* Those of the communicator's sends and receives; the caller frees. */
void muster_launches_of(const struct muster_view *view, uint32_t comm, struct muster_arena *memory,
                        struct muster_launches *launches);
/* NULL: it has no times. */
const struct muster_launch *muster_launch_of(const struct muster_view *view,
                                             const struct muster_launches *launches,
                                             const struct muster_view_op *op);
void muster_launches_free(const struct muster_view *view, struct muster_launches *launches);

/* The collectives of a communicator that every rank timed; sends of `from` with the receives of
 * `to`, members' indices. Those of one class, count and load stand side by side, in order. */
void muster_transfers_of_comm(const struct muster_view *view, uint32_t comm,
                              struct muster_arena *memory, struct muster_transfers *to);
void muster_transfers_of_pair(const struct muster_view *view,
                              const struct muster_launches *launches, uint32_t from, uint32_t to,
                              struct muster_arena *memory, struct muster_transfers *transfers);

/* The end of the group that begins at `from`. */
size_t muster_transfers_group(const struct muster_transfers *transfers, size_t from);
/* The times of at most so many of n, evenly spread, sorted; how many these are. */
enum { MUSTER_TRANSFERS_LOOK = 4096 };
size_t muster_transfers_sample(const struct muster_transfer *at, size_t n, uint64_t *sample);
uint64_t muster_sample_quantile(const uint64_t *sample, size_t n, double q);
/* The middle one of such a sample, for which there is room in `scratch`. */
uint64_t muster_transfers_median(const struct muster_transfer *at, size_t n, uint64_t *scratch);

/* One class of one communicator, for comparison with others of the same shape. */
struct muster_transfer_class {
    uint32_t comm, class, nranks, nnodes;
    uint64_t count;
    size_t n;
    uint64_t low_ns, median_ns, high_ns, sum_ns; /* p10, p50, p90 */
    const struct muster_view_op *op;             /* the first */
};

struct muster_transfer_classes {
    struct muster_transfer_class *at;
    size_t n;
};

/* Against its own past. `from` and `to`: members, MUSTER_VIEW_NONE for a collective. A finding is
 * added where transfers became slow for good. -1: there is no memory for it. */
int muster_transfer_history(const struct muster_view *view, uint32_t comm, uint32_t from,
                            uint32_t to, struct muster_transfers *sorted,
                            const struct muster_view_span *span, struct muster_findings *findings);
/* Appends the classes of the communicator. */
void muster_transfer_summarise(const struct muster_view *view, uint32_t comm,
                               const struct muster_transfers *sorted, struct muster_arena *memory,
                               struct muster_transfer_classes *to);
/* Against communicators of the same shape. Reorders. */
int muster_transfer_compare(const struct muster_view *view, struct muster_transfer_classes *classes,
                            const struct muster_view_span *span, struct muster_findings *findings);

/* Whether the communicator has a finding of this kind already. */
bool muster_transfer_named(const struct muster_findings *findings, uint64_t comm,
                           enum muster_finding_kind kind);
/* What all findings about slow transfers hold: kind, operation, ranks as far as they are known,
 * what is not. */
void muster_transfer_op(const struct muster_view *view, const struct muster_view_comm *comm,
                        const struct muster_view_op *op, const struct muster_view_op *since,
                        struct muster_finding *finding);
void muster_transfer_name(const struct muster_view *view, uint32_t comm, uint32_t from, uint32_t to,
                          const struct muster_view_op *op, struct muster_finding *finding);

#endif
