/* What has become of a case. Between hang_*.c only. */
#ifndef MUSTER_BENCH_ACCURACY_SCENE_HANG_SCENE_JOB_H
#define MUSTER_BENCH_ACCURACY_SCENE_HANG_SCENE_JOB_H

#include "draw.h"
#include "hang_scene.h"

/* Where the ranks of one operation meet. */
struct hang_meet {
    unsigned needed, called, begun;
    double last_call_ns, last_begin_ns;
    double end_ns; /* HANG_NEVER: not yet, or never */
    const struct hang_call *first;
    bool differs, stuck;
};

struct hang_rank {
    struct hang_call *call;
    unsigned calls;  /* that it would make */
    unsigned made;   /* that it made */
    unsigned begun;  /* below: begun */
    unsigned ended;  /* below: ended */
    double now_ns;   /* of its host */
    double ended_ns; /* of those below `ended`, the latest */
    double gone_ns;  /* its process ends then; HANG_NEVER: it lives */
    uint64_t posted[HANG_STREAMS];
    int last[HANG_STREAMS + 1]; /* begun of each stream, and of all; -1: none */
    bool in_call;               /* its newest call has not come back */
};

struct hang_job {
    const struct hang_case *hang;
    struct draw draw;
    struct hang_rank *rank;
    struct hang_meet *meet; /* [instance * numbers + number] */
    size_t numbers;
    double busy_from_ns; /* HANG_GPU_BUSY */
    double last_ns;      /* the last thing that any rank did */
    double look_ns;      /* when somebody looks */
};

/* The members of the rank's communicator of a stream: `n` from `first` on in steps of `stride`. */
struct hang_members {
    unsigned first, stride, n;
};
struct hang_members hang_members_of(const struct hang_case *hang, unsigned stream, unsigned rank);
bool hang_is_culprit(const struct hang_case *hang, unsigned rank);
static inline bool hang_is_p2p(unsigned stream)
{
    return stream >= HANG_CHAIN;
}
bool hang_same_content(const struct hang_call *a, const struct hang_call *b);

#endif
