/*
 * Writing protobuf messages: enough for a trace, without a schema compiler. A message is built in
 * memory, nested ones in place, and handed out as bytes. Field numbers and types are the caller's
 * knowledge (timeline/perfetto_fields.h). One thread; memory that runs out shows in `failed`, once,
 * at the end.
 *
 * Wire format: protobuf.dev/programming-guides/encoding.
 */
#ifndef MUSTER_TIMELINE_PROTOBUF_H
#define MUSTER_TIMELINE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed to begin with. */
struct muster_protobuf {
    unsigned char *bytes;
    size_t used, room;
    bool failed;
};

void muster_protobuf_uint(struct muster_protobuf *message, unsigned field, uint64_t value);
void muster_protobuf_fixed64(struct muster_protobuf *message, unsigned field, uint64_t value);
void muster_protobuf_double(struct muster_protobuf *message, unsigned field, double value);
void muster_protobuf_bytes(struct muster_protobuf *message, unsigned field, const void *bytes,
                           size_t n);
void muster_protobuf_text(struct muster_protobuf *message, unsigned field, const char *text);

/* A nested message: what is written until close belongs to it. Gives the place for close. */
size_t muster_protobuf_open(struct muster_protobuf *message, unsigned field);
void muster_protobuf_close(struct muster_protobuf *message, size_t place);

/* Empty again, its memory kept. */
void muster_protobuf_clear(struct muster_protobuf *message);
void muster_protobuf_free(struct muster_protobuf *message);

#endif
