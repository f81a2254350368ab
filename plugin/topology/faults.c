#include "topology/faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "topology/paths.h"

__attribute__((format(printf, 5, 6))) static void add(struct muster_faults *faults,
                                                      enum muster_fault_kind kind, int node,
                                                      int gpu, const char *fmt, ...)
{
    va_list args;
    if (faults->n == MUSTER_FAULTS) {
        faults->dropped++;
        return;
    }
    struct muster_fault *fault = &faults->at[faults->n++];
    *fault = (struct muster_fault){.kind = kind, .node = node, .gpu = gpu};
    va_start(args, fmt);
    vsnprintf(fault->text, sizeof fault->text, fmt, args);
    va_end(args);
}

static int gpu_of_node(const struct muster_machine *machine, int node)
{
    for (int i = 0; i < machine->gpus; i++)
        if (machine->gpu[i].node == node)
            return i;
    return -1;
}

/* Only links that traffic of GPUs and NICs takes are of interest: a disk's is not ours. */
static void mark_used(const struct muster_machine *machine, bool *used)
{
    for (int i = 0; i < machine->gpus + machine->nics; i++) {
        int node = i < machine->gpus ? machine->gpu[i].node : machine->nic[i - machine->gpus].node;
        if (i >= machine->gpus && !machine->nic[i - machine->gpus].fabric)
            continue;
        for (int n = 0; node >= 0 && n < MUSTER_MACHINE_DEPTH; n++) {
            used[node] = true;
            node = machine->node[node].parent;
        }
    }
}

static void evaluate_link(const struct muster_machine *machine, int node,
                          struct muster_faults *faults)
{
    struct muster_link link;
    char has[24], can[24], low[24], high[24];
    if (!muster_link_above(machine, node, &link))
        return;
    int gpu = gpu_of_node(machine, node);
    muster_link_name(link.gts, link.width, has, sizeof has);
    muster_link_name(link.can_gts, link.can_width, can, sizeof can);
    muster_pci_print(machine->node[node].pci, low, sizeof low);
    muster_pci_print(machine->node[machine->node[node].parent].pci, high, sizeof high);
    if (link.width && link.width < link.can_width)
        add(faults, MUSTER_FAULT_WIDTH, node, gpu, "PCIe link %s - %s runs %s, both ends can %s",
            high, low, has, can);
    if (link.gts <= 0 || link.gts >= link.can_gts - 0.01)
        return;
    bool idle = gpu >= 0 && machine->gpu[gpu].utilization <= 0;
    if (idle)
        add(faults, MUSTER_FAULT_IDLE, node, gpu,
            "PCIe link %s - %s runs %s, both ends can %s: GPU %d %s, which slows its link; judge "
            "under load",
            high, low, has, can, gpu,
            machine->gpu[gpu].utilization == 0 ? "is idle" : "may be idle");
    else
        add(faults, MUSTER_FAULT_SPEED, node, gpu, "PCIe link %s - %s runs %s, both ends can %s",
            high, low, has, can);
}

int muster_faults_usual_links(const struct muster_machine *machine, int gpu)
{
    int best = 0, best_votes = 0;
    for (int i = 0; i < machine->gpus; i++) {
        int votes = 0;
        if (machine->gpu[i].nvlinks < 0 ||
            strcmp(machine->gpu[i].name, machine->gpu[gpu].name) != 0)
            continue;
        for (int j = 0; j < machine->gpus; j++)
            votes += machine->gpu[j].nvlinks == machine->gpu[i].nvlinks &&
                     strcmp(machine->gpu[j].name, machine->gpu[gpu].name) == 0;
        if (votes > best_votes || (votes == best_votes && machine->gpu[i].nvlinks > best)) {
            best = machine->gpu[i].nvlinks;
            best_votes = votes;
        }
    }
    return best;
}

static void evaluate_nvlinks(const struct muster_machine *machine, struct muster_faults *faults)
{
    for (int i = 0; i < machine->gpus; i++) {
        int usual = muster_faults_usual_links(machine, i);
        if (machine->gpu[i].nvlinks >= 0 && machine->gpu[i].nvlinks < usual)
            add(faults, MUSTER_FAULT_NVLINK, machine->gpu[i].node, i,
                "GPU %d has %d active NVLinks, GPUs of its model here have %d", i,
                machine->gpu[i].nvlinks, usual);
    }
}

/* Equal GPUs on two NUMA nodes, unequal NICs: somebody's traffic crosses the socket. One NIC alone
 * has to be somewhere. */
static void evaluate_nics(const struct muster_machine *machine, struct muster_faults *faults)
{
    int gpus[64] = {0}, nics[64] = {0}, most = 0, total = 0;
    for (int i = 0; i < machine->gpus; i++) {
        uint64_t numa = muster_machine_numa(machine, machine->gpu[i].node);
        if (numa && (numa & (numa - 1)) == 0)
            gpus[__builtin_ctzll(numa)]++;
    }
    for (int i = 0; i < machine->nics; i++) {
        uint64_t numa = muster_machine_numa(machine, machine->nic[i].node);
        if (machine->nic[i].fabric && numa && (numa & (numa - 1)) == 0) {
            total++;
            nics[__builtin_ctzll(numa)]++;
        }
    }
    for (int i = 0; i < 64; i++)
        if (gpus[i] && nics[i] > nics[most])
            most = i;
    for (int i = 0; i < 64; i++)
        if (total > 1 && i != most && gpus[i] && gpus[i] == gpus[most] && nics[i] < nics[most])
            add(faults, MUSTER_FAULT_NIC, i, -1,
                "NUMA node %d has %d GPUs and %d fabric NICs, node %d has %d and %d: "
                "traffic of the first crosses the socket",
                i, gpus[i], nics[i], most, gpus[most], nics[most]);
}

void muster_faults_find(const struct muster_machine *machine, struct muster_faults *faults)
{
    bool used[MUSTER_MACHINE_NODES] = {false};
    memset(faults, 0, sizeof *faults);
    mark_used(machine, used);
    for (int i = 0; i < machine->nodes && !machine->hidden; i++)
        if (used[i])
            evaluate_link(machine, i, faults);
    evaluate_nvlinks(machine, faults);
    if (!machine->hidden)
        evaluate_nics(machine, faults);
}

bool muster_fault_between(const struct muster_machine *machine, const struct muster_fault *fault,
                          int a, int b)
{
    struct muster_path path;
    if (a == b)
        return false;
    if (fault->kind == MUSTER_FAULT_NVLINK)
        return fault->gpu == a || fault->gpu == b;
    muster_path_gpus(machine, a, b, &path);
    for (int i = 0; i < path.links; i++)
        if (fault->node == path.link[i] && fault->kind != MUSTER_FAULT_NIC)
            return true;
    return false;
}
