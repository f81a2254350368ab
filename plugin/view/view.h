/*
 * The one view that everything stands on which compares ranks: report, straggler, transfer, path,
 * divergence, hang, simulate, tune, and diagnosis while the job runs. The recorded operations of
 * several ranks side by side, without where they came from.
 *
 * Made from a run (muster_view_of_run), or fed by hand (generators, tests); then finished, then
 * only read. What is compared is read through the iterator of view/aligned.h, communicator by
 * communicator, in the order of operation; sends and receives through muster_view_stream; what one
 * GPU did through muster_view_gpu.order. Who needs an operation in a longer context than that (what
 * its GPU did before) finds it by index.
 *
 * Clocks: no clock of one GPU is ever compared with another's; host times are comparable inside one
 * host. Order: a member's operations stand by number, eager before replayed, whatever order they
 * were fed in; a hole in the numbers is an operation that was not recorded.
 *
 * Memory: 52 bytes an operation, members and GPUs apart; while it is being finished 32 more for
 * each operation of the busiest GPU. A view belongs to one thread until it is finished, then
 * several may read it. It keeps pointers into the run.
 */
#ifndef MUSTER_VIEW_VIEW_H
#define MUSTER_VIEW_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "run/run.h"
#include "segment/op.h"

#define MUSTER_SELF_UNKNOWN   UINT64_MAX
#define MUSTER_QUEUED_UNKNOWN UINT16_MAX
#define MUSTER_QUEUED_NS      16000ull
enum { MUSTER_VIEW_NONE = UINT32_MAX }; /* no class, no index */

/* One GPU of one process: what is usually called a rank. */
struct muster_view_gpu {
    int32_t rank; /* global; -1: not known */
    int32_t gpu_index;
    const char *pci, *uuid; /* as the segment names it; NULL: not known */
    const char *host;       /* docs/reference/configuration.md; never NULL */
    uint32_t process;       /* of struct muster_run; of the feeder's own choice elsewhere */
    uint8_t timing;         /* enum muster_timing */
    bool host_times;        /* enqueue_ns means something: not replayed at full speed */
    bool one_pace;          /* host and GPU times pass alike: not replayed faster than recorded */
    const struct muster_seg_policy *policy; /* of its process; NULL: not known */
    /* Of its process and of itself; NULL: nobody looked. In the run's memory. */
    const struct muster_facts *facts;
    const struct muster_fact_gpu *fact; /* with facts only */
    const struct muster_fact_use *use;  /* with fact only */
    bool called;            /* a collective: whatever its NCCL was going to load is there */
    uint64_t whole_from_ns; /* since then all that was called is known, on the clock of enqueue_ns;
                               0: since it began */
    int64_t unix_ns;        /* to be added to enqueue_ns for the time since 1970 */
    /* Not in the view: dropped, lost, overwritten operations. */
    uint64_t missing;
    /* Set by finish: its operations with GPU times, by begin, over all communicators. */
    uint32_t *order; /* indices in view->op */
    uint32_t ordered;
    uint64_t length_ns, covered_ns; /* of these: view/coverage.h */
    bool in_step; /* these are all its operations, none is missing between them, and so stand its
                     calls, too */
};

struct muster_view_comm {
    uint64_t id;
    uint32_t nranks; /* 0: not known */
    uint32_t nnodes;
    bool duplicate_rank; /* a rank stands in it twice: its ranks are not compared */
    char name[MUSTER_SEG_NAME];
    uint32_t first_member, members; /* after finish; by rank. members: ranks seen */
};

/* One rank's part in one communicator. */
struct muster_view_member {
    uint32_t comm, gpu;                  /* indices */
    int32_t rank;                        /* in the communicator */
    uint32_t nranks;                     /* as this rank knows it; 0: not known */
    uint32_t uid;                        /* of the communicator in its process; 0: fed by hand */
    const struct muster_seg_comm *entry; /* of its process's segment; NULL: it has none */
    uint32_t first_op, ops;
    uint32_t funcs; /* that they are of, by bits */
};

/* What operations are alike in. */
struct muster_view_class {
    uint8_t func, dtype, algo, proto;
    uint8_t size_log2; /* segment/totals.h */
    int32_t root;      /* of a rooted collective; else -1 */
    bool graph;
};

/* 48 bytes. What a file holds beyond what fits (a trillion operations or elements, 500,000 ranks)
 * stands as the most that does; such times are none. Some are bits of a word: what is reckoned with
 * them, beyond comparing and counting up, is reckoned in a variable of its own. */
struct muster_view_op {
    uint64_t enqueue_ns;
    uint64_t begin_ns, end_ns; /* 0, 0: no times that can be true */
    uint64_t number : 40;      /* MUSTER_VIEW_NO_NUMBER: it has none */
    uint64_t channels : 8;
    uint16_t flags; /* enum muster_op_flags, and its tag */
    uint64_t count : 40;
    uint64_t func : 5;
    uint64_t source : 3;
    uint16_t queued; /* from the call to the begin, beyond the soonest operation of this GPU, by
                        what clocks drift since, in MUSTER_QUEUED_NS; MUSTER_QUEUED_UNKNOWN */
    uint64_t class : 20;
    uint64_t member : 23; /* before finish: its handle; then its index */
    int64_t peer : 20;
    bool self_known : 1; /* timed, and what came before is known, too: it has a self time */
};
_Static_assert(sizeof(struct muster_view_op) == 48, "one for each operation of each rank");
_Static_assert(MUSTER_FUNCS <= 32 && MUSTER_SOURCES < 8, "in their bits");
enum { MUSTER_VIEW_CLASSES = 1 << 20, MUSTER_VIEW_MEMBERS = 1 << 23, MUSTER_VIEW_PEERS = 1 << 19 };
#define MUSTER_VIEW_NO_NUMBER ((1ull << 40) - 1)
#define MUSTER_VIEW_COUNTS    ((1ull << 40) - 1)
#define MUSTER_VIEW_LATEST_NS (1ull << 62) /* sums of a few times never overflow */

/* Network proxy totals of one directed pair; struct muster_seg_net defines them. */
struct muster_view_net {
    uint32_t member;
    int32_t peer; /* rank in the communicator */
    bool send;
    uint64_t count, bytes, steps;
    uint64_t gpu_wait_ns, credit_wait_ns, net_wait_ns, flush_ns;
};

struct muster_view {
    struct muster_view_gpu *gpu;
    struct muster_view_comm *comm;
    struct muster_view_member *member; /* after finish by (comm, rank) */
    struct muster_view_class *class;
    struct muster_view_op *op; /* after finish those of a member follow each other: eager before
                                  graph, collectives before sends and receives by function and
                                  peer, then by number */
    uint32_t *order;           /* after finish: of all GPUs, one after another */
    struct muster_view_net *net;
    uint32_t *by_uid; /* members by (process, uid): muster_view_member_of */
    size_t gpus, comms, members, classes, ops, nets;
    const struct muster_run *run; /* that it was made from; NULL: fed by hand */
    uint64_t
        every; /* of a run of too many operations one in so many stretches is here; else 1, or 0 */
    uint64_t left_out; /* operations of the other stretches */
    uint64_t window; /* of a run that goes on the k-th that is evaluated (diagnose.h); 0: the run is
                        over */
    uint64_t chosen_of; /* GPUs of which those that are here were chosen by what they show; 0: none
                           were */
    uint64_t unattributed; /* operations of communicators that nothing describes */
    bool failed;           /* out of memory while feeding; finish reports it */
    struct muster_view_index *index;
};

/* Of a run with more operations stretches are taken, evenly over it, the same of all ranks; with
 * what looking for late ranks takes beside them the first is below 2 GB, the last below 4
 * (docs/cost.md). Eight ranks with full logs of the default size have 180 million. */
#define MUSTER_VIEW_OPS_MOST    12000000ull
#define MUSTER_VIEW_OPS_A_RANK  10000ull /* more where there are so many ranks, up to: */
#define MUSTER_VIEW_OPS_LARGEST 45000000ull

/* Everything of the run, whose operations are read one process after another. On failure (no
 * memory, or a log that cannot be read any more) *view is empty. The view keeps pointers into the
 * run: free it first. */
int muster_view_of_run(const struct muster_run *run, struct muster_view *view,
                       struct muster_err *err);

/* Likewise, but only aligned: what each GPU did in between is not looked at. Of a GPU what finish
 * sets stays 0, of an operation self_known and queued stay unknown. */
int muster_view_of_run_aligned(const struct muster_run *run, struct muster_view *view,
                               struct muster_err *err);

/* The same of at most some `most` operations. */
int muster_view_of_run_within(const struct muster_run *run, uint64_t most, struct muster_view *view,
                              struct muster_err *err);

/* Feeding by hand: a zeroed view; GPUs, then communicators' members, operations and network
 * totals in any order, then finish. Indices are those to be given later; what is out of memory
 * shows in finish. `gpu` is copied, its order ignored. */
uint32_t muster_view_add_gpu(struct muster_view *view, const struct muster_view_gpu *gpu);
/* The communicator's part that runs on `gpu`; a communicator is made where its id is new. Ids of 0
 * are nobody else's. The handle is for muster_view_add_op and _net only. */
uint32_t muster_view_add_member(struct muster_view *view, uint32_t gpu, uint64_t comm_id,
                                int32_t rank, uint32_t nranks, uint32_t nnodes, const char *name);
void muster_view_add_op(struct muster_view *view, uint32_t member, const struct muster_op *op);
void muster_view_add_net(struct muster_view *view, uint32_t member,
                         const struct muster_seg_net *net);
/* Sorts, finds self times. On failure *view is freed. */
int muster_view_finish(struct muster_view *view, struct muster_err *err);

/* Who there was stays, what they did goes: gpu, comm and class; no operation, no order. */
void muster_view_drop_ops(struct muster_view *view);

void muster_view_free(struct muster_view *view);

/* Of each operation the one whose end its self time begins with; MUSTER_VIEW_NONE: it has none, as
 * it was not timed, or what came before is not known. The caller frees. NULL: no memory. */
uint32_t *muster_view_ended_before(const struct muster_view *view);

/* Its self time (docs/reference/words.md): 0 inside a unit of overlapping operations. */
static inline uint64_t muster_view_self_ns(const struct muster_view *view,
                                           const uint32_t *ended_before,
                                           const struct muster_view_op *op)
{
    uint32_t before = ended_before[op - view->op];
    if (before == MUSTER_VIEW_NONE)
        return MUSTER_SELF_UNKNOWN;
    uint64_t end_ns = view->op[before].end_ns;
    return op->begin_ns > end_ns ? op->begin_ns - end_ns : 0;
}

/* Sorts the members by GPU into `members`, which has room for all: those of GPU g stand from
 * [g] to [g + 1] of what is returned, the arena's. Once that has failed nothing is done. */
const size_t *muster_view_members_by_gpu(const struct muster_view *view, uint32_t *members,
                                         struct muster_arena *memory);

/* Of each GPU the number of its host: hosts in the order of their first GPU, from 0; the arena's.
 */
uint32_t *muster_view_hosts(const struct muster_view *view, struct muster_arena *memory);

/* The eager sends or receives between a member and one peer, by number: operations [at, end) of
 * the finished view; at == end where there are none. Found by halves. */
struct muster_view_stream {
    uint32_t at, end;
};
struct muster_view_stream muster_view_stream(const struct muster_view *view,
                                             const struct muster_view_member *member, unsigned func,
                                             int32_t peer);

/* The member's eager collective of that number; NULL: there is none. Found by halves. */
const struct muster_view_op *muster_view_collective(const struct muster_view *view,
                                                    const struct muster_view_member *member,
                                                    int64_t number);

/* Whom a process of the run means by `uid`; NULL: nothing describes it. Found by halves. */
const struct muster_view_member *muster_view_member_of(const struct muster_view *view,
                                                       uint32_t process, uint32_t uid);

/* When a rank of the communicator called its first operation, ns since 1970; 0: not known. */
uint64_t muster_view_first_call_unix_ns(const struct muster_view *view,
                                        const struct muster_view_comm *comm);

/* A send or receive from the rank to itself: a copy beside others of its group, that nothing times.
 */
static inline bool muster_view_to_itself(const struct muster_view *view,
                                         const struct muster_view_op *op)
{
    return muster_func_is_p2p(op->func) && op->peer == view->member[op->member].rank;
}

/* Whether it follows one that was timed, too, in its row of numbers: whatever ran between was of
 * other rows. `op`: of a finished view. */
bool muster_view_follows_timed(const struct muster_view *view, const struct muster_view_op *op);

/* Whether two of one member are numbered in one row. */
static inline bool muster_view_same_stream(const struct muster_view_op *a,
                                           const struct muster_view_op *b)
{
    bool p2p = muster_func_is_p2p(b->func);
    return ((a->flags ^ b->flags) & MUSTER_OP_GRAPH) == 0 && p2p == muster_func_is_p2p(a->func) &&
           (!p2p || (a->func == b->func && a->peer == b->peer));
}

/* Whether an operation's times may be compared: the GPU's own, complete, not of the warm-up. */
static inline bool muster_view_scored(const struct muster_view_op *op)
{
    return muster_source_is_gpu(op->source) && op->end_ns > op->begin_ns &&
           !(op->flags & (MUSTER_OP_UNSCORED | MUSTER_OP_INCOMPLETE));
}

#endif
