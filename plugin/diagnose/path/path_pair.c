#include "diagnose/path/path_pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "view/aligned.h"

const char *muster_path_variable(const struct muster_view_gpu *gpu, enum muster_fact_var variable)
{
    bool set = gpu->facts && gpu->facts->head.variables & 1u << variable;
    return set ? gpu->facts->head.value[variable] : NULL;
}

bool muster_path_disabled(const struct muster_view_gpu *gpu)
{
    /* NCCL takes 1 and nothing else for yes. */
    const char *value = muster_path_variable(gpu, MUSTER_VAR_P2P_DISABLE);
    return value && strtol(value, NULL, 0) == 1;
}

/* The farthest class that NCCL_P2P_LEVEL allows; MUSTER_PATH_UNKNOWN: it is not set. */
static enum muster_path_class level_of(const char *value)
{
    static const enum muster_path_class digits[] = {MUSTER_PATH_SELF, MUSTER_PATH_PIX,
                                                    MUSTER_PATH_PXB,  MUSTER_PATH_PHB,
                                                    MUSTER_PATH_SYS,  MUSTER_PATH_SYS};
    if (!value || value[0] < '0' || value[0] > '9')
        return value ? muster_path_level(value) : MUSTER_PATH_UNKNOWN;
    long digit = strtol(value, NULL, 10);
    long last = (long)(sizeof digits / sizeof *digits) - 1;
    return digits[digit < last ? digit : last];
}

static const struct muster_fact_peer *peer_of(const struct muster_fact_gpu *from,
                                              const struct muster_fact_gpu *to)
{
    unsigned domain, bus, device;
    if (sscanf(to->pci, "%x:%x:%x", &domain, &bus, &device) != 3)
        return NULL;
    for (unsigned i = 0; i < from->peers; i++) {
        const struct muster_fact_peer *peer = &from->peer[i];
        if (peer->domain == domain && peer->bus == bus && peer->device == device)
            return peer;
    }
    return NULL;
}

/* NVLink always; PCIe where the driver allows it and no CPU is in between. Farther ways NCCL takes
 * or leaves by rules that differ from version to version. */
static bool is_expected(const struct muster_fact_peer *peer)
{
    if (peer->class == MUSTER_PATH_NVLINK)
        return peer->nvlinks > 0;
    return peer->p2p == MUSTER_P2P_OK &&
           (peer->class == MUSTER_PATH_PIX || peer->class == MUSTER_PATH_PXB);
}

static void explain(struct muster_path_pair *pair)
{
    const struct muster_view_gpu *const end[2] = {pair->a, pair->b};
    for (int i = 0; i < 2; i++) {
        if (muster_path_disabled(end[i])) {
            pair->why = MUSTER_PATH_DISABLED;
            pair->by = end[i];
            return;
        }
    }
    for (int i = 0; i < 2; i++) {
        enum muster_path_class level = level_of(muster_path_variable(end[i], MUSTER_VAR_P2P_LEVEL));
        if (level != MUSTER_PATH_UNKNOWN && level < (enum muster_path_class)pair->peer->class) {
            pair->why = MUSTER_PATH_LEVEL;
            pair->by = end[i];
            return;
        }
    }
    if (pair->peer->p2p > MUSTER_P2P_OK)
        pair->why = MUSTER_PATH_REFUSED;
}

bool muster_path_pair(const struct muster_view_gpu *a, const struct muster_view_gpu *b,
                      struct muster_path_pair *pair)
{
    *pair = (struct muster_path_pair){.a = a, .b = b};
    if (!a->fact || !b->fact || strcmp(a->fact->pci, b->fact->pci) == 0)
        return false;
    pair->peer = peer_of(a->fact, b->fact);
    if (!pair->peer)
        return false;
    pair->expected = is_expected(pair->peer);
    if (pair->expected)
        explain(pair);
    return true;
}

void muster_path_pair_format(const struct muster_path_pair *pair, char *text, size_t size)
{
    double limit = pair->peer->limit_mbs / 1000.0;
    if (pair->peer->class == MUSTER_PATH_NVLINK) {
        snprintf(text, size, "%u NVLinks, %.0f GB/s in each direction", pair->peer->nvlinks, limit);
    } else if (limit > 0) {
        snprintf(text, size, "PCIe (%s), %.0f GB/s in each direction",
                 muster_path_class_name(pair->peer->class), limit);
    } else {
        snprintf(text, size, "PCIe (%s)", muster_path_class_name(pair->peer->class));
    }
}

static void add(struct muster_path_reached *reached, uint64_t bytes, double factor, uint64_t ns,
                double sums[2])
{
    double moved = (double)bytes * factor;
    sums[0] += moved;
    sums[1] += (double)ns;
    reached->ops++;
    if (moved / (double)ns > reached->best_gbs)
        reached->best_gbs = moved / (double)ns;
    if (bytes > reached->largest)
        reached->largest = bytes;
}

struct muster_path_reached muster_path_measure(const struct muster_view *view, uint32_t comm,
                                               uint64_t min_bytes, struct muster_arena *memory)
{
    const struct muster_view_comm *own = &view->comm[comm];
    struct muster_joint joint;
    double sums[2] = {0, 0};
    struct muster_path_reached reached = {.ops = 0};
    if (!muster_joint_possible(own) || own->members != own->nranks)
        return reached;
    muster_joint_begin(&joint, view, comm, NULL, memory);
    while (muster_joint_next(&joint)) {
        uint64_t shortest = muster_joint_span(&joint).shortest_ns;
        const struct muster_view_op *any = joint.any;
        uint64_t bytes =
            muster_op_size_bytes(any->func, view->class[any->class].dtype, any->count, own->nranks);
        double factor = muster_busbw_factor(any->func, own->nranks);
        if (bytes >= min_bytes && factor > 0)
            add(&reached, bytes, factor, shortest, sums);
    }
    reached.mean_gbs = sums[1] > 0 ? sums[0] / sums[1] : 0;
    return reached;
}
