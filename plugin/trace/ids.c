#include "trace/ids.h"

#include <stdlib.h>

#include "base/hash.h"

/* The entry of `id`, or the free one where it belongs. */
static struct muster_ids_entry *find(const struct muster_ids *ids, uint64_t id)
{
    size_t i = muster_hash_number(ids->secret, id) & (ids->size - 1);
    while (ids->entry[i].id && ids->entry[i].id != id) {
        i = (i + 1) & (ids->size - 1);
    }
    return &ids->entry[i];
}

static bool grow(struct muster_ids *ids)
{
    struct muster_ids larger = {
        .size = ids->size ? 2 * ids->size : 64, .used = ids->used, .secret = muster_hash_secret()};
    larger.entry = calloc(larger.size, sizeof *larger.entry);
    if (!larger.entry) {
        return false;
    }
    for (size_t i = 0; i < ids->size; i++) {
        if (ids->entry[i].id) {
            *find(&larger, ids->entry[i].id) = ids->entry[i];
        }
    }
    free(ids->entry);
    *ids = larger;
    return true;
}

uint32_t muster_ids_get(const struct muster_ids *ids, uint64_t id)
{
    if (!ids->size || !id) {
        return MUSTER_IDS_NONE;
    }
    const struct muster_ids_entry *entry = find(ids, id);
    return entry->id ? entry->value : MUSTER_IDS_NONE;
}

bool muster_ids_put(struct muster_ids *ids, uint64_t id, uint32_t value)
{
    if (2 * (ids->used + 1) > ids->size && !grow(ids)) {
        return false;
    }
    struct muster_ids_entry *entry = find(ids, id);
    ids->used += entry->id == 0;
    *entry = (struct muster_ids_entry){.id = id, .value = value};
    return true;
}

void muster_ids_free(struct muster_ids *ids)
{
    free(ids->entry);
    *ids = (struct muster_ids){0};
}
