#include "diagnose/straggler/hash_index.h"

#include <string.h>

static bool grow(struct muster_places *places)
{
    struct muster_places more = {.memory = places->memory,
                                 .slots = places->slots ? 2 * places->slots : 1024};
    more.key = muster_arena_array(more.memory, more.slots, sizeof *more.key);
    more.value = muster_arena_array(more.memory, more.slots, sizeof *more.value);
    if (more.memory->failed)
        return false;
    for (size_t i = 0; i < places->slots; i++) {
        if (places->value[i]) {
            size_t at = places->key[i] & (more.slots - 1);
            while (more.value[at])
                at = (at + 1) & (more.slots - 1);
            more.key[at] = places->key[i];
            more.value[at] = places->value[i];
        }
    }
    more.used = places->used;
    *places = more;
    return true;
}

/* Where the key stands, or would. Of a table with slots. */
static size_t slot_of(const struct muster_places *places, uint64_t key)
{
    size_t at = key & (places->slots - 1);
    while (places->value[at] && places->key[at] != key)
        at = (at + 1) & (places->slots - 1);
    return at;
}

uint32_t *muster_places_at(struct muster_places *places, uint64_t key)
{
    if (2 * places->used >= places->slots && !grow(places)) {
        places->none = 0;
        return &places->none;
    }
    size_t at = slot_of(places, key);
    places->used += places->value[at] == 0;
    places->key[at] = key;
    return &places->value[at];
}

uint32_t muster_places_find(const struct muster_places *places, uint64_t key)
{
    return places->slots ? places->value[slot_of(places, key)] : 0;
}

void muster_places_clear(struct muster_places *places)
{
    if (places->used)
        memset(places->value, 0, places->slots * sizeof *places->value);
    places->used = 0;
}
