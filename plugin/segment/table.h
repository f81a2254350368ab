/* Growing arrays, and finding an element by a communicator's uid. For readers. */
#ifndef MUSTER_SEGMENT_TABLE_H
#define MUSTER_SEGMENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for element n of an array of elements of `size` bytes: doubles it at every power of
 * two, so an array may only grow by one element at a time. `array`: address of the pointer. False:
 * no memory; the array is as before. */
bool muster_grow(void *array, size_t n, size_t size);

struct muster_uid_index {
    struct muster_uid_entry *entry;
    size_t entries; /* a power of two */
    uint64_t secret; /* base/hash.h */
    size_t used;
};

/* SIZE_MAX where it was never added. */
size_t muster_uid_find(const struct muster_uid_index *index, uint32_t uid);
/* False: no memory. */
bool muster_uid_add(struct muster_uid_index *index, uint32_t uid, size_t at);
void muster_uid_free(struct muster_uid_index *index);

#endif
