#include "segment/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct muster_uid_entry {
    size_t at; /* + 1; 0: free */
    uint32_t uid;
};

bool muster_grow(void *array, size_t n, size_t size)
{
    if (n & (n - 1))
        return true;
    void *old;
    memcpy(&old, array, sizeof(old));
    void *bigger = reallocarray(old, n ? 2 * n : 1, size);
    if (!bigger)
        return false;
    memcpy(array, &bigger, sizeof(bigger));
    return true;
}

static struct muster_uid_entry *place(const struct muster_uid_index *index, uint32_t uid)
{
    size_t i = muster_hash_number(index->secret, uid) & (index->entries - 1);
    while (index->entry[i].at && index->entry[i].uid != uid)
        i = (i + 1) & (index->entries - 1);
    return &index->entry[i];
}

size_t muster_uid_find(const struct muster_uid_index *index, uint32_t uid)
{
    /* Free entries hold 0, and 0 - 1 is SIZE_MAX. */
    return index->entries ? place(index, uid)->at - 1 : SIZE_MAX;
}

static bool enlarge(struct muster_uid_index *index)
{
    struct muster_uid_index bigger = {.entries = index->entries ? 2 * index->entries : 16,
                                      .secret = muster_hash_secret()};
    bigger.entry = calloc(bigger.entries, sizeof(*bigger.entry));
    if (!bigger.entry)
        return false;
    for (size_t i = 0; i < index->entries; i++)
        if (index->entry[i].at)
            *place(&bigger, index->entry[i].uid) = index->entry[i];
    bigger.used = index->used;
    free(index->entry);
    *index = bigger;
    return true;
}

bool muster_uid_add(struct muster_uid_index *index, uint32_t uid, size_t at)
{
    if (2 * (index->used + 1) > index->entries && !enlarge(index))
        return false;
    struct muster_uid_entry *entry = place(index, uid);
    index->used += entry->at == 0;
    *entry = (struct muster_uid_entry){at + 1, uid};
    return true;
}

void muster_uid_free(struct muster_uid_index *index)
{
    free(index->entry);
    memset(index, 0, sizeof(*index));
}
