#include "fleet/wire_bytes.h"

#include <string.h>

#include "base/text.h"

/* A code is a sign and 15 bits: below EXACT the time itself, else 5 bits of octave and 10 of what
 * lies inside it. */
enum { PART_BITS = 10, EXACT = MUSTER_WIRE_TIME_PARTS, SIGN = 1 << 15, OCTAVES = 31 };

void muster_wire_wrong(struct muster_wire_in *in, const char *what)
{
    if (in->wrong)
        return;
    in->wrong = what;
    in->wrong_at = in->at;
}

unsigned muster_wire_get_byte(struct muster_wire_in *in)
{
    if (in->wrong || in->at >= in->end) {
        muster_wire_wrong(in, "it ends too early");
        return 0;
    }
    return in->byte[in->at++];
}

static uint64_t get_any(struct muster_wire_in *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned byte = muster_wire_get_byte(in);
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    muster_wire_wrong(in, "a number of more than 64 bits");
    return 0;
}

uint64_t muster_wire_get(struct muster_wire_in *in, uint64_t most)
{
    uint64_t value = get_any(in);
    if (value <= most)
        return value;
    muster_wire_wrong(in, "a number that is too large");
    return 0;
}

int64_t muster_wire_get_signed(struct muster_wire_in *in, int64_t least, int64_t most)
{
    uint64_t folded = get_any(in);
    int64_t value = (int64_t)(folded >> 1 ^ (folded & 1 ? UINT64_MAX : 0));
    if (value >= least && value <= most)
        return value;
    muster_wire_wrong(in, "a number out of range");
    return least > 0 ? least : 0;
}

uint64_t muster_wire_get_fixed(struct muster_wire_in *in)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)muster_wire_get_byte(in) << 8 * i;
    return value;
}

void muster_wire_get_text(struct muster_wire_in *in, char *to, size_t size)
{
    size_t bytes = (size_t)muster_wire_get(in, UINT32_MAX);
    to[0] = '\0';
    if (bytes >= size || bytes > in->end - in->at) {
        muster_wire_wrong(in, "a text that is too long");
        return;
    }
    memcpy(to, in->byte + in->at, bytes);
    in->at += bytes;
    to[bytes] = '\0';
    muster_text_clean(to, size);
}

uint16_t muster_wire_get_time(struct muster_wire_in *in)
{
    unsigned low = muster_wire_get_byte(in);
    return (uint16_t)(low | muster_wire_get_byte(in) << 8);
}

size_t muster_wire_get_count(struct muster_wire_in *in, size_t most, size_t least)
{
    size_t n = (size_t)muster_wire_get(in, most);
    if (n <= (in->end - in->at) / least)
        return n;
    muster_wire_wrong(in, "more entries than it has bytes for");
    return 0;
}

bool muster_wire_time_code(int64_t ns, uint16_t *code)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    unsigned octave = size < EXACT ? 0 : 63u - (unsigned)__builtin_clzll(size) - PART_BITS + 1;
    if (octave > OCTAVES)
        return false;
    uint64_t part = octave ? (size >> (octave - 1)) - EXACT : size;
    *code = (uint16_t)((ns < 0 ? SIGN : 0) | (octave << PART_BITS) | (unsigned)part);
    return true;
}

int64_t muster_wire_time_of(uint16_t code)
{
    unsigned octave = (code & (SIGN - 1u)) >> PART_BITS;
    int64_t part = code & (EXACT - 1);
    int64_t size = octave ? (part + EXACT) * ((int64_t)1 << (octave - 1)) : part;
    return code & SIGN ? -size : size;
}
