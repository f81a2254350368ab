/*
 * What every rank called, launched and is known to have ended, per communicator: what hangs are
 * evaluated on. Between the files of this folder.
 */
#ifndef MUSTER_DIAGNOSE_HANG_HANG_STATE_H
#define MUSTER_DIAGNOSE_HANG_HANG_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "view/view.h"

enum { MUSTER_HANG_HISTORY = 1024 }; /* calls kept of one rank in one communicator */

/* A collective as one rank called it. */
struct muster_hang_call {
    uint64_t number_plus_1; /* 0: the entry is free */
    uint64_t count;
    uint64_t enqueue_ns; /* 0: not known */
    int32_t root;
    uint8_t func, dtype;
};

/* The sends to, or receives from, one peer. */
struct muster_hang_pair {
    int32_t peer; /* rank in the communicator */
    bool send;
    bool open;           /* one of them is known to be unfinished */
    uint64_t posted;     /* how many */
    uint64_t done;       /* those below are known to have ended */
    uint64_t count;      /* of the newest one */
    uint64_t enqueue_ns; /* of the newest one */
    uint8_t dtype;
};

enum muster_hang_ended {
    MUSTER_HANG_UNKNOWN, /* whether its operations ended is not observable */
    MUSTER_HANG_IDLE,    /* all that it launched has ended */
    MUSTER_HANG_OPEN,    /* something that it launched has not ended */
};

/* One rank in one communicator. */
struct muster_hang_member {
    uint32_t uid; /* of the communicator in its process */
    int32_t rank; /* global */
    int32_t comm_rank;
    int32_t gpu;      /* -1: not known */
    const char *host; /* in the run's memory */
    const char *run_dir;
    uint64_t boot_hash; /* equal: one CLOCK_MONOTONIC */
    uint32_t pid;
    enum muster_process_state state;
    bool over;         /* it finalized the communicator */
    uint64_t over_ns;  /* when; 0: it did not */
    bool from_log;     /* its segment is not visible: known to the second */
    uint64_t begin_ns; /* of the process */
    uint64_t seen_ns;  /* up to then it is known what it did */
    uint64_t heartbeat_ns;
    int64_t to_unix_ns; /* add to a time of this rank's */
    uint64_t called_ns; /* newest call; 0: none */
    uint64_t calls;     /* collectives called */
    uint64_t call_hash;
    uint64_t captured;   /* calls that went into graphs */
    uint64_t done;       /* collectives below are known to have ended on this rank */
    uint64_t open_at;    /* at or before it a collective is known not to have ended on this rank;
                            UINT64_MAX: none */
    uint64_t in_call_ns; /* since when its newest call has not been launched; 0: it has */
    enum muster_hang_ended ended;
    bool queued;                      /* launched, its kernels expected, and none has begun */
    bool proxies_open;                /* a network proxy has begun and not ended */
    char ended_by[96];                /* the evidence for `ended`, in words; "" none */
    struct muster_hang_call *history; /* call n in entry n & (history_size - 1) */
    uint32_t history_size;            /* a power of two, or 0 */
    struct muster_hang_pair *pair;
    uint32_t pairs, next_pair; /* where the next one is looked for first: peers come by turns */
    uint32_t who; /* found while evaluating: the same rank has the same number everywhere */
};

struct muster_hang_comm {
    uint64_t id;
    uint32_t nranks;                   /* 0: not known */
    struct muster_hang_member *member; /* by comm_rank */
    uint32_t members;
    bool duplicate_rank; /* a rank is in it twice: a used hash came back, or a process was restarted
                          */
};

struct muster_hang_state {
    struct muster_arena *arena; /* holds it, and what is found on it */
    struct muster_hang_comm *comm;
    size_t comms;
};

/* Of all processes of the run that the view was made from, in the arena: where that failed it holds
 * a part. It keeps pointers into the view. */
void muster_hang_state_of(const struct muster_view *view, struct muster_arena *arena,
                          struct muster_hang_state *state);

/* Call n of a member if it is remembered, else NULL. */
const struct muster_hang_call *muster_hang_call(const struct muster_hang_member *member,
                                                uint64_t number);

#endif
