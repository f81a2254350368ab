#include "diagnose/straggler/places.h"

#include <stdlib.h>

static int grow(struct muster_places *places)
{
    struct muster_places more = {.slots = places->slots ? 2 * places->slots : 1024};
    more.key = malloc(more.slots * sizeof *more.key);
    more.value = calloc(more.slots, sizeof *more.value);
    if (!more.key || !more.value) {
        free(more.key);
        free(more.value);
        return -1;
    }
    for (size_t i = 0; i < places->slots; i++) {
        if (places->value[i]) {
            size_t at = places->key[i] & (more.slots - 1);
            while (more.value[at]) {
                at = (at + 1) & (more.slots - 1);
            }
            more.key[at] = places->key[i];
            more.value[at] = places->value[i];
        }
    }
    more.used = places->used;
    free(places->key);
    free(places->value);
    *places = more;
    return 0;
}

uint32_t *muster_places_at(struct muster_places *places, uint64_t key)
{
    if (2 * places->used >= places->slots && grow(places)) {
        return NULL;
    }
    size_t at = key & (places->slots - 1);
    while (places->value[at] && places->key[at] != key) {
        at = (at + 1) & (places->slots - 1);
    }
    places->used += places->value[at] == 0;
    places->key[at] = key;
    return &places->value[at];
}

void muster_places_free(struct muster_places *places)
{
    free(places->key);
    free(places->value);
}
