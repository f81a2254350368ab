/* A table from hashes to numbers, as small as it can be: what is told apart by a hash here is so
 * often looked up that a general map would show. Between the files of this folder. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_PLACES_H
#define MUSTER_DIAGNOSE_STRAGGLER_PLACES_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed to begin with. */
struct muster_places {
    uint64_t *key;
    uint32_t *value; /* + 1; 0: free */
    size_t slots, used;
};

/* Where the value of the key stands, plus 1; of a new key 0 stands there, which the caller replaces
 * before the next call. The key is a hash: its low bits are spread. NULL: no memory. */
uint32_t *muster_places_at(struct muster_places *places, uint64_t key);
void muster_places_free(struct muster_places *places);

#endif
