/*
 * One job as its hosts send it: messages come in, a run comes out, as if all processes had been
 * recorded here, for the functions that evaluate runs. What a host sent last is kept, a bounded
 * window of operations, nothing else. Time between hosts is the server's, which stamped each
 * message when it took it: no clock of any host is believed. One thread.
 */
#ifndef MUSTER_FLEET_JOIN_H
#define MUSTER_FLEET_JOIN_H

#include "base/hashmap.h"
#include "diagnose/finding.h"
#include "fleet/fleet_name.h"
#include "fleet/heard_classes.h"
#include "run/run.h"

/* A host that sent nothing for so long is not heard: six messages. */
#define MUSTER_JOIN_SILENT_NS 3000000000ull

enum {
    MUSTER_JOIN_PROCESSES = 65536,
    MUSTER_JOIN_HOSTS = 16384,
    MUSTER_JOIN_FOREIGN = 16,   /* hosts of another version that are named; more are counted */
    MUSTER_JOIN_OPS = 1 << 20,  /* in all windows together; of one process at least 64 */
    MUSTER_JOIN_OPS_NEAR = 256, /* and at least of one that is looked at closely */
};

struct muster_join_host {
    uint64_t instance, sequence;
    uint64_t heard_ns;    /* the server's time of its newest message */
    uint64_t mono_ns;     /* its own, of that */
    int64_t to_server_ns; /* to be added to its clock: by the message that took least */
    uint64_t boot_hash;
    char host[128], hostname[64];
    bool refused;                   /* somebody else spoke for this host, and that was reported */
    struct muster_finding *finding; /* that its agent makes of its ranks */
    size_t findings;
};

struct muster_join_process {
    uint32_t host;
    enum muster_process_state state;
    uint64_t missing, seen_ns;
    struct muster_segment *segment; /* as far as it was sent; mostly untouched zeros */
    struct muster_op *op;           /* the window, then `over` */
    size_t ops, room;
    uint64_t taken;         /* operations that were ever in the window */
    bool near;              /* looked at closely: its window is a longer one (near.h) */
    uint64_t since_ns;      /* the server's time when the window begins; 0: with the process */
    struct muster_op *over; /* of what stands still: the newest of each stream */
    size_t overs;
    struct muster_heard_classes class;
    struct muster_join_net {
        struct muster_seg_net reported, mark,
            begin; /* now; when the window was halved last; where it begins */
    } *net;
    size_t nets;
};

struct muster_join {
    char name[MUSTER_FLEET_NAME];
    char run_dir[MUSTER_SEG_PATH];
    uint32_t uid;
    struct muster_join_host *host;
    size_t hosts;
    struct muster_join_process *process;
    size_t processes;
    struct muster_join_foreign {
        char host[128];
        uint64_t version;
    } foreign[MUSTER_JOIN_FOREIGN]; /* whose messages are of another version */
    size_t foreigns;
    struct muster_hashmap by_instance, by_process;
    uint64_t newest_ns, newest_at_ns; /* the server's time of the newest message; own clock then */
    uint64_t timed;                   /* operations with GPU times, ever */
    uint64_t messages, lost, refused; /* lost: that never came, by their sequence */
    uint64_t unknown;                 /* processes and operations that nobody had described yet */
};

/* `name` of fleet_name.h. NULL: no memory. */
struct muster_join *muster_join_new(const char *name);
void muster_join_free(struct muster_join *join);

/* A message that the server took at `server_ns`; now_ns: own monotonic clock. -1: it is refused,
 * and the error names who has to do what; it is empty where a message of another version comes from
 * a host that was named before, or has not from which. */
int muster_join_take(struct muster_join *join, const void *data, size_t bytes, uint64_t server_ns,
                     uint64_t now_ns, struct muster_err *err);

/* The server's time now, by what has passed since the newest message. */
uint64_t muster_join_server_ns(const struct muster_join *join, uint64_t now_ns);
bool muster_join_hears(const struct muster_join *join, const struct muster_join_host *host,
                       uint64_t now_ns);

/* How much of the job is heard now. */
struct muster_join_coverage {
    size_t hosts, silent_hosts;
    size_t living;          /* processes that are heard and not over */
    size_t ranks, expected; /* heard; that there are, by their own count */
    uint64_t moved_ns;      /* the server's time when anything was called or ended last; 0: never */
};
struct muster_join_coverage muster_join_coverage(const struct muster_join *join, uint64_t now_ns);

/* The run as far as it is heard, for muster_join_run_free; it points into the join, and ends with
 * its next message. `over`: with what stands still. False: no memory. */
bool muster_join_run(struct muster_join *join, uint64_t now_ns, bool over, struct muster_run *run);
/* The same of what is looked at closely, without what stands still. */
bool muster_join_run_near(struct muster_join *join, uint64_t now_ns, struct muster_run *run);
/* The same of all, from `since_ns` of the server's time on. */
bool muster_join_run_latest(struct muster_join *join, uint64_t now_ns, uint64_t since_ns,
                            struct muster_run *run);
/* Whether a window of somebody who is heard begins before that. */
bool muster_join_reaches(const struct muster_join *join, uint64_t now_ns, uint64_t since_ns);

/* Since when all windows of those who are heard hold what was sent of them, by the server's clock:
 * 0: since the beginning; `near`: of those who are looked at closely. *heard: a hash of who that
 * is. */
uint64_t muster_join_since_ns(const struct muster_join *join, uint64_t now_ns, bool near,
                              uint64_t *heard);
void muster_join_run_free(struct muster_run *run);

#endif
