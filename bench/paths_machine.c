#include "paths_machine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOPS = 64 };

/* A link to be: its two ends' folders. */
struct hop {
    char upper[256], lower[256]; /* below devices/ */
    char lower_pci[24];
    int gpu; /* -1: not a GPU's own */
    double gts;
    unsigned width;
    bool idle_slow;
    int fault; /* enum paths_fault_kind; -1 */
};

struct maker {
    uint64_t state;
    const char *root;
    struct paths_machine *machine;
    struct hop hop[HOPS];
    int hops;
    int bus; /* next free */
    int nics[2];
    bool failed;
};

static uint64_t next(struct maker *maker)
{
    uint64_t z = maker->state += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static int pick(struct maker *maker, int n)
{
    return (int)(next(maker) % (uint64_t)n);
}

static void make_folders(struct maker *maker, char *path)
{
    for (char *slash = path + strlen(maker->root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(path, 0700) && errno != EEXIST)
            maker->failed = true;
        *slash = '/';
    }
}

static void put(struct maker *maker, const char *below, const char *file, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", maker->root, below, file);
    make_folders(maker, path);
    FILE *out = fopen(path, "w");
    if (!out) {
        maker->failed = true;
        return;
    }
    fprintf(out, "%s\n", text);
    fclose(out);
}

static void put_device(struct maker *maker, const char *chain, const char *class_code,
                       const char *vendor, int numa)
{
    char folder[300], number[16], path[1024], target[512];
    snprintf(folder, sizeof folder, "devices/%s", chain);
    snprintf(number, sizeof number, "%d", numa);
    put(maker, folder, "class", class_code);
    put(maker, folder, "vendor", vendor);
    put(maker, folder, "device", "0x2330");
    put(maker, folder, "numa_node", number);
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s", maker->root, strrchr(chain, '/') + 1);
    snprintf(target, sizeof target, "../../../devices/%s", chain);
    make_folders(maker, path);
    if (symlink(target, path))
        maker->failed = true;
}

static void put_end(struct maker *maker, const char *chain, const struct hop *hop)
{
    char folder[300], text[32];
    double gts = hop->fault == PATHS_SPEED || hop->idle_slow ? 2.5 : hop->gts;
    snprintf(folder, sizeof folder, "devices/%s", chain);
    snprintf(text, sizeof text, "%.1f GT/s PCIe", gts);
    put(maker, folder, "current_link_speed", text);
    snprintf(text, sizeof text, "%.1f GT/s PCIe", hop->gts);
    put(maker, folder, "max_link_speed", text);
    snprintf(text, sizeof text, "%u", hop->fault == PATHS_WIDTH ? hop->width / 2 : hop->width);
    put(maker, folder, "current_link_width", text);
    snprintf(text, sizeof text, "%u", hop->width);
    put(maker, folder, "max_link_width", text);
}

static struct hop *add_hop(struct maker *maker, const char *upper, const char *lower, int gpu,
                           double gts, unsigned width)
{
    struct hop *hop = &maker->hop[maker->hops++];
    *hop = (struct hop){.gpu = gpu, .gts = gts, .width = width, .fault = -1};
    snprintf(hop->upper, sizeof hop->upper, "%s", upper);
    snprintf(hop->lower, sizeof hop->lower, "%s", lower);
    snprintf(hop->lower_pci, sizeof hop->lower_pci, "%.23s", strrchr(lower, '/') + 1);
    return hop;
}

/* A device at the end of a chain below `port`, which is on `bus`. */
static void add_leaf(struct maker *maker, const char *port, int numa, bool gpu, double gts)
{
    char chain[256];
    struct paths_machine *machine = maker->machine;
    snprintf(chain, sizeof chain, "%s/0000:%02x:00.0", port, maker->bus++);
    put_device(maker, chain, gpu ? "0x030200" : "0x020700", gpu ? "0x10de" : "0x15b3", numa);
    if (gpu) {
        int at = machine->gpus++;
        snprintf(machine->gpu_pci[at], sizeof *machine->gpu_pci, "%.23s", strrchr(chain, '/') + 1);
        add_hop(maker, port, chain, at, gts, 16);
    } else {
        char folder[320];
        snprintf(folder, sizeof folder, "devices/%s/infiniband/mlx5_%d", chain, maker->bus);
        put(maker, folder, "x", "");
        add_hop(maker, port, chain, -1, gts, 16);
        maker->nics[numa]++;
    }
}

/* A root port with a switch and under it GPUs and a NIC, or each at a root port of its own. */
static void add_group(struct maker *maker, int numa, int host, int *port_number, int gpus, int nics,
                      bool with_switch, double gts)
{
    char port[64], up[128], down[200];
    if (!with_switch) {
        for (int i = 0; i < gpus + nics; i++) {
            snprintf(port, sizeof port, "pci0000:%02x/0000:%02x:%02x.0", host, host,
                     ++*port_number);
            put_device(maker, port, "0x060400", "0x8086", numa);
            add_leaf(maker, port, numa, i < gpus, gts);
        }
        return;
    }
    snprintf(port, sizeof port, "pci0000:%02x/0000:%02x:%02x.0", host, host, ++*port_number);
    put_device(maker, port, "0x060400", "0x8086", numa);
    snprintf(up, sizeof up, "%s/0000:%02x:00.0", port, maker->bus++);
    put_device(maker, up, "0x060400", "0x10b5", numa);
    add_hop(maker, port, up, -1, gts, 16);
    int bus = maker->bus++;
    for (int i = 0; i < gpus + nics; i++) {
        snprintf(down, sizeof down, "%s/0000:%02x:%02x.0", up, bus, i);
        put_device(maker, down, "0x060400", "0x10b5", numa);
        add_leaf(maker, down, numa, i < gpus, gts);
    }
}

static void add_fault(struct maker *maker, const struct paths_fault *fault)
{
    maker->machine->fault[maker->machine->faults++] = *fault;
}

static void break_link(struct maker *maker, enum paths_fault_kind kind)
{
    struct hop *hop = &maker->hop[pick(maker, maker->hops)];
    struct paths_fault fault = {.kind = kind, .gpu = -1, .node = -1};
    /* an idle GPU's slow link tells nothing: there the GPU works */
    if (hop->fault >= 0)
        return;
    if (kind == PATHS_SPEED && hop->gpu >= 0) {
        maker->machine->busy[hop->gpu] = true;
        hop->idle_slow = false;
    }
    hop->fault = (int)kind;
    snprintf(fault.lower, sizeof fault.lower, "%s", hop->lower_pci);
    add_fault(maker, &fault);
}

static void break_nvlink(struct maker *maker)
{
    int gpu = pick(maker, maker->machine->gpus);
    int whole = 0;
    /* The rest has to be the majority for anybody to know what is right. */
    for (int i = 0; i < maker->machine->gpus; i++)
        whole += maker->machine->links[i] == PATHS_LINKS;
    if (!maker->machine->nvlink || maker->machine->links[gpu] < PATHS_LINKS || whole < 3)
        return;
    maker->machine->links[gpu] -= 1 + pick(maker, 4);
    add_fault(maker, &(struct paths_fault){.kind = PATHS_NVLINK, .gpu = gpu, .node = -1});
}

static void add_socket(struct maker *maker, int numa, int groups, int gpus, int nics,
                       bool with_switch, double gts)
{
    int host = maker->bus++, port_number = 0;
    maker->bus += 1;
    for (int i = 0; i < groups; i++)
        add_group(maker, numa, host, &port_number, gpus, nics, with_switch, gts);
}

/* A gigabit port for the administrators, which is nobody's fault. */
static void add_management(struct maker *maker)
{
    char chain[128], folder[200];
    int host = maker->bus++;
    snprintf(chain, sizeof chain, "pci0000:%02x/0000:%02x:01.0", host, host);
    put_device(maker, chain, "0x020000", "0x8086", 0);
    snprintf(folder, sizeof folder, "devices/%s/net/eth0", chain);
    put(maker, folder, "x", "");
    put(maker, "class/net/eth0", "speed", "1000");
    put(maker, "class/net/eth0", "operstate", "up");
}

int paths_machine_make(uint64_t seed, const char *root, struct paths_machine *machine)
{
    static const double speeds[] = {8, 16, 32};
    struct maker maker = {.state = seed, .root = root, .machine = machine, .bus = 1};
    memset(machine, 0, sizeof *machine);
    int sockets = 1 + pick(&maker, 2), groups = 1 + pick(&maker, 2), gpus = 1 + pick(&maker, 4);
    int nics = pick(&maker, 3), wanted = pick(&maker, PATHS_FAULTS + 1);
    bool with_switch = pick(&maker, 2), moved = false;
    double gts = speeds[pick(&maker, 3)];
    int from = pick(&maker, 2);
    /* One NIC of one socket sits on the other: only where each socket had one. */
    if (sockets == 2 && nics > 0 && wanted > 0 && pick(&maker, 3) == 0)
        moved = true;
    for (int numa = 0; numa < sockets; numa++) {
        add_socket(&maker, numa, groups, gpus, nics - (moved && numa == from), with_switch, gts);
        if (moved && numa != from)
            add_socket(&maker, numa, 1, 0, groups, false, gts);
    }
    if (pick(&maker, 2))
        add_management(&maker);
    if (moved)
        add_fault(&maker, &(struct paths_fault){.kind = PATHS_NIC, .gpu = -1, .node = from});
    machine->nvlink = machine->gpus >= 2 && pick(&maker, 2);
    for (int i = 0; i < machine->gpus; i++) {
        machine->links[i] = machine->nvlink ? PATHS_LINKS : 0;
        machine->busy[i] = pick(&maker, 2);
    }
    for (int i = 0; i < maker.hops; i++)
        maker.hop[i].idle_slow = maker.hop[i].gpu >= 0 && !machine->busy[maker.hop[i].gpu];
    for (int tries = 0; machine->faults < wanted && tries < 20; tries++) {
        int kind = pick(&maker, 3);
        if (kind == PATHS_NVLINK)
            break_nvlink(&maker);
        else
            break_link(&maker, (enum paths_fault_kind)kind);
    }
    for (int i = 0; i < maker.hops; i++) {
        put_end(&maker, maker.hop[i].upper, &maker.hop[i]);
        put_end(&maker, maker.hop[i].lower, &maker.hop[i]);
    }
    return maker.failed ? -1 : 0;
}
