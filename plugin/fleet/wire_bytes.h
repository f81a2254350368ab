/*
 * Numbers and texts of the wire format as bytes: LEB128 numbers, so that small ones are short, and
 * times as codes of 16 bits. A writer grows; a reader never goes beyond what it was given. For both
 * a failure sticks and is asked for once, at the end.
 */
#ifndef MUSTER_FLEET_WIRE_BYTES_H
#define MUSTER_FLEET_WIRE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct muster_wire_out {
    unsigned char *byte; /* the caller frees */
    size_t used, room;
    bool failed; /* no memory */
};

void muster_wire_put_byte(struct muster_wire_out *out, unsigned value);
void muster_wire_put(struct muster_wire_out *out, uint64_t value);
void muster_wire_put_signed(struct muster_wire_out *out, int64_t value);
void muster_wire_put_fixed(struct muster_wire_out *out, uint64_t value); /* 8 bytes */
void muster_wire_put_text(struct muster_wire_out *out, const char *text);
void muster_wire_put_bytes(struct muster_wire_out *out, const void *data, size_t bytes);
void muster_wire_put_time(struct muster_wire_out *out, uint16_t code);

struct muster_wire_in {
    const unsigned char *byte;
    size_t at, end;
    const char *wrong; /* the first thing that could not be, at `wrong_at`; NULL: nothing */
    size_t wrong_at;
};

/* Notes what is wrong, unless something was before. */
void muster_wire_wrong(struct muster_wire_in *in, const char *what);
unsigned muster_wire_get_byte(struct muster_wire_in *in);
/* At most `most`; more is wrong and reads as 0. */
uint64_t muster_wire_get(struct muster_wire_in *in, uint64_t most);
int64_t muster_wire_get_signed(struct muster_wire_in *in, int64_t least, int64_t most);
uint64_t muster_wire_get_fixed(struct muster_wire_in *in);
/* Terminated; what does not fit `size` is wrong. Control characters become '?'. */
void muster_wire_get_text(struct muster_wire_in *in, char *to, size_t size);
uint16_t muster_wire_get_time(struct muster_wire_in *in);
/* A number of things that take `least` bytes each, at least: never more than there can be. */
size_t muster_wire_get_count(struct muster_wire_in *in, size_t most, size_t least);

enum { MUSTER_WIRE_TIME_PARTS = 1024 }; /* of an octave: what a code rounds to */
/* A signed time in ns: exact below 1,024 ns, to a thousandth up to 36 minutes. False: longer. */
bool muster_wire_time_code(int64_t ns, uint16_t *code);
int64_t muster_wire_time_of(uint16_t code);

#endif
