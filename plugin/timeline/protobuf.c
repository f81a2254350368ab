#include "timeline/protobuf.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, VARINT_MAX = 10 };

static bool reserve(struct muster_protobuf *message, size_t bytes)
{
    if (message->failed)
        return false;
    message->failed = !muster_reserve(&message->bytes, &message->room, message->used + bytes, 1);
    return !message->failed;
}

static size_t varint(unsigned char *to, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        to[n++] = (unsigned char)(value | 0x80);
    to[n++] = (unsigned char)value;
    return n;
}

static void add_varint(struct muster_protobuf *message, uint64_t value)
{
    if (reserve(message, VARINT_MAX))
        message->used += varint(message->bytes + message->used, value);
}

static void add_tag(struct muster_protobuf *message, unsigned field, unsigned wire)
{
    add_varint(message, (uint64_t)field << 3 | wire);
}

void muster_protobuf_uint(struct muster_protobuf *message, unsigned field, uint64_t value)
{
    add_tag(message, field, WIRE_VARINT);
    add_varint(message, value);
}

void muster_protobuf_fixed64(struct muster_protobuf *message, unsigned field, uint64_t value)
{
    add_tag(message, field, WIRE_64);
    if (!reserve(message, sizeof(value)))
        return;
    for (unsigned i = 0; i < sizeof(value); i++)
        message->bytes[message->used++] = (unsigned char)(value >> 8 * i);
}

void muster_protobuf_double(struct muster_protobuf *message, unsigned field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    muster_protobuf_fixed64(message, field, bits);
}

void muster_protobuf_bytes(struct muster_protobuf *message, unsigned field, const void *bytes,
                           size_t n)
{
    add_tag(message, field, WIRE_BYTES);
    add_varint(message, n);
    if (reserve(message, n)) {
        memcpy(message->bytes + message->used, bytes, n);
        message->used += n;
    }
}

void muster_protobuf_text(struct muster_protobuf *message, unsigned field, const char *text)
{
    muster_protobuf_bytes(message, field, text, strlen(text));
}

size_t muster_protobuf_open(struct muster_protobuf *message, unsigned field)
{
    add_tag(message, field, WIRE_BYTES);
    if (reserve(message, 1))
        message->used++; /* the length, one byte as a rule */
    return message->used;
}

void muster_protobuf_close(struct muster_protobuf *message, size_t place)
{
    unsigned char length[VARINT_MAX];
    if (message->failed)
        return;
    size_t inside = message->used - place, n = varint(length, inside);
    if (!reserve(message, n))
        return;
    unsigned char *begin = message->bytes + place;
    memmove(begin + n - 1, begin, inside);
    memcpy(begin - 1, length, n);
    message->used += n - 1;
}

void muster_protobuf_clear(struct muster_protobuf *message)
{
    message->used = 0;
}

void muster_protobuf_free(struct muster_protobuf *message)
{
    free(message->bytes);
    *message = (struct muster_protobuf){0};
}
