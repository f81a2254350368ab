#include "replay/replay_mask.h"

#include "trace/trace_format.h"

#define BIT(kind) (1u << MUSTER_EVENT_##kind)

enum {
    NET_BITS = BIT(PROXY_STEP) | BIT(NET_PLUGIN),
    PROXY_BITS = BIT(PROXY_OP) | NET_BITS,
    KERNEL_BITS = BIT(KERNEL_CH) | BIT(KERNEL_PHASE),
    COLL_BITS = BIT(COLL) | PROXY_BITS | KERNEL_BITS,
    P2P_BITS = BIT(P2P) | PROXY_BITS | KERNEL_BITS,
    CE_BITS = BIT(CE_COLL) | BIT(CE_SYNC) | BIT(CE_BATCH),
    GROUP_BITS = BIT(GROUP) | COLL_BITS | P2P_BITS,
    API_BITS =
        BIT(GROUP_API) | BIT(COLL_API) | BIT(P2P_API) | BIT(KERNEL_LAUNCH) | GROUP_BITS | CE_BITS,
};

/* For a kind, the bits of which any one produces it. */
static const unsigned produced_by[MUSTER_EVENT_KINDS] = {
    [MUSTER_EVENT_GROUP] = GROUP_BITS,
    [MUSTER_EVENT_COLL] = COLL_BITS,
    [MUSTER_EVENT_P2P] = P2P_BITS,
    [MUSTER_EVENT_PROXY_OP] = PROXY_BITS,
    [MUSTER_EVENT_PROXY_STEP] = NET_BITS,
    [MUSTER_EVENT_PROXY_CTRL] = BIT(PROXY_CTRL),
    [MUSTER_EVENT_KERNEL_CH] = KERNEL_BITS,
    [MUSTER_EVENT_NET_PLUGIN] = BIT(NET_PLUGIN),
    [MUSTER_EVENT_GROUP_API] = API_BITS,
    [MUSTER_EVENT_COLL_API] = BIT(COLL_API) | COLL_BITS | CE_BITS,
    [MUSTER_EVENT_P2P_API] = BIT(P2P_API) | P2P_BITS,
    [MUSTER_EVENT_KERNEL_LAUNCH] = BIT(KERNEL_LAUNCH),
    [MUSTER_EVENT_CE_COLL] = CE_BITS,
    [MUSTER_EVENT_CE_SYNC] = BIT(CE_SYNC),
    [MUSTER_EVENT_CE_BATCH] = BIT(CE_BATCH),
    [MUSTER_EVENT_KERNEL_PHASE] = BIT(KERNEL_PHASE),
};

bool muster_mask_wants(unsigned api, unsigned mask, unsigned kind)
{
    unsigned bits = kind < MUSTER_EVENT_KINDS ? produced_by[kind] : 0;
    if (api <= 2 && kind == MUSTER_EVENT_GROUP)
        bits &= ~BIT(GROUP);
    if (api <= 2 && kind == MUSTER_EVENT_P2P)
        bits = COLL_BITS;
    return (bits & mask & muster_trace_kinds(api)) != 0;
}
