#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "topology/nvml/nvml.h"

double muster_nvlink_gbs(unsigned version)
{
    /* Numbered by NVML: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0. NVIDIA's data sheets: P100 160 GB/s both
     * ways over 4 links, V100 300/6, A100 600/12, H100 900/18, B200 1800/18. */
    static const double gbs[] = {0, 20, 25, 25, 25, 25, 25, 50};
    return version < sizeof gbs / sizeof *gbs ? gbs[version] : 0;
}

static void add_missing(struct muster_machine *machine, const struct muster_nvml *nvml)
{
    for (int i = 0; i < nvml->gpus; i++) {
        if (muster_machine_find_gpu(machine, nvml->gpu[i].pci) >= 0 ||
            machine->gpus == MUSTER_MACHINE_GPUS)
            continue;
        /* In order of the address, as where the PCI tree shows them: matrices are still empty. */
        int at = machine->gpus++;
        while (at > 0 && muster_pci_compare(machine->gpu[at - 1].pci, nvml->gpu[i].pci) > 0) {
            machine->gpu[at] = machine->gpu[at - 1];
            at--;
        }
        machine->gpu[at] = (struct muster_gpu){.node = -1,
                                               .pci = nvml->gpu[i].pci,
                                               .index = -1,
                                               .utilization = -1,
                                               .nvlinks = -1,
                                               .nvlinks_present = -1};
    }
}

static double link_gbs(const struct muster_nvml_gpu *gpu)
{
    for (int i = 0; i < MUSTER_NVML_LINKS && gpu->link_mbps == 0; i++)
        if (gpu->link[i].state == MUSTER_NVLINK_ACTIVE)
            return muster_nvlink_gbs(gpu->link[i].version);
    return gpu->link_mbps / 1000.0;
}

static void annotate_gpu(struct muster_machine *machine, int at, const struct muster_nvml_gpu *from,
                         int index)
{
    struct muster_gpu *gpu = &machine->gpu[at];
    int active = 0, present = 0, direct = 0;
    gpu->index = index;
    memcpy(gpu->name, from->name, sizeof gpu->name);
    memcpy(gpu->uuid, from->uuid, sizeof gpu->uuid);
    gpu->utilization = from->utilization;
    gpu->mig = from->mig == 1;
    gpu->nvlink_gbs = link_gbs(from);
    for (int i = 0; i < MUSTER_NVML_LINKS; i++) {
        const struct muster_nvml_link *link = &from->link[i];
        present += link->state != MUSTER_NVLINK_ABSENT;
        if (link->state != MUSTER_NVLINK_ACTIVE)
            continue;
        active++;
        int peer = muster_machine_find_gpu(machine, link->to);
        if (link->remote != MUSTER_NVLINK_TO_SWITCH && peer >= 0 && peer != at) {
            machine->nvlinks[at][peer]++;
            direct++;
        }
    }
    gpu->nvlinks = active;
    gpu->nvlinks_present = present;
    gpu->fabric = active - direct;
}

/* All links to switches serve every peer; a path has as many as its poorer end. */
static void connect_fabric(struct muster_machine *machine)
{
    for (int a = 0; a < machine->gpus; a++)
        for (int b = 0; b < machine->gpus; b++) {
            const struct muster_gpu *x = &machine->gpu[a], *y = &machine->gpu[b];
            if (a == b || x->nvlinks <= 0 || y->nvlinks <= 0)
                continue;
            if (machine->nvlinks[a][b] == 0 && x->fabric > 0 && y->fabric > 0)
                machine->nvlinks[a][b] = (uint8_t)(x->fabric < y->fabric ? x->fabric : y->fabric);
            machine->nvlink_gbs[a][b] = machine->nvlinks[a][b] * x->nvlink_gbs;
        }
}

void muster_nvml_annotate(struct muster_machine *machine, const struct muster_nvml *nvml)
{
    int at[MUSTER_MACHINE_GPUS];
    int seen = machine->gpus;
    add_missing(machine, nvml);
    if (machine->gpus > seen && seen)
        muster_machine_note(machine, "%d GPUs are not in the PCI tree that is visible here",
                            machine->gpus - seen);
    memset(machine->nvlinks, 0, sizeof machine->nvlinks);
    memset(machine->nvlink_gbs, 0, sizeof machine->nvlink_gbs);
    for (int i = 0; i < nvml->gpus; i++) {
        at[i] = muster_machine_find_gpu(machine, nvml->gpu[i].pci);
        if (at[i] >= 0)
            annotate_gpu(machine, at[i], &nvml->gpu[i], i);
    }
    connect_fabric(machine);
    for (int i = 0; i < nvml->gpus; i++)
        for (int j = 0; j < nvml->gpus; j++)
            if (at[i] >= 0 && at[j] >= 0)
                machine->p2p[at[i]][at[j]] = nvml->p2p[i][j];
    for (int i = 0; i < machine->gpus && nvml->gpus; i++)
        if (machine->gpu[i].index < 0)
            muster_machine_note(machine, "a GPU of the PCI tree is not visible to the driver here");
}
