/* A map from the numbers that a trace gives to handles and contexts to small ones, growing. */
#ifndef MUSTER_TRACE_IDS_H
#define MUSTER_TRACE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUSTER_IDS_NONE UINT32_MAX

struct muster_ids_entry {
    uint64_t id; /* 0: free */
    uint32_t value;
};

struct muster_ids {
    struct muster_ids_entry *entry;
    size_t size; /* a power of two, or 0 */
    size_t used;
    uint64_t secret; /* base/hash.h */
};

/* The value of `id`; MUSTER_IDS_NONE if it has none. */
uint32_t muster_ids_get(const struct muster_ids *ids, uint64_t id);
/* Sets or replaces. `id` is not 0. False: out of memory, nothing changed. */
bool muster_ids_put(struct muster_ids *ids, uint64_t id, uint32_t value);
void muster_ids_free(struct muster_ids *ids);

#endif
