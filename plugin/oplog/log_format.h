/*
 * The log file: docs/formats.md, "Log". A header area with two copies of who wrote it, then slots
 * of 64 KiB, each a sequence of frames; every frame decodes alone. Little-endian, append only:
 * a reader skips nothing that it does not know, a new record means a new MUSTER_LOG_VERSION. It
 * holds operations, and patches of the image (segment/layout.h), so that it follows that layout.
 */
#ifndef MUSTER_OPLOG_LOG_FORMAT_H
#define MUSTER_OPLOG_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/layout.h"

#define MUSTER_LOG_MAGIC       0x31676f6c7473756dull /* "mustlog1" */
#define MUSTER_LOG_VERSION     6u
#define MUSTER_LOG_FRAME_MAGIC 0x6d72666du /* "mfrm" */

enum {
    MUSTER_LOG_COPY_BYTES = 2048, /* the header stands at 0 and at 2048, written by turns */
    MUSTER_LOG_HEADER_BYTES = 2 * MUSTER_LOG_COPY_BYTES,
    MUSTER_LOG_SLOT_BYTES = 64 << 10,
    MUSTER_LOG_FRAME_BYTES = 16 << 10, /* at most, header included */
    MUSTER_LOG_CLASSES = 1024,         /* a frame, at most */
};

struct muster_log_header {
    uint64_t magic;
    uint32_t version;
    uint32_t crc;   /* CRC-32C of all that follows */
    uint32_t bytes; /* sizeof(struct muster_log_header) */
    uint32_t slot_bytes;
    uint32_t segment_version; /* whose layout the patches follow */
    uint32_t spare;
    uint64_t generation; /* the copy with the higher one counts */
    struct muster_seg_identity identity;
};
_Static_assert(sizeof(struct muster_log_header) <= MUSTER_LOG_COPY_BYTES, "two fit the area");

/* Frames begin at multiples of 8 in their slot. Where a frame could begin, magic 0 or less room
 * than a header ends the slot. */
struct muster_log_frame {
    uint32_t magic;
    uint32_t crc;      /* CRC-32C of all that follows, payload included */
    uint32_t length;   /* of the payload that follows this header */
    uint32_t sequence; /* 0, 1, ... over the whole log */
    uint32_t slot;     /* how many slots were begun before this one: the same for the frames of
                          one use of a slot; others are remains of an earlier use */
    uint32_t ops;      /* operations in this frame */
    uint64_t first_op; /* ordinal of the first in the process; the others follow without a gap */
    uint64_t base_ns;  /* enqueue times are stored as differences, the first to this */
};
_Static_assert(sizeof(struct muster_log_frame) == 40, "on-disk layout");

/* The payload is a row of records. Each begins with a varint: a kind, or the class of an
 * operation plus MUSTER_LOG_OP. */
enum muster_log_record {
    MUSTER_LOG_COMM,  /* before the first operation of a communicator in the frame */
    MUSTER_LOG_CLASS, /* what operations have in common; gets the next class number, from 0 */
    MUSTER_LOG_PATCH, /* words of the image */
    MUSTER_LOG_ZEROS, /* words of the image that are zero, where it is stored as a whole */
    MUSTER_LOG_OP = 4,
};

/* What operations of a class share. */
struct muster_log_class {
    struct muster_op op; /* comm, func, dtype, algo, proto, channels, source, flags, peer, count */
    uint64_t number;     /* of the last one in the frame */
};

/* A communicator as a log knows it; the segment's entry has more while it lasts. */
struct muster_log_comm {
    uint32_t uid;
    uint64_t id;
    int32_t rank;
    uint32_t nranks;
    uint32_t nnodes;
    char name[MUSTER_SEG_NAME];
};

/* Where varints are put into or taken from. `bad` once something did not fit; then nothing more
 * is put, and zeros are taken. */
struct muster_log_sink {
    uint8_t *at, *end;
    bool bad;
};
struct muster_log_source {
    const uint8_t *at, *end;
    bool bad;
};

void muster_log_put_u(struct muster_log_sink *sink, uint64_t value); /* LEB128 */
void muster_log_put_i(struct muster_log_sink *sink, int64_t value);  /* zigzag, then LEB128 */
void muster_log_put_bytes(struct muster_log_sink *sink, const void *data, size_t bytes);
uint64_t muster_log_get_u(struct muster_log_source *source);
int64_t muster_log_get_i(struct muster_log_source *source);
void muster_log_get_bytes(struct muster_log_source *source, void *data, size_t bytes);
/* Take a value that must be at most `max`. */
uint64_t muster_log_get_max(struct muster_log_source *source, uint64_t max);

uint32_t muster_log_header_crc(const struct muster_log_header *header);
/* `frame` is followed by its payload in memory. */
uint32_t muster_log_frame_crc(const void *frame, uint32_t length);

#endif
