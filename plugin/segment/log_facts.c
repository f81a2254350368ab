#include "segment/log_facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "segment/snapshot.h"

enum { SHORT_RUN = 3 }; /* zeros that are not worth a record of their own */

/* Where a part lies; 0: there is no such part. */
static size_t place_of(uint64_t part, size_t *offset)
{
    if (part == 0) {
        *offset = offsetof(struct muster_facts, head);
        return sizeof(struct muster_fact_head);
    }
    if (part <= MUSTER_FACT_GPUS) {
        *offset = offsetof(struct muster_facts, gpu) + (part - 1) * sizeof(struct muster_fact_gpu);
        return sizeof(struct muster_fact_gpu);
    }
    if (part >= MUSTER_FACT_PARTS)
        return 0;
    *offset = offsetof(struct muster_facts, use) +
              (part - 1 - MUSTER_FACT_GPUS) * sizeof(struct muster_fact_use);
    return sizeof(struct muster_fact_use);
}

/* Bytes up to the next run of zeros worth leaving out, or the end. */
static size_t literal(const uint8_t *bytes, size_t n)
{
    size_t zeros = 0;
    for (size_t i = 0; i < n; i++) {
        zeros = bytes[i] ? 0 : zeros + 1;
        if (zeros > SHORT_RUN)
            return i + 1 - zeros;
    }
    return n - zeros;
}

static void put_sparse(struct muster_log_sink *sink, const uint8_t *bytes, size_t n)
{
    size_t at = 0;
    while (at < n) {
        size_t zeros = 0;
        while (at + zeros < n && bytes[at + zeros] == 0)
            zeros++;
        at += zeros;
        size_t length = literal(bytes + at, n - at);
        muster_log_put_u(sink, zeros);
        muster_log_put_u(sink, length);
        muster_log_put_bytes(sink, bytes + at, length);
        at += length;
    }
}

static void get_sparse(struct muster_log_source *in, uint8_t *bytes, size_t n)
{
    size_t at = 0;
    memset(bytes, 0, n);
    while (at < n && !in->bad) {
        size_t zeros = (size_t)muster_log_get_max(in, n - at);
        at += zeros;
        size_t length = (size_t)muster_log_get_max(in, n - at);
        muster_log_get_bytes(in, bytes + at, length);
        at += length;
        if (zeros + length == 0)
            in->bad = true;
    }
}

static bool put_part(struct muster_log_encoder *encoder, unsigned part, const uint8_t *bytes,
                     size_t n)
{
    struct muster_log_sink before = encoder->sink, *sink = &encoder->sink;
    muster_log_put_u(sink, MUSTER_LOG_FACTS);
    muster_log_put_u(sink, part);
    put_sparse(sink, bytes, n);
    if (sink->bad)
        encoder->sink = before;
    return encoder->sink.at != before.at;
}

bool muster_log_facts_write(struct muster_log_facts_told *told, struct muster_log_encoder *encoder,
                            const struct muster_facts *facts)
{
    union {
        uint32_t seq;
        uint64_t align;
        uint8_t bytes[sizeof(struct muster_fact_gpu)];
    } copy;
    for (unsigned i = 0; i < MUSTER_FACT_PARTS; i++) {
        size_t offset, n = place_of(i, &offset);
        const uint8_t *from = (const uint8_t *)facts + offset;
        /* Nothing was ever written there. Relaxed: the copy below is what is checked. */
        if (__atomic_load_n((const uint32_t *)(const void *)from, __ATOMIC_RELAXED) == 0 ||
            !muster_snapshot_entry(copy.bytes, from, n))
            continue;
        copy.seq = 0;
        uint64_t hash = muster_hash(MUSTER_HASH_SEED, copy.bytes, n) | 1;
        if (hash == told->part[i])
            continue;
        if (!put_part(encoder, i, copy.bytes, n))
            return false;
        told->part[i] = hash;
    }
    return true;
}

void muster_log_facts_get(struct muster_log *log, struct muster_log_source *in)
{
    uint8_t bytes[sizeof(struct muster_fact_gpu)];
    size_t offset, n = place_of(muster_log_get_u(in), &offset);
    if (n == 0) {
        in->bad = true;
        return;
    }
    get_sparse(in, bytes, n);
    if (!in->bad && !log->facts && !(log->facts = calloc(1, sizeof(*log->facts))))
        log->no_memory = true;
    in->bad = in->bad || !log->facts;
    if (in->bad)
        return;
    memcpy((uint8_t *)log->facts + offset, bytes, n);
    muster_facts_check(log->facts);
}
