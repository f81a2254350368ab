/* Finding the class of an operation: a hash table over the classes met so far. */
#include <stdlib.h>
#include <string.h>

#include "export/build.h"

_Static_assert(sizeof(struct muster_class_key) == 16, "hashed and compared as bytes");

static uint64_t mix(const struct muster_class_key *key)
{
    uint64_t half[2];
    memcpy(half, key, sizeof half);
    uint64_t hash = (half[0] ^ half[1] << 29 ^ half[1] >> 35) * 0x9e3779b97f4a7c15ull;
    return (hash ^ hash >> 32) * 0xd6e8feb86659fd93ull;
}

static size_t slot_of(const struct muster_build *build, const struct muster_class_key *key)
{
    size_t mask = build->class_slots - 1;
    size_t slot = (mix(key) >> 16) & mask;
    while (build->class_at[slot] &&
           memcmp(&build->class[build->class_at[slot] - 1].key, key, sizeof *key) != 0) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

static int grow(struct muster_build *build)
{
    size_t room = build->class_room ? 2 * build->class_room : 256;
    struct muster_class *class = reallocarray(build->class, room, sizeof *class);
    if (!class) {
        return -1;
    }
    build->class = class;
    build->class_room = room;
    uint32_t *at = calloc(4 * room, sizeof *at);
    if (!at) {
        return -1;
    }
    free(build->class_at);
    build->class_at = at;
    build->class_slots = 4 * room;
    for (size_t i = 0; i < build->classes; i++) {
        build->class_at[slot_of(build, &build->class[i].key)] = (uint32_t)i + 1;
    }
    return 0;
}

uint32_t muster_build_class(struct muster_build *build, const struct muster_class_key *key,
                            bool make)
{
    if (build->classes == build->class_room && make && grow(build)) {
        return MUSTER_NO_CLASS;
    }
    if (!build->class_slots) {
        return MUSTER_NO_CLASS;
    }
    size_t slot = slot_of(build, key);
    if (build->class_at[slot]) {
        return build->class_at[slot] - 1;
    }
    if (!make) {
        return MUSTER_NO_CLASS;
    }
    build->class[build->classes] = (struct muster_class){.key = *key};
    build->class_at[slot] = (uint32_t)++build->classes;
    return (uint32_t)build->classes - 1;
}
