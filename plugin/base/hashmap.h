/*
 * A map of keys of a fixed number of bytes to numbers: as a rule places in an array of the owner's.
 * A file may choose the keys: where they are put differs from process to process. For readers; one
 * thread at a time.
 */
#ifndef MUSTER_BASE_HASHMAP_H
#define MUSTER_BASE_HASHMAP_H

#include <stdbool.h>
#include <stddef.h>

/* To begin with: {.key_bytes = sizeof(key)}. Keys are compared as bytes, so those of padding must
 * be set. */
struct muster_hashmap {
    size_t key_bytes;
    size_t used;
    size_t places; /* a power of two, or 0 */
    size_t *value; /* + 1; 0: free */
    unsigned char *key;
};

/* SIZE_MAX where the key was never put. */
size_t muster_hashmap_find(const struct muster_hashmap *map, const void *key);
/* The newer value counts; it is less than SIZE_MAX. False: no memory; the map is as before. */
bool muster_hashmap_put(struct muster_hashmap *map, const void *key, size_t value);
/* Empty again, and as good as new. */
void muster_hashmap_free(struct muster_hashmap *map);

#endif
