#include "oplog/log_image.h"

#include <stdlib.h>
#include <string.h>

#include "segment/image.h"
#include "segment/snapshot.h"

enum { SLOT_TRIES = 4, WORD = sizeof(uint64_t) };

bool muster_log_image_open(struct muster_log_image *image, struct muster_segment *segment)
{
    image->segment = segment;
    /* Of calloc, so that what is never used stays without memory. */
    image->known = calloc(1, sizeof(*image->known));
    return image->known != NULL;
}

void muster_log_image_close(struct muster_log_image *image)
{
    free(image->known);
}

/* ---- copies that stand still ---- */

static void copy_entry(const struct muster_log_image *image, size_t at, size_t bytes, void *to)
{
    const char *from = (const char *)image->segment + at;
    const char *known = (const char *)image->known + at;
    uint32_t free_now, free_known;
    memcpy(&free_known, known + sizeof(uint32_t), sizeof(free_known));
    free_now = __atomic_load_n((const uint32_t *)(const void *)from + 1, __ATOMIC_RELAXED);
    if (free_now == 0 && free_known == 0)
        memset(to, 0, bytes);
    else if (!muster_snapshot_entry(to, from, bytes))
        memcpy(to, known, bytes);
    memset(to, 0, sizeof(uint32_t)); /* seq */
}

static bool in_flight(uint32_t word)
{
    unsigned state = word & 0xff;
    return state == MUSTER_SLOT_CALLED || state == MUSTER_SLOT_LAUNCHED ||
           state == MUSTER_SLOT_DONE;
}

static void copy_slot(struct muster_log_image *image, size_t i, void *to)
{
    struct muster_segment *segment = image->segment;
    image->state[i] = MUSTER_SLOT_FREE;
    for (int tries = 0; tries < SLOT_TRIES; tries++) {
        /* Acquire: with the release that published the slot. */
        uint32_t word = atomic_load_explicit(&segment->slot_state[i], memory_order_acquire);
        if (!in_flight(word))
            break;
        muster_snapshot(to, &segment->slot[i], sizeof(segment->slot[i]));
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&segment->slot_state[i], memory_order_relaxed) == word) {
            image->state[i] = word & 0xff;
            return;
        }
    }
    memset(to, 0, sizeof(segment->slot[i]));
}

/* Where the next table begins, or the slots. */
static size_t plain_end(size_t at)
{
    for (unsigned i = 0; i < MUSTER_SEG_TABLES; i++)
        if (muster_seg_table[i].offset > at)
            return muster_seg_table[i].offset;
    return offsetof(struct muster_segment, slot);
}

/* What lies at `at`, where a piece begins; returns its size. */
static size_t copy_piece(struct muster_log_image *image, size_t at, void *to)
{
    size_t slot = offsetof(struct muster_segment, slot);
    size_t state = offsetof(struct muster_segment, slot_state);
    size_t bytes = sizeof(struct muster_seg_slot);
    if (at >= state) {
        size_t left = MUSTER_SEG_IMAGE_END - at;
        bytes = left < MUSTER_SEG_ENTRY_BYTES ? left : MUSTER_SEG_ENTRY_BYTES;
        memset(to, 0, bytes);
        if (at - state < sizeof(image->state)) {
            size_t held = sizeof(image->state) - (at - state);
            memcpy(to, (char *)image->state + (at - state), bytes < held ? bytes : held);
        }
        return bytes;
    }
    if (at >= slot) {
        copy_slot(image, (at - slot) / bytes, to);
        return bytes;
    }
    for (unsigned i = 0; i < MUSTER_SEG_TABLES; i++) {
        const struct muster_seg_table *table = &muster_seg_table[i];
        if (at >= table->offset && at - table->offset < table->entries * table->bytes) {
            copy_entry(image, at, table->bytes, to);
            return table->bytes;
        }
    }
    size_t left = plain_end(at) - at;
    bytes = left < MUSTER_SEG_ENTRY_BYTES ? left : MUSTER_SEG_ENTRY_BYTES;
    muster_snapshot(to, (const char *)image->segment + at, bytes);
    /* A policy's state comes before its rules: with the release that publishes it. */
    atomic_thread_fence(memory_order_acquire);
    return bytes;
}

/* ---- what the log gets ---- */

static bool put_zeros(struct muster_log_image *image, struct muster_log_encoder *encoder, size_t to)
{
    if (image->whole && image->zeros < to &&
        !muster_log_encode_zeros(encoder, image->zeros, to - image->zeros))
        return false;
    image->zeros = to;
    return true;
}

/* The piece at word `first`. In a new frame it is written from its begin again. */
static bool put_piece(struct muster_log_image *image, struct muster_log_encoder *encoder,
                      size_t first, const uint64_t *now, size_t n)
{
    uint64_t *known = (uint64_t *)(void *)image->known + first;
    if (image->zeros > first)
        image->zeros = first;
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && now[end] != (image->whole ? 0 : known[end]))
            end++;
        if (end == i) {
            if (known[i] != now[i])
                known[i] = now[i];
            i++;
            continue;
        }
        if (!put_zeros(image, encoder, first + i) ||
            !muster_log_encode_patch(encoder, first + i, now + i, end - i))
            return false;
        memcpy(known + i, now + i, (end - i) * WORD);
        image->zeros = first + end;
        i = end;
    }
    return true;
}

bool muster_log_image_write(struct muster_log_image *image, struct muster_log_encoder *encoder,
                            bool whole)
{
    uint64_t now[MUSTER_SEG_ENTRY_BYTES / WORD];
    if (image->piece == 0) {
        image->piece = MUSTER_SEG_IMAGE_BEGIN;
        image->zeros = image->piece / WORD;
        image->whole = whole;
    }
    while (image->piece < MUSTER_SEG_IMAGE_END) {
        size_t bytes = copy_piece(image, image->piece, now);
        if (!put_piece(image, encoder, image->piece / WORD, now, bytes / WORD))
            return false;
        image->piece += bytes;
    }
    if (!put_zeros(image, encoder, MUSTER_SEG_IMAGE_END / WORD))
        return false;
    image->piece = 0;
    return true;
}

/* ---- communicators ---- */

static bool define(const struct muster_seg_comm *from, uint32_t uid, struct muster_log_comm *comm)
{
    if (from->uid != uid)
        return false;
    *comm = (struct muster_log_comm){.uid = uid,
                                     .id = from->id,
                                     .rank = from->rank,
                                     .nranks = from->nranks,
                                     .nnodes = from->nnodes};
    memcpy(comm->name, from->name, sizeof(comm->name) - 1);
    return true;
}

bool muster_log_image_comm(const struct muster_log_image *image, uint32_t uid,
                           struct muster_log_comm *comm)
{
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && uid != MUSTER_SEG_OTHER_UID; i++) {
        const struct muster_seg_comm *entry = &image->segment->comm[i];
        struct muster_seg_comm copy;
        if (__atomic_load_n(&entry->uid, __ATOMIC_RELAXED) == uid &&
            muster_snapshot_entry(&copy, entry, sizeof(copy)) && define(&copy, uid, comm))
            return true;
    }
    /* It has left the segment since. */
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && uid != MUSTER_SEG_OTHER_UID; i++)
        if (define(&image->known->comm[i], uid, comm))
            return true;
    return false;
}
