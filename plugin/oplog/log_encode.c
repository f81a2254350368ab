#include "oplog/log_encode.h"

#include <string.h>

#include "base/hash.h"

void muster_log_encode_begin(struct muster_log_encoder *encoder, size_t room)
{
    if (room > MUSTER_LOG_FRAME_BYTES)
        room = MUSTER_LOG_FRAME_BYTES;
    room &= ~(size_t)7;
    size_t head = sizeof(struct muster_log_frame);
    encoder->sink.at = encoder->buffer + head;
    encoder->sink.end = encoder->buffer + (room > head ? room : head);
    encoder->sink.bad = false;
    encoder->ops = 0;
    encoder->first_op = 0;
    encoder->base_ns = 0;
    encoder->last_enqueue_ns = 0;
    memset(encoder->last_begin_ns, 0, sizeof(encoder->last_begin_ns));
    memset(encoder->index, 0, sizeof(encoder->index));
    encoder->classes = 0;
    encoder->comms = 0;
    encoder->word = 0;
}

bool muster_log_encode_empty(const struct muster_log_encoder *encoder)
{
    return encoder->sink.at == encoder->buffer + sizeof(struct muster_log_frame);
}

bool muster_log_encode_wants_comm(const struct muster_log_encoder *encoder, uint32_t uid)
{
    for (unsigned i = 0; i < encoder->comms; i++)
        if (encoder->comm[i] == uid)
            return false;
    return true;
}

static void put_comm(struct muster_log_encoder *encoder, const struct muster_log_comm *def)
{
    if (!def || !muster_log_encode_wants_comm(encoder, def->uid) ||
        encoder->comms == MUSTER_SEG_COMMS)
        return;
    size_t name = strnlen(def->name, sizeof(def->name) - 1);
    muster_log_put_u(&encoder->sink, MUSTER_LOG_COMM);
    muster_log_put_u(&encoder->sink, def->uid);
    muster_log_put_bytes(&encoder->sink, &def->id, sizeof(def->id));
    muster_log_put_i(&encoder->sink, def->rank);
    muster_log_put_u(&encoder->sink, def->nranks);
    muster_log_put_u(&encoder->sink, def->nnodes);
    muster_log_put_u(&encoder->sink, name);
    muster_log_put_bytes(&encoder->sink, def->name, name);
    encoder->comm[encoder->comms++] = def->uid;
}

/* What a class is distinguished by, the rest zero. */
static struct muster_op class_key(const struct muster_op *op)
{
    struct muster_op key;
    memset(&key, 0, sizeof(key));
    key.count = op->count;
    key.comm = op->comm;
    key.peer = op->peer;
    key.func = op->func;
    key.dtype = op->dtype;
    key.algo = op->algo;
    key.proto = op->proto;
    key.channels = op->channels;
    key.source = op->source < MUSTER_SOURCES ? op->source : (uint8_t)MUSTER_SOURCE_NONE;
    key.flags = op->flags;
    return key;
}

static unsigned class_place(const struct muster_log_encoder *encoder, const struct muster_op *key)
{
    uint64_t hash = muster_hash(MUSTER_HASH_SEED, key, sizeof(*key));
    unsigned place = (unsigned)(hash % MUSTER_LOG_CLASS_INDEX);
    while (encoder->index[place] &&
           memcmp(&encoder->class[encoder->index[place] - 1].op, key, sizeof(*key)) != 0)
        place = (place + 1) % MUSTER_LOG_CLASS_INDEX;
    return place;
}

static void put_kind(struct muster_log_sink *sink, const struct muster_op *op)
{
    uint8_t kind[5] = {op->func, op->dtype, op->algo, op->proto, op->channels};
    muster_log_put_bytes(sink, kind, sizeof(kind));
    muster_log_put_u(sink, op->flags);
    muster_log_put_i(sink, op->peer);
    muster_log_put_u(sink, op->count);
}

static void put_class(struct muster_log_encoder *encoder, const struct muster_op *key,
                      uint64_t number)
{
    muster_log_put_u(&encoder->sink, MUSTER_LOG_CLASS);
    muster_log_put_u(&encoder->sink, key->comm);
    muster_log_put_u(&encoder->sink, key->source);
    put_kind(&encoder->sink, key);
    muster_log_put_u(&encoder->sink, number);
}

static void put_times(struct muster_log_encoder *encoder, const struct muster_op *op,
                      uint8_t source)
{
    muster_log_put_i(&encoder->sink, (int64_t)(op->enqueue_ns - encoder->last_enqueue_ns));
    if (source == MUSTER_SOURCE_NONE)
        return;
    muster_log_put_i(&encoder->sink, (int64_t)(op->begin_ns - encoder->last_begin_ns[source]));
    muster_log_put_i(&encoder->sink, (int64_t)(op->end_ns - op->begin_ns));
}

static void first_op(struct muster_log_encoder *encoder, const struct muster_op *op,
                     uint64_t ordinal)
{
    encoder->first_op = ordinal;
    encoder->base_ns = op->enqueue_ns;
    encoder->last_enqueue_ns = op->enqueue_ns;
}

/* Undoing is cheap because the tables change only after everything fitted. */
bool muster_log_encode_op(struct muster_log_encoder *encoder, const struct muster_log_comm *def,
                          const struct muster_op *op, uint64_t ordinal)
{
    if (encoder->ops && ordinal != encoder->first_op + encoder->ops)
        return false;
    struct muster_op key = class_key(op);
    unsigned place = class_place(encoder, &key);
    bool new_class = encoder->index[place] == 0;
    if (new_class && encoder->classes == MUSTER_LOG_CLASSES)
        return false;
    struct muster_log_sink before = encoder->sink;
    unsigned comms = encoder->comms;
    if (encoder->ops == 0)
        first_op(encoder, op, ordinal);
    put_comm(encoder, def);
    unsigned class = new_class ? encoder->classes : encoder->index[place] - 1u;
    if (new_class)
        put_class(encoder, &key, op->number);
    uint64_t last = new_class ? op->number : encoder->class[class].number;
    muster_log_put_u(&encoder->sink, MUSTER_LOG_OP + class);
    muster_log_put_i(&encoder->sink, (int64_t)(op->number - last));
    put_times(encoder, op, key.source);
    if (encoder->sink.bad) {
        encoder->sink = before;
        encoder->comms = comms;
        return false;
    }
    if (new_class) {
        encoder->class[class].op = key;
        encoder->index[place] = (uint16_t)(++encoder->classes);
    }
    encoder->class[class].number = op->number;
    encoder->last_enqueue_ns = op->enqueue_ns;
    encoder->last_begin_ns[key.source] = op->begin_ns;
    encoder->ops++;
    return true;
}

static void put_place(struct muster_log_encoder *encoder, enum muster_log_record kind, size_t at,
                      size_t n)
{
    muster_log_put_u(&encoder->sink, kind);
    muster_log_put_i(&encoder->sink, (int64_t)at - (int64_t)encoder->word);
    muster_log_put_u(&encoder->sink, n);
}

static bool end_place(struct muster_log_encoder *encoder, struct muster_log_sink before, size_t end)
{
    if (encoder->sink.bad) {
        encoder->sink = before;
        return false;
    }
    encoder->word = end;
    return true;
}

bool muster_log_encode_patch(struct muster_log_encoder *encoder, size_t at, const uint64_t *word,
                             size_t n)
{
    struct muster_log_sink before = encoder->sink;
    put_place(encoder, MUSTER_LOG_PATCH, at, n);
    for (size_t i = 0; i < n; i++)
        muster_log_put_u(&encoder->sink, word[i]);
    return end_place(encoder, before, at + n);
}

bool muster_log_encode_zeros(struct muster_log_encoder *encoder, size_t at, size_t n)
{
    struct muster_log_sink before = encoder->sink;
    put_place(encoder, MUSTER_LOG_ZEROS, at, n);
    return end_place(encoder, before, at + n);
}

size_t muster_log_encode_end(struct muster_log_encoder *encoder, uint32_t sequence, uint32_t slot)
{
    size_t bytes = (size_t)(encoder->sink.at - encoder->buffer);
    size_t padded = (bytes + 7) & ~(size_t)7;
    memset(encoder->buffer + bytes, 0, padded - bytes + 8);
    struct muster_log_frame frame = {
        .magic = MUSTER_LOG_FRAME_MAGIC,
        .length = (uint32_t)(bytes - sizeof(frame)),
        .sequence = sequence,
        .slot = slot,
        .ops = encoder->ops,
        .first_op = encoder->first_op,
        .base_ns = encoder->base_ns,
    };
    memcpy(encoder->buffer, &frame, sizeof(frame));
    frame.crc = muster_log_frame_crc(encoder->buffer, frame.length);
    memcpy(encoder->buffer, &frame, sizeof(frame));
    return padded;
}
