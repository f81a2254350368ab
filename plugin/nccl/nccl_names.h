/*
 * NCCL's vocabulary and muster's (base/nccl_types.h). Interface v1 sends enumerators, later ones
 * string literals of libnccl. All functions may be called from any thread.
 */
#ifndef MUSTER_NCCL_NCCL_NAMES_H
#define MUSTER_NCCL_NCCL_NAMES_H

#include <stdint.h>

#include "base/nccl_types.h"

enum muster_names {
    MUSTER_NAMES_FUNC,
    MUSTER_NAMES_DTYPE,
    MUSTER_NAMES_ALGO,
    MUSTER_NAMES_PROTO,
    MUSTER_NAMES_KINDS
};

/* The value (enum muster_func, ...) of one of NCCL's literals; 0 where the word is not known or
 * NULL. Words are found by their address after the first time, also unknown ones, so the text at an address must
 * not change until muster_names_forget. */
uint8_t muster_names_value(enum muster_names kind, const char *literal);
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
