/*
 * What the living processes of this host have recorded, as numbers: read from their segments at one
 * scrape. Nothing here trusts a segment: it is another user's data. One thread.
 */
#ifndef MUSTER_AGENT_AGENT_SAMPLE_H
#define MUSTER_AGENT_AGENT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/nccl_types.h"
#include "segment/layout.h"
#include "segment/reap.h"

enum {
    MUSTER_AGENT_PROCESSES = 1024, /* of a host; what is beyond is counted and left out */
    MUSTER_AGENT_BOUNDS = 11,      /* of the histogram; its buckets are one more */
    MUSTER_AGENT_COMMS = 8,        /* of a run, those with the most ranks */
    MUSTER_AGENT_NAME = 128,
};

/* Upper bounds of the histogram's buckets, in ns: factors of 4, at edges of muster_hist's. */
extern const uint64_t muster_agent_bound_ns[MUSTER_AGENT_BOUNDS];

struct muster_agent_func {
    uint64_t operations, bytes, timed, timed_ns;
};

/* What only grows while a process lives. */
struct muster_agent_totals {
    struct muster_agent_func func[MUSTER_FUNCS];
    uint64_t bucket[MUSTER_AGENT_BOUNDS + 1]; /* of durations; not cumulative */
    uint64_t dropped[MUSTER_DROPS], lost;     /* records, from the log */
    uint64_t net_bytes, net_wait_ns;
};

struct muster_agent_process {
    char path[MUSTER_SEG_PATH]; /* of the segment */
    bool seen;                  /* by this scrape */
    uint32_t uid;               /* who owns it */
    size_t run;                 /* index */
    bool twin;                  /* a newer process has its run and rank: left out */
    struct muster_seg_identity identity;
    char gpu_uuid[48], gpu_pci[16];
    int32_t gpu_index;
    int32_t largest; /* ranks of its largest communicator */
    bool network;    /* it uses NCCL's network proxy */
    uint64_t inflight, progress_unix_ns;
    struct muster_agent_totals totals;
};

struct muster_agent_comm {
    uint64_t id;
    uint32_t nranks, nnodes, seen; /* seen: ranks on this host */
    uint64_t calls;                /* of the rank of this host that is farthest */
    char name[MUSTER_SEG_NAME];
};

/* The processes of one user whose run directories have one name: what series differ in. */
struct muster_agent_run {
    char name[MUSTER_AGENT_NAME]; /* last part of the directory */
    uint32_t uid;
    uint32_t alive;                  /* processes */
    int32_t expected;                /* ranks of the whole job; -1: not known */
    struct muster_agent_totals gone; /* of processes that have ended */
    struct muster_agent_comm comm[MUSTER_AGENT_COMMS];
    unsigned comms;
};

struct muster_agent_sample {
    struct muster_agent_process *process;
    size_t processes;
    struct muster_agent_run *run;
    size_t runs;
    size_t unreadable; /* segments, of this scrape */
    size_t omitted;    /* processes beyond MUSTER_AGENT_PROCESSES */
    struct muster_segment *scratch;
};

/* Reads every living segment among `found`; a zeroed *sample at first. What ended since the last
 * time is gone from it, its totals stand in its run's `gone`; a run whose last process ended is
 * gone, too. False: no memory; what was read stands. */
bool muster_agent_sample_take(struct muster_agent_sample *sample, const struct muster_found *found,
                              size_t n);
void muster_agent_sample_free(struct muster_agent_sample *sample);

/* Totals of a run: of the living and of those that have ended. */
void muster_agent_totals_of(const struct muster_agent_sample *sample, size_t run,
                            struct muster_agent_totals *totals);

/* All functions together. */
struct muster_agent_func muster_agent_all(const struct muster_agent_totals *totals);

/* A run by the last part of its directory; "none" without one. */
void muster_agent_name_run(char to[static MUSTER_AGENT_NAME], const char *run_dir);

#endif
