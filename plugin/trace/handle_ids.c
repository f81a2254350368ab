#include "trace/handle_ids.h"

#include <stddef.h>

static uint32_t bucket_of(const void *handle)
{
    return (uint32_t)((uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15ull >> 48) %
           MUSTER_HANDLE_IDS;
}

static void forget(struct muster_handle_ids *ids, struct muster_handle_ids_entry *entry)
{
    uint32_t at = (uint32_t)(entry - ids->entry);
    uint32_t *link = &ids->bucket[bucket_of(entry->handle)];
    while (*link != at + 1)
        link = &ids->entry[*link - 1].next;
    *link = entry->next;
    entry->id = 0;
}

/* Entry + 1; 0: none. */
static uint32_t find(const struct muster_handle_ids *ids, const void *handle)
{
    uint32_t next = ids->bucket[bucket_of(handle)];
    while (next && ids->entry[next - 1].handle != handle)
        next = ids->entry[next - 1].next;
    return next;
}

uint64_t muster_handle_ids_add(struct muster_handle_ids *ids, const void *handle, uint8_t kind)
{
    uint64_t id = ++ids->last;
    struct muster_handle_ids_entry *entry = &ids->entry[id % MUSTER_HANDLE_IDS];
    uint32_t same = find(ids, handle);
    if (same) {
        forget(ids, &ids->entry[same - 1]); /* else a handle that always comes back would make a
                                               long bucket */
    }
    if (entry->id)
        forget(ids, entry);
    uint32_t *bucket = &ids->bucket[bucket_of(handle)];
    *entry =
        (struct muster_handle_ids_entry){.handle = handle, .id = id, .next = *bucket, .kind = kind};
    *bucket = (uint32_t)(entry - ids->entry) + 1;
    return id;
}

const struct muster_handle_ids_entry *muster_handle_ids_find(const struct muster_handle_ids *ids,
                                                             const void *handle)
{
    uint32_t found = handle ? find(ids, handle) : 0;
    return found ? &ids->entry[found - 1] : NULL;
}
