#include "replay/replay_ids.h"

uint32_t muster_ids_get(const struct muster_ids *ids, uint64_t id)
{
    size_t value = muster_hashmap_find(&ids->map, &id);
    return value == SIZE_MAX ? MUSTER_IDS_NONE : (uint32_t)value;
}

bool muster_ids_put(struct muster_ids *ids, uint64_t id, uint32_t value)
{
    ids->map.key_bytes = sizeof id;
    return muster_hashmap_put(&ids->map, &id, value);
}

void muster_ids_free(struct muster_ids *ids)
{
    muster_hashmap_free(&ids->map);
}
