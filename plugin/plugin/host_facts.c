#include "plugin/host_facts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "topology/faults.h"
#include "topology/interfaces.h"
#include "topology/paths.h"

enum { FULL_PERCENT = 95, WAITING_PERCENT = 40 };

void muster_facts_variables(struct muster_fact_head *head)
{
    for (unsigned i = 0; i < MUSTER_VARS; i++) {
        const char *value = getenv(muster_fact_var_name(i));
        if (!value)
            continue;
        head->variables |= 1u << i;
        muster_text_copy(head->value[i], sizeof head->value[i], value);
    }
}

static const char *variable(const struct muster_fact_head *head, enum muster_fact_var which)
{
    return head->variables & 1u << which ? head->value[which] : NULL;
}

void muster_facts_interface(struct muster_fact_head *head, const char *family)
{
    struct muster_interfaces *interfaces = calloc(1, sizeof *interfaces);
    struct muster_choice choice = {.n = 0};
    if (interfaces && muster_interfaces_read(interfaces) == 0)
        muster_interfaces_choose(interfaces, variable(head, MUSTER_VAR_SOCKET_IFNAME), family, NULL,
                                 0, &choice);
    if (choice.n > 0) {
        const struct muster_interface *first = &interfaces->at[choice.at[0]];
        muster_text_copy(head->nic, sizeof head->nic, first->name);
        head->nic_up = (first->flags & IFF_RUNNING) != 0;
        head->nic_mbps = muster_interfaces_mbps(first->name);
    }
    head->nics = (uint8_t)choice.n;
    free(interfaces);
}

/* NCCL's number: what strtoll reads of it. */
static bool is_on(const char *value)
{
    return value && strtoll(value, NULL, 0) != 0;
}

static bool uses_rdma(const struct muster_fact_head *head)
{
    const char *net = variable(head, MUSTER_VAR_NET);
    return !is_on(variable(head, MUSTER_VAR_IB_DISABLE)) &&
           !(net && strcasecmp(net, "Socket") == 0);
}

static bool takes_rdma(const struct muster_fact_head *head, const struct muster_nic *nic)
{
    const char *list = variable(head, MUSTER_VAR_IB_HCA);
    return nic->verbs[0] && nic->up && (!list || muster_interfaces_match(list, nic->verbs));
}

/* The one RDMA device that traffic can take; -1: none, or NCCL chooses. */
static int only_rdma(const struct muster_fact_head *head, const struct muster_machine *machine)
{
    int found = -1;
    for (int i = 0; i < machine->nics && uses_rdma(head); i++) {
        if (!takes_rdma(head, &machine->nic[i]))
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

static bool has_rdma(const struct muster_fact_head *head, const struct muster_machine *machine)
{
    for (int i = 0; i < machine->nics && uses_rdma(head); i++)
        if (takes_rdma(head, &machine->nic[i]))
            return true;
    return false;
}

void muster_facts_machine(struct muster_fact_head *head, const struct muster_machine *machine)
{
    int rdma = only_rdma(head, machine);
    head->hidden = machine->hidden;
    head->virtual_machine = machine->virtual_machine;
    head->gpus = (uint8_t)machine->gpus;
    if (rdma >= 0)
        muster_text_copy(head->nic_verbs, sizeof head->nic_verbs, machine->nic[rdma].verbs);
}

/* The NIC that data between hosts take, where that can be known; -1. */
static int used_nic(const struct muster_fact_head *head, const struct muster_machine *machine)
{
    if (has_rdma(head, machine))
        return only_rdma(head, machine);
    for (int i = 0; i < machine->nics; i++)
        if (head->nics == 1 && strcmp(machine->nic[i].name, head->nic) == 0)
            return i;
    return -1;
}

static void describe_nics(struct muster_fact_gpu *gpu, const struct muster_fact_head *head,
                          const struct muster_machine *machine, int at)
{
    bool nearest[MUSTER_MACHINE_NICS] = {false};
    enum muster_path_class class = MUSTER_PATH_UNKNOWN;
    struct muster_path path;
    int nic = used_nic(head, machine);
    if (machine->hidden || machine->gpu[at].node < 0)
        return;
    if (nic >= 0) {
        muster_path_gpu_nic(machine, at, nic, &path);
        gpu->nic_class = (uint8_t)path.class;
    }
    muster_path_nearest(machine, at, nearest, &class);
    for (int i = 0; i < machine->nics; i++) {
        if (!nearest[i] || !machine->nic[i].fabric || !machine->nic[i].up)
            continue;
        gpu->near_class = (uint8_t) class;
        muster_text_copy(gpu->near, sizeof gpu->near,
                         machine->nic[i].verbs[0] ? machine->nic[i].verbs : machine->nic[i].name);
        break;
    }
}

static bool is_above(const struct muster_machine *machine, int node, int above)
{
    for (int n = 0; node >= 0 && n < MUSTER_MACHINE_DEPTH; n++) {
        if (node == above)
            return true;
        node = machine->node[node].parent;
    }
    return false;
}

static void describe_peer(struct muster_fact_peer *peer, const struct muster_machine *machine,
                          int at, int other)
{
    struct muster_path path;
    muster_path_gpus(machine, at, other, &path);
    struct muster_pci pci = machine->gpu[other].pci;
    *peer = (struct muster_fact_peer){
        .domain = pci.domain,
        .bus = pci.bus,
        .device = pci.device,
        .class = (uint8_t)(machine->hidden && path.class != MUSTER_PATH_NVLINK ? MUSTER_PATH_UNKNOWN
                                                                               : path.class),
        .nvlinks = (uint8_t)path.nvlinks,
        .p2p = (uint8_t)machine->p2p[at][other],
        .limit_mbs = path.limit_gbs > 0 ? (uint32_t)(path.limit_gbs * 1000) : 0,
    };
}

static uint8_t worse(uint8_t low, enum muster_fault_kind kind)
{
    uint8_t is = kind == MUSTER_FAULT_IDLE ? MUSTER_FACT_LOW_IDLE : MUSTER_FACT_LOW;
    return low > is ? low : is;
}

/* Which of its paths take a PCIe link that does less than it can. */
static void evaluate_links(struct muster_fact_gpu *gpu, const struct muster_machine *machine,
                           int at, const int *other)
{
    struct muster_faults *faults = calloc(1, sizeof *faults);
    if (!faults)
        return;
    muster_faults_find(machine, faults);
    for (int i = 0; i < faults->n; i++) {
        const struct muster_fault *fault = &faults->at[i];
        bool ours = false;
        if (fault->kind == MUSTER_FAULT_NVLINK || fault->kind == MUSTER_FAULT_NIC)
            continue;
        if (is_above(machine, machine->gpu[at].node, fault->node)) {
            gpu->host_low = worse(gpu->host_low, fault->kind);
            ours = true;
        }
        for (int j = 0; j < gpu->peers; j++) {
            if (!muster_fault_between(machine, fault, at, other[j]))
                continue;
            gpu->peer[j].low = worse(gpu->peer[j].low, fault->kind);
            ours = true;
        }
        if (ours && (gpu->low[0] == '\0' || fault->kind != MUSTER_FAULT_IDLE))
            muster_text_copy(gpu->low, sizeof gpu->low, fault->text);
    }
    free(faults);
}

static void describe_own(struct muster_fact_gpu *gpu, const struct muster_nvml *nvml,
                         struct muster_pci pci)
{
    for (int i = 0; nvml && i < nvml->gpus; i++) {
        const struct muster_nvml_gpu *from = &nvml->gpu[i];
        if (muster_pci_compare(from->pci, pci) != 0)
            continue;
        gpu->mig = from->mig == 1;
        gpu->generation = (uint8_t)from->pcie_generation;
        gpu->max_generation = (uint8_t)from->pcie_max_generation;
        gpu->width = (uint8_t)from->pcie_width;
        gpu->max_width = (uint8_t)from->pcie_max_width;
    }
}

void muster_facts_gpu(struct muster_fact_gpu *gpu, const struct muster_fact_head *head,
                      const struct muster_machine *machine, const struct muster_nvml *nvml)
{
    int other[MUSTER_FACT_PEERS] = {0};
    struct muster_pci pci;
    int at = muster_pci_parse(gpu->pci, &pci) ? muster_machine_find_gpu(machine, pci) : -1;
    gpu->nic_class = gpu->near_class = MUSTER_PATH_UNKNOWN;
    if (at < 0)
        return;
    const struct muster_gpu *own = &machine->gpu[at];
    gpu->known = 1;
    gpu->nvlinks = (uint8_t)(own->nvlinks > 0 ? own->nvlinks : 0);
    gpu->nvlinks_present = (uint8_t)(own->nvlinks_present > 0 ? own->nvlinks_present : 0);
    gpu->nvlinks_usual = (uint8_t)muster_faults_usual_links(machine, at);
    gpu->nvlink_mbs = (uint32_t)(own->nvlink_gbs * 1000);
    describe_own(gpu, nvml, pci);
    for (int i = 0; i < machine->gpus && gpu->peers < MUSTER_FACT_PEERS; i++) {
        if (i == at)
            continue;
        other[gpu->peers] = i;
        describe_peer(&gpu->peer[gpu->peers++], machine, at, i);
    }
    if (!machine->hidden)
        evaluate_links(gpu, machine, at, other);
    describe_nics(gpu, head, machine, at);
}

static void count_limits(struct muster_fact_use *use, int64_t limits)
{
    static const int64_t bit[MUSTER_LIMITS] = {
        [MUSTER_LIMIT_POWER_CAP] = MUSTER_CLOCK_SW_POWER_CAP,
        [MUSTER_LIMIT_HW_SLOWDOWN] = MUSTER_CLOCK_HW_SLOWDOWN,
        [MUSTER_LIMIT_SW_THERMAL] = MUSTER_CLOCK_SW_THERMAL,
        [MUSTER_LIMIT_HW_THERMAL] = MUSTER_CLOCK_HW_THERMAL,
        [MUSTER_LIMIT_POWER_BRAKE] = MUSTER_CLOCK_POWER_BRAKE,
    };
    bool any = false;
    for (unsigned i = 0; i < MUSTER_LIMITS && limits > 0; i++) {
        use->limited[i] += (limits & bit[i]) != 0;
        any |= (limits & bit[i]) != 0;
    }
    use->limited_any += any;
}

static void count_clock(struct muster_fact_use *use, int mhz)
{
    use->clocked++;
    use->sum_sm_mhz += (uint64_t)mhz;
    if (use->min_sm_mhz == 0 || mhz < use->min_sm_mhz)
        use->min_sm_mhz = mhz;
    if (mhz > use->max_sm_mhz)
        use->max_sm_mhz = mhz;
}

static struct muster_fact_reading reading_of(const struct muster_gpu_reading *look, uint64_t now_ns)
{
    return (struct muster_fact_reading){
        .at_ns = now_ns,
        .limits = (uint64_t)look->limits,
        .ecc_corrected = look->ecc_corrected,
        .ecc_uncorrected = look->ecc_uncorrected,
        .pcie_replays = look->pcie_replays,
        .nvlink_recoveries = look->nvlink_recoveries,
        .nvlink_errors = look->nvlink_errors,
        .power_mw = (int32_t)look->power_mw,
        .power_limit_mw = (int32_t)look->power_limit_mw,
        .sm_mhz = look->sm_mhz,
        .sm_max_mhz = look->sm_max_mhz,
        .utilization = look->utilization,
        .temperature = look->temperature,
        .others = look->others,
        .nvlinks = look->nvlinks,
    };
}

void muster_facts_poll(struct muster_fact_use *use, const struct muster_gpu_reading *look,
                       unsigned xid, uint64_t now_ns)
{
    bool busy = look->utilization >= FULL_PERCENT;
    use->last = reading_of(look, now_ns);
    if (use->samples++ == 0)
        use->first = use->last;
    count_limits(use, look->limits);
    use->busy += busy;
    use->shared += look->others > 0;
    if (busy && look->sm_mhz > 0)
        count_clock(use, look->sm_mhz);
    if (look->power_mw >= 0) {
        use->powered++;
        use->sum_power_mw += (uint64_t)look->power_mw;
        use->waiting += busy && look->power_limit_mw > 0 &&
                        look->power_mw * 100 < look->power_limit_mw * WAITING_PERCENT;
    }
    if (look->temperature > use->max_temperature)
        use->max_temperature = look->temperature;
    if (xid) {
        use->xid = xid;
        use->xids++;
    }
}
