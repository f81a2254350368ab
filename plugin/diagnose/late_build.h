/* What the parts of the search for late ranks share. Between late*.c only, but for
 * muster_late_spans. */
#ifndef MUSTER_DIAGNOSE_LATE_BUILD_H
#define MUSTER_DIAGNOSE_LATE_BUILD_H

#include "diagnose/joint.h"
#include "diagnose/late.h"

/* Delays are counted by octave from here on; shorter ones are not looked at. */
#define MUSTER_LATE_FLOOR_NS 16000ull
enum { MUSTER_LATE_SCALES = 24, MUSTER_LATE_PARTS = 12 };

/* How often a rank was to blame for a delay of at least 16 us << j, and for how much; and how often
 * in each part of what was recorded. */
struct muster_late_tally {
    uint32_t hits[MUSTER_LATE_SCALES];
    uint64_t sum_ns[MUSTER_LATE_SCALES];
    uint32_t part[MUSTER_LATE_SCALES][MUSTER_LATE_PARTS];
    /* The same with those too short to count, where others are measured against it. */
    uint32_t any_hits[MUSTER_LATE_SCALES];
    uint32_t any_part[MUSTER_LATE_SCALES][MUSTER_LATE_PARTS];
};

/* What a rank must stand out by, which depends on how long and how often was looked. */
struct muster_late_demands {
    struct muster_late_lag *lag;    /* of each member */
    uint32_t lags_known, lags_last; /* members */
    double relative; /* to the usual self time: a shorter delay is how GPUs of a kind differ */
    double share;    /* of the time without long pauses: less is not worth a finding */
    unsigned parts;  /* in which it is looked separately */
    bool few;        /* sampled, from fewer blocks than tell a state from a habit */
};

/* One communicator's comparison. */
struct muster_late_comm {
    uint32_t comm;
    uint64_t compared; /* operations */
    uint64_t carried;  /* of them: a rank's host came last, but took no longer than the others' */
    struct muster_late_tally *tally; /* of each member; only while it is judged */
    struct muster_late_demands demands;
    uint64_t open[MUSTER_LATE_SCALES]; /* operations in which 16 us << j is long enough to count */
    uint64_t smallest_ns;              /* muster_late_smallest_ns */
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
    uint32_t last;
};

struct muster_late_places {
    struct muster_late_place *place; /* open addressing */
    size_t slots, used;
};

struct muster_late_place *muster_late_place(struct muster_late_places *places, uint32_t class,
                                            uint32_t before, bool make);

/* Where in the record an operation stands. A stretch is what was timed without a long hole: a
 * timed block, or everything in `full`. */
struct muster_late_position {
    uint64_t index;    /* of the operation among those compared; at the end their number */
    uint32_t stretch;  /* likewise */
    uint64_t number;   /* of the operation before */
    bool graph, begun; /* it was a replay; there was one */
};

/* When the ranks called the last operations, for lags that are carried on. Between late_carry.c
 * and the walk. */
struct muster_late_calls {
    uint64_t *call_ns; /* of the last few operations, a row each; 0: not known */
    uint32_t *host;    /* of each member: the first member of the same host */
    unsigned row, rows;
    uint64_t number; /* the last */
};

/* What a member's lag was, for lags that outlast an operation. */
struct muster_late_lag {
    uint64_t before_ns;     /* in the operation before */
    uint32_t lags, carried; /* so far; those that were still there in the next operation */
    bool known, lasts;      /* its lags are enough to tell; most of them were carried */
    uint64_t small_ns;      /* of that, what was too little where it came from */
    uint64_t until;         /* operations of the walk */
};

/* A walk over the operations of a communicator that can be judged, each with what every rank is
 * to blame for. */
struct muster_late_walk {
    struct muster_joint joint;
    struct muster_late_places places;
    struct muster_late_place *place; /* of the current operation */
    struct muster_late_position at, end;
    struct muster_late_calls calls;
    uint64_t usual_ns; /* self time in the current operation */
    bool carried;      /* its last rank's host came later, but took no longer than the others' */
    struct muster_late_lag *lag;    /* of each member */
    uint32_t lags_known, lags_last; /* members */
    double relative;                /* of struct muster_late_demands; set by whoever walks */
    uint64_t *blame_ns;             /* of each member */
    uint64_t *counted_ns; /* of that, what is long enough and not carried on from what was not */
    uint64_t *late_ns;
    uint64_t *scratch;
};

int muster_late_walk_begin(struct muster_late_walk *walk, const struct muster_view *view,
                           uint32_t comm);
bool muster_late_walk_next(struct muster_late_walk *walk);
void muster_late_walk_end(struct muster_late_walk *walk);

/* Of MUSTER_LATE_PARTS or fewer: the current operation's. */
unsigned muster_late_part_of(const struct muster_late_walk *walk, unsigned parts);

/* late_carry.c. Between joint_begin and joint_end of the walk; -1: no memory. */
int muster_late_calls_begin(struct muster_late_walk *walk);
void muster_late_calls_end(struct muster_late_calls *calls);
/* Each joint operation in turn, after its blame is known or not looked for. */
void muster_late_calls_note(struct muster_late_walk *walk);
/* Takes from the blame of the current operation what its rank's host did not take longer than the
 * others' hosts. */
void muster_late_carry(struct muster_late_walk *walk);

/* Time that the operations of a GPU cover with what lies between them, as far as that is known. */
struct muster_late_span {
    uint64_t covered_ns;
    uint64_t active_ns; /* without the long part of long pauses: checkpoints, evaluation */
    uint64_t length_ns; /* from the first begin to the last end */
};

/* Of each GPU of the view; the caller frees. NULL: no memory. */
struct muster_late_span *muster_late_spans(const struct muster_view *view);

struct muster_late_guilt;

/* What the walk's communicator demands. */
struct muster_late_demands muster_late_demands(const struct muster_late_walk *walk,
                                               const struct muster_late_span *span);
/* From how much on the current operation's delays count. */
uint64_t muster_late_least_ns(const struct muster_late_walk *walk);
/* P(at least `hits` of hits + others fall on one of two sides that are equally likely). */
double muster_late_by_luck(uint32_t hits, uint32_t others);
/* Whether the hits of a rank that is late now and then, which came in so many turns, are more than
 * luck; it could have been any of so many `ranks`. */
bool muster_late_beyond_luck(const struct muster_late_guilt *guilt, uint32_t turns, size_t ranks);

/* A guilty member of a communicator. */
struct muster_late_guilt {
    struct muster_late_demands demands;
    uint32_t comm, member, gpu; /* indices in the view */
    bool beside;                /* stands out less than another one */
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
int muster_late_judge(const struct muster_view *view, struct muster_late_comm *comm,
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
    uint32_t turns;                     /* hits, those in a row at one place as one */
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

/* Counts one operation that a rank is to blame for; counted_ns: as far as that counts. */
void muster_late_add(struct muster_late_tally *tally, uint64_t blame_ns, uint64_t counted_ns,
                     unsigned part);

/* The size that a delay has: it is at least 16 us << this; MUSTER_LATE_SCALES: shorter. */
unsigned muster_late_scale(uint64_t blame_ns);

/* late_parts.c: whether member `i` of `n` is late at this size throughout, from its first delay on,
 * and nobody else for a while. `hits`: of each member at this size. `beside`: somebody else is
 * guilty already. part[] of the tallies: at this size and above. -1: no memory. */
int muster_late_steady(const struct muster_late_comm *comm, const uint32_t *any_hits, uint32_t n,
                       uint32_t i, unsigned scale, bool beside, bool *steady);

/* Sends and receives. -1: no memory. */
int muster_late_stages(const struct muster_view *view, const struct muster_late_span *span,
                       struct muster_findings *findings);

#endif
