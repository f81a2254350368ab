/*
 * NCCL's vocabulary and muster's (base/nccl_types.h). Interface v1 sends enumerators, later ones
 * string literals of libnccl. All functions may be called from any thread.
 */
#ifndef MUSTER_NCCL_NCCL_NAMES_H
#define MUSTER_NCCL_NCCL_NAMES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/nccl_types.h"

enum muster_names {
    MUSTER_NAMES_FUNC,
    MUSTER_NAMES_DTYPE,
    MUSTER_NAMES_ALGO,
    MUSTER_NAMES_PROTO,
    MUSTER_NAMES_KINDS
};

enum { MUSTER_NAMES_SETS = 16, MUSTER_NAMES_WAYS = 4, MUSTER_NAMES_ADDRESS_BITS = 56 };

/* Address below, value in the top byte, so that one load gives both of the same literal and relaxed
 * order is enough: an entry guards no other memory. 0 is empty. */
extern _Atomic uint64_t muster_names_seen[MUSTER_NAMES_KINDS][MUSTER_NAMES_SETS][MUSTER_NAMES_WAYS];

static inline _Atomic uint64_t *muster_names_set(enum muster_names kind, uint64_t address)
{
    /* 2^64 / the golden ratio spreads neighbouring addresses over the top bits (Knuth, TAOCP 6.4)
     */
    return muster_names_seen[kind][(address * 0x9e3779b97f4a7c15u) >> 60];
}

/* What muster_names_value does where it finds nothing. */
uint8_t muster_names_learn(enum muster_names kind, const char *literal);

/* The value (enum muster_func, ...) of one of NCCL's literals; 0 where the word is not known or
 * NULL. Words are found by their address after the first time, also unknown ones, so the text at
 * an address must not change until muster_names_forget. Inline: a collective asks six times. */
static inline uint8_t muster_names_value(enum muster_names kind, const char *literal)
{
    if (!literal)
        return 0;
    uint64_t address = (uintptr_t)literal;
    _Atomic uint64_t *way = muster_names_set(kind, address);
    for (unsigned i = 0; i < MUSTER_NAMES_WAYS; i++) {
        uint64_t entry = atomic_load_explicit(&way[i], memory_order_relaxed);
        if ((entry ^ address) << (64 - MUSTER_NAMES_ADDRESS_BITS) == 0)
            return (uint8_t)(entry >> MUSTER_NAMES_ADDRESS_BITS);
    }
    return muster_names_learn(kind, literal);
}
/* To be called when a communicator is made. The only way for another literal to come to stand at a
 * remembered address is that a libnccl was unloaded and another mapped in its place, and the new
 * one makes a communicator before it sends its first event. */
void muster_names_forget(void);

/* The same by comparing text, for words that do not stay where they are. */
uint8_t muster_names_match(enum muster_names kind, const char *text);

/* NCCL's spelling: "AllReduce", "ncclFloat32", "RING", "LL128"; of uint8 "Unknown", as NCCL's. NULL
 * for values that NCCL has no word for. */
const char *muster_names_text(enum muster_names kind, unsigned value);

/* v1's enumerators (ncclFunc_t, ncclDataType_t, NCCL_ALGO_*, NCCL_PROTO_*): number -> value, 0
 * where unknown; value -> number, MUSTER_NCCL_NO_NUMBER where NCCL has none. */
uint8_t muster_names_of_number(enum muster_names kind, unsigned number);
uint8_t muster_names_number(enum muster_names kind, unsigned value);

#endif
