/*
 * The segment: one process's recording as a file of fixed layout, 1 MiB, on tmpfs while the
 * process lives, copied into the run directory afterwards. It is an ABI between processes of any
 * muster version: only offsets, no pointers; little-endian; change means a new MUSTER_SEG_VERSION.
 *
 * Writers: NCCL's threads (slots, muster_seg_comm.call, policy), the sampler's thread (facts), the
 * drain thread (all else).
 * Readers copy the file with pread and never map it. What the drain thread writes in one piece
 * carries a `seq`: odd while it is being written (segment/seqlock.h).
 *
 * Retiring an operation moves it from its slot to a row. `undo` makes that one step for whoever
 * reads after a SIGKILL: while undo.armed is 1 the row may be half changed; the reader restores it
 * from undo and counts the slot as still pending.
 */
#ifndef MUSTER_SEGMENT_LAYOUT_H
#define MUSTER_SEGMENT_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/nccl_types.h"
#include "config/timing.h"
#include "segment/facts.h"
#include "segment/op.h"

#define MUSTER_SEG_MAGIC   0x316765737473756dull /* "mustseg1" */
#define MUSTER_SEG_VERSION 7u

enum {
    MUSTER_SEG_COMMS = 128, /* named communicators; one more entry, the last, is `other` */
    MUSTER_SEG_ROWS = 288,
    MUSTER_SEG_NETS = 256,
    MUSTER_SEG_SLOTS = 4096,
    MUSTER_SEG_RING = 1024,
    MUSTER_SEG_CALLS = 16,  /* last calls kept per communicator */
    MUSTER_SEG_RULES = 128, /* rules of a policy with an entry of their own, but for the last */
    MUSTER_SEG_TAGS = 64,   /* tags of the job's own with an entry of their own, but for the last */
    MUSTER_SEG_PATH = 1024,
    MUSTER_SEG_NAME = 64,
    MUSTER_CHANNELS = 64, /* NCCL's MAXCHANNELS since 2.25 */
};
#define MUSTER_SEG_OTHER_UID UINT32_MAX /* of the last communicator entry */

enum muster_exit {
    MUSTER_EXIT_OPEN,      /* running, or killed: the lock decides */
    MUSTER_EXIT_EXITED,    /* the process ran its exit handlers with communicators alive */
    MUSTER_EXIT_FINALIZED, /* every communicator was finalized */
};

/* Why something was not recorded, or not timed. The words are in muster_drop_name. */
enum muster_drop {
    MUSTER_DROP_NO_SLOT,       /* all slots in flight: the operation is not in ops */
    MUSTER_DROP_NO_COMM,       /* more communicators at once than muster keeps state for */
    MUSTER_DROP_STALE,         /* a handle of an event that was long over */
    MUSTER_DROP_FOREIGN,       /* a handle of another process (NCCL's PXN) */
    MUSTER_DROP_TIME_ORDER,    /* channel stop at or before its start */
    MUSTER_DROP_TIME_LONG,     /* longer than the host time since the call */
    MUSTER_DROP_TIME_BACK,     /* stop before the same channel's previous stop */
    MUSTER_DROP_CHANNEL,       /* channel number out of range */
    MUSTER_DROP_NO_PROXY_SLOT, /* all proxy slots in flight */
    MUSTER_DROP_INCOMPLETE,    /* retired before all its channels had ended */
    MUSTER_DROP_NO_EVENT,  /* no CUDA events were free for a launch, or what they showed was lost */
    MUSTER_DROP_TIME_RING, /* a channel whose stamps were once another operation's */
    MUSTER_DROPS
};
enum { MUSTER_SEG_DROPS = 16 };

enum muster_rank_source { MUSTER_RANK_FROM_ENV, MUSTER_RANK_FROM_COMM };

/* Who recorded. Written once at creation, except where noted. */
struct muster_seg_identity {
    uint64_t boot_hash;     /* of /proc/sys/kernel/random/boot_id */
    uint64_t start_ticks;   /* field 22 of /proc/self/stat */
    uint64_t begin_mono_ns; /* the same instant on both clocks */
    uint64_t begin_unix_ns;
    uint32_t pid;
    uint32_t uid;
    int32_t rank;          /* global; -1 until known. rank_source `comm`: changes with the
                              largest communicator */
    int32_t local_rank;    /* -1: not known */
    int32_t world;         /* -1: not known */
    uint32_t nccl;         /* version code, 22809 for 2.28.9; 0: not known */
    uint32_t api;          /* profiler interface version that NCCL chose; 0 until an init */
    uint32_t timing;       /* enum muster_timing as configured */
    uint32_t replay_speed; /* 0: a live job. N: replayed N times as fast; UINT32_MAX: max */
    uint8_t rank_source;   /* enum muster_rank_source */
    uint8_t mark;          /* completion probes on */
    uint8_t armed;         /* kernel timing possible here; if not: why_not_armed */
    uint8_t log_enabled;
    char why_not_armed[128];
    char host[128];    /* identity of the host: docs/reference/configuration.md */
    char hostname[64]; /* for people */
    char gpu_name[64];
    char run_dir[MUSTER_SEG_PATH]; /* absolute */
    char file_stem[128];           /* <host>-<pid>: base name of .seg and .log in run_dir */
    char slurm_job[32];            /* SLURM_JOB_ID and SLURM_STEP_ID; "": not set, or no step */
    char slurm_step[16];
    char recorded_by[48]; /* muster's version and commit; "": not known */
};

/* One collective as it was called, for comparing ranks that disagree. */
struct muster_seg_call {
    uint64_t count;
    int32_t root;
    uint8_t func;
    uint8_t dtype;
    uint16_t number; /* low bits of the operation number */
};

struct muster_seg_comm {
    uint32_t seq;
    uint32_t uid; /* of this communicator in this process, from 1; 0: the entry is free */
    uint64_t id;  /* NCCL's commId or commHash; 0 for `other` */
    int32_t rank;
    uint32_t nranks; /* 0: the interface has none (v1 to v3) */
    uint32_t nnodes;
    int32_t gpu_index; /* CUDA ordinal; -1: not known */
    char gpu_pci[16];
    char gpu_uuid[48]; /* "GPU-xxxxxxxx-..." */
    char name[MUSTER_SEG_NAME];
    uint64_t begin_ns; /* monotonic */
    uint64_t end_ns;   /* finalize; 0: alive */
    uint64_t folded;   /* `other` only: communicators whose rows were added here */
    uint64_t retired;  /* operations moved to rows */
    /* Written by NCCL's threads; the calls before any slot is reserved. */
    _Atomic uint64_t captured; /* calls recorded into CUDA graphs */
    _Atomic uint64_t drops[MUSTER_SEG_DROPS];
    _Atomic uint64_t calls;     /* collectives called: the next operation number */
    _Atomic uint64_t call_hash; /* rolling, over function, count, datatype and root */
    struct muster_seg_call call[MUSTER_SEG_CALLS]; /* entry number % 16 */
    _Atomic uint64_t launches;        /* kernels that NCCL launched for it; 0: not watched */
    _Atomic uint64_t launches_ended;  /* of them, known to have ended */
    _Atomic uint64_t ended_ns;        /* when that was seen; monotonic */
    _Atomic uint64_t launches_probed; /* the newest launch with a completion probe behind it */
    _Atomic uint64_t called_ns;       /* newest operation's call; monotonic */
    _Atomic uint64_t timing;          /* muster_seg_timing_pack; 0: everything is timed */
    _Atomic uint64_t timing_cost_ns;  /* of its timed launches, by record/launch_price.h */
};

/* Which share of a communicator's sampling windows is timed: 1 in 2^level since operation `since`
 * (where it has called no collective yet: its group of sends of that number), because the process
 * had `rate` operations a second. One word, so that it is never torn. */
static inline uint64_t muster_seg_timing_pack(unsigned level, uint64_t since, uint32_t rate)
{
    uint32_t most = (1u << 24) - 1;
    return (uint64_t)level << 56 | (uint64_t)(rate < most ? rate : most) << 32 |
           (since < UINT32_MAX ? since : UINT32_MAX);
}

static inline unsigned muster_seg_timing_level(uint64_t timing)
{
    return (unsigned)(timing >> 56);
}

static inline uint32_t muster_seg_timing_rate(uint64_t timing)
{
    return timing >> 32 & ((1u << 24) - 1);
}

static inline uint32_t muster_seg_timing_since(uint64_t timing)
{
    return (uint32_t)timing;
}

/* Exact totals of one class of operations. */
struct muster_seg_row {
    uint32_t seq;
    uint32_t comm; /* uid; 0: free */
    int32_t peer;  /* of send and receive; -1 for collectives */
    uint8_t func;
    uint8_t algo;
    uint8_t proto;
    uint8_t size_log2; /* size class: bytes in [2^n, 2^(n+1)); 255: zero bytes, 254: mixed */
    uint64_t count;
    uint64_t bytes;
    uint64_t graph;    /* of count: replayed from graphs */
    uint64_t api_only; /* of count: seen as a call only */
    uint64_t timed;    /* of count: by NCCL's stamps of the GPU's clock */
    uint64_t proxy_timed;
    uint64_t host_timed;
    uint64_t sum_ns; /* of the durations in `hist` */
    uint64_t min_ns;
    uint64_t max_ns;
    uint32_t channels; /* of the newest operation */
    uint32_t spare;
    uint64_t event_timed; /* of count: by CUDA events around the launch */
    uint32_t spare2[4];
    struct muster_hist
        hist; /* durations of the best source in the row: gpu, else proxy, else host */
};

/* Network proxy operations of one communicator, directed peer. Waits are sums, from ProxyStep
 * events; steps 0: none were seen, and the waits mean nothing. */
struct muster_seg_net {
    uint32_t seq;
    uint32_t comm; /* uid; 0: free */
    int32_t peer;
    uint32_t send; /* 1: send, 0: receive */
    uint64_t count;
    uint64_t bytes; /* from the steps; where none were seen, a ring's or a send's even share */
    uint64_t steps;
    uint64_t gpu_wait_ns;    /* send: data not there yet; receive: buffer not free yet */
    uint64_t credit_wait_ns; /* send: the peer has not posted a buffer */
    uint64_t net_wait_ns;    /* handed to the network, not done */
    uint64_t flush_ns;
    uint64_t unsized; /* of count: no step had the bytes and the algorithm does not give them */
    uint64_t spare[4];
};

enum muster_slot_state {
    MUSTER_SLOT_FREE,
    MUSTER_SLOT_FILLING,  /* reserved by a callback, not readable */
    MUSTER_SLOT_CALLED,   /* a collective's call, which counts; its launch was not shown yet */
    MUSTER_SLOT_LAUNCHED, /* NCCL showed the operation */
    MUSTER_SLOT_DONE,     /* and its last announced part has ended */
    MUSTER_SLOT_RESTING,  /* retired early; kept from reuse while late callbacks may hold it */
};

/* An operation in flight: two cache lines, the second written by NCCL's proxy thread. The state
 * is in muster_segment.slot_state, where generation and state share one word. */
struct muster_seg_slot {
    uint64_t number;
    uint64_t enqueue_ns;
    uint64_t count;
    uint32_t comm; /* uid */
    int32_t peer;
    uint32_t nranks;
    uint16_t flags;      /* enum muster_op_flags */
    uint16_t comm_entry; /* index in muster_segment.comm; stale if its uid differs */
    uint8_t func;
    uint8_t dtype;
    uint8_t algo;
    uint8_t proto;
    uint8_t channels;
    uint8_t p2p;
    uint8_t expects_proxy;  /* its communicator uses the network: parts are to come */
    uint8_t gpu;            /* of `ticket`: index in the recorder's contexts */
    uint32_t group;         /* the communicator's group call it was made in */
    uint32_t recorder_comm; /* index in the recorder's table */
    uint32_t launch;        /* low bits of muster_seg_comm.launches when it was shown */
    uint32_t ticket;        /* the recorder's, of that launch's events; 0: none */

    _Alignas(64) _Atomic uint64_t begin_ns; /* 0: none yet */
    _Atomic uint64_t end_ns;
    _Atomic uint32_t started; /* channels (or proxy operations) that began */
    _Atomic uint32_t ended;
    _Atomic uint64_t proxy_begin_ns;
    _Atomic uint64_t proxy_end_ns;
    _Atomic uint32_t proxy_started;
    _Atomic uint32_t proxy_ended;
    _Atomic uint64_t touched_ns; /* host time of the last part's end */
    _Atomic uint32_t bad;        /* enum muster_drop + 1 of a stamp that was refused */
    uint32_t works;              /* of its communicator before its group: record/kernel_stamps.h */
};

enum muster_policy_state {
    MUSTER_POLICY_NONE,    /* no rules, or the tuner is not loaded */
    MUSTER_POLICY_ACTIVE,  /* decides */
    MUSTER_POLICY_INVALID, /* has errors: off as a whole */
    MUSTER_POLICY_REFUSED, /* MUSTER_POLICY_SHA256 names another one: off */
    MUSTER_POLICY_STATES
};

struct muster_seg_rule {
    char name[MUSTER_SEG_NAME];
    _Atomic uint64_t hits;        /* the tuner was asked, and this rule decided */
    _Atomic uint64_t not_offered; /* of them: NCCL offered nothing of what the rule keeps */
    uint32_t line;
    uint32_t spare;
    uint64_t spare2;
};

/* Written when the tuner reads its policy; `state` last. Only the counters change afterwards, by
 * NCCL's threads. */
struct muster_seg_policy {
    _Atomic uint32_t state; /* enum muster_policy_state */
    uint32_t rules;         /* of the policy; those beyond MUSTER_SEG_RULES share the last entry */
    uint32_t tuner_api;     /* tuner interface version that NCCL chose; 0: it loaded none */
    _Atomic uint32_t configured; /* 1: environment or file name a policy, loaded or not */
    uint8_t sha256[32];          /* of the document with the policy */
    uint64_t spare2[6];
    struct muster_seg_rule rule[MUSTER_SEG_RULES];
};

static inline uint32_t muster_seg_rule_entry(uint32_t rule)
{
    return rule < MUSTER_SEG_RULES ? rule : MUSTER_SEG_RULES - 1;
}

/* slot_state word: generation << 8 | enum muster_slot_state. */
static inline uint32_t muster_slot_word(uint32_t generation, enum muster_slot_state state)
{
    return generation << 8 | (uint32_t)state;
}

/* What was called under a tag of the job's own (record/tags.h). Written by NCCL's threads. */
struct muster_seg_tag {
    _Atomic uint64_t tag; /* 0: free; the last entry, of all tags without one, keeps 0 */
    _Atomic uint64_t count;
    _Atomic uint64_t bytes;
};

struct muster_seg_undo {
    _Atomic uint32_t armed;
    uint32_t row;  /* index */
    uint32_t slot; /* index */
    uint32_t bucket;
    uint32_t bucket_n;
    uint32_t slot_word; /* before */
    uint64_t count, bytes, graph, api_only, timed, proxy_timed, host_timed, sum_ns, min_ns, max_ns;
    uint64_t event_timed;
    uint32_t comm_entry; /* index of the communicator whose `retired` advances */
    uint32_t spare2;
    uint64_t retired;
};

/* From `heartbeat_mono_ns` up to `undo` lies the image: what a process leaves beside its
 * operations. The log stores it as patches (oplog/log_image.h). In front of it stands who recorded,
 * which the log's header has, too; behind it what the log makes good by its operations. */
struct muster_segment {
    uint64_t magic; /* written last at creation */
    uint32_t version;
    uint32_t size; /* sizeof(struct muster_segment) */
    uint32_t header_bytes, comm_bytes, row_bytes, net_bytes, slot_bytes, op_bytes; /* strides */
    struct muster_seg_identity identity;
    /* Stamped by the drain thread every 100 ms. */
    _Atomic uint64_t heartbeat_mono_ns;
    _Atomic uint64_t heartbeat_unix_ns;
    _Atomic uint32_t exit_state; /* enum muster_exit */
    _Atomic uint32_t comms_alive;
    _Atomic uint64_t lost_log;                /* operations that did not fit the log's queue */
    _Atomic uint64_t log_overwritten;         /* operations that newer ones replaced in the log */
    _Atomic uint64_t ring_head;               /* operations ever put into `ring` */
    _Atomic uint64_t drops[MUSTER_SEG_DROPS]; /* enum muster_drop, of the process, those counted
                                                 per communicator included */
    _Atomic uint64_t timing_cost_ns;          /* of the process, in the same way */
    uint64_t spare[31];

    _Alignas(64) struct muster_seg_comm comm[MUSTER_SEG_COMMS + 1];
    struct muster_seg_row row[MUSTER_SEG_ROWS];
    struct muster_seg_net net[MUSTER_SEG_NETS];
    struct muster_seg_policy policy;
    struct muster_facts facts;
    struct muster_seg_tag tag[MUSTER_SEG_TAGS];
    _Alignas(64) struct muster_seg_slot slot[MUSTER_SEG_SLOTS];
    _Atomic uint32_t slot_state[MUSTER_SEG_SLOTS];

    _Alignas(64) struct muster_seg_undo undo;
    _Alignas(64) struct muster_op ring[MUSTER_SEG_RING]; /* operation n in entry n % 1,024 */
};

#define MUSTER_SEG_IMAGE_BEGIN offsetof(struct muster_segment, heartbeat_mono_ns)
#define MUSTER_SEG_IMAGE_END   offsetof(struct muster_segment, undo)

/* The tables whose entries begin with a `seq` (segment/seqlock.h), in the order of the layout. The
 * second word of an entry is 0 while it is free. The first free one is taken, and one that is given
 * back keeps a `seq` that is not 0: behind a free entry whose `seq` is 0 none was ever used, but
 * for those at either end that have a purpose of their own. */
struct muster_seg_table {
    size_t offset, bytes, entries;
    size_t fixed_first, fixed_last; /* so many at either end */
};
enum {
    MUSTER_SEG_TABLE_ROW = 1,
    MUSTER_SEG_TABLE_NET = 2,
    MUSTER_SEG_TABLES = 6,
    MUSTER_SEG_ENTRY_BYTES = 1280 /* no entry is larger */
};
extern const struct muster_seg_table muster_seg_table[MUSTER_SEG_TABLES];

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "shared between processes");
_Static_assert(sizeof(struct muster_seg_call) == 16, "shared layout");
_Static_assert(sizeof(struct muster_seg_slot) == 128, "two cache lines");
_Static_assert(sizeof(struct muster_seg_row) % 64 == 0, "shared layout");
_Static_assert(MUSTER_SEG_IMAGE_BEGIN % 8 == 0 && MUSTER_SEG_IMAGE_END % 8 == 0, "whole words");
_Static_assert(sizeof(struct muster_seg_comm) <= MUSTER_SEG_ENTRY_BYTES &&
                   sizeof(struct muster_seg_row) <= MUSTER_SEG_ENTRY_BYTES &&
                   sizeof(struct muster_fact_gpu) <= MUSTER_SEG_ENTRY_BYTES,
               "any entry");
_Static_assert(sizeof(struct muster_segment) <= 1 << 20, "the default budget of /dev/shm");

const char *muster_drop_name(unsigned drop);
/* "none", "active", "invalid", "refused". */
const char *muster_policy_state_name(unsigned state);

#endif
