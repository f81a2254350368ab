/*
 * What `muster top` shows: one job at one moment, as plain data, whoever found it out. The segments
 * of this host feed it (top/top_host.h); whatever can fill a struct muster_top feeds the same
 * screen. Strings are clean: no control characters, whole characters. One thread.
 */
#ifndef MUSTER_TOP_TOP_H
#define MUSTER_TOP_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose/finding.h"

enum {
    MUSTER_TOP_TREND = 32, /* looks that a trend goes back */
    MUSTER_TOP_NAME = 64,
    MUSTER_TOP_CALL = 64,
    MUSTER_TOP_RUN = 256,
};

enum muster_top_state {
    MUSTER_TOP_RUNS,
    MUSTER_TOP_ENDED, /* what is shown is how it was last seen */
};

/* One process, as a rule one GPU. */
struct muster_top_rank {
    int32_t rank; /* global; -1: not known */
    int32_t gpu;  /* -1: not known */
    uint32_t pid;
    bool alive;
    char host[MUSTER_TOP_NAME];
    char call[MUSTER_TOP_CALL]; /* its newest call: "AllReduce #76 (4 MiB)", "Send to 3 #5 (1 MiB)";
                                   "": none yet */
    double since_s;             /* since it called that; NAN: not known */
    int32_t waits;              /* a rank that has not come to it; -1: none of this host */
    uint32_t waits_more;        /* others like that */
    double ops_s;
    uint64_t compared;     /* operations, since it is watched */
    uint64_t made_wait_ns; /* in these: how long the one that waited longest waited for it */
    uint64_t waited_ns;
    double trend[MUSTER_TOP_TREND]; /* made others wait, us an operation; the newest last */
    unsigned trends;
    bool culprit; /* a finding names it */
};

struct muster_top_comm {
    uint64_t id;
    char name[MUSTER_TOP_NAME];
    uint32_t nranks, here; /* here: ranks that are seen */
    uint64_t calls;        /* of the rank that is farthest */
    int32_t behind;        /* the rank that is least far; -1: all are as far */
    uint64_t behind_by;    /* calls */
    double ops_s;          /* of the rank that is farthest */
    double since_s;        /* since its newest call; NAN: none */
};

/* Operations that are alike, of all ranks, since the job began. */
struct muster_top_class {
    uint8_t func, algo, proto, size_log2; /* segment/totals.h */
    uint64_t count, bytes;
    uint64_t timed, sum_ns, max_ns; /* timed: how many the sum is of */
};

struct muster_top {
    enum muster_top_state state;
    bool all_hosts;                      /* of a fleet: the ranks are those that cost most */
    char run[MUSTER_TOP_RUN];            /* its directory */
    size_t job, jobs;                    /* which of those that are watched, from 0 */
    int32_t ranks_alive, ranks_expected; /* expected -1: not known */
    uint32_t nccl;                       /* 22809 for 2.28.9; 0: not known */
    double up_s, progress_s; /* since it began; since anything was called or ended, NAN: never */
    double ops_s;            /* of all ranks together */
    double timed_share;      /* of operations, since the job began; NAN: not known */
    uint64_t compared;       /* operations, of the rank with most */
    struct muster_top_rank *rank;
    size_t ranks;
    struct muster_top_comm *comm;
    size_t comms;
    struct muster_top_class *class;
    size_t classes;
    struct muster_finding *finding; /* that hold now; the worst first */
    size_t findings;
};

#endif
