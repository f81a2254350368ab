/*
 * Completion marks: outside timed blocks nothing tells that an operation ended, and a checkpoint
 * would look like a hang. So now and then, after a kernel launch, one untimed CUDA event is
 * recorded on the launch's stream; a thread of its own asks whether it is over.
 *
 * What a finished mark of launch n proves: the communicator's launches up to n have ended. NCCL
 * shows the operations of a launch between its stop and the communicator's next launch.
 */
#ifndef MUSTER_RECORD_MARK_H
#define MUSTER_RECORD_MARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/comm.h"

enum {
    MUSTER_MARKS = 64,         /* in flight, per GPU context */
    MUSTER_MARK_CONTEXTS = 16, /* GPUs of one process */
};
/* A mark costs NCCL's thread 0.67 us (docs/cost.md): less than 1 % of the time between two. -D for
 * experiments. */
#ifndef MUSTER_MARK_INTERVAL_NS
#define MUSTER_MARK_INTERVAL_NS 100000
#endif

/* The driver's functions (CUDA driver API; 0 is success), looked up in the running process. */
struct muster_mark_driver {
    int (*ctx_get_current)(void **ctx);
    int (*ctx_set_current)(void *ctx);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event); /* 600: not over yet */
    int (*stream_is_capturing)(void *stream, int *status);
    int (*exchange_capture_mode)(int *mode);
};

struct muster_mark {
    _Atomic uint32_t state; /* free, filling, recorded */
    uint32_t generation;    /* of the communicator's handles */
    uint64_t launch;
    struct muster_comm *comm;
    void *event;
};

struct muster_mark_context {
    void *_Atomic context; /* NULL: unused */
    struct muster_mark mark[MUSTER_MARKS];
};

struct muster_marks {
    struct muster_mark_driver cuda;
    bool possible;
    _Atomic bool stopped; /* the driver refused, or the process ends */
    _Atomic uint64_t last_ns;
    struct muster_mark_context context[MUSTER_MARK_CONTEXTS];
};

/* Starts the thread, "muster-mark". 0 or an errno. */
int muster_marks_start(struct muster_marks *marks);

/* At a communicator's creation, on a thread whose CUDA context is the communicator's: makes the
 * events of that context if they are not there yet. Returns the context's entry; NULL: no marks
 * for this communicator. The caller serialises. */
struct muster_mark_context *muster_marks_context(struct muster_marks *marks);

/* After a launch, on the launching thread: records a mark if the last one is long enough ago and
 * the stream is not being captured. now_ns: monotonic, of the operation's call. */
void muster_mark_launch(struct muster_marks *marks, struct muster_comm *comm, void *stream,
                        uint64_t launch, uint64_t now_ns);

/* Looks at all marks once; for the thread, and for tests. */
void muster_marks_poll(struct muster_marks *marks);

#endif
