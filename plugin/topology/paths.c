#include "topology/paths.h"

#include <stdio.h>
#include <string.h>

double muster_pcie_gbs(double gts, unsigned width)
{
    double coding = gts <= 5.0 ? 8.0 / 10 : gts <= 32.0 ? 128.0 / 130 : 242.0 / 256;
    return gts * coding * width / 8;
}

static double least(double a, double b)
{
    if (a <= 0 || b <= 0)
        return a > b ? a : b;
    return a < b ? a : b;
}

bool muster_link_above(const struct muster_machine *machine, int at, struct muster_link *link)
{
    const struct muster_node *node = &machine->node[at];
    int depth = muster_machine_depth(machine, at);
    *link = (struct muster_link){.node = at};
    /* Host bridge, port, device or upstream port, downstream port, ...: links end at even depths;
     * odd ones are ports inside the root complex or a switch. */
    if (depth == 0 || depth % 2)
        return false;
    const struct muster_link_end *low = &node->end, *high = &machine->node[node->parent].end;
    link->gts = least(low->gts, high->gts);
    link->can_gts = least(low->max_gts, high->max_gts);
    link->width = (unsigned)least(low->width, high->width);
    link->can_width = (unsigned)least(low->max_width, high->max_width);
    link->gbs = muster_pcie_gbs(link->gts, link->width);
    link->can_gbs = muster_pcie_gbs(link->can_gts, link->can_width);
    if (link->gbs <= 0)
        link->gbs = node->gbs;
    return true;
}

static void add_links(const struct muster_machine *machine, int from, int to,
                      struct muster_path *path)
{
    struct muster_link link;
    for (int i = 0; from != to && from >= 0 && i < MUSTER_MACHINE_DEPTH; i++) {
        if (muster_link_above(machine, from, &link) && path->links < MUSTER_PATH_LINKS)
            path->link[path->links++] = from;
        from = machine->node[from].parent;
    }
}

/* Bridges strictly between the node and its ancestor; the ancestor -1 is above host bridges. */
static int bridges_below(const struct muster_machine *machine, int node, int ancestor)
{
    int n = 0;
    for (node = machine->node[node].parent; node != ancestor && node >= 0;
         node = machine->node[node].parent)
        n++;
    return n;
}

static int common_ancestor(const struct muster_machine *machine, int a, int b)
{
    int x = muster_machine_depth(machine, a), y = muster_machine_depth(machine, b);
    for (; x > y; x--)
        a = machine->node[a].parent;
    for (; y > x; y--)
        b = machine->node[b].parent;
    while (a != b && a >= 0 && b >= 0) {
        a = machine->node[a].parent;
        b = machine->node[b].parent;
    }
    return a == b ? a : -1;
}

static enum muster_path_class between_roots(const struct muster_machine *machine, int a, int b)
{
    uint64_t x = muster_machine_numa(machine, a), y = muster_machine_numa(machine, b);
    return x == 0 || y == 0 || (x & y) ? MUSTER_PATH_NODE : MUSTER_PATH_SYS;
}

/* Evaluated by what is known to be possible, not by an idle GPU's slowed link. */
static void find_narrowest(const struct muster_machine *machine, struct muster_path *path)
{
    struct muster_link link;
    path->narrowest = -1;
    path->limit_gbs = 0;
    for (int i = 0; i < path->links; i++) {
        muster_link_above(machine, path->link[i], &link);
        double gbs =
            link.can_gts > 0 && link.width ? muster_pcie_gbs(link.can_gts, link.width) : link.gbs;
        if (gbs > 0 && (path->narrowest < 0 || gbs < path->limit_gbs)) {
            path->narrowest = i;
            path->limit_gbs = gbs;
        }
    }
}

void muster_path_between(const struct muster_machine *machine, int a, int b,
                         struct muster_path *path)
{
    *path = (struct muster_path){.class = MUSTER_PATH_UNKNOWN, .narrowest = -1};
    if (a < 0 || b < 0)
        return;
    if (a == b) {
        path->class = MUSTER_PATH_SELF;
        return;
    }
    int ancestor = common_ancestor(machine, a, b);
    add_links(machine, a, ancestor, path);
    add_links(machine, b, ancestor, path);
    if (ancestor < 0)
        path->class = between_roots(machine, a, b);
    else if (machine->node[ancestor].kind == MUSTER_NODE_HOST_BRIDGE)
        path->class = MUSTER_PATH_PHB;
    else if (bridges_below(machine, a, ancestor) <= 1 && bridges_below(machine, b, ancestor) <= 1)
        path->class = MUSTER_PATH_PIX;
    else
        path->class = MUSTER_PATH_PXB;
    find_narrowest(machine, path);
}

void muster_path_gpus(const struct muster_machine *machine, int a, int b, struct muster_path *path)
{
    muster_path_between(machine, machine->gpu[a].node, machine->gpu[b].node, path);
    if (a == b)
        path->class = MUSTER_PATH_SELF;
    if (a == b || machine->nvlinks[a][b] == 0)
        return;
    *path = (struct muster_path){.class = MUSTER_PATH_NVLINK,
                                 .nvlinks = machine->nvlinks[a][b],
                                 .narrowest = -1,
                                 .limit_gbs = machine->nvlink_gbs[a][b]};
}

void muster_path_gpu_nic(const struct muster_machine *machine, int gpu, int nic,
                         struct muster_path *path)
{
    muster_path_between(machine, machine->gpu[gpu].node, machine->nic[nic].node, path);
}

void muster_path_name(const struct muster_path *path, char *text, size_t size)
{
    if (path->class == MUSTER_PATH_NVLINK)
        snprintf(text, size, "NV%u", path->nvlinks);
    else
        snprintf(text, size, "%s", muster_path_class_name(path->class));
}

void muster_link_name(double gts, unsigned width, char *text, size_t size)
{
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64};
    int generation = 0;
    for (int i = 0; i < 6; i++)
        if (gts >= speeds[i] - 0.01)
            generation = i + 1;
    if (generation)
        snprintf(text, size, "gen%d x%u", generation, width);
    else
        snprintf(text, size, "? x%u", width);
}

void muster_path_nearest(const struct muster_machine *machine, int gpu,
                         bool nearest[MUSTER_MACHINE_NICS], enum muster_path_class *class)
{
    enum muster_path_class of[MUSTER_MACHINE_NICS];
    bool fabric = false;
    *class = MUSTER_PATH_UNKNOWN;
    memset(nearest, 0, MUSTER_MACHINE_NICS * sizeof *nearest);
    for (int i = 0; i < machine->nics; i++)
        fabric |= machine->nic[i].fabric;
    for (int i = 0; i < machine->nics; i++) {
        struct muster_path path;
        muster_path_gpu_nic(machine, gpu, i, &path);
        of[i] = fabric && !machine->nic[i].fabric ? MUSTER_PATH_UNKNOWN : path.class;
        if (of[i] < *class)
            *class = of[i];
    }
    for (int i = 0; i < machine->nics && *class != MUSTER_PATH_UNKNOWN; i++)
        nearest[i] = of[i] == *class;
}
