/* A map from the numbers that a trace gives to handles and contexts to small ones, growing. */
#ifndef MUSTER_REPLAY_REPLAY_IDS_H
#define MUSTER_REPLAY_REPLAY_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hashmap.h"

#define MUSTER_IDS_NONE UINT32_MAX

struct muster_ids {
    struct muster_hashmap map; /* of uint64_t */
};

/* The value of `id`; MUSTER_IDS_NONE if it has none. */
uint32_t muster_ids_get(const struct muster_ids *ids, uint64_t id);
/* Sets or replaces. `id` is not 0. False: out of memory, nothing changed. */
bool muster_ids_put(struct muster_ids *ids, uint64_t id, uint32_t value);
void muster_ids_free(struct muster_ids *ids);

#endif
