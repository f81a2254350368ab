/* A table from hashes to numbers, as small as it can be: what is told apart by a hash here is so
 * often looked up that a general map would show. Between the files of this folder. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_HASH_INDEX_H
#define MUSTER_DIAGNOSE_STRAGGLER_HASH_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* To begin with: its arena, and zero. */
struct muster_places {
    struct muster_arena *memory;
    uint64_t *key;
    uint32_t *value; /* + 1; 0: free */
    size_t slots, used;
    uint32_t none; /* stands for any value once the arena has failed */
};

/* Where the value of the key stands, plus 1; of a new key 0 stands there, which the caller replaces
 * before the next call. The key is a hash: its low bits are spread. */
uint32_t *muster_places_at(struct muster_places *places, uint64_t key);

/* The value of the key, plus 1; 0: it has none. */
uint32_t muster_places_find(const struct muster_places *places, uint64_t key);

/* Empty again, with its room. */
void muster_places_clear(struct muster_places *places);

#endif
