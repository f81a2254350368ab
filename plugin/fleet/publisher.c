#include "fleet/publisher.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "segment/identity.h"
#include "segment/segment_reader.h"

/* About what each part takes on the wire, by which it is chosen. */
enum {
    PROCESS_BYTES = 60,
    PLACE_BYTES = 20,
    DESCRIBE_BYTES = 40, /* beside its names */
    STILL_BYTES = 110,
    SLOT_BYTES = 20,
    CLASS_BYTES = 14,
    NET_BYTES = 35,
    NETS = 2,       /* sent at a time: not more than a quarter of what places have */
    SAVED_S = 10,   /* of bytes that were not used */
    WAITING = 2048, /* operations; with more the older half is lost */
    KEPT_FDS = 512, /* descriptors below are kept: who is allowed 1,024 has as many for all else */
    QUICK = MUSTER_SEG_RING / 4, /* operations between two messages: at four times that the ring
                                    goes round */
};
#define QUICK_NS (20 * MUSTER_NS_PER_S) /* bursts come with steps and checkpoints */
/* What was called so long ago has been called in order: of two that were called by turns the first
 * is over by then, as a rule */
#define HELD_NS  (250 * MUSTER_NS_PER_MS)
#define STILL_NS (1500 * MUSTER_NS_PER_MS)
#define NETS_NS  (2 * MUSTER_NS_PER_S)

/* ---- its segment ---- */

/* One that has gone from here was archived: its process is over. */
static int open_segment(const struct muster_publisher *publisher)
{
    char path[MUSTER_SEG_PATH + 300];
    if (publisher->fd >= 0)
        return publisher->fd;
    if (publisher->seen)
        return muster_segment_open(publisher->path);
    muster_identity_file(&publisher->identity, ".seg", path, sizeof path);
    return muster_segment_open(path);
}

static void close_segment(struct muster_publisher *publisher, int fd)
{
    if (fd >= 0 && fd < KEPT_FDS)
        publisher->fd = fd;
    else if (fd >= 0)
        close(fd);
}

void muster_publisher_let_go(struct muster_publisher *publisher)
{
    if (publisher->fd >= 0)
        close(publisher->fd);
    publisher->fd = -1;
}

/* ---- operations ---- */

static const struct muster_seg_comm *comm_of(const struct muster_publisher *publisher,
                                             const struct muster_segment *segment, uint32_t uid)
{
    for (unsigned i = 0; i < publisher->entries; i++)
        if (segment->comm[i].uid == uid)
            return &segment->comm[i];
    return NULL;
}

/* What the level does not send is no timed operation for those who hear it. */
static void take_time(struct muster_op *op)
{
    op->source = MUSTER_SOURCE_NONE;
    op->begin_ns = op->end_ns = 0;
}

static void thin(struct muster_publisher *publisher, const struct muster_segment *segment,
                 struct muster_op *op, size_t n)
{
    const struct muster_seg_comm *comm = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!muster_source_is_gpu(op[i].source))
            continue;
        if (!comm || comm->uid != op[i].comm)
            comm = comm_of(publisher, segment, op[i].comm);
        if (comm && muster_thinning_takes(&publisher->thinning, muster_sampling_id(comm->nranks),
                                          op[i].number, muster_seg_timing_level(comm->timing)))
            continue;
        take_time(&op[i]);
    }
}

/* By the level: else what waits would all be sent first, and what is now much later. */
static void thin_waiting(struct muster_publisher *publisher, const struct muster_segment *segment,
                         unsigned level)
{
    struct muster_window *window = &publisher->window;
    size_t had = window->n;
    bool halved = false;
    for (size_t i = 0; i < window->n; i++) {
        struct muster_op *op = &window->op[i];
        const struct muster_seg_comm *comm = comm_of(publisher, segment, op->comm);
        if (muster_source_is_gpu(op->source) &&
            !(comm && muster_thinning_has(muster_sampling_id(comm->nranks), op->number, level)))
            take_time(op);
    }
    publisher->missing += muster_window_again(window, WAITING, &halved) ? 0 : had;
}

/* A burst with nothing behind it may take its time; what goes on may not wait. */
static bool holds_up(const struct muster_publisher *publisher, uint64_t now_ns)
{
    return publisher->fresh && publisher->window.n > 0 &&
           now_ns > publisher->window.op[0].enqueue_ns + MUSTER_THINNING_BEHIND_NS;
}

static void keep_up(struct muster_publisher *publisher, const struct muster_segment *segment,
                    uint64_t now_ns)
{
    struct muster_thinning *thinning = &publisher->thinning;
    muster_thinning_turn(thinning, now_ns, MUSTER_GATHER_BYTES);
    bool late = holds_up(publisher, now_ns);
    publisher->fresh = false;
    if (!late || !muster_thinning_behind(thinning, MUSTER_GATHER_BYTES, publisher->window.n))
        return;
    thin_waiting(publisher, segment, thinning->level);
    unsigned behind = muster_thinning_behind(thinning, MUSTER_GATHER_BYTES, publisher->window.n);
    if (behind)
        thin_waiting(publisher, segment, behind);
}

/* Of a process that is over. */
static void take_held(struct muster_publisher *publisher)
{
    bool halved = false;
    publisher->window.until_ns = UINT64_MAX;
    muster_window_take(&publisher->window, NULL, 0, WAITING, &halved);
}

static void take_ring(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                      uint64_t now_ns)
{
    const struct muster_segment *segment = (const void *)parts->table.bytes;
    uint64_t before = publisher->next;
    size_t had = publisher->window.n;
    bool halved = false;
    size_t n =
        muster_segment_ring_upto(parts->fd, segment->ring_head, &publisher->next, parts->ring);
    if (publisher->next - before >= QUICK || publisher->quick_until_ns == 0)
        publisher->quick_until_ns = now_ns + QUICK_NS;
    publisher->fresh |= n > 0;
    publisher->missing += before ? publisher->next - before - n : 0;
    thin(publisher, segment, parts->ring, n);
    publisher->window.until_ns = now_ns - HELD_NS;
    muster_window_take(&publisher->window, parts->ring, n, WAITING, &halved);
    publisher->missing += halved ? had / 2 : 0;
}

void muster_publisher_take(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                           uint64_t now_ns)
{
    if (now_ns >= publisher->quick_until_ns)
        return;
    parts->fd = open_segment(publisher);
    if (parts->fd < 0)
        return;
    if (muster_live_table_read(parts->fd, &parts->table, &publisher->entries))
        take_ring(publisher, parts, now_ns);
    close_segment(publisher, parts->fd);
}

/* Into the message, as far as there are bytes, and out of the window. */
static void put_ops(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                    uint64_t now_ns, struct muster_wire_process *process)
{
    struct muster_window *window = &publisher->window;
    size_t n = 0;
    process->class = parts->class;
    process->op = parts->op;
    while (n < window->n && n < MUSTER_WIRE_OPS && publisher->ops_left > 0 &&
           process->classes < MUSTER_WIRE_CLASSES) {
        const struct muster_op *op = &window->op[n];
        struct muster_class_entry *class = muster_class_of(&publisher->class, op);
        if (class->published_ns == 0 || now_ns - class->published_ns >= MUSTER_PUBLISH_AGAIN_NS) {
            class->published_ns = now_ns;
            process->class[process->classes++] = class->class;
            publisher->ops_left -= CLASS_BYTES;
        }
        process->op[n++] = (struct muster_wire_op){.class = class->class.id,
                                                   .number = op->number,
                                                   .enqueue_ns = op->enqueue_ns,
                                                   .begin_ns = op->begin_ns,
                                                   .end_ns = op->end_ns};
        publisher->ops_left -= MUSTER_THINNING_OP_BYTES;
    }
    process->ops = n;
    window->n -= n;
    if (window->n > 0)
        memmove(window->op, window->op + n, window->n * sizeof *window->op);
}

/* ---- communicators ---- */

static void follow(struct muster_published *published, const struct muster_seg_comm *comm,
                   uint64_t now_ns)
{
    if (published->uid != comm->uid)
        *published = (struct muster_published){.uid = comm->uid};
    uint64_t facts[] = {comm->calls, comm->called_ns, comm->end_ns, comm->launches_ended,
                        comm->launches_probed};
    uint64_t mark = muster_hash(MUSTER_HASH_SEED, facts, sizeof facts) | 1;
    if (mark == published->mark)
        return;
    published->mark = mark;
    published->moved_ns = now_ns;
}

static bool again(uint64_t published_ns, uint64_t now_ns)
{
    return published_ns == 0 || now_ns - published_ns >= MUSTER_PUBLISH_AGAIN_NS;
}

static bool stands_still(const struct muster_published *published, uint64_t now_ns)
{
    return now_ns - published->moved_ns >= STILL_NS;
}

/* Who it is again, and where it stands: what is due, while there are bytes for it. */
static void put_comm(struct muster_publisher *publisher, const struct muster_seg_comm *comm,
                     struct muster_published *published, uint64_t now_ns,
                     struct muster_wire_process *process)
{
    bool describe = again(published->described_ns, now_ns);
    bool still = comm->calls > 0 && stands_still(published, now_ns) &&
                 (published->still_ns < published->moved_ns || again(published->still_ns, now_ns));
    if ((!describe && !still && published->placed == published->mark) ||
        publisher->places_left <= 0)
        return;
    process->comm[process->comms++] =
        (struct muster_wire_comm){.described = describe, .still = still, .seg = *comm};
    published->placed = published->mark;
    publisher->places_left -= PLACE_BYTES;
    if (describe) {
        published->described_ns = now_ns;
        publisher->places_left -=
            DESCRIBE_BYTES + (int64_t)(strlen(comm->name) + strlen(comm->gpu_uuid));
    }
    if (still) {
        published->still_ns = now_ns;
        publisher->places_left -= STILL_BYTES;
        process->still = true;
    }
}

static void check_names(struct muster_seg_comm *comm)
{
    comm->gpu_pci[sizeof comm->gpu_pci - 1] = '\0';
    comm->gpu_uuid[sizeof comm->gpu_uuid - 1] = '\0';
    comm->name[sizeof comm->name - 1] = '\0';
}

static void put_comms(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                      uint64_t now_ns, struct muster_wire_process *process)
{
    struct muster_segment *segment = (void *)parts->table.bytes;
    unsigned first = publisher->turn;
    process->comm = parts->comm;
    for (unsigned k = 0; k < publisher->entries; k++) {
        unsigned i = (first + k) % publisher->entries;
        struct muster_seg_comm *comm = &segment->comm[i];
        if (comm->uid == 0 || comm->id == 0 || comm->uid == MUSTER_SEG_OTHER_UID ||
            comm->seq & 1) /* being written: next time */
            continue;
        check_names(comm);
        follow(&publisher->published[i], comm, now_ns);
        put_comm(publisher, comm, &publisher->published[i], now_ns, process);
        if (publisher->places_left > 0)
            publisher->turn = i + 1;
    }
}

/* ---- links ---- */

/* A segment is its owner's word: numbers that can be none are not passed on. */
static bool can_be(const struct muster_seg_net *net)
{
    uint64_t all = net->count | net->bytes | net->steps | net->gpu_wait_ns | net->credit_wait_ns |
                   net->net_wait_ns | net->flush_ns;
    return net->comm != 0 && net->comm != MUSTER_SEG_OTHER_UID && all <= INT64_MAX;
}

/* By turns those that moved. */
static void put_nets(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                     uint64_t now_ns, struct muster_wire_process *process)
{
    process->net = parts->published_net;
    if (publisher->nets_ns && now_ns - publisher->nets_ns < NETS_NS)
        return;
    publisher->nets_ns = now_ns;
    if (!muster_segment_read_nets(parts->fd, parts->net))
        return;
    for (unsigned k = 0; k < MUSTER_SEG_NETS && process->nets < NETS; k++) {
        unsigned i = (publisher->net_turn + k) % MUSTER_SEG_NETS;
        const struct muster_seg_net *net = &parts->net[i];
        if (!can_be(net) || net->count == publisher->net_count[i])
            continue;
        publisher->net_count[i] = net->count;
        process->net[process->nets++] = *net;
        publisher->places_left -= NET_BYTES;
        if (process->nets == NETS)
            publisher->net_turn = (i + 1) % MUSTER_SEG_NETS;
    }
}

/* ---- where it stands still ---- */

static bool is_published_still(const struct muster_wire_process *process, uint32_t uid)
{
    for (size_t i = 0; i < process->comms; i++)
        if (process->comm[i].seg.uid == uid)
            return process->comm[i].still;
    return false;
}

static void put_slot(struct muster_wire_process *process, const struct muster_segment *segment,
                     unsigned i)
{
    const struct muster_seg_slot *slot = &segment->slot[i];
    unsigned state = segment->slot_state[i] & 0xff;
    if ((state != MUSTER_SLOT_CALLED && state != MUSTER_SLOT_LAUNCHED) ||
        process->slots == MUSTER_WIRE_SLOTS || !is_published_still(process, slot->comm))
        return;
    process->slot[process->slots++] =
        (struct muster_wire_slot){.number = slot->number,
                                  .enqueue_ns = slot->enqueue_ns,
                                  .count = slot->count,
                                  .comm = slot->comm,
                                  .peer = slot->peer,
                                  .flags = slot->flags,
                                  .func = slot->func,
                                  .dtype = slot->dtype,
                                  .state = (uint8_t)state,
                                  .p2p = slot->p2p,
                                  .started = slot->started,
                                  .ended = slot->ended,
                                  .proxy_started = slot->proxy_started,
                                  .proxy_ended = slot->proxy_ended};
}

static bool same_stream(const struct muster_wire_slot *slot, const struct muster_op *op)
{
    bool p2p = muster_func_is_p2p(op->func);
    return slot->state == MUSTER_SLOT_DONE && slot->comm == op->comm && (slot->p2p != 0) == p2p &&
           (!p2p || (slot->func == op->func && slot->peer == op->peer));
}

/* Newest first, so that the first of a stream is the one. */
static void put_over(struct muster_wire_process *process, const struct muster_op *op)
{
    if ((op->flags & MUSTER_OP_GRAPH) || process->slots == MUSTER_WIRE_SLOTS ||
        !is_published_still(process, op->comm))
        return;
    for (size_t i = 0; i < process->slots; i++)
        if (same_stream(&process->slot[i], op))
            return;
    process->slot[process->slots++] =
        (struct muster_wire_slot){.number = op->number,
                                  .enqueue_ns = op->enqueue_ns,
                                  .count = op->count,
                                  .comm = op->comm,
                                  .peer = op->peer,
                                  .flags = op->flags,
                                  .func = op->func,
                                  .dtype = op->dtype,
                                  .state = MUSTER_SLOT_DONE,
                                  .p2p = muster_func_is_p2p(op->func),
                                  .ended = muster_source_is_gpu(op->source)};
}

static void put_still(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                      struct muster_wire_process *process)
{
    struct muster_segment *segment;
    unsigned unstable;
    process->slot = parts->slot;
    if (muster_segment_read_live(publisher->path, &segment, &unstable, NULL) != 0)
        return;
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++)
        put_slot(process, segment, i);
    uint64_t head = segment->ring_head;
    for (uint64_t k = 1; k <= head && k <= MUSTER_SEG_RING; k++)
        put_over(process, &segment->ring[(head - k) % MUSTER_SEG_RING]);
    free(segment);
    publisher->places_left -= SLOT_BYTES * (int64_t)process->slots;
}

/* ---- all ---- */

static void add_bytes(int64_t *left, unsigned each_second, uint64_t passed_ns)
{
    const int64_t most = SAVED_S * (int64_t)each_second;
    *left += (int64_t)(passed_ns * each_second / MUSTER_NS_PER_S);
    *left = *left < most ? *left : most;
}

static void fill(struct muster_publisher *publisher, uint64_t now_ns)
{
    uint64_t passed = publisher->filled_ns ? now_ns - publisher->filled_ns : MUSTER_NS_PER_S / 2;
    passed = passed > SAVED_S * MUSTER_NS_PER_S ? SAVED_S * MUSTER_NS_PER_S : passed;
    publisher->filled_ns = now_ns;
    add_bytes(&publisher->ops_left, MUSTER_GATHER_BYTES, passed);
    add_bytes(&publisher->places_left, MUSTER_GATHER_BYTES, passed);
    add_bytes(&publisher->left, MUSTER_GATHER_BYTES_ALL, passed);
}

static bool read_segment(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                         uint64_t now_ns)
{
    if (parts->fd < 0 || !muster_live_table_read(parts->fd, &parts->table, &publisher->entries))
        return false;
    if (publisher->alive)
        take_ring(publisher, parts, now_ns);
    else
        take_held(publisher);
    return true;
}

/* Who it is, and what is sent of that. False: nobody knows. */
static bool put_identity(struct muster_publisher *publisher,
                         const struct muster_publisher_parts *parts, bool readable, uint64_t now_ns,
                         struct muster_wire_process *process)
{
    const struct muster_segment *segment = (const void *)parts->table.bytes;
    if (readable) {
        struct muster_seg_identity who = segment->identity;
        if (muster_identity_check(publisher->path, &who, NULL) == 0)
            publisher->identity = who; /* its rank may have been learned */
        process->heartbeat_ns = segment->heartbeat_mono_ns;
    }
    process->pid = publisher->identity.pid;
    process->start_ticks = publisher->identity.start_ticks;
    process->state = muster_process_state_of(publisher->alive,
                                             readable ? segment->exit_state : MUSTER_EXIT_OPEN);
    process->missing = publisher->missing;
    if (process->pid && again(publisher->described_ns, now_ns)) {
        publisher->described_ns = now_ns;
        publisher->places_left -= PROCESS_BYTES;
        process->described = true;
        process->identity = publisher->identity;
    }
    return process->pid != 0;
}

static bool put_all(struct muster_publisher *publisher, struct muster_publisher_parts *parts,
                    uint64_t now_ns, struct muster_wire_process *process)
{
    bool readable = read_segment(publisher, parts, now_ns);
    memset(process, 0, sizeof *process);
    fill(publisher, now_ns);
    int64_t places = publisher->places_left;
    publisher->places_left = places < publisher->left ? places : publisher->left;
    if (readable)
        keep_up(publisher, (const void *)parts->table.bytes, now_ns);
    if (!put_identity(publisher, parts, readable, now_ns, process)) {
        publisher->places_left = places;
        return false;
    }
    if (readable && publisher->seen)
        put_nets(publisher, parts, now_ns, process);
    if (readable)
        put_comms(publisher, parts, now_ns, process);
    if (process->still && publisher->seen)
        put_still(publisher, parts, process);
    put_ops(publisher, parts, now_ns, process);
    publisher->places_left = places;
    return true;
}

bool muster_publisher_publish(struct muster_publisher *publisher,
                              struct muster_publisher_parts *parts, uint64_t now_ns,
                              struct muster_wire_process *process)
{
    parts->fd = open_segment(publisher);
    bool known = put_all(publisher, parts, now_ns, process);
    close_segment(publisher, parts->fd);
    return known;
}

void muster_publisher_charge(struct muster_publisher *publisher, size_t ops, size_t rest)
{
    publisher->places_left -= (int64_t)rest;
    publisher->left -= (int64_t)(ops + rest);
}

void muster_publisher_free(struct muster_publisher *publisher)
{
    muster_publisher_let_go(publisher);
    muster_window_free(&publisher->window);
    free(publisher->path);
    free(publisher);
}
