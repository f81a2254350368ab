/*
 * Numbers for the last handles that a plugin gave out. Handles outlive their stop (children name
 * them as parents, NCCL stops some twice) and come back later for other events, so the newest
 * number of a handle counts, and only age forgets.
 */
#ifndef MUSTER_TRACE_HANDLE_IDS_H
#define MUSTER_TRACE_HANDLE_IDS_H

#include <stdint.h>

enum { MUSTER_HANDLE_IDS = 65536 };

struct muster_handle_ids {
    uint64_t last;                      /* number given last; numbers start at 1 */
    uint32_t bucket[MUSTER_HANDLE_IDS]; /* entry + 1; 0: empty */
    struct muster_handle_ids_entry {
        const void *handle;
        uint64_t id;   /* 0: forgotten */
        uint32_t next; /* of the bucket, as above */
        uint8_t kind;
    } entry[MUSTER_HANDLE_IDS]; /* number n in entry n % MUSTER_HANDLE_IDS */
};

/* `ids` zero-filled at first. */
uint64_t muster_handle_ids_add(struct muster_handle_ids *ids, const void *handle, uint8_t kind);
/* NULL: never seen, NULL, or forgotten. */
const struct muster_handle_ids_entry *muster_handle_ids_find(const struct muster_handle_ids *ids,
                                                             const void *handle);

#endif
