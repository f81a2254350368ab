/*
 * Handles and contexts as NCCL holds them for us: 64-bit values, never pointers. NCCL passes them
 * back stale, to the wrong process (PXN) and after finalize, so each holds whose it is and which
 * life of its slot it means:
 *
 *   63..44 nonce of the process | 43..40 kind | 39..16 generation | 15..0 index
 *
 * Calls that go into a graph have no slot: NCCL keeps their handles for the life of the graph.
 */
#ifndef MUSTER_RECORD_HANDLE_H
#define MUSTER_RECORD_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

enum muster_handle_kind {
    MUSTER_HANDLE_CONTEXT,   /* index: communicator */
    MUSTER_HANDLE_OP,        /* index: operation slot */
    MUSTER_HANDLE_CE,        /* the same, of a copy-engine collective */
    MUSTER_HANDLE_PROXY_OP,  /* index: proxy slot */
    MUSTER_HANDLE_KERNEL_CH, /* index: operation slot; generation: channel, and 18 bits of its */
    MUSTER_HANDLE_GROUP,     /* nothing: old NCCL needs a group's handle not to be NULL */
    MUSTER_HANDLE_CAPTURE_GROUP, /* a group call whose operations go into a graph */
    MUSTER_HANDLE_CALL,          /* a call without a slot: see muster_call_pack */
    MUSTER_HANDLE_PROXY_STEP,    /* index: proxy slot and step % 8 */
    MUSTER_HANDLE_LAUNCH,        /* index: communicator */
    MUSTER_HANDLE_KINDS
};
enum muster_call_probe {
    MUSTER_CALL_CAPTURED = 1, /* recorded into a CUDA graph */
};

_Static_assert(MUSTER_HANDLE_KINDS <= 16, "four bits");

enum { MUSTER_GENERATION_BITS = 24, MUSTER_GENERATION_MASK = (1 << MUSTER_GENERATION_BITS) - 1 };

struct muster_handle {
    uint32_t nonce;
    uint8_t kind;
    uint32_t generation;
    uint16_t index;
};

static inline void *muster_handle_pack(uint32_t nonce, unsigned kind, uint32_t generation,
                                       unsigned index)
{
    uint64_t bits = (uint64_t)nonce << 44 | (uint64_t)kind << 40 |
                    (uint64_t)(generation & MUSTER_GENERATION_MASK) << 16 | (index & 0xffff);
    return (void *)(uintptr_t)bits;
}

/* A call's handle: its marks in the low two bits of the index, its datatype in the low eight of
 * the generation; what is left holds a serial number where handles must differ (in traces). */
static inline void *muster_call_pack(uint32_t nonce, unsigned dtype, unsigned marks,
                                     uint32_t serial)
{
    return muster_handle_pack(nonce, MUSTER_HANDLE_CALL, (serial >> 14) << 8 | (dtype & 0xff),
                              (serial << 2 | (marks & 3)) & 0xffff);
}

static inline unsigned muster_call_dtype(struct muster_handle call)
{
    return call.generation & 0xff;
}

static inline unsigned muster_call_probes(struct muster_handle call)
{
    return call.index & 3;
}

static inline struct muster_handle muster_handle_unpack(const void *handle)
{
    uint64_t bits = (uint64_t)(uintptr_t)handle;
    return (struct muster_handle){(uint32_t)(bits >> 44), bits >> 40 & 0xf,
                                  bits >> 16 & MUSTER_GENERATION_MASK, bits & 0xffff};
}

#endif
