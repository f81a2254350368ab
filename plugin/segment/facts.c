#include "segment/facts.h"

#include <stddef.h>

#include "base/text.h"

const char *muster_fact_var_name(unsigned variable)
{
    static const char *const names[MUSTER_VARS] = {
        [MUSTER_VAR_P2P_DISABLE] = "NCCL_P2P_DISABLE",
        [MUSTER_VAR_P2P_LEVEL] = "NCCL_P2P_LEVEL",
        [MUSTER_VAR_SHM_DISABLE] = "NCCL_SHM_DISABLE",
        [MUSTER_VAR_NET] = "NCCL_NET",
        [MUSTER_VAR_NET_PLUGIN] = "NCCL_NET_PLUGIN",
        [MUSTER_VAR_NET_GDR_LEVEL] = "NCCL_NET_GDR_LEVEL",
        [MUSTER_VAR_IB_DISABLE] = "NCCL_IB_DISABLE",
        [MUSTER_VAR_IB_HCA] = "NCCL_IB_HCA",
        [MUSTER_VAR_SOCKET_IFNAME] = "NCCL_SOCKET_IFNAME",
        [MUSTER_VAR_CUMEM_ENABLE] = "NCCL_CUMEM_ENABLE",
        [MUSTER_VAR_MAX_NCHANNELS] = "NCCL_MAX_NCHANNELS",
        [MUSTER_VAR_CROSS_NIC] = "NCCL_CROSS_NIC",
    };
    return variable < MUSTER_VARS ? names[variable] : NULL;
}

const char *muster_fact_limit_name(unsigned limit)
{
    static const char *const words[MUSTER_LIMITS] = {
        [MUSTER_LIMIT_POWER_CAP] = "power cap",
        [MUSTER_LIMIT_HW_SLOWDOWN] = "hardware slowdown",
        [MUSTER_LIMIT_SW_THERMAL] = "temperature (driver)",
        [MUSTER_LIMIT_HW_THERMAL] = "temperature (hardware)",
        [MUSTER_LIMIT_POWER_BRAKE] = "power brake",
    };
    return limit < MUSTER_LIMITS ? words[limit] : "unknown reason";
}

static void check_head(struct muster_fact_head *head)
{
    muster_text_clean(head->nic, sizeof(head->nic));
    muster_text_clean(head->nic_verbs, sizeof(head->nic_verbs));
    muster_text_clean(head->driver, sizeof(head->driver));
    muster_text_clean(head->no_nvml, sizeof(head->no_nvml));
    for (unsigned i = 0; i < MUSTER_FACT_VARS; i++)
        muster_text_clean(head->value[i], sizeof(head->value[i]));
    if (head->state >= MUSTER_FACTS_STATES)
        head->state = MUSTER_FACTS_NONE;
}

static void check_class(uint8_t *class)
{
    if (*class >= MUSTER_PATH_CLASSES)
        *class = MUSTER_PATH_UNKNOWN;
}

static void check_gpu(struct muster_fact_gpu *gpu)
{
    muster_text_clean(gpu->pci, sizeof(gpu->pci));
    muster_text_clean(gpu->near, sizeof(gpu->near));
    muster_text_clean(gpu->low, sizeof(gpu->low));
    check_class(&gpu->nic_class);
    check_class(&gpu->near_class);
    if (gpu->host_low >= MUSTER_FACT_LOWS)
        gpu->host_low = MUSTER_FACT_FULL;
    if (gpu->peers > MUSTER_FACT_PEERS)
        gpu->peers = MUSTER_FACT_PEERS;
    for (unsigned i = 0; i < gpu->peers; i++) {
        struct muster_fact_peer *peer = &gpu->peer[i];
        check_class(&peer->class);
        if (peer->p2p >= MUSTER_P2P_WORDS)
            peer->p2p = MUSTER_P2P_UNKNOWN;
        if (peer->low >= MUSTER_FACT_LOWS)
            peer->low = MUSTER_FACT_FULL;
    }
}

void muster_facts_check(struct muster_facts *facts)
{
    check_head(&facts->head);
    for (unsigned i = 0; i < MUSTER_FACT_GPUS; i++)
        check_gpu(&facts->gpu[i]);
}
