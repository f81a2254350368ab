/* From segments to the view that hangs are judged on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "diagnose/hang.h"
#include "segment/table.h"

const struct muster_hang_call *muster_hang_call(const struct muster_hang_member *member,
                                                uint64_t number)
{
    if (member->history_size == 0)
        return NULL;
    const struct muster_hang_call *call = &member->history[number & (member->history_size - 1)];
    return call->number_plus_1 == number + 1 ? call : NULL;
}

static bool has_rank(const struct muster_hang_comm *comm, int32_t rank)
{
    for (uint32_t i = 0; i < comm->members; i++) {
        if (comm->member[i].comm_rank == rank)
            return true;
    }
    return false;
}

/* The communicator that a process's entry belongs to. Two jobs that use one id (the same recording
 * played twice) are told apart by their directories; one job may have several of these. */
static struct muster_hang_comm *comm_of(struct muster_hang_view *view,
                                        const struct muster_seg_comm *entry, const char *run_dir)
{
    struct muster_hang_comm *other = NULL;
    for (size_t i = 0; i < view->comms; i++) {
        struct muster_hang_comm *comm = &view->comm[i];
        if (comm->id != entry->id)
            continue;
        if (strcmp(comm->member[0].run_dir, run_dir) == 0)
            return comm;
        if (!other && !has_rank(comm, entry->rank))
            other = comm;
    }
    if (other)
        return other;
    if (!muster_grow(&view->comm, view->comms, sizeof *view->comm))
        return NULL;
    struct muster_hang_comm *comm = &view->comm[view->comms++];
    *comm = (struct muster_hang_comm){.id = entry->id};
    return comm;
}

static bool make_history(struct muster_hang_member *member)
{
    uint32_t size = 1;
    while (size < MUSTER_HANG_HISTORY && size < member->calls)
        size *= 2;
    if (member->calls == 0)
        return true;
    member->history = calloc(size, sizeof *member->history);
    member->history_size = member->history ? size : 0;
    return member->history != NULL;
}

static void remember(struct muster_hang_member *member, uint64_t number,
                     const struct muster_hang_call *call)
{
    if (number >= member->calls || member->history_size == 0)
        return;
    struct muster_hang_call *entry = &member->history[number & (member->history_size - 1)];
    if (entry->number_plus_1 > number + 1)
        return;
    *entry = *call;
    entry->number_plus_1 = number + 1;
}

static void remember_op(struct muster_hang_member *member, const struct muster_op *op)
{
    struct muster_hang_call call = {.count = op->count,
                                    .enqueue_ns = op->enqueue_ns,
                                    .root = op->peer,
                                    .func = op->func,
                                    .dtype = op->dtype};
    remember(member, op->number, &call);
}

/* The segment's last calls, which no dropped slot can hide; their times are in the operations. */
static void remember_calls(struct muster_hang_member *member, const struct muster_seg_comm *entry)
{
    uint64_t from = member->calls < MUSTER_SEG_CALLS ? 0 : member->calls - MUSTER_SEG_CALLS;
    for (uint64_t n = from; n < member->calls; n++) {
        const struct muster_seg_call *seg = &entry->call[n % MUSTER_SEG_CALLS];
        if (seg->number != (uint16_t)n || seg->func == MUSTER_FUNC_UNKNOWN)
            continue;
        const struct muster_hang_call *known = muster_hang_call(member, n);
        struct muster_hang_call call = {.count = seg->count,
                                        .enqueue_ns = known ? known->enqueue_ns : 0,
                                        .root = seg->root,
                                        .func = seg->func,
                                        .dtype = seg->dtype};
        remember(member, n, &call);
    }
}

/* NULL: no memory, or a peer that no rank has. */
static struct muster_hang_pair *pair_of(struct muster_hang_member *member,
                                        const struct muster_op *op)
{
    enum { PEERS = 8192 }; /* that a process numbers: record/comm.h */
    bool send = op->func == MUSTER_FUNC_SEND;
    for (uint32_t i = 0, at = member->next_pair; i < member->pairs; i++, at++) {
        at = at < member->pairs ? at : 0;
        if (member->pair[at].peer == op->peer && member->pair[at].send == send) {
            member->next_pair = at + 1;
            return &member->pair[at];
        }
    }
    if (op->peer < 0 || op->peer >= PEERS ||
        !muster_grow(&member->pair, member->pairs, sizeof *member->pair))
        return NULL;
    struct muster_hang_pair *pair = &member->pair[member->pairs++];
    *pair = (struct muster_hang_pair){.peer = op->peer, .send = send};
    return pair;
}

static void post(struct muster_hang_member *member, const struct muster_op *op, bool open,
                 bool ended)
{
    struct muster_hang_pair *pair = op->number == UINT64_MAX ? NULL : pair_of(member, op);
    if (!pair)
        return;
    pair->open |= open;
    if (ended && op->number + 1 > pair->done)
        pair->done = op->number + 1;
    if (op->number + 1 <= pair->posted)
        return;
    pair->posted = op->number + 1;
    pair->count = op->count;
    pair->dtype = op->dtype;
    pair->enqueue_ns = op->enqueue_ns;
}

static void take_op(struct muster_hang_member *member, const struct muster_op *op)
{
    if (op->comm != member->uid || (op->flags & MUSTER_OP_GRAPH))
        return;
    if (op->enqueue_ns > member->called_ns)
        member->called_ns = op->enqueue_ns;
    bool ended = op->source == MUSTER_SOURCE_GPU && op->end_ns > 0;
    if (muster_func_is_p2p(op->func)) {
        post(member, op, false, ended);
        return;
    }
    remember_op(member, op);
    if (ended && op->number + 1 > member->done && op->number < member->calls)
        member->done = op->number + 1;
}

/* An operation in flight. Its kernels or its network proxies show whether it ended; a slot that is
 * kept for kernels that were never shown proves nothing. */
static void take_slot(struct muster_hang_member *member, const struct muster_segment *segment,
                      unsigned i)
{
    const struct muster_seg_slot *slot = &segment->slot[i];
    unsigned state = segment->slot_state[i] & 0xff;
    if ((state != MUSTER_SLOT_CALLED && state != MUSTER_SLOT_LAUNCHED) ||
        slot->comm != member->uid || (slot->flags & MUSTER_OP_GRAPH))
        return;
    struct muster_op op = {.number = slot->number,
                           .enqueue_ns = slot->enqueue_ns,
                           .count = slot->count,
                           .comm = slot->comm,
                           .peer = slot->peer,
                           .func = slot->func,
                           .dtype = slot->dtype};
    bool kernels = slot->started != slot->ended;
    bool proxies = slot->proxy_started != slot->proxy_ended;
    bool open = kernels || proxies;
    take_op(member, &op);
    if (slot->p2p)
        post(member, &op, open, false);
    member->proxies_open |= proxies;
    member->queued |=
        state == MUSTER_SLOT_LAUNCHED && (slot->flags & MUSTER_OP_IN_BLOCK) && slot->started == 0;
    if (state == MUSTER_SLOT_CALLED && slot->number + 1 == member->calls)
        member->in_call_ns = slot->enqueue_ns;
    if (!open || slot->number < member->done)
        return;
    member->ended = MUSTER_HANG_OPEN;
    if (!slot->p2p && slot->number < member->open_at)
        member->open_at = slot->number;
    snprintf(member->ended_by, sizeof member->ended_by, "%u of %u %s of %s #%llu have ended",
             kernels ? slot->ended : slot->proxy_ended,
             kernels ? slot->started : slot->proxy_started,
             kernels ? "kernel channels" : "network operations", muster_func_word(slot->func),
             (unsigned long long)slot->number);
}

/* What the completion marks prove: segment/layout.h. */
static void take_marks(struct muster_hang_member *member, const struct muster_seg_comm *entry)
{
    uint64_t launches = entry->launches, ended = entry->launches_ended;
    uint64_t marked = entry->launches_marked;
    if (launches == 0 || ended > launches || marked > launches)
        return;
    if (launches == ended) {
        member->ended = MUSTER_HANG_IDLE;
        if (member->in_call_ns == 0)
            member->done = member->calls;
        snprintf(member->ended_by, sizeof member->ended_by, "its %llu launches have ended",
                 (unsigned long long)launches);
        return;
    }
    /* As many launches as may be unfinished; each holds one operation or more. */
    uint64_t left = launches - ended;
    if (ended > 0 && member->calls > left && member->calls - left > member->done &&
        member->pairs == 0 && launches >= member->calls)
        member->done = member->calls - left;
    if (marked > ended && member->ended != MUSTER_HANG_OPEN) {
        uint64_t behind = launches - marked + (member->in_call_ns != 0);
        member->ended = MUSTER_HANG_OPEN;
        if (member->pairs == 0 && member->calls > behind)
            member->open_at = member->calls - 1 - behind;
        snprintf(member->ended_by, sizeof member->ended_by,
                 "launch %llu of %llu has not ended, %llu have", (unsigned long long)marked,
                 (unsigned long long)launches, (unsigned long long)ended);
    }
}

static void describe(struct muster_hang_member *member, const struct muster_hang_source *source,
                     const struct muster_seg_comm *entry)
{
    const struct muster_segment *segment = source->segment;
    const struct muster_seg_identity *who = &segment->identity;
    *member = (struct muster_hang_member){
        .uid = entry->uid,
        .rank = who->rank,
        .comm_rank = entry->rank,
        .gpu = entry->gpu_index,
        .host = who->host,
        .run_dir = who->run_dir,
        .boot_hash = who->boot_hash,
        .pid = who->pid,
        .state = source->state,
        .over = entry->end_ns != 0,
        .from_log = source->from_log,
        .begin_ns = who->begin_mono_ns,
        .heartbeat_ns = segment->heartbeat_mono_ns,
        .to_unix_ns = (int64_t)(who->begin_unix_ns - who->begin_mono_ns),
        .called_ns = entry->called_ns,
        .calls = entry->calls,
        .call_hash = entry->call_hash,
        .captured = entry->captured,
        .open_at = UINT64_MAX,
    };
    uint64_t seen = source->seen_ns ? source->seen_ns : member->heartbeat_ns;
    member->seen_ns = seen > who->begin_mono_ns ? seen : who->begin_mono_ns;
}

/* Where a communicator of the process stands in the view. */
struct place {
    uint32_t uid, comm, member;
};

/* Of several ranks in one process each is named by its rank in the communicator. */
static void name_ranks(struct muster_hang_view *view, const struct muster_seg_identity *who)
{
    for (size_t c = 0; c < view->comms; c++) {
        struct muster_hang_comm *comm = &view->comm[c];
        unsigned mine = 0;
        for (uint32_t i = 0; i < comm->members; i++)
            mine += comm->member[i].host == who->host;
        for (uint32_t i = 0; i < comm->members; i++) {
            struct muster_hang_member *member = &comm->member[i];
            if (member->host == who->host && (mine > 1 || member->rank < 0))
                member->rank = member->comm_rank;
        }
    }
}

static bool add_member(struct muster_hang_view *view, const struct muster_hang_source *source,
                       const struct muster_seg_comm *entry, struct place *place)
{
    struct muster_hang_comm *comm = comm_of(view, entry, source->segment->identity.run_dir);
    if (!comm || !muster_grow(&comm->member, comm->members, sizeof *comm->member))
        return false;
    struct muster_hang_member *member = &comm->member[comm->members];
    describe(member, source, entry);
    if (comm->nranks == 0)
        comm->nranks = entry->nranks;
    *place = (struct place){entry->uid, (uint32_t)(comm - view->comm), comm->members++};
    return make_history(member);
}

static int by_uid(const void *a, const void *b)
{
    const struct place *one = a, *two = b;
    return (one->uid > two->uid) - (one->uid < two->uid);
}

static struct muster_hang_member *member_of(struct muster_hang_view *view,
                                            const struct place *place, size_t places, uint32_t uid)
{
    struct place key = {.uid = uid};
    const struct place *at = places ? bsearch(&key, place, places, sizeof *place, by_uid) : NULL;
    return at ? &view->comm[at->comm].member[at->member] : NULL;
}

static void take_ops(struct muster_hang_view *view, const struct muster_hang_source *source,
                     const struct place *place, size_t places)
{
    struct muster_hang_member *member = NULL;
    for (size_t i = 0; i < source->ops; i++) {
        if (!member || member->uid != source->op[i].comm)
            member = member_of(view, place, places, source->op[i].comm);
        if (member)
            take_op(member, &source->op[i]);
    }
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        member = member_of(view, place, places, source->segment->slot[i].comm);
        if (member)
            take_slot(member, source->segment, i);
    }
}

bool muster_hang_add(struct muster_hang_view *view, const struct muster_hang_source *source)
{
    const struct muster_seg_comm *entry = source->segment->comm;
    struct place place[MUSTER_SEG_COMMS];
    size_t places = 0;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        if (entry[i].uid != 0 && entry[i].id != 0 &&
            !add_member(view, source, &entry[i], &place[places++]))
            return false;
    }
    qsort(place, places, sizeof *place, by_uid);
    take_ops(view, source, place, places);
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        struct muster_hang_member *member = member_of(view, place, places, entry[i].uid);
        if (entry[i].uid == 0 || !member)
            continue;
        remember_calls(member, &entry[i]);
        take_marks(member, &entry[i]);
    }
    name_ranks(view, &source->segment->identity);
    return true;
}

int muster_hang_view_of_run(const struct muster_run *run, struct muster_hang_view *view,
                            struct muster_err *err)
{
    struct muster_host host;
    muster_host_read(&host, NULL);
    uint64_t now = muster_now_ns();
    memset(view, 0, sizeof *view);
    for (size_t i = 0; i < run->processes; i++) {
        const struct muster_process *process = &run->process[i];
        bool here = process->identity.boot_hash == host.boot_hash;
        struct muster_hang_source source = {
            .segment = process->segment,
            .state = process->state,
            .op = process->op,
            .ops = process->ops,
            .seen_ns = process->state == MUSTER_PROCESS_RUNNING && here ? now : 0,
            .from_log = !here,
        };
        if (process->segment && !muster_hang_add(view, &source)) {
            muster_hang_view_free(view);
            return muster_fail(err, "out of memory for the communicators");
        }
    }
    return 0;
}

void muster_hang_view_free(struct muster_hang_view *view)
{
    for (size_t c = 0; c < view->comms; c++) {
        for (uint32_t i = 0; i < view->comm[c].members; i++) {
            free(view->comm[c].member[i].history);
            free(view->comm[c].member[i].pair);
        }
        free(view->comm[c].member);
    }
    free(view->comm);
    memset(view, 0, sizeof *view);
}
