#include "oplog/log_decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/nccl_types.h"
#include "base/text.h"

struct decoder {
    struct muster_log *log;
    struct muster_log_source in;
    struct muster_log_class *class;
    unsigned classes;
    uint32_t ops;
    uint64_t last_enqueue_ns;
    uint64_t last_begin_ns[MUSTER_SOURCES];
    uint64_t word; /* behind the last one of the image */
};

static struct muster_log_comm *comm_for(struct muster_log *log, uint32_t uid)
{
    size_t at = muster_hashmap_find(&log->comm_at, &uid);
    if (at < log->comms)
        return &log->comm[at];
    if (!muster_grow(&log->comm, log->comms, sizeof(*log->comm)) ||
        !muster_hashmap_put(&log->comm_at, &uid, log->comms)) {
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
    /* Not by muster_grow: whoever takes the operations a frame at a time begins again at 0. */
    if (!in->bad && !muster_reserve(&log->op, &log->room, log->ops + 1, sizeof(*log->op)))
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

/* Takes where words of the image lie; NULL: in no image, or nobody wants one. */
static uint64_t *get_place(struct decoder *decoder, uint64_t *n)
{
    struct muster_log_source *in = &decoder->in;
    uint64_t at = decoder->word + (uint64_t)muster_log_get_i(in);
    *n = muster_log_get_u(in);
    uint64_t begin = MUSTER_SEG_IMAGE_BEGIN / 8, end = MUSTER_SEG_IMAGE_END / 8;
    if (in->bad || at < begin || at > end || *n > end - at) {
        in->bad = true;
        return NULL;
    }
    decoder->word = at + *n;
    if (!decoder->log->image)
        return NULL;
    return (uint64_t *)(void *)((char *)decoder->log->image + at * 8);
}

static void get_patch(struct decoder *decoder)
{
    uint64_t n, *word = get_place(decoder, &n);
    for (uint64_t i = 0; i < n && !decoder->in.bad; i++) {
        uint64_t now = muster_log_get_u(&decoder->in);
        if (word)
            word[i] = now;
    }
}

static void get_zeros(struct decoder *decoder)
{
    uint64_t n, *word = get_place(decoder, &n);
    if (word)
        memset(word, 0, n * sizeof(*word));
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
    else if (kind == MUSTER_LOG_PATCH)
        get_patch(decoder);
    else if (kind == MUSTER_LOG_ZEROS)
        get_zeros(decoder);
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
