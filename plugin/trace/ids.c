#include "trace/ids.h"

#include <stdlib.h>

static size_t home(uint64_t id, size_t size)
{
    return (size_t)(id * 0x9e3779b97f4a7c15ull >> 32) & (size - 1);
}

/* The entry of `id`, or the free one where it belongs. */
static struct muster_ids_entry *find(struct muster_ids_entry *entry, size_t size, uint64_t id)
{
    size_t i = home(id, size);
    while (entry[i].id && entry[i].id != id) {
        i = (i + 1) & (size - 1);
    }
    return &entry[i];
}

static bool grow(struct muster_ids *ids)
{
    size_t size = ids->size ? 2 * ids->size : 64;
    struct muster_ids_entry *entry = calloc(size, sizeof *entry);
    if (!entry) {
        return false;
    }
    for (size_t i = 0; i < ids->size; i++) {
        if (ids->entry[i].id) {
            *find(entry, size, ids->entry[i].id) = ids->entry[i];
        }
    }
    free(ids->entry);
    ids->entry = entry;
    ids->size = size;
    return true;
}

uint32_t muster_ids_get(const struct muster_ids *ids, uint64_t id)
{
    if (!ids->size || !id) {
        return MUSTER_IDS_NONE;
    }
    const struct muster_ids_entry *entry = find(ids->entry, ids->size, id);
    return entry->id ? entry->value : MUSTER_IDS_NONE;
}

bool muster_ids_put(struct muster_ids *ids, uint64_t id, uint32_t value)
{
    if (2 * (ids->used + 1) > ids->size && !grow(ids)) {
        return false;
    }
    struct muster_ids_entry *entry = find(ids->entry, ids->size, id);
    ids->used += entry->id == 0;
    *entry = (struct muster_ids_entry){.id = id, .value = value};
    return true;
}

void muster_ids_free(struct muster_ids *ids)
{
    free(ids->entry);
    *ids = (struct muster_ids){0};
}
