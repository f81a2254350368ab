/*
 * The wire format: what the processes of one job on one host did in half a second, as one message
 * of bytes, and who is late among them, as the host's agent finds. Three things of each process:
 * who it is and what communicators it holds (again every ten seconds or so, so that whoever begins
 * to read inside a kept minute knows everybody), how far each communicator has come, and operations
 * with their GPU times to a thousandth, and a microsecond where these are far apart.
 *
 * Messages stand alone but for two things, both sent again within a minute: the host's names, and
 * classes, what operations are alike in. Whoever does not know one yet leaves out what needs it.
 * Times of a message are of its host's CLOCK_MONOTONIC, begin and end of an operation of its GPU's
 * clock.
 *
 * A message is anybody's bytes: the reader bounds everything, and refuses a message whole. Another
 * version is refused by number: every change of the layout is a new MUSTER_WIRE_VERSION. What
 * stands before the number of processes never changes, so that whoever refuses knows whom.
 */
#ifndef MUSTER_FLEET_WIRE_H
#define MUSTER_FLEET_WIRE_H

#include "base/arena.h"
#include "base/err.h"
#include "diagnose/finding.h"
#include "fleet/wire_bytes.h"
#include "run/run.h"
#include "segment/layout.h"

enum {
    MUSTER_WIRE_VERSION = 4,
    MUSTER_WIRE_MOST = 1 << 20, /* bytes: what NATS takes unless set otherwise */
    MUSTER_WIRE_PROCESSES = 1024,
    MUSTER_WIRE_SLOTS = 1024,
    MUSTER_WIRE_OPS = 4096,
    MUSTER_WIRE_FINDINGS = 16,
    MUSTER_WIRE_CLASSES = 256, /* of a process at a time: class n is forgotten when n + 256 comes */
};

/* What operations are alike in. */
struct muster_wire_class {
    uint32_t id;           /* ever growing; UINT32_MAX is none */
    struct muster_op like; /* number and times are 0 */
};

struct muster_wire_op {
    uint32_t class;
    uint64_t number, enqueue_ns;
    uint64_t begin_ns, end_ns; /* 0, 0: not timed */
};

/* One communicator of a process: uid, calls, launches (ended, probed), called_ns, ended_ns and
 * end_ns of `seg` always, the rest by the flags. */
struct muster_wire_comm {
    bool described; /* id, rank, nranks, nnodes, gpu_*, name, begin_ns, timing */
    bool still;     /* nothing moved for a while: call, call_hash, captured */
    struct muster_seg_comm seg;
};

/* An operation in flight: the fields of muster_seg_slot that show how far it is. Of what is over,
 * state MUSTER_SLOT_DONE, the newest of each stream: collectives, sends to and receives from each
 * peer. */
struct muster_wire_slot {
    uint64_t number, enqueue_ns, count;
    uint32_t comm;
    int32_t peer;
    uint16_t flags;
    uint8_t func, dtype, state, p2p;
    uint32_t started, ended, proxy_started, proxy_ended;
};

struct muster_wire_process {
    uint32_t pid;
    uint64_t start_ticks;
    enum muster_process_state state;
    uint64_t heartbeat_ns;
    uint64_t missing; /* operations that never got into a message */
    bool described;
    struct muster_seg_identity identity; /* if described; without run_dir, host and boot_hash, which
                                            are the message's */
    struct muster_wire_comm *comm;
    size_t comms;
    bool still; /* `slot` is sent: of communicators that stand still, as far as there was room */
    struct muster_wire_slot *slot;
    size_t slots;
    struct muster_seg_net *net; /* totals of links, some at a time; without seq and unsized */
    size_t nets;
    struct muster_wire_class *class; /* that are in this message */
    size_t classes;
    struct muster_wire_op *op;
    size_t ops;
};

struct muster_wire_message {
    uint64_t version;  /* of a message that is refused for it; else 0 */
    uint64_t instance; /* of the agent that speaks: differs each time that one starts */
    uint64_t sequence; /* of this job and agent, from 0 */
    uint64_t mono_ns, unix_ns;
    bool described;
    uint64_t boot_hash; /* if described, like what follows */
    uint32_t uid;       /* whose job */
    char host[128], hostname[64], run_dir[MUSTER_SEG_PATH];
    struct muster_wire_process *process;
    size_t processes;
    bool finds; /* `finding` is sent: all that hold now */
    struct muster_finding *finding;
    size_t findings;
};

/* Appends the message to `out`, which fails without memory. */
void muster_wire_write(const struct muster_wire_message *message, struct muster_wire_out *out);
/* The same piece by piece, for whoever counts bytes: the head, with a number of processes to come,
 * then each of them; returns how many of its bytes are of operations and their classes. Last the
 * findings. */
void muster_wire_write_head(const struct muster_wire_message *message, struct muster_wire_out *out);
size_t muster_wire_write_process(const struct muster_wire_message *message,
                                 const struct muster_wire_process *process,
                                 struct muster_wire_out *out);
void muster_wire_write_findings(const struct muster_wire_message *message,
                                struct muster_wire_out *out);

/* Reads a message into the arena. `name`, of whoever sent it, stands in errors: what was expected,
 * and at which byte. -1 with a `version` that is not 0: of another version, of which the head alone
 * was read. */
int muster_wire_read(const char *name, const void *data, size_t bytes, struct muster_arena *arena,
                     struct muster_wire_message *message, struct muster_err *err);

#endif
