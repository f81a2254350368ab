/* FNV-1a, 64 bits: to distinguish things, not against an adversary. */
#ifndef MUSTER_BASE_HASH_H
#define MUSTER_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#define MUSTER_HASH_SEED 0xcbf29ce484222325ull

/* Continues `hash`; start with MUSTER_HASH_SEED. */
static inline uint64_t muster_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): bytes of words */
        hash = (hash ^ byte[i]) * 0x100000001b3ull;
    return hash;
}

/* A number that differs from process to process and stands in no file: mixed into the places of
 * numbers that a file gives, so that nobody can make a file whose numbers all meet in one place. */
static inline uint64_t muster_hash_secret(void)
{
    uint64_t secret = MUSTER_HASH_SEED;
    const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM); /* 16 bytes, or NULL */
    if (random)
        memcpy(&secret, random, sizeof secret);
    return secret;
}

/* Spreads a number over all bits (the finalizer of MurmurHash3, public domain). */
static inline uint64_t muster_hash_number(uint64_t secret, uint64_t number)
{
    uint64_t x = number ^ secret;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

#endif
