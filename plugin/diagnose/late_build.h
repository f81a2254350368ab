/* What the parts of the search for late ranks share. Between late*.c only, but for
 * muster_late_spans. */
#ifndef MUSTER_DIAGNOSE_LATE_BUILD_H
#define MUSTER_DIAGNOSE_LATE_BUILD_H

#include "diagnose/joint.h"
#include "diagnose/late.h"

/* Delays are counted by octave from here on; shorter ones are not looked at. */
#define MUSTER_LATE_FLOOR_NS 16000ull
enum { MUSTER_LATE_SCALES = 24 };

/* How often a rank was to blame for a delay of at least 16 us << j, and for how much. */
struct muster_late_tally {
    uint32_t hits[MUSTER_LATE_SCALES];
    uint64_t sum_ns[MUSTER_LATE_SCALES];
};

/* One communicator's comparison. */
struct muster_late_comm {
    uint32_t comm;
    uint64_t compared;               /* operations */
    struct muster_late_tally *tally; /* of each member; only while it is judged */
    uint64_t smallest_ns;            /* muster_late_smallest_ns */
    bool guilty;
};

/* Of each member of the view, over all its operations. */
struct muster_late_part {
    uint64_t late_ns, blame_ns;
};

/* A place in the training step: what was called, after what. */
struct muster_late_place {
    uint32_t class, before;
    uint32_t count; /* 0: free */
    uint32_t seen;  /* of them, up to the current operation */
    uint32_t hits;  /* of the rank that is looked at */
    uint32_t first; /* of them, as `seen` was */
};

struct muster_late_places {
    struct muster_late_place *place; /* open addressing */
    size_t slots, used;
};

struct muster_late_place *muster_late_place(struct muster_late_places *places, uint32_t class,
                                            uint32_t before, bool make);

/* A walk over the operations of a communicator that can be judged, each with what every rank is
 * to blame for. */
struct muster_late_walk {
    struct muster_joint joint;
    struct muster_late_places places;
    struct muster_late_place *place; /* of the current operation */
    uint64_t *blame_ns;              /* of each member */
    uint64_t *late_ns;
    uint64_t *scratch;
};

int muster_late_walk_begin(struct muster_late_walk *walk, const struct muster_view *view,
                           uint32_t comm);
bool muster_late_walk_next(struct muster_late_walk *walk);
void muster_late_walk_end(struct muster_late_walk *walk);

/* Time that the operations of a GPU cover with what lies between them, as far as that is known. */
struct muster_late_span {
    uint64_t covered_ns;
    uint64_t active_ns; /* without the long part of long pauses: checkpoints, evaluation */
};

/* Of each GPU of the view; the caller frees. NULL: no memory. */
struct muster_late_span *muster_late_spans(const struct muster_view *view);

/* A guilty member of a communicator. */
struct muster_late_guilt {
    uint32_t comm, member, gpu; /* indices in the view */
    unsigned scale;             /* its delays are of at least 16 us << scale */
    uint32_t hits, others;      /* how often; how often another rank, typically */
    uint32_t high;              /* and how often the most frequent of the others */
    uint64_t cost_ns;
    uint64_t compared;
    double share;                   /* of the time covered */
    uint64_t covered_ns, active_ns; /* struct muster_late_span */
};

struct muster_late_guilts {
    struct muster_late_guilt *guilt;
    size_t n;
};

/* Judges one communicator. Guilts are appended. -1: no memory. */
int muster_late_judge(const struct muster_view *view, const struct muster_late_comm *comm,
                      const struct muster_late_span *span, struct muster_late_guilts *guilts);

/* The smallest delay, in a fifth of the operations compared, that would have been named; 0: none
 * would. */
uint64_t muster_late_smallest_ns(const struct muster_view *view,
                                 const struct muster_late_comm *comm,
                                 const struct muster_late_span *span);

/* What the operations of a guilty member tell beyond being late. */
struct muster_late_detail {
    const struct muster_view_op *first; /* the first that it was late in */
    uint32_t class;                     /* met most often */
    double rate;                        /* how often, at the places of the step where it is */
    enum muster_finding_cause cause;
    uint32_t host_known, arrived_late, waited_in_queue; /* hits */
};

/* -1: no memory. */
int muster_late_look(const struct muster_view *view, const struct muster_late_guilt *guilt,
                     struct muster_late_detail *detail);

/* Words the findings of all guilts. -1: no memory. */
int muster_late_word(const struct muster_view *view, struct muster_late_guilts *guilts,
                     const struct muster_late_part *part, struct muster_findings *findings);

/* Ranks outside of `finding` that were late, or waited, in other communicators because of it. */
int muster_late_victims(const struct muster_view *view, const struct muster_late_guilts *guilts,
                        size_t lead, const struct muster_late_part *part,
                        struct muster_finding *finding);

/* Counts one operation that a rank is to blame for. */
void muster_late_add(struct muster_late_tally *tally, uint64_t blame_ns);

/* Sends and receives. -1: no memory. */
int muster_late_stages(const struct muster_view *view, const struct muster_late_span *span,
                       struct muster_findings *findings);

#endif
