#include "run/run_gpus.h"

#include <stdbool.h>
#include <stdlib.h>

static int by_id(const void *left, const void *right)
{
    const struct muster_gpu_part *a = *(const struct muster_gpu_part *const *)left;
    const struct muster_gpu_part *b = *(const struct muster_gpu_part *const *)right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Place of an ordinal among those met so far. */
static uint32_t place_of(int32_t known[static MUSTER_PROCESS_GPUS], uint32_t *gpus, int32_t index)
{
    uint32_t i = 0;
    while (i < *gpus && known[i] != index)
        i++;
    if (i == MUSTER_PROCESS_GPUS)
        return MUSTER_PROCESS_GPUS - 1;
    if (i == *gpus)
        known[(*gpus)++] = index;
    return i;
}

static uint32_t next_place(const struct muster_gpu_part *part, const struct muster_gpu_part *before,
                           uint32_t place)
{
    if (!before || part->id == 0 || before->id != part->id)
        return 0;
    return before->rank == part->rank || place + 1 == MUSTER_PROCESS_GPUS ? place : place + 1;
}

uint32_t muster_number_gpus(struct muster_gpu_part *part, size_t n)
{
    int32_t known[MUSTER_PROCESS_GPUS];
    uint32_t gpus = 0, most = 1, place = 0;
    struct muster_gpu_part **order = malloc((n + 1) * sizeof *order);
    if (!order)
        return 0;
    for (size_t i = 0; i < n; i++) {
        order[i] = &part[i];
        if (part[i].gpu_index >= 0)
            part[i].gpu = place_of(known, &gpus, part[i].gpu_index);
    }
    qsort(order, n, sizeof *order, by_id);
    for (size_t i = 0; i < n; i++) {
        place = next_place(order[i], i ? order[i - 1] : NULL, place);
        if (order[i]->gpu_index >= 0)
            continue;
        order[i]->gpu = gpus == 0 || place < gpus ? place : 0;
        most = place >= most ? place + 1 : most;
    }
    free(order);
    return gpus ? gpus : most;
}

int32_t muster_rank_of_gpu(const struct muster_gpu_part *part, size_t n, uint32_t gpu)
{
    const struct muster_gpu_part *largest = NULL;
    for (size_t i = 0; i < n; i++)
        if (part[i].gpu == gpu && part[i].rank >= 0 &&
            (!largest || part[i].nranks > largest->nranks))
            largest = &part[i];
    return largest ? largest->rank : -1;
}
