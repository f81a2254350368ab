/*
 * When launches ran. Around a launch that is to be timed two CUDA events are recorded on its
 * stream: the first is over when the GPU came to it, the second when its kernel was over. Behind a
 * launch that is not, now and then, one event that only shows that it is over. A thread of its own,
 * "muster-events", reads them (record/event_reader.h).
 *
 * Each GPU context has a ring of launches, made at the first communicator of the context; a launch
 * is known by its ticket. A ring's clock is the GPU's: the distance of neighbouring events, counted
 * from an arbitrary start. What has no free place is not timed, and counted.
 *
 * In a replay there is no driver: the recorded stamps of NCCL's own kernel events stand for the
 * events (muster_launch_part).
 */
#ifndef MUSTER_RECORD_LAUNCHES_H
#define MUSTER_RECORD_LAUNCHES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/cuda.h"
#include "record/gpu_clock_tie.h"

enum {
    MUSTER_LAUNCHES = 1024,   /* in flight, and known afterwards, per context */
    MUSTER_GPU_CONTEXTS = 16, /* of one process, with communicators at a time */
};

/* How long ago the last probe of a process has to be, times the communicators that launch. One
 * costs NCCL's thread 0.67 us (docs/cost.md). -D for experiments. */
#ifndef MUSTER_PROBE_INTERVAL_NS
#define MUSTER_PROBE_INTERVAL_NS 100000
#endif

/* How long NCCL's thread waits for the completion thread, once: while that hangs in a broken
 * driver nobody waits for it again. A starved machine needs a second (8 processes a core). */
#define MUSTER_LAUNCHES_WAIT_NS 1000000000

struct muster_comm;

enum muster_launch_result {
    MUSTER_LAUNCH_PENDING,
    MUSTER_LAUNCH_STARTED, /* the GPU came to it */
    MUSTER_LAUNCH_ENDED,
    MUSTER_LAUNCH_LOST, /* its context died, or its place was taken by a later one */
};

struct muster_launch {
    _Atomic uint32_t state; /* whose it is: launches.c */
    _Atomic uint32_t ticket;
    _Atomic uint32_t passed_by; /* the newest ticket that found the place taken */
    _Atomic uint32_t result;
    _Atomic bool timed;   /* two events; else a probe */
    uint32_t generation;  /* of the communicator's handles */
    uint64_t number;      /* among the communicator's launches */
    uint64_t recorded_ns; /* host */
    struct muster_comm *comm;
    void *event[3];                    /* begin and end, timed; probe, untimed */
    _Atomic uint64_t begin_ns, end_ns; /* GPU */
    /* In a replay: kernel stamps that began and ended. */
    _Atomic uint32_t parts, parts_ended;
};

struct muster_gpu_context {
    _Atomic unsigned long long id; /* cuCtxGetId; 0: unused */
    _Atomic bool dead;             /* reset, destroyed or broken: never asked again */
    void *context;                 /* NULL in a replay */
    uint32_t comms;                /* alive in it; under the lock of all */
    _Atomic uint32_t next;         /* ticket */
    bool abandoned;                /* its last communicator has ended: nothing is waited for */
    uint32_t oldest;               /* ticket; the completion thread's, as is what follows */
    struct muster_launch *anchor;  /* the launch read last: its end is known */
    uint64_t anchor_ns;            /* that end */
    struct muster_tie tie;
    struct muster_launch *launch; /* [MUSTER_LAUNCHES] */
};

struct muster_launches {
    struct muster_cuda cuda;
    bool possible; /* there is a driver, and a completion thread */
    /* Held while the completion thread looks and while a context is made: what is neither atomic
     * nor a launch's own changes under it. */
    pthread_mutex_t lock;
    pthread_cond_t asked, answered; /* one more look of the thread */
    uint64_t asks, answers;
    _Atomic bool stalled;    /* a wait for the thread was in vain, and it has not come by since */
    _Atomic bool stopped;    /* the process ends */
    _Atomic uint32_t active; /* communicators that launched lately; 0 counts as 1 */
    struct muster_gpu_context gpu[MUSTER_GPU_CONTEXTS];
};

void muster_launches_init(struct muster_launches *launches);

/* Takes the lock, waiting for the completion thread as above. False: it is not to be had. */
bool muster_launches_lock(struct muster_launches *launches);

/* At a communicator's creation, on a thread whose CUDA context is the communicator's: that context
 * with its events, made if they are not there yet, in place of one without communicators where all
 * places are taken; NULL: none. Counts the communicator. played: there is no driver, all share one.
 * The caller serialises. Allocates, and waits for the completion thread's look. */
struct muster_gpu_context *muster_launches_context(struct muster_launches *launches, bool played);

/* Right before and behind a launch, on the launching thread. _begin returns NULL if it cannot be
 * timed: the stream is being captured, no place is free, the driver refuses (`full` reports it
 * where no place was free). _end makes it visible to the completion thread and returns its ticket.
 */
struct muster_launch *muster_launch_begin(struct muster_launches *launches,
                                          struct muster_comm *comm, void *stream, bool *full);
uint32_t muster_launch_end(struct muster_launches *launches, struct muster_launch *launch,
                           struct muster_comm *comm, void *stream, uint64_t number,
                           uint64_t now_ns);

/* Behind a launch that is not timed: leaves a probe if it is the communicator's turn. Returns its
 * ticket; 0: none. */
uint32_t muster_launch_probe(struct muster_launches *launches, struct muster_comm *comm,
                             void *stream, uint64_t number, uint64_t now_ns);

struct muster_launch_times {
    enum muster_launch_result result;
    bool timed;
    uint64_t begin_ns, end_ns; /* GPU; where timed and ended */
    uint32_t parts, parts_ended;
};

/* What is known of a launch, by its ticket. Any thread. */
void muster_launch_poll(const struct muster_gpu_context *gpu, uint32_t ticket,
                        struct muster_launch_times *times);

/* In a replay: a kernel of the launch began (end_ns 0), or ended. */
void muster_launch_part(struct muster_gpu_context *gpu, uint32_t ticket, uint64_t begin_ns,
                        uint64_t end_ns);

#endif
