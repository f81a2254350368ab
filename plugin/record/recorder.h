/*
 * The recorder of one process. NCCL's threads call muster_track_* (track.h): they reserve a slot,
 * fill it, publish it, and never wait. The drain thread (drain.c) retires what has ended into the
 * segment's rows, its ring and the log. The recorder is made once and lives until the process
 * ends.
 */
#ifndef MUSTER_RECORD_RECORDER_H
#define MUSTER_RECORD_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "oplog/log_writer.h"
#include "record/comm.h"
#include "record/fast_clock.h"
#include "record/graph_capture.h"
#include "record/handle.h"
#include "record/launches.h"
#include "record/proxy.h"
#include "segment/segment_file.h"
#include "segment/totals.h"

enum {
    MUSTER_COMM_HASH = 4096, /* power of two, twice MUSTER_COMMS */
};

/* The GPU of a communicator; index -1 and empty strings where it is not known. */
struct muster_gpu {
    int32_t index;
    char pci[16];
    char uuid[48];
    char name[64];
};

struct muster_recorder_options {
    struct muster_segment_file file;
    struct muster_log_writer *log;  /* NULL: none */
    enum muster_timing timing;      /* which launches are timed */
    bool kernels;                   /* NCCL stamps all kernels: `channels` */
    bool probes;                    /* completion probes behind launches that are not timed */
    const struct muster_cuda *cuda; /* NULL: no driver */
    bool played;                    /* a replay: NCCL's recorded stamps stand for events */
    bool host_times;                /* false in a replay: host times mean nothing */
    muster_replay_clock *replay;    /* a replay's: when a played call came; NULL: none */
    bool group_handles;             /* up to v4: groups need a handle */
    bool named_by_event; /* v1 to v3: the event, not the context, names the communicator */
    unsigned cpus;       /* that the process may use */
};

struct muster_recorder {
    struct muster_segment *seg;
    struct muster_recorder_options options;
    uint32_t nonce;
    pid_t pid;
    _Atomic bool closed; /* set after fork in the child, and at exit: nothing is recorded */
    struct muster_capture capture;
    struct muster_fast_clock clock;

    pthread_mutex_t comm_lock; /* opening and closing communicators */
    _Atomic(struct muster_comm *) comm[MUSTER_COMMS];
    _Atomic uint16_t by_hash[MUSTER_COMM_HASH]; /* v1 to v3: index + 1 */
    uint32_t next_uid;

    struct muster_proxy_pool proxies;
    struct muster_launches launches;
    _Atomic bool kernels; /* NCCL stamps the kernels of what is shown now */
    struct muster_meter meter;
    _Atomic uint64_t stamp_ns;                       /* newest kernel stamp: a replay's clock */
    _Atomic uint64_t open_kernels[MUSTER_SEG_SLOTS]; /* by slot: channels that have begun */
    _Atomic uint32_t call_taken[MUSTER_SEG_SLOTS];   /* by slot: muster_track_take_call */

    /* The drain thread's; at exit the exiting thread's. */
    pthread_mutex_t drain_lock;
    struct muster_row_index rows;
    uint64_t rest_until_ns[MUSTER_SEG_SLOTS];
    unsigned slots_used; /* at the last scan */
    bool exiting;        /* the last pass: nothing more will come */
    uint64_t heartbeat_ns;
};

static inline bool muster_recorder_kernels(const struct muster_recorder *recorder)
{
    return atomic_load_explicit(&recorder->kernels, memory_order_relaxed);
}

int muster_recorder_create(struct muster_recorder **recorder,
                           const struct muster_recorder_options *options, struct muster_err *err);

/* In the forked child: from here on nothing is recorded, written or removed. */
void muster_recorder_forked(struct muster_recorder *recorder);

/* At the process's exit: retires what has ended and writes so into the segment. Waits at most 1 s
 * for the drain thread. */
void muster_recorder_exit(struct muster_recorder *recorder);

/* A context for a communicator that is being created (v4 on); never NULL. Takes a lock,
 * allocates. */
void *muster_recorder_comm_open(struct muster_recorder *recorder,
                                const struct muster_event_init *init, const struct muster_gpu *gpu);
/* Accepts NULL, stale and foreign contexts, and the same one twice. */
void muster_recorder_comm_close(struct muster_recorder *recorder, const void *context);
/* v1 to v3, whose contexts name no communicator: when the last of them is finalized. */
void muster_recorder_comm_close_all(struct muster_recorder *recorder);

/* Communicator of a context; NULL if it is not ours or over. Inline: every event asks. */
static inline struct muster_comm *muster_recorder_comm(struct muster_recorder *recorder,
                                                       const void *context)
{
    struct muster_handle h = muster_handle_unpack(context);
    if (h.nonce != recorder->nonce || h.kind != MUSTER_HANDLE_CONTEXT || h.index >= MUSTER_COMMS)
        return NULL;
    /* Acquire: pairs with the release in comm_open_locked. */
    struct muster_comm *comm = atomic_load_explicit(&recorder->comm[h.index], memory_order_acquire);
    if (!comm || atomic_load_explicit(&comm->generation, memory_order_acquire) != h.generation)
        return NULL;
    return atomic_load_explicit(&comm->alive, memory_order_relaxed) ? comm : NULL;
}

/* v1 to v3: the communicator that an event names, made at its first event. */
struct muster_comm *muster_recorder_comm_named(struct muster_recorder *recorder, uint64_t hash,
                                               int32_t rank, const char *name);

/* Counts one event that was refused. comm may be NULL. */
void muster_recorder_drop(struct muster_recorder *recorder, struct muster_comm *comm,
                          enum muster_drop reason);

#endif
