#include "topology/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

__attribute__((format(printf, 4, 0))) static bool
read_line(const char *root, char *text, size_t size, const char *fmt, va_list args)
{
    char path[PATH_MAX], below[PATH_MAX / 2];
    text[0] = '\0';
    if (vsnprintf(below, sizeof below, fmt, args) >= (int)sizeof below ||
        snprintf(path, sizeof path, "%s/%s", root, below) >= (int)sizeof path)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    if (n < 0)
        return false;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return true;
}

bool muster_sysfs_line(const char *root, char *text, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    bool ok = read_line(root, text, size, fmt, args);
    va_end(args);
    return ok;
}

long long muster_sysfs_number(const char *root, long long otherwise, const char *fmt, ...)
{
    char text[64], *end;
    va_list args;
    va_start(args, fmt);
    bool ok = read_line(root, text, sizeof text, fmt, args);
    va_end(args);
    errno = 0;
    long long value = ok ? strtoll(text, &end, 0) : otherwise;
    return ok && end != text && errno == 0 ? value : otherwise;
}

static int host_bridge(struct muster_machine *machine, const char *name, struct muster_err *err)
{
    unsigned domain, bus;
    if (sscanf(name, "pci%x:%x", &domain, &bus) != 2)
        return -2;
    for (int i = 0; i < machine->nodes; i++)
        if (machine->node[i].kind == MUSTER_NODE_HOST_BRIDGE &&
            machine->node[i].pci.domain == domain && machine->node[i].pci.bus == bus)
            return i;
    int node = muster_machine_add(machine, -1, MUSTER_NODE_HOST_BRIDGE, err);
    if (node >= 0)
        machine->node[node].pci = (struct muster_pci){.domain = domain, .bus = (uint8_t)bus};
    return node;
}

static int add_device(struct muster_machine *machine, const char *root, const char *name,
                      int parent, struct muster_err *err)
{
    struct muster_pci pci;
    if (!muster_pci_parse(name, &pci))
        return -2;
    int node = muster_machine_find(machine, pci);
    if (node >= 0)
        return node;
    long long code = muster_sysfs_number(root, 0, "bus/pci/devices/%s/class", name);
    node = muster_machine_add(machine, parent,
                              code >> 8 == 0x0604 ? MUSTER_NODE_BRIDGE : MUSTER_NODE_DEVICE, err);
    if (node < 0)
        return node;
    struct muster_node *made = &machine->node[node];
    made->pci = pci;
    made->class_code = (uint32_t)code;
    made->vendor = (uint16_t)muster_sysfs_number(root, 0, "bus/pci/devices/%s/vendor", name);
    made->device = (uint16_t)muster_sysfs_number(root, 0, "bus/pci/devices/%s/device", name);
    return node;
}

/* "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0": the device and all above it. */
static int add_chain(struct muster_machine *machine, const char *root, char *target,
                     struct muster_err *err)
{
    int parent = -1;
    char *rest = NULL;
    for (char *word = strtok_r(target, "/", &rest); word; word = strtok_r(NULL, "/", &rest)) {
        int node = strncmp(word, "pci", 3) == 0
                       ? host_bridge(machine, word, err)
                       : (parent >= 0 ? add_device(machine, root, word, parent, err) : -2);
        if (node == -1)
            return -1;
        if (node >= 0)
            parent = node;
    }
    return 0;
}

int muster_sysfs_read(struct muster_machine *machine, const char *root, struct muster_err *err)
{
    char path[PATH_MAX], target[PATH_MAX];
    struct dirent *entry;
    int rc = 0;
    snprintf(path, sizeof path, "%s/bus/pci/devices", root);
    DIR *dir = opendir(path);
    if (!dir)
        return muster_fail(err, "%s: %s", path, strerror(errno));
    while (rc == 0 && (entry = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        rc = add_chain(machine, root, target, err);
    }
    closedir(dir);
    if (rc)
        return -1;
    muster_text_copy(machine->source, sizeof machine->source, root);
    muster_machine_find_devices(machine);
    return 0;
}

/* "16.0 GT/s PCIe", "8 GT/s", "Unknown" */
static double read_gts(const char *root, const char *name, const char *file)
{
    char text[64];
    double gts = 0;
    if (muster_sysfs_line(root, text, sizeof text, "bus/pci/devices/%s/%s", name, file))
        gts = strtod(text, NULL);
    return gts > 0 && gts <= 256 ? gts : 0;
}

static unsigned read_width(const char *root, const char *name, const char *file)
{
    /* 255 and 63 are what the kernel prints for links that do not answer */
    long long width = muster_sysfs_number(root, 0, "bus/pci/devices/%s/%s", name, file);
    return width > 0 && width <= 32 ? (unsigned)width : 0;
}

static void annotate_node(struct muster_machine *machine, const char *root, int at)
{
    char name[32];
    struct muster_node *node = &machine->node[at];
    muster_pci_print(node->pci, name, sizeof name);
    node->end = (struct muster_link_end){
        .gts = read_gts(root, name, "current_link_speed"),
        .max_gts = read_gts(root, name, "max_link_speed"),
        .width = read_width(root, name, "current_link_width"),
        .max_width = read_width(root, name, "max_link_width"),
    };
    long long numa = muster_sysfs_number(root, -1, "bus/pci/devices/%s/numa_node", name);
    if (numa >= 0 && numa < 64) {
        int above = muster_machine_root(machine, at);
        node->numa = 1ull << numa;
        if (above >= 0 && machine->node[above].numa == 0)
            machine->node[above].numa = node->numa;
    }
}

/* The one entry, or the first by name, of a directory. */
static bool first_entry(const char *root, const char *device, const char *below, char *name,
                        size_t size)
{
    char path[PATH_MAX];
    struct dirent *entry;
    name[0] = '\0';
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/%s", root, device, below);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < size &&
            (name[0] == '\0' || strcmp(entry->d_name, name) < 0))
            muster_text_copy(name, size, entry->d_name);
    closedir(dir);
    return name[0] != '\0';
}

static void annotate_nic(struct muster_machine *machine, const char *root, struct muster_nic *nic)
{
    enum { FABRIC_MBPS = 25000 };
    char device[32], name[32], state[64];
    muster_pci_print(machine->node[nic->node].pci, device, sizeof device);
    if (first_entry(root, device, "net", name, sizeof name)) {
        memcpy(nic->name, name, sizeof name);
        long long mbps = muster_sysfs_number(root, 0, "class/net/%s/speed", name);
        nic->mbps = mbps > 0 && mbps < 100000000 ? (unsigned)mbps : nic->mbps;
        muster_sysfs_line(root, state, sizeof state, "class/net/%s/operstate", name);
        nic->up = strcmp(state, "up") == 0;
    }
    if (first_entry(root, device, "infiniband", name, sizeof name)) {
        memcpy(nic->verbs, name, sizeof name);
        if (muster_sysfs_line(root, state, sizeof state, "class/infiniband/%s/ports/1/rate",
                              name)) {
            double gbps = strtod(state, NULL);
            if (gbps > 0 && gbps < 100000)
                nic->mbps = (unsigned)(gbps * 1000);
        }
        if (muster_sysfs_line(root, state, sizeof state, "class/infiniband/%s/ports/1/state", name))
            nic->up = strstr(state, "ACTIVE") != NULL;
    }
    nic->fabric |= nic->verbs[0] != '\0' || nic->mbps >= FABRIC_MBPS ||
                   machine->node[nic->node].class_code >> 8 == 0x0207;
}

static bool is_virtual(const char *root)
{
    static const char *const words[] = {"KVM",       "QEMU",       "VMware",     "Xen",
                                        "Bochs",     "Google",     "Amazon EC2", "Virtual",
                                        "OpenStack", "Firecracker"};
    char text[128];
    static const char *const files[] = {"product_name", "sys_vendor", "chassis_vendor"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        muster_sysfs_line(root, text, sizeof text, "class/dmi/id/%s", files[f]);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strstr(text, words[i]))
                return true;
    }
    return muster_sysfs_line(root, text, sizeof text, "hypervisor/type") && text[0];
}

/* GPUs without a bridge above them and without any word on their links are a hypervisor's picture
 * of a machine. */
static bool looks_flat(const struct muster_machine *machine)
{
    int seen = 0;
    for (int i = 0; i < machine->gpus; i++) {
        int node = machine->gpu[i].node;
        if (node < 0)
            continue;
        if (muster_machine_depth(machine, node) > 1 && machine->node[node].end.width)
            return false;
        seen++;
    }
    return seen > 0;
}

void muster_sysfs_annotate(struct muster_machine *machine, const char *root)
{
    for (int i = 0; i < machine->nodes; i++)
        if (machine->node[i].kind != MUSTER_NODE_HOST_BRIDGE)
            annotate_node(machine, root, i);
    muster_machine_find_devices(machine);
    for (int i = 0; i < machine->nics; i++)
        annotate_nic(machine, root, &machine->nic[i]);
    machine->hidden = looks_flat(machine);
    machine->virtual_machine = machine->hidden || is_virtual(root);
    if (machine->hidden)
        muster_machine_note(machine, "PCI tree hidden by the hypervisor: classes between GPUs and "
                                     "NICs, and PCIe links, cannot be known here");
}
