#include "trace/handle_ids.h"

#include <stddef.h>

static uint32_t bucket_of(const void *handle)
{
    return (uint32_t)((uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15ull >> 48) %
           MUSTER_HANDLE_IDS;
}

static void forget(struct muster_handle_ids *ids, uint32_t at)
{
    uint32_t *link = &ids->bucket[bucket_of(ids->entry[at].handle)];
    while (*link != at + 1) {
        link = &ids->entry[*link - 1].next;
    }
    *link = ids->entry[at].next;
}

uint64_t muster_handle_ids_add(struct muster_handle_ids *ids, const void *handle, uint8_t kind)
{
    uint64_t id = ++ids->last;
    uint32_t at = (uint32_t)(id % MUSTER_HANDLE_IDS);
    struct muster_handle_ids_entry *entry = &ids->entry[at];
    if (entry->id) {
        forget(ids, at);
    }
    uint32_t *bucket = &ids->bucket[bucket_of(handle)];
    *entry =
        (struct muster_handle_ids_entry){.handle = handle, .id = id, .next = *bucket, .kind = kind};
    *bucket = at + 1;
    return id;
}

const struct muster_handle_ids_entry *muster_handle_ids_find(const struct muster_handle_ids *ids,
                                                             const void *handle)
{
    if (!handle) {
        return NULL;
    }
    for (uint32_t next = ids->bucket[bucket_of(handle)]; next; next = ids->entry[next - 1].next) {
        if (ids->entry[next - 1].handle == handle) {
            return &ids->entry[next - 1];
        }
    }
    return NULL;
}
