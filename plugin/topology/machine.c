#include "topology/machine.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int muster_machine_new(struct muster_machine **machine, struct muster_err *err)
{
    struct muster_arena memory = {0};
    *machine = muster_arena_array(&memory, 1, sizeof **machine);
    if (muster_arena_check(&memory, err, "the machine"))
        return -1;
    (*machine)->memory = memory;
    return 0;
}

void muster_machine_free(struct muster_machine *machine)
{
    struct muster_arena memory = machine ? machine->memory : (struct muster_arena){0};
    muster_arena_free(&memory);
}

int muster_machine_add(struct muster_machine *machine, int parent, enum muster_node_kind kind,
                       struct muster_err *err)
{
    if (machine->nodes == MUSTER_MACHINE_NODES)
        return muster_fail(err, "more than %d PCI devices", MUSTER_MACHINE_NODES);
    size_t nodes = (size_t)machine->nodes;
    struct muster_node *node =
        muster_arena_add(&machine->memory, &machine->node, &nodes, sizeof *node);
    *node = (struct muster_node){.parent = parent, .kind = kind};
    if (muster_arena_check(&machine->memory, err, "PCI devices"))
        return -1;
    return machine->nodes++;
}

int muster_machine_find(const struct muster_machine *machine, struct muster_pci pci)
{
    for (int i = 0; i < machine->nodes; i++)
        if (machine->node[i].kind != MUSTER_NODE_HOST_BRIDGE &&
            muster_pci_compare(machine->node[i].pci, pci) == 0)
            return i;
    return -1;
}

int muster_machine_find_gpu(const struct muster_machine *machine, struct muster_pci pci)
{
    for (int i = 0; i < machine->gpus; i++)
        if (muster_pci_compare(machine->gpu[i].pci, pci) == 0)
            return i;
    return -1;
}

void muster_machine_note(struct muster_machine *machine, const char *fmt, ...)
{
    va_list args;
    if (machine->notes == MUSTER_MACHINE_NOTES)
        return;
    va_start(args, fmt);
    vsnprintf(machine->note[machine->notes], sizeof *machine->note, fmt, args);
    va_end(args);
    for (int i = 0; i < machine->notes; i++)
        if (strcmp(machine->note[i], machine->note[machine->notes]) == 0)
            return;
    machine->notes++;
}

static int compare_gpus(const void *a, const void *b)
{
    const struct muster_gpu *x = a, *y = b;
    return muster_pci_compare(x->pci, y->pci);
}

static bool nic_known(const struct muster_machine *machine, int node)
{
    for (int i = 0; i < machine->nics; i++)
        if (machine->nic[i].node == node)
            return true;
    return false;
}

void muster_machine_find_devices(struct muster_machine *machine)
{
    enum { NVIDIA = 0x10de };
    bool added = false;
    for (int i = 0; i < machine->nodes; i++) {
        const struct muster_node *node = &machine->node[i];
        uint32_t class_code = node->class_code >> 8;
        if (node->kind != MUSTER_NODE_DEVICE)
            continue;
        bool is_gpu = node->vendor == NVIDIA && (class_code == 0x0302 || class_code == 0x0300) &&
                      muster_machine_find_gpu(machine, node->pci) < 0;
        if (is_gpu && machine->gpus == MUSTER_MACHINE_GPUS)
            muster_machine_note(machine, "more than %d GPUs: the rest is left out",
                                MUSTER_MACHINE_GPUS);
        else if (is_gpu) {
            machine->gpu[machine->gpus++] = (struct muster_gpu){.node = i,
                                                                .pci = node->pci,
                                                                .index = -1,
                                                                .utilization = -1,
                                                                .nvlinks = -1,
                                                                .nvlinks_present = -1};
            added = true;
        }
        if ((class_code == 0x0200 || class_code == 0x0207) && machine->nics < MUSTER_MACHINE_NICS &&
            !nic_known(machine, i))
            machine->nic[machine->nics++] = (struct muster_nic){.node = i};
    }
    if (added) /* before any matrix of GPUs is filled */
        qsort(machine->gpu, (size_t)machine->gpus, sizeof *machine->gpu, compare_gpus);
}

int muster_machine_depth(const struct muster_machine *machine, int node)
{
    int depth = 0;
    for (; node >= 0 && machine->node[node].parent >= 0 && depth < MUSTER_MACHINE_DEPTH; depth++)
        node = machine->node[node].parent;
    return depth;
}

int muster_machine_root(const struct muster_machine *machine, int node)
{
    for (int i = 0; i < MUSTER_MACHINE_DEPTH && node >= 0; i++) {
        if (machine->node[node].parent < 0)
            return node;
        node = machine->node[node].parent;
    }
    return -1;
}

uint64_t muster_machine_numa(const struct muster_machine *machine, int node)
{
    if (node < 0)
        return 0;
    if (machine->node[node].numa)
        return machine->node[node].numa;
    int root = muster_machine_root(machine, node);
    return root < 0 ? 0 : machine->node[root].numa;
}

bool muster_pci_parse(const char *text, struct muster_pci *pci)
{
    unsigned domain, bus, device, function;
    int used = 0;
    if (!isxdigit((unsigned char)*text))
        return false;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &used) != 4) {
        domain = 0;
        if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &used) != 3)
            return false;
    }
    if (text[used] != '\0' || device > 31 || function > 7)
        return false;
    *pci = (struct muster_pci){domain, (uint8_t)bus, (uint8_t)device, (uint8_t)function};
    return true;
}

void muster_pci_print(struct muster_pci pci, char *text, size_t size)
{
    snprintf(text, size, "%04x:%02x:%02x.%x", (unsigned)pci.domain, pci.bus, pci.device,
             pci.function);
}

int muster_pci_compare(struct muster_pci a, struct muster_pci b)
{
    if (a.domain != b.domain)
        return a.domain < b.domain ? -1 : 1;
    int x = a.bus << 8 | a.device << 3 | a.function, y = b.bus << 8 | b.device << 3 | b.function;
    return x - y;
}
