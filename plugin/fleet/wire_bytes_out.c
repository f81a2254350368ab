#include "fleet/wire_bytes.h"

#include <string.h>

#include "base/array.h"

static bool room_for(struct muster_wire_out *out, size_t bytes)
{
    if (out->failed)
        return false;
    out->failed = !muster_reserve(&out->byte, &out->room, out->used + bytes, 1);
    return !out->failed;
}

void muster_wire_put_byte(struct muster_wire_out *out, unsigned value)
{
    if (room_for(out, 1))
        out->byte[out->used++] = (unsigned char)value;
}

void muster_wire_put(struct muster_wire_out *out, uint64_t value)
{
    while (value > 127) {
        muster_wire_put_byte(out, (unsigned)(value & 127) | 128);
        value >>= 7;
    }
    muster_wire_put_byte(out, (unsigned)value);
}

void muster_wire_put_signed(struct muster_wire_out *out, int64_t value)
{
    muster_wire_put(out, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

void muster_wire_put_fixed(struct muster_wire_out *out, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        muster_wire_put_byte(out, (unsigned)(value >> 8 * i & 255));
}

void muster_wire_put_bytes(struct muster_wire_out *out, const void *data, size_t bytes)
{
    if (bytes == 0 || !room_for(out, bytes))
        return;
    memcpy(out->byte + out->used, data, bytes);
    out->used += bytes;
}

void muster_wire_put_text(struct muster_wire_out *out, const char *text)
{
    size_t bytes = strlen(text);
    muster_wire_put(out, bytes);
    muster_wire_put_bytes(out, text, bytes);
}

void muster_wire_put_time(struct muster_wire_out *out, uint16_t code)
{
    muster_wire_put_byte(out, code & 255u);
    muster_wire_put_byte(out, code >> 8);
}
