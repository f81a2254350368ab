#include "segment/log_decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/vocab.h"
#include "segment/log_facts.h"
#include "segment/log_policy.h"
#include "segment/table.h"

struct decoder {
    struct muster_log *log;
    struct muster_log_source in;
    struct muster_log_class *class;
    unsigned classes;
    uint32_t ops;
    uint64_t last_enqueue_ns;
    uint64_t last_begin_ns[MUSTER_SOURCES];
};

static struct muster_log_comm *comm_for(struct muster_log *log, uint32_t uid)
{
    size_t at = muster_uid_find(&log->comm_index, uid);
    if (at < log->comms)
        return &log->comm[at];
    if (!muster_grow(&log->comm, log->comms, sizeof(*log->comm)) ||
        !muster_uid_add(&log->comm_index, uid, log->comms)) {
        log->no_memory = true;
        return NULL;
    }
    return &log->comm[log->comms++];
}

static void get_comm(struct decoder *decoder)
{
    struct muster_log_source *in = &decoder->in;
    struct muster_log_comm comm = {0};
    char name[MUSTER_SEG_NAME] = "";
    comm.uid = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    muster_log_get_bytes(in, &comm.id, sizeof(comm.id));
    comm.rank = (int32_t)muster_log_get_i(in);
    comm.nranks = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    comm.nnodes = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    size_t length = (size_t)muster_log_get_max(in, sizeof(name) - 1);
    muster_log_get_bytes(in, name, length);
    muster_text_copy(comm.name, sizeof(comm.name), name);
    if (in->bad || comm.uid == 0) {
        in->bad = true;
        return;
    }
    struct muster_log_comm *place = comm_for(decoder->log, comm.uid);
    if (place)
        *place = comm;
    in->bad = !place;
}

static void get_kind(struct muster_log_source *in, struct muster_op *op)
{
    uint8_t kind[5];
    muster_log_get_bytes(in, kind, sizeof(kind));
    op->func = muster_kind_or_unknown(kind[0], MUSTER_FUNCS);
    op->dtype = muster_kind_or_unknown(kind[1], MUSTER_DTYPES);
    op->algo = muster_kind_or_unknown(kind[2], MUSTER_ALGOS);
    op->proto = muster_kind_or_unknown(kind[3], MUSTER_PROTOS);
    op->channels = kind[4];
    op->flags = (uint16_t)muster_log_get_max(in, UINT16_MAX);
    op->peer = (int32_t)muster_log_get_i(in);
    op->count = muster_log_get_u(in);
}

static void get_class(struct decoder *decoder)
{
    struct muster_log_source *in = &decoder->in;
    if (decoder->classes == MUSTER_LOG_CLASSES) {
        in->bad = true;
        return;
    }
    struct muster_log_class *class = &decoder->class[decoder->classes++];
    memset(class, 0, sizeof(*class));
    class->op.comm = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    class->op.source = (uint8_t)muster_log_get_max(in, MUSTER_SOURCES - 1);
    get_kind(in, &class->op);
    class->number = muster_log_get_u(in);
}

static void get_op(struct decoder *decoder, uint64_t number)
{
    struct muster_log *log = decoder->log;
    struct muster_log_source *in = &decoder->in;
    in->bad = number >= decoder->classes;
    if (!in->bad && !muster_grow(&log->op, log->ops, sizeof(*log->op)))
        in->bad = log->no_memory = true;
    if (in->bad)
        return;
    struct muster_log_class *class = &decoder->class[number];
    struct muster_op *op = &log->op[log->ops];
    *op = class->op;
    op->number = class->number + (uint64_t)muster_log_get_i(in);
    op->enqueue_ns = decoder->last_enqueue_ns + (uint64_t)muster_log_get_i(in);
    if (op->source != MUSTER_SOURCE_NONE) {
        uint64_t *last = &decoder->last_begin_ns[op->source];
        *last += (uint64_t)muster_log_get_i(in);
        op->begin_ns = *last;
        op->end_ns = *last + (uint64_t)muster_log_get_i(in);
    }
    class->number = op->number;
    decoder->last_enqueue_ns = op->enqueue_ns;
    decoder->ops++;
    log->ops++;
}

static void get_process(struct decoder *decoder)
{
    struct muster_log_source *in = &decoder->in;
    struct muster_log_process_state state = {
        .heartbeat_mono_ns = muster_log_get_u(in),
        .heartbeat_unix_ns = muster_log_get_u(in),
    };
    state.exit_state = (uint32_t)muster_log_get_max(in, MUSTER_EXIT_FINALIZED);
    state.comms_alive = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    state.lost_log = muster_log_get_u(in);
    state.overwritten = muster_log_get_u(in);
    if (in->bad)
        return;
    decoder->log->process = state;
    decoder->log->has_process = true;
}

static void get_call(struct muster_log_source *in, struct muster_seg_call *call)
{
    uint8_t kind[2];
    muster_log_get_bytes(in, kind, sizeof(kind));
    call->func = muster_kind_or_unknown(kind[0], MUSTER_FUNCS);
    call->dtype = muster_kind_or_unknown(kind[1], MUSTER_DTYPES);
    call->count = muster_log_get_u(in);
    call->root = (int32_t)muster_log_get_i(in);
    call->number = (uint16_t)muster_log_get_max(in, UINT16_MAX);
}

static void get_pending(struct muster_log_source *in, uint32_t uid,
                        struct muster_log_pending *pending)
{
    *pending = (struct muster_log_pending){.op.comm = uid};
    pending->launched = (uint32_t)muster_log_get_max(in, 1);
    get_kind(in, &pending->op);
    pending->op.number = muster_log_get_u(in);
    pending->op.enqueue_ns = muster_log_get_u(in);
    pending->started = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    pending->ended = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    pending->proxy_started = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    pending->proxy_ended = (uint32_t)muster_log_get_max(in, UINT32_MAX);
}

static struct muster_log_seen *seen_for(struct muster_log *log, uint32_t uid)
{
    size_t at = muster_uid_find(&log->seen_index, uid);
    if (at < log->seens)
        return &log->seen[at];
    if (!muster_grow(&log->seen, log->seens, sizeof(*log->seen)) ||
        !muster_uid_add(&log->seen_index, uid, log->seens)) {
        log->no_memory = true;
        return NULL;
    }
    memset(&log->seen[log->seens], 0, sizeof(*log->seen));
    return &log->seen[log->seens++];
}

/* Takes a copy of the list: most communicators have nothing outstanding. */
static bool keep_state(struct muster_log *log, const struct muster_log_comm_state *state)
{
    struct muster_log_pending *pending = NULL;
    size_t bytes = state->listed * sizeof(*pending);
    struct muster_log_seen *seen = seen_for(log, state->uid);
    if (seen && bytes && !(pending = malloc(bytes)))
        log->no_memory = true;
    if (!seen || (bytes && !pending))
        return false;
    if (bytes)
        memcpy(pending, state->pending, bytes);
    free(seen->state.pending);
    seen->state = *state;
    seen->state.pending = pending;
    seen->ops_before = log->ops;
    return true;
}

static void get_comm_state(struct decoder *decoder)
{
    struct muster_log_source *in = &decoder->in;
    struct muster_log_pending pending[MUSTER_LOG_OUTSTANDING];
    struct muster_log_comm_state state = {.pending = pending};
    state.uid = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    state.begin_ns = muster_log_get_u(in);
    state.end_ns = muster_log_get_u(in);
    state.retired = muster_log_get_u(in);
    state.captured = muster_log_get_u(in);
    state.calls = muster_log_get_u(in);
    muster_log_get_bytes(in, &state.call_hash, sizeof(state.call_hash));
    state.called_ns = muster_log_get_u(in);
    state.launches = muster_log_get_u(in);
    state.launches_marked = muster_log_get_u(in);
    state.launches_ended = muster_log_get_u(in);
    state.calls_listed = (uint32_t)muster_log_get_max(in, MUSTER_SEG_CALLS);
    for (uint32_t i = 0; i < state.calls_listed; i++)
        get_call(in, &state.call[i]);
    state.outstanding = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    state.listed = (uint32_t)muster_log_get_max(in, MUSTER_LOG_OUTSTANDING);
    for (uint32_t i = 0; i < state.listed; i++)
        get_pending(in, state.uid, &pending[i]);
    if (!in->bad)
        in->bad = !keep_state(decoder->log, &state);
}

static void get_record(struct decoder *decoder)
{
    uint64_t kind = muster_log_get_u(&decoder->in);
    if (kind >= MUSTER_LOG_OP)
        get_op(decoder, kind - MUSTER_LOG_OP);
    else if (kind == MUSTER_LOG_COMM)
        get_comm(decoder);
    else if (kind == MUSTER_LOG_CLASS)
        get_class(decoder);
    else if (kind == MUSTER_LOG_PROCESS)
        get_process(decoder);
    else if (kind == MUSTER_LOG_COMM_STATE)
        get_comm_state(decoder);
    else if (kind == MUSTER_LOG_POLICY)
        muster_log_policy_get(decoder->log, &decoder->in);
    else if (kind == MUSTER_LOG_RULE)
        muster_log_policy_get_rule(decoder->log, &decoder->in);
    else if (kind == MUSTER_LOG_FACTS)
        muster_log_facts_get(decoder->log, &decoder->in);
    else
        decoder->in.bad = true;
}

bool muster_log_decode(struct muster_log *log, const struct muster_log_frame *frame,
                       const uint8_t *payload, struct muster_log_class *class)
{
    struct decoder decoder = {
        .log = log,
        .in = {payload, payload + frame->length, false},
        .class = class,
        .last_enqueue_ns = frame->base_ns,
    };
    size_t ops = log->ops;
    while (!decoder.in.bad && decoder.in.at < decoder.in.end)
        get_record(&decoder);
    if (decoder.in.bad || decoder.ops != frame->ops) {
        log->ops = ops;
        return false;
    }
    return true;
}
