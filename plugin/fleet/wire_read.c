/* The reading half of fleet/wire.h: the same order, every number bounded. */
#include "fleet/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "fleet/wire_ops.h"

/* Bytes that the smallest of each takes: no count is larger than the bytes left allow. */
enum {
    LEAST_PROCESS = 7,
    LEAST_COMM = 8,
    LEAST_SLOT = 13,
    LEAST_CLASS = 10,
    LEAST_NET = 9,
    LEAST_OP = 3,
    LEAST_FINDING = 30
};

/* A time is none that can be beyond this: sums of a few never overflow. */
#define LATEST_NS (1ull << 62)

static uint64_t get_age(struct muster_wire_in *in, uint64_t now_ns)
{
    uint64_t age = muster_wire_get(in, now_ns);
    return age ? now_ns - (age - 1) : 0;
}

static int32_t get_int(struct muster_wire_in *in)
{
    return (int32_t)muster_wire_get_signed(in, INT32_MIN, INT32_MAX);
}

static uint32_t get_u32(struct muster_wire_in *in)
{
    return (uint32_t)muster_wire_get(in, UINT32_MAX);
}

static void get_identity(struct muster_wire_in *in, const struct muster_wire_message *message,
                         struct muster_seg_identity *who)
{
    who->begin_mono_ns = get_age(in, message->mono_ns);
    who->begin_unix_ns = muster_wire_get(in, LATEST_NS);
    who->rank = get_int(in);
    who->local_rank = get_int(in);
    who->world = get_int(in);
    who->nccl = get_u32(in);
    who->api = get_u32(in);
    who->timing = (uint32_t)muster_wire_get(in, MUSTER_TIMING_CHANNELS);
    who->replay_speed = get_u32(in);
    who->rank_source = muster_wire_get_byte(in) == MUSTER_RANK_FROM_ENV ? MUSTER_RANK_FROM_ENV
                                                                        : MUSTER_RANK_FROM_COMM;
    who->mark = muster_wire_get_byte(in) != 0;
    muster_wire_get_text(in, who->gpu_name, sizeof who->gpu_name);
}

static void get_described(struct muster_wire_in *in, const struct muster_wire_message *message,
                          struct muster_seg_comm *comm)
{
    comm->id = muster_wire_get_fixed(in);
    comm->rank = get_int(in);
    comm->nranks = get_u32(in);
    comm->nnodes = get_u32(in);
    comm->gpu_index = get_int(in);
    muster_wire_get_text(in, comm->gpu_pci, sizeof comm->gpu_pci);
    muster_wire_get_text(in, comm->gpu_uuid, sizeof comm->gpu_uuid);
    muster_wire_get_text(in, comm->name, sizeof comm->name);
    comm->begin_ns = get_age(in, message->mono_ns);
    comm->timing = muster_wire_get(in, UINT64_MAX);
}

static void get_calls(struct muster_wire_in *in, struct muster_seg_comm *comm)
{
    uint64_t calls = comm->calls, n = calls < MUSTER_SEG_CALLS ? calls : MUSTER_SEG_CALLS;
    comm->call_hash = muster_wire_get_fixed(in);
    comm->captured = muster_wire_get(in, UINT64_MAX);
    for (uint64_t i = calls - n; i < calls && !in->wrong; i++) {
        struct muster_seg_call *call = &comm->call[i % MUSTER_SEG_CALLS];
        call->number = (uint16_t)(i + (uint64_t)muster_wire_get_signed(in, INT16_MIN, INT16_MAX));
        call->func = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_FUNCS);
        call->dtype = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_DTYPES);
        call->root = get_int(in);
        call->count = muster_wire_get(in, UINT64_MAX);
    }
}

static void get_comm(struct muster_wire_in *in, const struct muster_wire_message *message,
                     struct muster_wire_comm *to)
{
    struct muster_seg_comm *comm = &to->seg;
    uint64_t head = muster_wire_get(in, (uint64_t)UINT32_MAX << 2 | 3);
    to->described = head & 1;
    to->still = head & 2;
    comm->uid = (uint32_t)(head >> 2);
    if (comm->uid == 0 || comm->uid == MUSTER_SEG_OTHER_UID)
        muster_wire_wrong(in, "a communicator without a number");
    comm->calls = muster_wire_get(in, INT64_MAX);
    uint64_t launches = muster_wire_get(in, INT64_MAX);
    comm->launches = launches;
    comm->launches_ended =
        launches - (uint64_t)muster_wire_get_signed(in, INT64_MIN / 2, (int64_t)launches);
    comm->launches_probed =
        launches - (uint64_t)muster_wire_get_signed(in, INT64_MIN / 2, (int64_t)launches);
    comm->called_ns = get_age(in, message->mono_ns);
    comm->ended_ns = get_age(in, message->mono_ns);
    comm->end_ns = get_age(in, message->mono_ns);
    if (to->described)
        get_described(in, message, comm);
    if (to->still)
        get_calls(in, comm);
}

static void get_slot(struct muster_wire_in *in, const struct muster_wire_message *message,
                     struct muster_wire_slot *slot)
{
    slot->comm = get_u32(in);
    slot->number = muster_wire_get(in, INT64_MAX);
    slot->enqueue_ns = get_age(in, message->mono_ns);
    slot->count = muster_wire_get(in, UINT64_MAX);
    slot->peer = get_int(in);
    slot->flags = (uint16_t)muster_wire_get(in, UINT16_MAX);
    slot->func = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_FUNCS);
    slot->dtype = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_DTYPES);
    unsigned state = muster_wire_get_byte(in);
    slot->state = (uint8_t)(state >> 1);
    slot->p2p = state & 1;
    if (slot->state > MUSTER_SLOT_RESTING)
        muster_wire_wrong(in, "an operation in a state that is none");
    slot->started = get_u32(in);
    slot->ended = get_u32(in);
    slot->proxy_started = get_u32(in);
    slot->proxy_ended = get_u32(in);
}

static void get_class(struct muster_wire_in *in, struct muster_wire_class *class)
{
    struct muster_op *like = &class->like;
    class->id = (uint32_t)muster_wire_get(in, UINT32_MAX - 1);
    like->comm = get_u32(in);
    like->func = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_FUNCS);
    like->dtype = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_DTYPES);
    unsigned how = muster_wire_get_byte(in);
    like->algo = muster_kind_or_unknown((uint8_t)(how >> 4), MUSTER_ALGOS);
    like->proto = muster_kind_or_unknown((uint8_t)(how & 15), MUSTER_PROTOS);
    like->channels = (uint8_t)muster_wire_get_byte(in);
    like->source = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_SOURCES);
    like->flags = (uint16_t)muster_wire_get(in, UINT16_MAX);
    like->peer = get_int(in);
    like->count = muster_wire_get(in, UINT64_MAX);
}

/* ---- operations ---- */

static uint64_t get_far(struct muster_wire_in *in)
{
    const int64_t most = INT64_MAX / MUSTER_WIRE_UNIT_NS;
    return (uint64_t)(muster_wire_get_signed(in, -most, most) * MUSTER_WIRE_UNIT_NS);
}

static uint64_t get_time(struct muster_wire_in *in, bool far)
{
    return far ? get_far(in) : (uint64_t)muster_wire_time_of(muster_wire_get_time(in));
}

static void get_gpu_times(struct muster_wire_in *in, struct muster_wire_expect *expect, bool far)
{
    expect->begin_ns = expect->end_ns + get_time(in, far);
    expect->end_ns = expect->begin_ns + get_time(in, far);
}

/* What follows in a row was called later, or is much too early for rounding: send and receive of
 * one group stay in their order. */
static uint64_t call_of(const struct muster_wire_expect *expect, uint64_t before_ns,
                        uint64_t now_ns)
{
    uint64_t rounded_ns = 2 * MUSTER_WIRE_FAR_NS / MUSTER_WIRE_TIME_PARTS;
    uint64_t call_ns = expect->enqueue_ns;
    if (call_ns <= before_ns && before_ns - call_ns <= rounded_ns)
        call_ns = before_ns + 1;
    /* Rounded, it may come to lie behind the moment at which it was sent. */
    return call_ns < now_ns ? call_ns : now_ns;
}

static void get_op(struct muster_wire_in *in, struct muster_wire_expect *expect, uint64_t now_ns,
                   uint32_t lowest, uint64_t before_ns, struct muster_wire_op *op)
{
    uint64_t head =
        muster_wire_get(in, (uint64_t)(UINT32_MAX - 1 - lowest) << MUSTER_WIRE_KEY_BITS | 15);
    op->class = lowest + (uint32_t)(head >> MUSTER_WIRE_KEY_BITS);
    struct muster_wire_stride *stride = &expect->stride[op->class % MUSTER_WIRE_CLASSES];
    op->number = stride->last + stride->step;
    if (head & MUSTER_WIRE_JUMP)
        op->number += (uint64_t)muster_wire_get_signed(in, INT64_MIN, INT64_MAX);
    if (op->number > INT64_MAX)
        muster_wire_wrong(in, "an operation with a number that is none");
    muster_wire_expect_number(stride, op->number);
    bool far = head & MUSTER_WIRE_FAR;
    expect->enqueue_ns += get_time(in, far);
    op->enqueue_ns = call_of(expect, before_ns, now_ns);
    if (!(head & MUSTER_WIRE_TIMED)) {
        op->begin_ns = op->end_ns = 0;
        return;
    }
    if (!(head & MUSTER_WIRE_SAME))
        get_gpu_times(in, expect, far);
    op->begin_ns = expect->begin_ns;
    op->end_ns = expect->end_ns;
    if (op->begin_ns > op->end_ns || op->end_ns > 2 * LATEST_NS)
        muster_wire_wrong(in, "an operation that ends before it begins");
}

static void get_ops(struct muster_wire_in *in, const struct muster_wire_message *message,
                    struct muster_arena *arena, struct muster_wire_process *process)
{
    struct muster_wire_expect expect = {.enqueue_ns = message->mono_ns};
    process->ops = muster_wire_get_count(in, MUSTER_WIRE_OPS, LEAST_OP);
    uint32_t lowest = process->ops ? (uint32_t)muster_wire_get(in, UINT32_MAX - 1) : 0;
    process->op = muster_arena_array(arena, process->ops, sizeof *process->op);
    for (size_t i = 0; process->op && i < process->ops && !in->wrong; i++) {
        uint64_t before_ns = i > 0 ? process->op[i - 1].enqueue_ns : 0;
        get_op(in, &expect, message->mono_ns, lowest, before_ns, &process->op[i]);
    }
}

/* ---- all ---- */

static void get_slots(struct muster_wire_in *in, const struct muster_wire_message *message,
                      struct muster_arena *arena, struct muster_wire_process *process)
{
    process->slots = muster_wire_get_count(in, MUSTER_WIRE_SLOTS, LEAST_SLOT);
    process->slot = muster_arena_array(arena, process->slots, sizeof *process->slot);
    for (size_t i = 0; process->slot && i < process->slots && !in->wrong; i++)
        get_slot(in, message, &process->slot[i]);
}

static void get_net(struct muster_wire_in *in, struct muster_seg_net *net)
{
    uint64_t head = muster_wire_get(in, (uint64_t)UINT32_MAX << 1 | 1);
    net->comm = (uint32_t)(head >> 1);
    net->send = head & 1;
    net->peer = get_int(in);
    net->count = muster_wire_get(in, INT64_MAX);
    net->bytes = muster_wire_get(in, INT64_MAX);
    net->steps = muster_wire_get(in, INT64_MAX);
    net->gpu_wait_ns = muster_wire_get(in, INT64_MAX);
    net->credit_wait_ns = muster_wire_get(in, INT64_MAX);
    net->net_wait_ns = muster_wire_get(in, INT64_MAX);
    net->flush_ns = muster_wire_get(in, INT64_MAX);
    if (net->comm == 0)
        muster_wire_wrong(in, "a link of no communicator");
}

static void get_nets(struct muster_wire_in *in, struct muster_arena *arena,
                     struct muster_wire_process *process)
{
    process->nets = muster_wire_get_count(in, MUSTER_SEG_NETS, LEAST_NET);
    process->net = muster_arena_array(arena, process->nets, sizeof *process->net);
    for (size_t i = 0; process->net && i < process->nets && !in->wrong; i++)
        get_net(in, &process->net[i]);
}

static void get_process(struct muster_wire_in *in, const struct muster_wire_message *message,
                        struct muster_arena *arena, struct muster_wire_process *process)
{
    process->pid = get_u32(in);
    process->start_ticks = muster_wire_get(in, UINT64_MAX);
    unsigned head = muster_wire_get_byte(in);
    process->described = head & 1;
    process->still = head & 2;
    process->state = (enum muster_process_state)(head >> 2);
    if (process->state > MUSTER_PROCESS_KILLED)
        muster_wire_wrong(in, "a process in a state that is none");
    process->heartbeat_ns = get_age(in, message->mono_ns);
    process->missing = muster_wire_get(in, INT64_MAX);
    if (process->described)
        get_identity(in, message, &process->identity);
    process->comms = muster_wire_get_count(in, MUSTER_SEG_COMMS, LEAST_COMM);
    process->comm = muster_arena_array(arena, process->comms, sizeof *process->comm);
    for (size_t i = 0; process->comm && i < process->comms && !in->wrong; i++)
        get_comm(in, message, &process->comm[i]);
    if (process->still)
        get_slots(in, message, arena, process);
    get_nets(in, arena, process);
    process->classes = muster_wire_get_count(in, MUSTER_WIRE_CLASSES, LEAST_CLASS);
    process->class = muster_arena_array(arena, process->classes, sizeof *process->class);
    for (size_t i = 0; process->class && i < process->classes && !in->wrong; i++)
        get_class(in, &process->class[i]);
    get_ops(in, message, arena, process);
}

static void get_names(struct muster_wire_in *in, struct muster_wire_message *message)
{
    message->boot_hash = muster_wire_get_fixed(in);
    message->uid = get_u32(in);
    muster_wire_get_text(in, message->host, sizeof message->host);
    muster_wire_get_text(in, message->hostname, sizeof message->hostname);
    muster_wire_get_text(in, message->run_dir, sizeof message->run_dir);
    if (message->run_dir[0] != '/' || !message->host[0])
        muster_wire_wrong(in, "a host without a name, or a run directory that is not absolute");
}

/* ---- findings ---- */

static double get_share(struct muster_wire_in *in)
{
    return (double)muster_wire_get(in, INT64_MAX) / MUSTER_WIRE_MILLION;
}

static void get_lines(struct muster_wire_in *in, struct muster_finding_lines *lines)
{
    lines->n = (unsigned)muster_wire_get_count(in, MUSTER_FINDING_LINES, 1);
    for (unsigned i = 0; i < lines->n && !in->wrong; i++)
        muster_wire_get_text(in, lines->line[i], sizeof lines->line[i]);
}

static unsigned get_ranks(struct muster_wire_in *in, int32_t *rank)
{
    unsigned n = (unsigned)muster_wire_get_count(in, MUSTER_FINDING_RANKS, 1);
    for (unsigned i = 0; i < n; i++)
        rank[i] = (int32_t)muster_wire_get_signed(in, INT32_MIN, INT32_MAX);
    return n;
}

static void get_operation(struct muster_wire_in *in, struct muster_finding *finding)
{
    finding->op.func = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_FUNCS);
    finding->op.dtype = muster_kind_or_unknown((uint8_t)muster_wire_get_byte(in), MUSTER_DTYPES);
    finding->op.index = muster_wire_get(in, INT64_MAX);
    finding->op.bytes = muster_wire_get(in, INT64_MAX);
    finding->op.root = (int32_t)muster_wire_get_signed(in, INT32_MIN, INT32_MAX);
}

static void get_finding(struct muster_wire_in *in, struct muster_finding *finding)
{
    finding->kind = (enum muster_finding_kind)muster_wire_get_byte(in);
    unsigned flags = muster_wire_get_byte(in);
    finding->has_op = flags & MUSTER_WIRE_HAS_OP;
    finding->by_calls = flags & MUSTER_WIRE_BY_CALLS;
    finding->against_one = flags & MUSTER_WIRE_AGAINST_ONE;
    finding->mode = (enum muster_finding_mode)muster_wire_get_byte(in);
    finding->cause = (enum muster_finding_cause)muster_wire_get_byte(in);
    if (finding->kind != MUSTER_FINDING_LATE_RANK || finding->mode > MUSTER_MODE_MOVES ||
        finding->cause > MUSTER_CAUSE_HOST)
        muster_wire_wrong(in, "a finding that no agent makes");
    finding->comm = muster_wire_get_fixed(in);
    finding->gpu = (int32_t)muster_wire_get_signed(in, INT32_MIN, INT32_MAX);
    get_operation(in, finding);
    finding->since_unix_ns = muster_wire_get(in, INT64_MAX);
    finding->cost_s = get_share(in);
    finding->cost_share = get_share(in);
    finding->cost_low_s = get_share(in);
    finding->cost_high_s = get_share(in);
    finding->confidence = get_share(in);
    finding->step_s = get_share(in);
    finding->ranks = get_ranks(in, finding->rank);
    finding->victims = get_ranks(in, finding->victim);
    muster_wire_get_text(in, finding->where, sizeof finding->where);
    get_lines(in, &finding->evidence);
    get_lines(in, &finding->not_observable);
    muster_wire_get_text(in, finding->advice, sizeof finding->advice);
    if (finding->ranks == 0 || finding->cost_share > 1 || finding->confidence > 1)
        muster_wire_wrong(in, "a finding of nobody, or of more than everything");
}

static void get_findings(struct muster_wire_in *in, struct muster_arena *arena,
                         struct muster_wire_message *message)
{
    message->findings = muster_wire_get_count(in, MUSTER_WIRE_FINDINGS, LEAST_FINDING);
    message->finding = muster_arena_array(arena, message->findings, sizeof *message->finding);
    for (size_t i = 0; message->finding && i < message->findings && !in->wrong; i++)
        get_finding(in, &message->finding[i]);
}

/* ---- a message ---- */

/* The same in all versions. */
static void get_head(struct muster_wire_in *in, struct muster_wire_message *message)
{
    message->instance = muster_wire_get_fixed(in);
    message->sequence = muster_wire_get(in, INT64_MAX);
    message->mono_ns = muster_wire_get(in, LATEST_NS);
    message->unix_ns = muster_wire_get(in, LATEST_NS);
    message->described = muster_wire_get_byte(in) != 0;
    if (message->described)
        get_names(in, message);
}

static void get_message(struct muster_wire_in *in, struct muster_arena *arena,
                        struct muster_wire_message *message)
{
    get_head(in, message);
    uint64_t head = muster_wire_get(in, (uint64_t)MUSTER_WIRE_PROCESSES << 1 | 1);
    message->finds = head & 1;
    message->processes = (size_t)(head >> 1);
    if (message->processes > (in->end - in->at) / LEAST_PROCESS) {
        muster_wire_wrong(in, "more processes than there are bytes for");
        message->processes = 0;
    }
    message->process = muster_arena_array(arena, message->processes, sizeof *message->process);
    for (size_t i = 0; message->process && i < message->processes && !in->wrong; i++)
        get_process(in, message, arena, &message->process[i]);
    if (message->finds && !in->wrong)
        get_findings(in, arena, message);
    if (!in->wrong && in->at != in->end)
        muster_wire_wrong(in, "more behind its end");
}

/* Whom to update: the older of the two. */
static int refuse_version(const char *name, uint64_t version, struct muster_wire_in *in,
                          struct muster_wire_message *message, struct muster_err *err)
{
    char host[sizeof message->host + 8] = "a host";
    get_head(in, message);
    if (in->wrong)
        memset(message, 0, sizeof *message);
    if (message->described)
        snprintf(host, sizeof host, "host %s", message->host);
    message->version = version;
    return muster_fail(err, "%s: %s tells in wire version %llu, this muster reads %d: update %s",
                       name, host, (unsigned long long)version, MUSTER_WIRE_VERSION,
                       version < MUSTER_WIRE_VERSION ? "muster on that host"
                                                     : "this one, as that host is newer");
}

int muster_wire_read(const char *name, const void *data, size_t bytes, struct muster_arena *arena,
                     struct muster_wire_message *message, struct muster_err *err)
{
    struct muster_wire_in in = {.byte = data, .end = bytes};
    memset(message, 0, sizeof *message);
    if (bytes < 5 || memcmp(data, "mflt", 4) != 0)
        return muster_fail(err, "%s: not a message of muster's agents", name);
    in.at = 4;
    uint64_t version = muster_wire_get(&in, UINT64_MAX);
    if (!in.wrong && version != MUSTER_WIRE_VERSION)
        return refuse_version(name, version, &in, message, err);
    get_message(&in, arena, message);
    if (in.wrong)
        return muster_fail(err, "%s: byte %zu of %zu: %s", name, in.wrong_at, bytes, in.wrong);
    return muster_arena_check(arena, err, "a message");
}
