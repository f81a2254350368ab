#include "standin.h"

#define BITS_STEP  (STANDIN_PROXY_STEP | STANDIN_NET_PLUGIN)
#define BITS_PROXY (STANDIN_PROXY_OP | BITS_STEP)
#define BITS_PARTS (BITS_PROXY | STANDIN_KERNEL_CH | STANDIN_KERNEL_PHASE)
#define BITS_GROUP (STANDIN_GROUP | STANDIN_COLL | STANDIN_P2P | BITS_PARTS)

const struct standin_generation standin_generations[] = {
    {.nccl = "2.23 to 2.23.4",
     .api = 1,
     .mask_at_group = true,
     .stops_null = true,
     .coll_needs_group = true,
     .finalize_null = true,
     .op_states = true},
    {.nccl = "2.24 to 2.25",
     .api = 2,
     .mask_at_group = true,
     .stops_null = true,
     .coll_needs_group = true,
     .finalize_null = true,
     .op_states = true},
    {.nccl = "2.26", .api = 3, .coll_needs_group = true, .finalize_null = true, .op_states = true},
    {.nccl = "2.27",
     .api = 4,
     .coll_needs_group = true,
     .late_init = true,
     .finalize_null = true,
     .step_args = true},
    {.nccl = "2.28", .api = 5, .late_init = true, .step_args = true, .api_events = true},
    {.nccl = "2.29 to 2.30",
     .api = 6,
     .late_init = true,
     .step_args = true,
     .api_events = true,
     .ce = true,
     .quiet_broadcast = true},
    {.nccl = "2.31",
     .api = 7,
     .late_init = true,
     .step_args = true,
     .api_events = true,
     .ce = true,
     .quiet_broadcast = true,
     .symmetric_coll = true,
     .profiler_thread = true},
};
const unsigned standin_generations_n = sizeof(standin_generations) / sizeof(standin_generations[0]);

const struct standin_generation *standin_generation(unsigned api)
{
    return &standin_generations[api - 1];
}

/* A child's bit brings its ancestors along. */
bool standin_delivers(const struct standin *nccl, enum standin_type type, unsigned mask)
{
    unsigned api = nccl->gen->api;

    switch (type) {
    case STANDIN_GROUP:
        return mask & BITS_GROUP;
    case STANDIN_COLL:
        return mask & (STANDIN_COLL | BITS_PARTS);
    case STANDIN_P2P:
        /* The condition of 2.23 to 2.25 forgets P2p itself. */
        return mask & (api <= 2 ? STANDIN_COLL | BITS_PROXY : STANDIN_P2P | BITS_PARTS);
    case STANDIN_PROXY_OP:
        return mask & BITS_PROXY;
    case STANDIN_PROXY_STEP:
        return mask & BITS_STEP;
    case STANDIN_KERNEL_CH:
        return api >= 3 && mask & STANDIN_KERNEL_CH;
    case STANDIN_GROUP_API:
        return api >= 5 && mask & (STANDIN_GROUP_API | STANDIN_COLL_API | STANDIN_P2P_API |
                                   STANDIN_KERNEL_LAUNCH | BITS_GROUP);
    case STANDIN_COLL_API:
        return api >= 5 && mask & (STANDIN_COLL_API | STANDIN_COLL | BITS_PARTS);
    case STANDIN_P2P_API:
        return api >= 5 && mask & (STANDIN_P2P_API | STANDIN_P2P | BITS_PARTS);
    case STANDIN_KERNEL_LAUNCH:
        return api >= 5 && mask & STANDIN_KERNEL_LAUNCH;
    case STANDIN_CE_COLL:
    case STANDIN_CE_SYNC:
    case STANDIN_CE_BATCH:
        return api >= 6 && mask & (unsigned)type;
    case STANDIN_KERNEL_PHASE:
        return api >= 7 && mask & STANDIN_KERNEL_PHASE;
    case STANDIN_NET_PLUGIN:
        return api >= 3 && mask & STANDIN_NET_PLUGIN;
    case STANDIN_PROXY_CTRL:
        return mask & STANDIN_PROXY_CTRL;
    }
    return false;
}
