#include "fleet/join.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/hash.h"
#include "fleet/wire.h"

enum { OPS_FIRST = 8, OPS_LEAST = 64, OPS_MOST = 4096 };

struct process_key {
    uint64_t instance, start_ticks, pid;
};

struct muster_join *muster_join_new(const char *name)
{
    struct muster_join *join = calloc(1, sizeof *join);
    if (!join)
        return NULL;
    memccpy(join->name, name, '\0', sizeof join->name - 1);
    join->by_instance.key_bytes = sizeof(uint64_t);
    join->by_process.key_bytes = sizeof(struct process_key);
    return join;
}

/* Who it was, and how far, stays. */
static void forget_ops(struct muster_join_process *process)
{
    free(process->op);
    free(process->over);
    free(process->net);
    muster_heard_classes_free(&process->class);
    process->op = process->over = NULL;
    process->net = NULL;
    process->ops = process->room = process->overs = process->nets = 0;
}

static void free_process(struct muster_join_process *process)
{
    if (process->segment)
        munmap(process->segment, sizeof *process->segment);
    forget_ops(process);
}

void muster_join_free(struct muster_join *join)
{
    for (size_t i = 0; join && i < join->processes; i++)
        free_process(&join->process[i]);
    if (!join)
        return;
    muster_hashmap_free(&join->by_instance);
    muster_hashmap_free(&join->by_process);
    for (size_t i = 0; i < join->hosts; i++)
        free(join->host[i].finding);
    free(join->host);
    free(join->process);
    free(join);
}

uint64_t muster_join_server_ns(const struct muster_join *join, uint64_t now_ns)
{
    return join->newest_ns + (now_ns > join->newest_at_ns ? now_ns - join->newest_at_ns : 0);
}

bool muster_join_hears(const struct muster_join *join, const struct muster_join_host *host,
                       uint64_t now_ns)
{
    return muster_join_server_ns(join, now_ns) - host->heard_ns < MUSTER_JOIN_SILENT_NS;
}

/* ---- hosts ---- */

/* Two agents of one host would send everything twice. The one that was there first speaks until it
 * falls silent; then it has been started anew. */
static int displace(struct muster_join *join, const struct muster_wire_message *message,
                    uint64_t server_ns, struct muster_err *err)
{
    for (size_t i = 0; i < join->hosts; i++) {
        struct muster_join_host *host = &join->host[i];
        if (strcmp(host->host, message->host) != 0 || host->instance == 0)
            continue;
        if (server_ns - host->heard_ns < MUSTER_JOIN_SILENT_NS)
            return muster_fail(err, "two agents speak for host %s: end one of them", message->host);
        host->instance = 0; /* nobody looks at what it sent */
        for (size_t p = 0; p < join->processes; p++)
            if (join->process[p].host == i)
                forget_ops(&join->process[p]);
    }
    return 0;
}

static int check_job(struct muster_join *join, const struct muster_wire_message *message,
                     struct muster_err *err)
{
    char name[MUSTER_FLEET_NAME];
    muster_fleet_name(name, message->uid, message->run_dir);
    if (strcmp(name, join->name) != 0)
        return muster_fail(err,
                           "host %s tells of job %s under the name of %s, and is not believed: "
                           "whose credentials does it use?",
                           message->host, name, join->name);
    memcpy(join->run_dir, message->run_dir, sizeof join->run_dir);
    join->uid = message->uid;
    return 0;
}

/* NULL with an error that is not empty: refused; with an empty one: it has not sent who it is. */
static struct muster_join_host *host_of(struct muster_join *join,
                                        const struct muster_wire_message *message,
                                        uint64_t server_ns, struct muster_err *err)
{
    size_t at = muster_hashmap_find(&join->by_instance, &message->instance);
    if (at != SIZE_MAX && join->host[at].instance == message->instance)
        return &join->host[at];
    if (!message->described || check_job(join, message, err) != 0 ||
        displace(join, message, server_ns, err) != 0)
        return NULL;
    if (join->hosts == MUSTER_JOIN_HOSTS ||
        !muster_grow(&join->host, join->hosts, sizeof *join->host) ||
        !muster_hashmap_put(&join->by_instance, &message->instance, join->hosts)) {
        muster_fail(err, "no room for host %s beside %zu others", message->host, join->hosts);
        return NULL;
    }
    struct muster_join_host *host = &join->host[join->hosts++];
    *host = (struct muster_join_host){
        .instance = message->instance, .boot_hash = message->boot_hash, .to_server_ns = INT64_MAX};
    memcpy(host->host, message->host, sizeof host->host);
    memcpy(host->hostname, message->hostname, sizeof host->hostname);
    return host;
}

/* ---- processes ---- */

static struct muster_join_process *new_process(struct muster_join *join,
                                               const struct process_key *key)
{
    if (join->processes == MUSTER_JOIN_PROCESSES ||
        !muster_grow(&join->process, join->processes, sizeof *join->process))
        return NULL;
    struct muster_join_process *process = &join->process[join->processes];
    void *segment = mmap(NULL, sizeof(struct muster_segment), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *process = (struct muster_join_process){.segment = segment == MAP_FAILED ? NULL : segment};
    /* A few KB of each are used: huge pages would make that all of it. */
    if (process->segment)
        madvise(segment, sizeof(struct muster_segment), MADV_NOHUGEPAGE);
    if (process->segment && muster_hashmap_put(&join->by_process, key, join->processes)) {
        join->processes++;
        return process;
    }
    free_process(process);
    return NULL;
}

static void take_identity(struct muster_join *join, uint32_t h,
                          const struct muster_wire_process *from,
                          struct muster_join_process *process)
{
    struct muster_seg_identity *who = &process->segment->identity;
    *who = from->identity;
    who->pid = from->pid;
    who->start_ticks = from->start_ticks;
    who->uid = join->uid;
    who->boot_hash = join->host[h].boot_hash;
    memcpy(who->host, join->host[h].host, sizeof who->host);
    memcpy(who->hostname, join->host[h].hostname, sizeof who->hostname);
    memcpy(who->run_dir, join->run_dir, sizeof who->run_dir);
    process->host = h;
}

static struct muster_join_process *process_of(struct muster_join *join, uint32_t h,
                                              const struct muster_wire_process *from)
{
    const struct process_key key = {join->host[h].instance, from->start_ticks, from->pid};
    size_t at = muster_hashmap_find(&join->by_process, &key);
    struct muster_join_process *process = at == SIZE_MAX ? NULL : &join->process[at];
    if (!process && from->described)
        process = new_process(join, &key);
    if (process && from->described)
        take_identity(join, h, from, process);
    return process;
}

/* ---- communicators ---- */

static struct muster_seg_comm *entry_of(struct muster_segment *segment, uint32_t uid, bool make)
{
    struct muster_seg_comm *room = NULL;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        struct muster_seg_comm *comm = &segment->comm[i];
        if (comm->uid == uid)
            return comm;
        if (comm->uid == 0) {
            room = room && room->uid == 0 ? room : comm;
            break; /* they are filled from the front */
        }
        if (comm->end_ns && (!room || comm->end_ns < room->end_ns))
            room = comm;
    }
    if (!make || !room)
        return NULL;
    memset(room, 0, sizeof *room);
    room->uid = uid;
    return room;
}

static void describe(struct muster_seg_comm *to, const struct muster_seg_comm *from)
{
    to->id = from->id;
    to->rank = from->rank;
    to->nranks = from->nranks;
    to->nnodes = from->nnodes;
    to->gpu_index = from->gpu_index;
    memcpy(to->gpu_pci, from->gpu_pci, sizeof to->gpu_pci);
    memcpy(to->gpu_uuid, from->gpu_uuid, sizeof to->gpu_uuid);
    memcpy(to->name, from->name, sizeof to->name);
    to->begin_ns = from->begin_ns;
    to->timing = from->timing;
}

/* What was in flight when it stood still is no more. */
static void forget_slots(struct muster_segment *segment, uint32_t uid)
{
    for (unsigned i = 0; i < MUSTER_WIRE_SLOTS && segment->slot_state[i]; i++)
        if (segment->slot[i].comm == uid)
            segment->slot_state[i] = MUSTER_SLOT_RESTING;
}

/* False: nobody has described it. */
static bool take_comm(struct muster_segment *segment, const struct muster_wire_comm *from)
{
    struct muster_seg_comm *to = entry_of(segment, from->seg.uid, from->described);
    if (!to)
        return false;
    if (from->described)
        describe(to, &from->seg);
    if (to->calls != from->seg.calls || to->launches_ended != from->seg.launches_ended)
        forget_slots(segment, to->uid);
    to->calls = from->seg.calls;
    to->launches = from->seg.launches;
    to->launches_ended = from->seg.launches_ended;
    to->launches_probed = from->seg.launches_probed;
    to->called_ns = from->seg.called_ns;
    to->ended_ns = from->seg.ended_ns;
    to->end_ns = from->seg.end_ns;
    if (from->still) {
        to->call_hash = from->seg.call_hash;
        to->captured = from->seg.captured;
        memcpy(to->call, from->seg.call, sizeof to->call);
    }
    return true;
}

/* ---- what stands still ---- */

static struct muster_op over_of(const struct muster_wire_slot *slot)
{
    struct muster_op op = {.number = slot->number,
                           .enqueue_ns = slot->enqueue_ns,
                           .count = slot->count,
                           .comm = slot->comm,
                           .peer = slot->peer,
                           .func = slot->func,
                           .dtype = slot->dtype,
                           .flags = slot->flags | MUSTER_OP_UNSCORED};
    if (slot->ended) { /* on the GPU's clock: it is enough that it is */
        op.source = MUSTER_SOURCE_EVENT;
        op.begin_ns = 1;
        op.end_ns = 2;
    }
    return op;
}

static void take_slot(struct muster_segment *segment, unsigned i,
                      const struct muster_wire_slot *from)
{
    segment->slot[i] = (struct muster_seg_slot){.number = from->number,
                                                .enqueue_ns = from->enqueue_ns,
                                                .count = from->count,
                                                .comm = from->comm,
                                                .peer = from->peer,
                                                .flags = from->flags,
                                                .func = from->func,
                                                .dtype = from->dtype,
                                                .p2p = from->p2p,
                                                .started = from->started,
                                                .ended = from->ended,
                                                .proxy_started = from->proxy_started,
                                                .proxy_ended = from->proxy_ended};
    segment->slot_state[i] = muster_slot_word(1, from->state);
}

/* Communicators of which nothing is sent now keep what was sent before. */
static bool take_still(struct muster_join_process *process, const struct muster_wire_process *from)
{
    struct muster_segment *segment = process->segment;
    unsigned used = 0;
    size_t overs = 0;
    struct muster_op *over = realloc(process->over, (from->slots + 1) * sizeof *over);
    if (!over)
        return false;
    process->over = over;
    for (size_t c = 0; c < from->comms; c++)
        if (from->comm[c].still)
            forget_slots(segment, from->comm[c].seg.uid);
    for (size_t i = 0; i < from->slots; i++) {
        if (from->slot[i].state == MUSTER_SLOT_DONE) {
            over[overs++] = over_of(&from->slot[i]);
            continue;
        }
        while (used < MUSTER_WIRE_SLOTS && segment->slot_state[used] &&
               (segment->slot_state[used] & 0xff) != MUSTER_SLOT_RESTING)
            used++;
        if (used < MUSTER_WIRE_SLOTS)
            take_slot(segment, used, &from->slot[i]);
    }
    process->overs = overs;
    return true;
}

/* ---- links ---- */

static bool same_link(const struct muster_seg_net *a, const struct muster_seg_net *b)
{
    return a->comm == b->comm && a->peer == b->peer && a->send == b->send;
}

/* What was before it was first heard of is not of what is looked at. False: no memory. */
static bool take_net(struct muster_join_process *process, const struct muster_seg_net *reported)
{
    size_t i = 0;
    while (i < process->nets && !same_link(&process->net[i].reported, reported))
        i++;
    if (i == MUSTER_SEG_NETS)
        return true;
    if (i == process->nets) {
        if (!muster_grow(&process->net, process->nets, sizeof *process->net))
            return false;
        process->net[process->nets++] = (struct muster_join_net){*reported, *reported, *reported};
    }
    process->net[i].reported = *reported;
    return true;
}

/* The window of operations was halved: that of links goes with it. */
static void halve_nets(struct muster_join_process *process)
{
    for (size_t i = 0; i < process->nets; i++) {
        process->net[i].begin = process->net[i].mark;
        process->net[i].mark = process->net[i].reported;
    }
}

/* ---- operations ---- */

static size_t most_ops(const struct muster_join *join, const struct muster_join_process *process)
{
    size_t most = MUSTER_JOIN_OPS / (join->processes ? join->processes : 1),
           least = process->near ? MUSTER_JOIN_OPS_NEAR : OPS_LEAST;
    return most < least ? least : most > OPS_MOST ? OPS_MOST : most;
}

/* For one more than is there: no window becomes larger than one beyond its bound. */
static bool has_room(struct muster_join_process *process, size_t most)
{
    if (process->ops < process->room)
        return true;
    size_t room = 2 * process->room;
    room = room < OPS_FIRST ? OPS_FIRST : room > most + 1 ? most + 1 : room;
    room = room > process->ops ? room : process->ops + 1;
    struct muster_op *op = reallocarray(process->op, room, sizeof *op);
    if (!op)
        return false;
    process->op = op;
    process->room = room;
    return true;
}

/* Of one that was looked at closely, or was there before most others. */
static void give_room_back(struct muster_join_process *process, size_t most)
{
    if (process->room <= 2 * (most + 1))
        return;
    struct muster_op *op = reallocarray(process->op, most + 1, sizeof *op);
    if (!op)
        return;
    process->op = op;
    process->room = most + 1;
}

/* Set once, not by each better guess of the host's clock: it distinguishes windows. */
static void halve(const struct muster_join *join, struct muster_join_process *process, size_t most)
{
    size_t gone = process->ops - most / 2;
    process->ops -= gone;
    memmove(process->op, process->op + gone, process->ops * sizeof *process->op);
    halve_nets(process);
    process->since_ns =
        process->op[0].enqueue_ns + (uint64_t)join->host[process->host].to_server_ns;
    give_room_back(process, most);
}

static void take_ops(struct muster_join *join, struct muster_join_process *process,
                     const struct muster_wire_process *from)
{
    size_t most = most_ops(join, process);
    for (size_t i = 0; i < from->classes; i++)
        join->unknown += !muster_heard_classes_put(&process->class, &from->class[i]);
    for (size_t i = 0; i < from->ops; i++) {
        const struct muster_wire_op *reported = &from->op[i];
        const struct muster_op *like = muster_heard_classes_find(&process->class, reported->class);
        if (!like || !has_room(process, most)) {
            join->unknown++;
            continue;
        }
        struct muster_op *op = &process->op[process->ops++];
        *op = *like;
        op->number = reported->number;
        op->enqueue_ns = reported->enqueue_ns;
        op->begin_ns = reported->begin_ns;
        op->end_ns = reported->end_ns;
        process->taken++;
        join->timed += reported->end_ns != 0;
        if (process->ops > most)
            halve(join, process, most);
    }
}

/* ---- messages ---- */

static bool take_process(struct muster_join *join, uint32_t h, uint64_t mono_ns,
                         const struct muster_wire_process *from)
{
    struct muster_join_process *process = process_of(join, h, from);
    if (!process) {
        join->unknown++;
        return from->described == false;
    }
    process->state = from->state;
    process->missing = from->missing;
    /* Of one that is gone it is sent for a minute: when it went is when it was there last. */
    if (from->state == MUSTER_PROCESS_RUNNING || process->seen_ns == 0)
        process->seen_ns = mono_ns;
    process->segment->heartbeat_mono_ns = from->heartbeat_ns;
    for (size_t i = 0; i < from->comms; i++)
        join->unknown += !take_comm(process->segment, &from->comm[i]);
    take_ops(join, process, from);
    bool whole = true;
    for (size_t i = 0; i < from->nets; i++)
        whole &= take_net(process, &from->net[i]);
    return whole && (!from->still || take_still(process, from));
}

/* A message that is new and older than the newest: the server's clock was set back, as a stream
 * comes in order. What was heard before moves with it. */
static void follow_clock(struct muster_join *join, uint64_t server_ns, uint64_t now_ns)
{
    if (server_ns + MUSTER_JOIN_SILENT_NS < join->newest_ns) {
        uint64_t back_ns = muster_join_server_ns(join, now_ns) - server_ns;
        for (size_t i = 0; i < join->hosts; i++) {
            struct muster_join_host *host = &join->host[i];
            host->heard_ns = host->heard_ns > back_ns ? host->heard_ns - back_ns : 1;
            host->to_server_ns -= host->to_server_ns == INT64_MAX ? 0 : (int64_t)back_ns;
        }
    } else if (server_ns < join->newest_ns) {
        return;
    }
    join->newest_ns = server_ns;
    join->newest_at_ns = now_ns;
}

/* What was found before is over but for these. False: no memory. */
static bool take_findings(struct muster_join_host *host, const struct muster_wire_message *message)
{
    struct muster_finding *own = NULL;
    if (!message->finds)
        return true;
    if (message->findings) {
        own = malloc(message->findings * sizeof *own);
        if (!own)
            return false;
        memcpy(own, message->finding, message->findings * sizeof *own);
    }
    free(host->finding);
    host->finding = own;
    host->findings = message->findings;
    return true;
}

static int take_message(struct muster_join *join, const struct muster_wire_message *message,
                        uint64_t server_ns, uint64_t now_ns, struct muster_err *err)
{
    struct muster_err why = {""};
    struct muster_join_host *host = host_of(join, message, server_ns, &why);
    if (!host) {
        join->unknown += message->processes;
        return why.text[0] ? muster_fail(err, "%s", why.text) : 0;
    }
    if (host->heard_ns && message->sequence <= host->sequence)
        return 0; /* it was here before */
    follow_clock(join, server_ns, now_ns);
    join->lost += host->heard_ns ? message->sequence - host->sequence - 1 : 0;
    host->sequence = message->sequence;
    host->heard_ns = server_ns;
    host->mono_ns = message->mono_ns;
    int64_t to_server = (int64_t)(server_ns - message->mono_ns);
    host->to_server_ns = to_server < host->to_server_ns ? to_server : host->to_server_ns;
    bool whole = take_findings(host, message);
    for (size_t i = 0; i < message->processes; i++)
        whole &= take_process(join, (uint32_t)(host - join->host), message->mono_ns,
                              &message->process[i]);
    return whole ? 0 : muster_fail_memory(err, "what all hosts tell");
}

/* ---- other versions ---- */

static size_t foreign_of(const struct muster_join *join, const char *host)
{
    size_t i = 0;
    while (i < join->foreigns && strcmp(join->foreign[i].host, host) != 0)
        i++;
    return i;
}

/* Whether there is something to send: a head has the host's name each ten seconds or so. */
static bool is_news(struct muster_join *join, const struct muster_wire_message *message)
{
    if (!message->described)
        return message->instance == 0; /* nor will it ever send any */
    size_t i = foreign_of(join, message->host);
    bool known = i < join->foreigns && join->foreign[i].version == message->version;
    if (known || i == MUSTER_JOIN_FOREIGN)
        return false;
    join->foreigns += i == join->foreigns;
    memcpy(join->foreign[i].host, message->host, sizeof message->host);
    join->foreign[i].version = message->version;
    return true;
}

static void forget_foreign(struct muster_join *join, const char *host)
{
    size_t i = foreign_of(join, host);
    if (i < join->foreigns)
        join->foreign[i] = join->foreign[--join->foreigns];
}

int muster_join_take(struct muster_join *join, const void *data, size_t bytes, uint64_t server_ns,
                     uint64_t now_ns, struct muster_err *err)
{
    struct muster_arena arena = {0};
    struct muster_wire_message message;
    join->messages++;
    if (join->newest_ns == 0) {
        join->newest_ns = server_ns;
        join->newest_at_ns = now_ns;
    }
    int rc = muster_wire_read(join->name, data, bytes, &arena, &message, err);
    if (rc == 0)
        rc = take_message(join, &message, server_ns, now_ns, err);
    else if (message.version && !is_news(join, &message))
        muster_fail(err, "%s", "");
    if (rc == 0 && message.described && join->foreigns)
        forget_foreign(join, message.host);
    join->refused += rc != 0;
    muster_arena_free(&arena);
    return rc;
}
