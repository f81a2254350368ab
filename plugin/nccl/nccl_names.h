/*
 * NCCL's vocabulary and muster's (base/vocab.h). Interface v1 sends enumerators, later ones string
 * literals of libnccl. All functions may be called from any thread.
 */
#ifndef MUSTER_NCCL_WORDS_H
#define MUSTER_NCCL_WORDS_H

#include <stdint.h>

#include "base/vocab.h"

enum muster_words {
    MUSTER_WORDS_FUNC,
    MUSTER_WORDS_DTYPE,
    MUSTER_WORDS_ALGO,
    MUSTER_WORDS_PROTO,
    MUSTER_WORDS_KINDS
};

/* The value (enum muster_func, ...) of one of NCCL's literals; 0 where the word is not known or
 * NULL. Known words are found by their address after the first time, so the text at an address must
 * not change until muster_words_forget. */
uint8_t muster_words_value(enum muster_words kind, const char *literal);
/* To be called when a communicator is made. The only way for another literal to come to stand at a
 * remembered address is that a libnccl was unloaded and another mapped in its place, and the new
 * one makes a communicator before it sends its first event. */
void muster_words_forget(void);

/* The same by comparing text, for words that do not stay where they are. */
uint8_t muster_words_match(enum muster_words kind, const char *text);

/* NCCL's spelling: "AllReduce", "ncclFloat32", "RING", "LL128"; of uint8 "Unknown", as NCCL's. NULL
 * for values that NCCL has no word for. */
const char *muster_words_text(enum muster_words kind, unsigned value);

enum { MUSTER_WORDS_NO_NUMBER = 255 };

/* v1's enumerators (ncclFunc_t, ncclDataType_t, NCCL_ALGO_*, NCCL_PROTO_*): number -> value, 0
 * where unknown; value -> number, MUSTER_WORDS_NO_NUMBER where NCCL has none. */
uint8_t muster_words_of_number(enum muster_words kind, unsigned number);
uint8_t muster_words_number(enum muster_words kind, unsigned value);

#endif
