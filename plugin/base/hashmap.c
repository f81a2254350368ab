#include "base/hashmap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static size_t place_of(const struct muster_hashmap *map, const void *key)
{
    const unsigned char *bytes = key;
    uint64_t hash = muster_hash_secret();
    for (size_t at = 0; at < map->key_bytes; at += sizeof(uint64_t)) {
        uint64_t part = 0;
        size_t left = map->key_bytes - at;
        memcpy(&part, bytes + at, left < sizeof part ? left : sizeof part);
        hash = muster_hash_number(hash, part);
    }
    size_t i = hash & (map->places - 1);
    while (map->value[i] && memcmp(map->key + i * map->key_bytes, key, map->key_bytes) != 0)
        i = (i + 1) & (map->places - 1);
    return i;
}

size_t muster_hashmap_find(const struct muster_hashmap *map, const void *key)
{
    /* Free places hold 0, and 0 - 1 is SIZE_MAX. */
    return map->places ? map->value[place_of(map, key)] - 1 : SIZE_MAX;
}

static void put(struct muster_hashmap *map, const void *key, size_t stored)
{
    size_t i = place_of(map, key);
    map->used += map->value[i] == 0;
    map->value[i] = stored;
    memcpy(map->key + i * map->key_bytes, key, map->key_bytes);
}

static bool enlarge(struct muster_hashmap *map)
{
    const struct muster_hashmap old = *map;
    size_t places = old.places ? 2 * old.places : 16;
    size_t *value = calloc(places, sizeof *value);
    unsigned char *key = calloc(places, old.key_bytes);
    if (!value || !key) {
        free(value);
        free(key);
        return false;
    }
    *map = (struct muster_hashmap){
        .key_bytes = old.key_bytes, .places = places, .value = value, .key = key};
    for (size_t i = 0; i < old.places; i++)
        if (old.value[i])
            put(map, old.key + i * old.key_bytes, old.value[i]);
    free(old.value);
    free(old.key);
    return true;
}

bool muster_hashmap_put(struct muster_hashmap *map, const void *key, size_t value)
{
    if (2 * (map->used + 1) > map->places && !enlarge(map))
        return false;
    put(map, key, value + 1);
    return true;
}

void muster_hashmap_free(struct muster_hashmap *map)
{
    free(map->value);
    free(map->key);
    *map = (struct muster_hashmap){.key_bytes = map->key_bytes};
}
