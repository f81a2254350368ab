/* FNV-1a, 64 bits: to tell things apart, not against an adversary. */
#ifndef MUSTER_BASE_HASH_H
#define MUSTER_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define MUSTER_HASH_SEED 0xcbf29ce484222325ull

/* Continues `hash`; start with MUSTER_HASH_SEED. */
static inline uint64_t muster_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3ull;
    return hash;
}

#endif
