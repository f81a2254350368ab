/* The segments of one run on this host, as the live diagnosis reads them. One thread. */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_PEERS_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_PEERS_H

#include "run/run.h"
#include "segment/layout.h"
#include "segment/reap.h"

enum { MUSTER_LIVE_PROCESSES = 1024 };

/* The beginning of a segment, up to the table of communicators. */
struct muster_live_table {
    _Alignas(64) unsigned char bytes[offsetof(struct muster_segment, row)];
};

/* Reads it from a segment of this version (muster_segment_open); identity and entries as they
 * stand, not yet checked. *entries, 0 at first, is how many of this segment were ever seen in use:
 * what stands behind these may be another one's. False: there is none. */
bool muster_live_table_read(int fd, struct muster_live_table *table, unsigned *entries);

/* What two processes that steer alike have in common. */
struct muster_live_steering {
    uint32_t state;
    uint32_t tuner;
    uint8_t sha256[32];
};

struct muster_live_peer {
    char path[MUSTER_SEG_PATH + 300];
    struct muster_seg_identity identity;
    uint32_t exit_state;
    bool alive;
    bool awake; /* and its heartbeat is fresh: one that is stopped leads nothing */
    bool own;
    bool seen; /* in this round */
    struct muster_live_steering steering;
    uint64_t gone_ns; /* when it was first noted not to be alive; 0: it is */
    struct muster_live_calls {
        uint64_t id;
        uint64_t mark;     /* changes with every call, end and finalize */
        uint64_t calls;    /* hash of what was called, in order */
        bool idle;         /* all that was called, if anything, is known to have ended */
        uint64_t moved_ns; /* its newest call, or end that was seen; monotonic, 0: none */
    } comm[MUSTER_SEG_COMMS];
    unsigned comms;
    char gpu_uuid[48]; /* of its first communicator's; "": not known, or none is alive */
    unsigned entries;  /* of its table of communicators, up to the last one in use */
};

/* Called with what was just read of a peer: the beginning of its segment, of whose table the first
 * `entries` are filled. Until it returns. */
typedef void muster_live_saw(void *arg, const struct muster_live_peer *peer,
                             const struct muster_segment *segment, unsigned entries);

struct muster_live_peers {
    struct muster_live_peer *peer;
    size_t n;
    uint64_t listed_unix_ns, dir_changed_ns; /* of the directory, when it was last gone through */
    struct muster_live_table table;          /* scratch */
    muster_live_saw *saw;                    /* NULL: nobody else looks at what is read */
    void *saw_arg;
};

/* Looks at every segment in `dir` that belongs to the run and host of `own`. What is new there is
 * looked for once the directory has changed; of the others what is in use of their tables is read.
 */
void muster_live_peers_scan(struct muster_live_peers *peers, const char *dir,
                            const struct muster_seg_identity *own);
/* The same of `n` segments that were found already. */
void muster_live_peers_take(struct muster_live_peers *peers, const struct muster_found *found,
                            size_t n, const struct muster_seg_identity *own);
/* The one of that segment; NULL: there is none yet. */
struct muster_live_peer *muster_live_peer_at(const struct muster_live_peers *peers,
                                             const char *path);
void muster_live_peers_free(struct muster_live_peers *peers);

/* Sets what is known of the communicators in the first `entries` of a segment's table: `comm` and
 * what counts it. */
void muster_live_calls_of(const struct muster_segment *segment, unsigned entries,
                          struct muster_live_peer *peer);
/* Whether the process that wrote the segment at `path` goes on: not gone, and not stopped. For the
 * price of eight bytes. */
bool muster_live_is_awake(const char *path);

/* Whether to look at who is gone: a process has been for long enough to be emitted while others
 * live, and had not been at `evaluated_ns`; or one is `named` and that look is `again_ns` ago. For
 * each look: it notes who is gone. */
bool muster_live_gone_due(struct muster_live_peers *peers, bool named, uint64_t evaluated_ns,
                          uint64_t again_ns, uint64_t now_ns);
/* Whether two that are alive use one GPU; who, the first such pair. */
bool muster_live_share_gpu(const struct muster_live_peers *peers,
                           const struct muster_live_peer *who[2]);
/* Whether `a` goes before `b` in the order of leaders. */
bool muster_live_before(const struct muster_live_peer *a, const struct muster_live_peer *b);
bool muster_live_holds(const struct muster_live_peer *peer, uint64_t id);

#endif
