#include <string.h>

#include "cli/topo/topo_out.h"
#include "doctor/survey.h"
#include "topology/paths.h"

enum { COLUMN = 7, INDENT = 2 };

void muster_topo_nic_name(const struct muster_machine *machine, int nic, char *name, size_t size)
{
    const struct muster_nic *at = &machine->nic[nic];
    if (at->verbs[0] || at->name[0])
        snprintf(name, size, "%s", at->verbs[0] ? at->verbs : at->name);
    else
        muster_pci_print(machine->node[at->node].pci, name, size);
}

static void put_numa(uint64_t numa, FILE *out)
{
    if (numa && (numa & (numa - 1)) == 0)
        fprintf(out, "%d", __builtin_ctzll(numa));
    else
        fputs("?", out);
}

static void put_nearest(const struct muster_machine *machine, int gpu, FILE *out)
{
    bool nearest[MUSTER_MACHINE_NICS];
    enum muster_path_class class;
    char name[40];
    const char *separator = "";
    muster_path_nearest(machine, gpu, nearest, &class);
    for (int i = 0; i < machine->nics; i++) {
        if (!nearest[i])
            continue;
        muster_topo_nic_name(machine, i, name, sizeof name);
        fprintf(out, "%s%s", separator, name);
        separator = ",";
    }
    const struct muster_path path = {.class = class};
    if (*separator) {
        muster_path_name(&path, name, sizeof name);
        fprintf(out, " (%s)", name);
    } else {
        fputs("none", out);
    }
}

static void put_matrix(const struct muster_machine *machine, FILE *out)
{
    char word[40];
    struct muster_path path;
    fprintf(out, "%-*s", COLUMN, "");
    for (int i = 0; i < machine->gpus; i++) {
        snprintf(word, sizeof word, "GPU%d", i);
        fprintf(out, "%-*s", COLUMN, word);
    }
    fprintf(out, "%-6snearest NICs\n", "NUMA");
    for (int i = 0; i < machine->gpus; i++) {
        snprintf(word, sizeof word, "GPU%d", i);
        fprintf(out, "%-*s", COLUMN, word);
        for (int j = 0; j < machine->gpus; j++) {
            muster_path_gpus(machine, i, j, &path);
            muster_path_name(&path, word, sizeof word);
            fprintf(out, "%-*s", COLUMN,
                    machine->hidden && path.nvlinks == 0 && i != j ? "?" : word);
        }
        put_numa(muster_machine_numa(machine, machine->gpu[i].node), out);
        fprintf(out, "     ");
        if (machine->hidden)
            fputs("?", out);
        else
            put_nearest(machine, i, out);
        fputc('\n', out);
    }
}

static void put_link(const struct muster_machine *machine, int node, FILE *out)
{
    struct muster_link link;
    char has[24], can[24];
    if (!muster_link_above(machine, node, &link))
        return;
    if (link.width) {
        muster_link_name(link.gts, link.width, has, sizeof has);
        muster_link_name(link.can_gts, link.can_width, can, sizeof can);
        fprintf(out, "  %s", has);
        if (link.can_width && strcmp(has, can) != 0)
            fprintf(out, " of %s", can);
    }
    if (link.gbs > 0)
        fprintf(out, "  %.1f GB/s", link.gbs);
}

/* Nodes with a GPU or NIC below, and those themselves. */
static void mark_shown(const struct muster_machine *machine, bool *shown)
{
    for (int i = 0; i < machine->gpus + machine->nics; i++) {
        int node = i < machine->gpus ? machine->gpu[i].node : machine->nic[i - machine->gpus].node;
        for (int n = 0; node >= 0 && n < MUSTER_MACHINE_DEPTH; n++) {
            shown[node] = true;
            node = machine->node[node].parent;
        }
    }
}

static void put_device(const struct muster_machine *machine, int node, FILE *out)
{
    char name[40];
    for (int i = 0; i < machine->gpus; i++)
        if (machine->gpu[i].node == node)
            fprintf(out, "  GPU%d %s", i, machine->gpu[i].name);
    for (int i = 0; i < machine->nics; i++) {
        const struct muster_nic *nic = &machine->nic[i];
        if (nic->node != node)
            continue;
        muster_topo_nic_name(machine, i, name, sizeof name);
        fprintf(out, "  NIC %s", name);
        if (nic->verbs[0] && nic->name[0])
            fprintf(out, " (%s)", nic->name);
        if (nic->mbps)
            fprintf(out, " %g Gb/s", nic->mbps / 1000.0);
        if (!nic->up)
            fputs(" down", out);
    }
}

static void put_node(const struct muster_machine *machine, int node, const bool *shown, FILE *out)
{
    static const char *const kinds[] = {"host bridge", "bridge", ""};
    char pci[24];
    const struct muster_node *at = &machine->node[node];
    fprintf(out, "%*s", INDENT * (1 + muster_machine_depth(machine, node)), "");
    muster_pci_print(at->pci, pci, sizeof pci);
    if (at->kind == MUSTER_NODE_HOST_BRIDGE) {
        fputs("host bridge, NUMA node ", out);
        put_numa(at->numa, out);
    } else {
        fprintf(out, "%s%s%s", kinds[at->kind], *kinds[at->kind] ? " " : "", pci);
        put_device(machine, node, out);
        put_link(machine, node, out);
    }
    fputc('\n', out);
    if (muster_machine_depth(machine, node) >= MUSTER_MACHINE_DEPTH - 1)
        return;
    for (int i = 0; i < machine->nodes; i++)
        if (machine->node[i].parent == node && shown[i])
            put_node(machine, i, shown, out);
}

static void put_gpus(const struct muster_machine *machine, const struct muster_visible *visible,
                     FILE *out)
{
    char pci[24];
    for (int i = 0; i < machine->gpus; i++) {
        const struct muster_gpu *gpu = &machine->gpu[i];
        muster_pci_print(gpu->pci, pci, sizeof pci);
        fprintf(out, "GPU%d  %s  %s", i, pci, gpu->name[0] ? gpu->name : "NVIDIA GPU");
        if (gpu->nvlinks > 0)
            fprintf(out, ", %d NVLinks of %g GB/s each way", gpu->nvlinks, gpu->nvlink_gbs);
        if (gpu->mig)
            fputs(", MIG on", out);
        if (visible->known && !visible->gpu[i])
            fputs(", hidden by CUDA_VISIBLE_DEVICES", out);
        if (gpu->utilization >= 0)
            fprintf(out, ", %d %% busy", gpu->utilization);
        int cpus = muster_survey_cpus(muster_machine_numa(machine, gpu->node));
        if (cpus == 0)
            fputs(", this process may not run on its NUMA node", out);
        fputc('\n', out);
    }
}

void muster_topo_text(const struct muster_machine *machine, const struct muster_faults *faults,
                      const struct muster_visible *visible, FILE *out)
{
    bool shown[MUSTER_MACHINE_NODES] = {false};
    if (machine->gpus == 0)
        fprintf(out, "No GPU in %s.\n", machine->source[0] ? machine->source : "sight");
    put_gpus(machine, visible, out);
    if (machine->gpus) {
        fputc('\n', out);
        put_matrix(machine, out);
    }
    mark_shown(machine, shown);
    const char *title = "\nPCI tree:\n";
    for (int i = 0; i < machine->nodes; i++)
        if (machine->node[i].parent < 0 && shown[i]) {
            fputs(title, out);
            title = "";
            put_node(machine, i, shown, out);
        }
    for (int i = 0; i < faults->n; i++)
        fprintf(out, "%s%s: %s\n", i ? "" : "\n",
                faults->at[i].kind == MUSTER_FAULT_IDLE ? "idle" : "degraded", faults->at[i].text);
    for (int i = 0; i < machine->notes; i++)
        fprintf(out, "%snote: %s\n", i ? "" : "\n", machine->note[i]);
}
