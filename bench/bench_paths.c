/*
 * Precision and recall of what `muster topo` calls degraded, on made-up machines with 0 to 3
 * faults: fewer lanes, generation 1 on any hop, missing NVLinks, a NIC on the other socket.
 * usage: paths [FIRST LAST]   seeds; 101 to 700
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/scratch.h"
#include "paths_machine.h"
#include "topology/faults.h"
#include "topology/nvml/nvml.h"
#include "topology/sysfs.h"

struct score {
    int machines, healthy, healthy_with_findings, injected, found, false_alarms;
};

static void make_nvml(const struct paths_machine *machine, struct muster_nvml *nvml)
{
    memset(nvml, 0, sizeof *nvml);
    nvml->gpus = machine->gpus;
    for (int i = 0; i < machine->gpus; i++) {
        struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        *gpu =
            (struct muster_nvml_gpu){.utilization = machine->busy[i] ? 90 : 0, .link_mbps = 25000};
        snprintf(gpu->name, sizeof gpu->name, "made-up GPU");
        muster_pci_parse(machine->gpu_pci[i], &gpu->pci);
        for (int j = 0; machine->nvlink && j < PATHS_LINKS; j++) {
            gpu->link[j].state =
                j < machine->links[i] ? MUSTER_NVLINK_ACTIVE : MUSTER_NVLINK_INACTIVE;
            gpu->link[j].remote = MUSTER_NVLINK_TO_SWITCH;
        }
    }
}

static bool is_same(const struct muster_machine *read, const struct muster_fault *is,
                    const struct paths_fault *injected)
{
    static const int kinds[] = {[PATHS_WIDTH] = MUSTER_FAULT_WIDTH,
                                [PATHS_SPEED] = MUSTER_FAULT_SPEED,
                                [PATHS_NVLINK] = MUSTER_FAULT_NVLINK,
                                [PATHS_NIC] = MUSTER_FAULT_NIC};
    char lower[24];
    if ((int)is->kind != kinds[injected->kind])
        return false;
    if (is->kind == MUSTER_FAULT_NVLINK)
        return is->gpu == injected->gpu;
    if (is->kind == MUSTER_FAULT_NIC)
        return is->node == injected->node;
    muster_pci_print(read->node[is->node].pci, lower, sizeof lower);
    return strcmp(lower, injected->lower) == 0;
}

static void compare(const struct muster_machine *read, const struct muster_faults *faults,
                    const struct paths_machine *made, uint64_t seed, struct score *score)
{
    bool hit[PATHS_FAULTS] = {false};
    int alarms = 0;
    for (int i = 0; i < faults->n; i++) {
        bool known = faults->at[i].kind == MUSTER_FAULT_IDLE;
        for (int j = 0; j < made->faults; j++)
            if (is_same(read, &faults->at[i], &made->fault[j]))
                known = hit[j] = true;
        if (!known) {
            printf("seed %" PRIu64 ": false: %s\n", seed, faults->at[i].text);
            alarms++;
        }
    }
    for (int j = 0; j < made->faults; j++) {
        score->found += hit[j];
        if (!hit[j])
            printf("seed %" PRIu64 ": missed: kind %d at %s\n", seed, (int)made->fault[j].kind,
                   made->fault[j].lower);
    }
    score->injected += made->faults;
    score->false_alarms += alarms;
    score->healthy += made->faults == 0;
    score->healthy_with_findings += made->faults == 0 && alarms;
    score->machines++;
}

static int one(uint64_t seed, struct score *score, struct muster_err *err)
{
    static struct muster_nvml nvml;
    static struct muster_faults faults;
    struct paths_machine made;
    struct muster_machine *machine = NULL;
    char root[256];
    if (muster_scratch_make(root, sizeof root, "/tmp", err))
        return -1;
    int rc = paths_machine_make(seed, root, &made) ? muster_fail(err, "cannot write below %s", root)
                                                   : muster_machine_new(&machine, err);
    if (rc == 0)
        rc = muster_sysfs_read(machine, root, err);
    if (rc == 0) {
        muster_sysfs_annotate(machine, root);
        make_nvml(&made, &nvml);
        muster_nvml_annotate(machine, &nvml);
        muster_faults_find(machine, &faults);
        compare(machine, &faults, &made, seed, score);
    }
    muster_machine_free(machine);
    muster_scratch_remove(root);
    return rc;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 2 ? strtoull(argv[1], NULL, 10) : 101;
    uint64_t last = argc > 2 ? strtoull(argv[2], NULL, 10) : 700;
    struct score score = {0};
    struct muster_err err;
    for (uint64_t seed = first; seed <= last; seed++)
        if (one(seed, &score, &err)) {
            fprintf(stderr, "paths: %s\n", err.text);
            return 2;
        }
    double precision = score.found + score.false_alarms
                           ? (double)score.found / (score.found + score.false_alarms)
                           : 1;
    double recall = score.injected ? (double)score.found / score.injected : 1;
    printf("%d machines, %d faults: precision %.4f, recall %.4f; %d healthy, %d of them with "
           "findings\n",
           score.machines, score.injected, precision, recall, score.healthy,
           score.healthy_with_findings);
    return precision >= 0.99 && recall >= 0.99 && score.healthy_with_findings == 0 ? 0 : 1;
}
