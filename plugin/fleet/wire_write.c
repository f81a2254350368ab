/* The writing half of fleet/wire.h. Optional parts are announced by flags in front of them. */
#include "fleet/wire.h"

#include <math.h>
#include <stdlib.h>

#include "fleet/wire_ops.h"

/* Ages, so that recent times are short; 0 stays 0: it never happened. */
static void put_age(struct muster_wire_out *out, uint64_t now_ns, uint64_t then_ns)
{
    muster_wire_put(out, then_ns ? (now_ns > then_ns ? now_ns - then_ns : 0) + 1 : 0);
}

static void put_identity(const struct muster_wire_message *message,
                         const struct muster_seg_identity *who, struct muster_wire_out *out)
{
    put_age(out, message->mono_ns, who->begin_mono_ns);
    muster_wire_put(out, who->begin_unix_ns);
    muster_wire_put_signed(out, who->rank);
    muster_wire_put_signed(out, who->local_rank);
    muster_wire_put_signed(out, who->world);
    muster_wire_put(out, who->nccl);
    muster_wire_put(out, who->api);
    muster_wire_put(out, who->timing);
    muster_wire_put(out, who->replay_speed);
    muster_wire_put_byte(out, who->rank_source);
    muster_wire_put_byte(out, who->mark != 0);
    muster_wire_put_text(out, who->gpu_name);
}

static void put_described(const struct muster_wire_message *message,
                          const struct muster_seg_comm *comm, struct muster_wire_out *out)
{
    muster_wire_put_fixed(out, comm->id);
    muster_wire_put_signed(out, comm->rank);
    muster_wire_put(out, comm->nranks);
    muster_wire_put(out, comm->nnodes);
    muster_wire_put_signed(out, comm->gpu_index);
    muster_wire_put_text(out, comm->gpu_pci);
    muster_wire_put_text(out, comm->gpu_uuid);
    muster_wire_put_text(out, comm->name);
    put_age(out, message->mono_ns, comm->begin_ns);
    muster_wire_put(out, comm->timing);
}

static void put_calls(const struct muster_seg_comm *comm, struct muster_wire_out *out)
{
    uint64_t n = comm->calls < MUSTER_SEG_CALLS ? comm->calls : MUSTER_SEG_CALLS;
    muster_wire_put_fixed(out, comm->call_hash);
    muster_wire_put(out, comm->captured);
    for (uint64_t i = comm->calls - n; i < comm->calls; i++) {
        const struct muster_seg_call *call = &comm->call[i % MUSTER_SEG_CALLS];
        muster_wire_put_signed(out, (int16_t)(uint16_t)(call->number - i));
        muster_wire_put_byte(out, call->func);
        muster_wire_put_byte(out, call->dtype);
        muster_wire_put_signed(out, call->root);
        muster_wire_put(out, call->count);
    }
}

static void put_comm(const struct muster_wire_message *message, const struct muster_wire_comm *from,
                     struct muster_wire_out *out)
{
    const struct muster_seg_comm *comm = &from->seg;
    uint64_t launches = comm->launches, ended = comm->launches_ended;
    uint64_t probed = comm->launches_probed;
    muster_wire_put(out,
                    (uint64_t)comm->uid << 2 | (from->described ? 1 : 0) | (from->still ? 2 : 0));
    muster_wire_put(out, comm->calls);
    muster_wire_put(out, launches);
    muster_wire_put_signed(out, (int64_t)(launches - ended));
    muster_wire_put_signed(out, (int64_t)(launches - probed));
    put_age(out, message->mono_ns, comm->called_ns);
    put_age(out, message->mono_ns, comm->ended_ns);
    put_age(out, message->mono_ns, comm->end_ns);
    if (from->described)
        put_described(message, comm, out);
    if (from->still)
        put_calls(comm, out);
}

static void put_slot(const struct muster_wire_message *message, const struct muster_wire_slot *slot,
                     struct muster_wire_out *out)
{
    muster_wire_put(out, slot->comm);
    muster_wire_put(out, slot->number);
    put_age(out, message->mono_ns, slot->enqueue_ns);
    muster_wire_put(out, slot->count);
    muster_wire_put_signed(out, slot->peer);
    muster_wire_put(out, slot->flags);
    muster_wire_put_byte(out, slot->func);
    muster_wire_put_byte(out, slot->dtype);
    muster_wire_put_byte(out, (unsigned)slot->state << 1 | (slot->p2p != 0));
    muster_wire_put(out, slot->started);
    muster_wire_put(out, slot->ended);
    muster_wire_put(out, slot->proxy_started);
    muster_wire_put(out, slot->proxy_ended);
}

static void put_net(const struct muster_seg_net *net, struct muster_wire_out *out)
{
    muster_wire_put(out, (uint64_t)net->comm << 1 | (net->send != 0));
    muster_wire_put_signed(out, net->peer);
    muster_wire_put(out, net->count);
    muster_wire_put(out, net->bytes);
    muster_wire_put(out, net->steps);
    muster_wire_put(out, net->gpu_wait_ns);
    muster_wire_put(out, net->credit_wait_ns);
    muster_wire_put(out, net->net_wait_ns);
    muster_wire_put(out, net->flush_ns);
}

static void put_class(const struct muster_wire_class *class, struct muster_wire_out *out)
{
    const struct muster_op *like = &class->like;
    muster_wire_put(out, class->id);
    muster_wire_put(out, like->comm);
    muster_wire_put_byte(out, like->func);
    muster_wire_put_byte(out, like->dtype);
    muster_wire_put_byte(out, (unsigned)(like->algo & 15) << 4 | (like->proto & 15));
    muster_wire_put_byte(out, like->channels);
    muster_wire_put_byte(out, like->source);
    muster_wire_put(out, like->flags);
    muster_wire_put_signed(out, like->peer);
    muster_wire_put(out, like->count);
}

/* ---- operations ---- */

/* A code rounds to a thousandth of the distance. What was not sent before makes that long, and then
 * its thousandth is long beside what the ranks are compared by. */
static bool code_near(uint64_t to_ns, uint64_t from_ns, uint16_t *code)
{
    int64_t distance_ns = (int64_t)(to_ns - from_ns);
    return distance_ns > -MUSTER_WIRE_FAR_NS && distance_ns < MUSTER_WIRE_FAR_NS &&
           muster_wire_time_code(distance_ns, code);
}

static bool codes_of(const struct muster_wire_expect *expect, const struct muster_wire_op *op,
                     uint16_t code[3])
{
    return code_near(op->enqueue_ns, expect->enqueue_ns, &code[0]) &&
           code_near(op->begin_ns, expect->end_ns, &code[1]) &&
           code_near(op->end_ns, op->begin_ns, &code[2]);
}

/* Returns the time as it is read. */
static uint64_t put_far(struct muster_wire_out *out, uint64_t to_ns, uint64_t from_ns)
{
    int64_t units = (int64_t)(to_ns - from_ns) / MUSTER_WIRE_UNIT_NS;
    muster_wire_put_signed(out, units);
    return from_ns + (uint64_t)(units * MUSTER_WIRE_UNIT_NS);
}

/* The times of the one that goes before in the row as they were, to recognize the same kernel. */
struct before {
    uint64_t begin_ns, end_ns;
};

static void put_times(struct muster_wire_expect *expect, const struct muster_wire_op *op,
                      unsigned key, const uint16_t code[3], struct muster_wire_out *out)
{
    if (key & MUSTER_WIRE_FAR) {
        expect->enqueue_ns = put_far(out, op->enqueue_ns, expect->enqueue_ns);
    } else {
        muster_wire_put_time(out, code[0]);
        expect->enqueue_ns += (uint64_t)muster_wire_time_of(code[0]);
    }
    if (!(key & MUSTER_WIRE_TIMED) || key & MUSTER_WIRE_SAME)
        return;
    if (key & MUSTER_WIRE_FAR) {
        expect->begin_ns = put_far(out, op->begin_ns, expect->end_ns);
        expect->end_ns = put_far(out, op->end_ns, op->begin_ns) - op->begin_ns + expect->begin_ns;
        return;
    }
    muster_wire_put_time(out, code[1]);
    muster_wire_put_time(out, code[2]);
    expect->begin_ns = expect->end_ns + (uint64_t)muster_wire_time_of(code[1]);
    expect->end_ns = expect->begin_ns + (uint64_t)muster_wire_time_of(code[2]);
}

static void put_op(struct muster_wire_expect *expect, struct before *before, uint32_t lowest,
                   const struct muster_wire_op *op, struct muster_wire_out *out)
{
    struct muster_wire_stride *stride = &expect->stride[op->class % MUSTER_WIRE_CLASSES];
    bool timed = op->end_ns != 0;
    bool same = timed && op->begin_ns == before->begin_ns && op->end_ns == before->end_ns;
    uint16_t code[3] = {0};
    struct muster_wire_op as_read = *op;
    if (!timed || same) { /* only the call is written */
        as_read.begin_ns = expect->end_ns;
        as_read.end_ns = as_read.begin_ns;
    }
    uint64_t expected = stride->last + stride->step;
    unsigned key = (timed ? MUSTER_WIRE_TIMED : 0) | (same ? MUSTER_WIRE_SAME : 0) |
                   (op->number != expected ? MUSTER_WIRE_JUMP : 0) |
                   (codes_of(expect, &as_read, code) ? 0 : MUSTER_WIRE_FAR);
    muster_wire_put(out, (uint64_t)(op->class - lowest) << MUSTER_WIRE_KEY_BITS | key);
    if (key & MUSTER_WIRE_JUMP)
        muster_wire_put_signed(out, (int64_t)(op->number - expected));
    muster_wire_expect_number(stride, op->number);
    put_times(expect, op, key, code, out);
    if (timed)
        *before = (struct before){op->begin_ns, op->end_ns};
}

static void put_ops(const struct muster_wire_message *message,
                    const struct muster_wire_process *process, struct muster_wire_out *out)
{
    struct muster_wire_expect expect = {.enqueue_ns = message->mono_ns};
    struct before before = {0};
    uint32_t lowest = UINT32_MAX;
    for (size_t i = 0; i < process->ops; i++)
        lowest = process->op[i].class < lowest ? process->op[i].class : lowest;
    muster_wire_put(out, process->ops);
    if (process->ops)
        muster_wire_put(out, lowest);
    for (size_t i = 0; i < process->ops; i++)
        put_op(&expect, &before, lowest, &process->op[i], out);
}

size_t muster_wire_write_process(const struct muster_wire_message *message,
                                 const struct muster_wire_process *process,
                                 struct muster_wire_out *out)
{
    muster_wire_put(out, process->pid);
    muster_wire_put(out, process->start_ticks);
    muster_wire_put_byte(out, (unsigned)process->state << 2 | (process->described ? 1u : 0) |
                                  (process->still ? 2u : 0));
    put_age(out, message->mono_ns, process->heartbeat_ns);
    muster_wire_put(out, process->missing);
    if (process->described)
        put_identity(message, &process->identity, out);
    muster_wire_put(out, process->comms);
    for (size_t i = 0; i < process->comms; i++)
        put_comm(message, &process->comm[i], out);
    if (process->still) {
        muster_wire_put(out, process->slots);
        for (size_t i = 0; i < process->slots; i++)
            put_slot(message, &process->slot[i], out);
    }
    muster_wire_put(out, process->nets);
    for (size_t i = 0; i < process->nets; i++)
        put_net(&process->net[i], out);
    size_t before = out->used;
    muster_wire_put(out, process->classes);
    for (size_t i = 0; i < process->classes; i++)
        put_class(&process->class[i], out);
    put_ops(message, process, out);
    return out->used - before;
}

void muster_wire_write_head(const struct muster_wire_message *message, struct muster_wire_out *out)
{
    static const char magic[] = "mflt";
    for (unsigned i = 0; i < sizeof magic - 1; i++)
        muster_wire_put_byte(out, (unsigned char)magic[i]);
    muster_wire_put(out, MUSTER_WIRE_VERSION);
    muster_wire_put_fixed(out, message->instance);
    muster_wire_put(out, message->sequence);
    muster_wire_put(out, message->mono_ns);
    muster_wire_put(out, message->unix_ns);
    muster_wire_put_byte(out, message->described);
    if (message->described) {
        muster_wire_put_fixed(out, message->boot_hash);
        muster_wire_put(out, message->uid);
        muster_wire_put_text(out, message->host);
        muster_wire_put_text(out, message->hostname);
        muster_wire_put_text(out, message->run_dir);
    }
    muster_wire_put(out, message->processes << 1 | (message->finds ? 1 : 0));
}

/* ---- findings ---- */

static void put_share(struct muster_wire_out *out, double value)
{
    bool fits = isfinite(value) && value > 0 && value < (double)INT64_MAX / MUSTER_WIRE_MILLION;
    muster_wire_put(out, fits ? (uint64_t)(value * MUSTER_WIRE_MILLION) : 0);
}

static void put_lines(struct muster_wire_out *out, const struct muster_finding_lines *lines)
{
    muster_wire_put(out, lines->n);
    for (unsigned i = 0; i < lines->n; i++)
        muster_wire_put_text(out, lines->line[i]);
}

static void put_ranks(struct muster_wire_out *out, const int32_t *rank, unsigned n)
{
    muster_wire_put(out, n);
    for (unsigned i = 0; i < n; i++)
        muster_wire_put_signed(out, rank[i]);
}

static void put_operation(struct muster_wire_out *out, const struct muster_finding *finding)
{
    muster_wire_put_byte(out, finding->op.func);
    muster_wire_put_byte(out, finding->op.dtype);
    muster_wire_put(out, finding->op.index);
    muster_wire_put(out, finding->op.bytes);
    muster_wire_put_signed(out, finding->op.root);
}

static void put_finding(struct muster_wire_out *out, const struct muster_finding *finding)
{
    muster_wire_put_byte(out, finding->kind);
    muster_wire_put_byte(out, (finding->has_op ? MUSTER_WIRE_HAS_OP : 0u) |
                                  (finding->by_calls ? MUSTER_WIRE_BY_CALLS : 0) |
                                  (finding->against_one ? MUSTER_WIRE_AGAINST_ONE : 0));
    muster_wire_put_byte(out, finding->mode);
    muster_wire_put_byte(out, finding->cause);
    muster_wire_put_fixed(out, finding->comm);
    muster_wire_put_signed(out, finding->gpu);
    put_operation(out, finding);
    muster_wire_put(out, finding->since_unix_ns);
    put_share(out, finding->cost_s);
    put_share(out, finding->cost_share);
    put_share(out, finding->cost_low_s);
    put_share(out, finding->cost_high_s);
    put_share(out, finding->confidence);
    put_share(out, finding->step_s);
    put_ranks(out, finding->rank, finding->ranks);
    put_ranks(out, finding->victim, finding->victims);
    muster_wire_put_text(out, finding->where);
    put_lines(out, &finding->evidence);
    put_lines(out, &finding->not_observable);
    muster_wire_put_text(out, finding->advice);
}

void muster_wire_write_findings(const struct muster_wire_message *message,
                                struct muster_wire_out *out)
{
    if (message->finds)
        muster_wire_put(out, message->findings);
    for (size_t i = 0; message->finds && i < message->findings; i++)
        put_finding(out, &message->finding[i]);
}

void muster_wire_write(const struct muster_wire_message *message, struct muster_wire_out *out)
{
    muster_wire_write_head(message, out);
    for (size_t i = 0; i < message->processes; i++)
        muster_wire_write_process(message, &message->process[i], out);
    muster_wire_write_findings(message, out);
}
