/* From the view, and the segments of its run, to the state that hangs are evaluated on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/hang/hang_state.h"

/* What the view or a slot has of an operation that is not a replay. */
struct seen {
    uint64_t number, enqueue_ns, count;
    int32_t peer;
    uint8_t func, dtype;
    bool ended;
};

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
    for (uint32_t i = 0; i < comm->members; i++)
        if (comm->member[i].comm_rank == rank)
            return true;
    return false;
}

/* The communicator that a process's entry belongs to. Two jobs that use one id (the same recording
 * played twice) are distinguished by their directories; one job may have several of these. */
static struct muster_hang_comm *comm_of(struct muster_hang_state *state,
                                        const struct muster_seg_comm *entry, const char *run_dir)
{
    struct muster_hang_comm *other = NULL;
    for (size_t i = 0; i < state->comms; i++) {
        struct muster_hang_comm *comm = &state->comm[i];
        if (comm->id != entry->id)
            continue;
        if (strcmp(comm->member[0].run_dir, run_dir) == 0)
            return comm;
        if (!other && !has_rank(comm, entry->rank))
            other = comm;
    }
    if (other)
        return other;
    struct muster_hang_comm *comm =
        muster_arena_add(state->arena, &state->comm, &state->comms, sizeof *comm);
    comm->id = entry->id;
    return comm;
}

static void make_history(struct muster_arena *arena, struct muster_hang_member *member)
{
    uint32_t size = 1;
    while (size < MUSTER_HANG_HISTORY && size < member->calls)
        size *= 2;
    if (member->calls == 0)
        return;
    member->history = muster_arena_array(arena, size, sizeof *member->history);
    member->history_size = member->history ? size : 0;
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

static void remember_op(struct muster_hang_member *member, const struct seen *op)
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

/* NULL: a peer that no rank has. */
static struct muster_hang_pair *pair_of(struct muster_arena *arena,
                                        struct muster_hang_member *member, const struct seen *op)
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
    if (op->peer < 0 || op->peer >= PEERS)
        return NULL;
    size_t pairs = member->pairs;
    struct muster_hang_pair *pair = muster_arena_add(arena, &member->pair, &pairs, sizeof *pair);
    member->pairs = (uint32_t)pairs;
    pair->peer = op->peer;
    pair->send = send;
    return pair;
}

static void post(struct muster_arena *arena, struct muster_hang_member *member,
                 const struct seen *op, bool open)
{
    struct muster_hang_pair *pair = op->number == UINT64_MAX ? NULL : pair_of(arena, member, op);
    if (!pair)
        return;
    pair->open |= open;
    if (op->ended && op->number + 1 > pair->done)
        pair->done = op->number + 1;
    if (op->number + 1 <= pair->posted)
        return;
    pair->posted = op->number + 1;
    pair->count = op->count;
    pair->dtype = op->dtype;
    pair->enqueue_ns = op->enqueue_ns;
}

static void take_op(struct muster_arena *arena, struct muster_hang_member *member,
                    const struct seen *op)
{
    if (op->enqueue_ns > member->called_ns)
        member->called_ns = op->enqueue_ns;
    if (muster_func_is_p2p(op->func)) {
        post(arena, member, op, false);
        return;
    }
    remember_op(member, op);
    if (op->ended && op->number + 1 > member->done && op->number < member->calls)
        member->done = op->number + 1;
}

/* An operation in flight. Its kernels or its network proxies show whether it ended; a slot that is
 * kept for kernels that were never shown proves nothing. */
static void take_slot(struct muster_arena *arena, struct muster_hang_member *member,
                      const struct muster_seg_slot *slot, unsigned state)
{
    if (slot->comm != member->uid || (slot->flags & MUSTER_OP_GRAPH))
        return;
    const struct seen op = {.number = slot->number,
                            .enqueue_ns = slot->enqueue_ns,
                            .count = slot->count,
                            .peer = slot->peer,
                            .func = slot->func,
                            .dtype = slot->dtype};
    bool kernels = slot->started != slot->ended;
    bool proxies = slot->proxy_started != slot->proxy_ended;
    bool open = kernels || proxies;
    take_op(arena, member, &op);
    if (slot->p2p)
        post(arena, member, &op, open);
    member->proxies_open |= proxies;
    member->queued |=
        state == MUSTER_SLOT_LAUNCHED && (slot->flags & MUSTER_OP_IN_WINDOW) && slot->started == 0;
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
             kernels ? "kernel channels" : "network operations", muster_func_name(slot->func),
             (unsigned long long)slot->number);
}

/* What the completion marks prove: segment/layout.h. */
static void take_marks(struct muster_hang_member *member, const struct muster_seg_comm *entry)
{
    uint64_t launches = entry->launches, ended = entry->launches_ended;
    uint64_t marked = entry->launches_probed;
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

static void describe(struct muster_hang_member *member, const struct muster_process *process,
                     const struct muster_seg_comm *entry)
{
    const struct muster_segment *segment = process->segment;
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
        .state = process->state,
        .over = entry->end_ns != 0,
        .over_ns = entry->end_ns,
        .from_log = process->elsewhere,
        .begin_ns = who->begin_mono_ns,
        .heartbeat_ns = segment->heartbeat_mono_ns,
        .to_unix_ns = (int64_t)(who->begin_unix_ns - who->begin_mono_ns),
        .called_ns = entry->called_ns,
        .calls = entry->calls,
        .call_hash = entry->call_hash,
        .captured = entry->captured,
        .open_at = UINT64_MAX,
    };
    uint64_t seen = process->seen_ns ? process->seen_ns : member->heartbeat_ns;
    member->seen_ns = seen > who->begin_mono_ns ? seen : who->begin_mono_ns;
}

/* One communicator of a process: in the view, and where it stands in the state. */
struct place {
    uint32_t process, uid;
    const struct muster_view_member *own;
    uint32_t comm, member;
};

/* Of several ranks in one process each is named by its rank in the communicator. */
static void name_ranks(struct muster_hang_state *state, const struct muster_seg_identity *who)
{
    for (size_t c = 0; c < state->comms; c++) {
        struct muster_hang_comm *comm = &state->comm[c];
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

static void add_member(struct muster_hang_state *state, const struct muster_process *process,
                       struct place *place)
{
    const struct muster_seg_comm *entry = place->own->entry;
    struct muster_hang_comm *comm = comm_of(state, entry, process->segment->identity.run_dir);
    if (state->arena->failed)
        return;
    place->comm = (uint32_t)(comm - state->comm);
    place->member = comm->members;
    size_t members = comm->members;
    struct muster_hang_member *member =
        muster_arena_add(state->arena, &comm->member, &members, sizeof *member);
    comm->members = (uint32_t)members;
    describe(member, process, entry);
    if (comm->nranks == 0)
        comm->nranks = entry->nranks;
    make_history(state->arena, member);
}

static struct muster_hang_member *member_at(struct muster_hang_state *state,
                                            const struct place *place)
{
    return &state->comm[place->comm].member[place->member];
}

static void take_ops(struct muster_arena *arena, struct muster_hang_member *member,
                     const struct muster_view *view, const struct muster_view_member *own)
{
    for (uint32_t i = own->first_op; i < own->first_op + own->ops; i++) {
        const struct muster_view_op *op = &view->op[i];
        if (op->flags & MUSTER_OP_GRAPH)
            continue;
        take_op(
            arena, member,
            &(struct seen){.number = op->number == MUSTER_VIEW_NO_NUMBER ? UINT64_MAX : op->number,
                           .enqueue_ns = op->enqueue_ns,
                           .count = op->count,
                           .peer = (int32_t)op->peer,
                           .func = op->func,
                           .dtype = view->class[op->class].dtype,
                           .ended = muster_source_is_gpu(op->source)});
    }
}

static int by_uid(const void *a, const void *b)
{
    const struct place *one = a, *two = b;
    return (one->uid > two->uid) - (one->uid < two->uid);
}

static void take_slots(struct muster_hang_state *state, const struct muster_segment *segment,
                       struct place *place, size_t places)
{
    qsort(place, places, sizeof *place, by_uid);
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        unsigned is = segment->slot_state[i] & 0xff;
        if (is != MUSTER_SLOT_CALLED && is != MUSTER_SLOT_LAUNCHED)
            continue;
        const struct place key = {.uid = segment->slot[i].comm};
        const struct place *at = bsearch(&key, place, places, sizeof *place, by_uid);
        if (at)
            take_slot(state->arena, member_at(state, at), &segment->slot[i], is);
    }
}

/* One process, its places in the order of its segment. */
static void add_process(struct muster_hang_state *state, const struct muster_view *view,
                        struct place *place, size_t places)
{
    const struct muster_process *process = &view->run->process[place->process];
    for (size_t i = 0; !state->arena->failed && i < places; i++)
        add_member(state, process, &place[i]);
    if (state->arena->failed)
        return;
    for (size_t i = 0; i < places; i++)
        take_ops(state->arena, member_at(state, &place[i]), view, place[i].own);
    take_slots(state, process->segment, place, places);
    for (size_t i = 0; i < places; i++) {
        remember_calls(member_at(state, &place[i]), place[i].own->entry);
        take_marks(member_at(state, &place[i]), place[i].own->entry);
    }
    name_ranks(state, &process->segment->identity);
}

static int by_process(const void *a, const void *b)
{
    const struct place *one = a, *two = b;
    if (one->process != two->process)
        return one->process < two->process ? -1 : 1;
    return (one->own->entry > two->own->entry) - (one->own->entry < two->own->entry);
}

void muster_hang_state_of(const struct muster_view *view, struct muster_arena *arena,
                          struct muster_hang_state *state)
{
    struct place *place = muster_arena_array(arena, view->members + 1, sizeof *place);
    size_t places = 0;
    *state = (struct muster_hang_state){.arena = arena};
    for (size_t m = 0; place && view->run && m < view->members; m++) {
        const struct muster_view_member *own = &view->member[m];
        if (own->entry && view->comm[own->comm].id)
            place[places++] =
                (struct place){.process = view->gpu[own->gpu].process, .uid = own->uid, .own = own};
    }
    if (places)
        qsort(place, places, sizeof *place, by_process);
    for (size_t i = 0, end; !arena->failed && i < places; i = end) {
        for (end = i + 1; end < places && place[end].process == place[i].process;)
            end++;
        add_process(state, view, place + i, end - i);
    }
}
