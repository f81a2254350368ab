/* RDMA devices, GPUDirect, IOMMU and ACS: from sysfs alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "topology/sysfs.h"

static int count_entries(const char *root, const char *below)
{
    char path[PATH_MAX];
    int n = 0;
    snprintf(path, sizeof path, "%s/%s", root, below);
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void judge_port(struct muster_check *check, const struct muster_doctor *doctor,
                       const char *device, const char *port)
{
    char state[64], phys[64], rate[64], layer[64];
    const char *root = doctor->sysfs;
    muster_sysfs_line(root, state, sizeof state, "class/infiniband/%s/ports/%s/state", device,
                      port);
    muster_sysfs_line(root, phys, sizeof phys, "class/infiniband/%s/ports/%s/phys_state", device,
                      port);
    muster_sysfs_line(root, rate, sizeof rate, "class/infiniband/%s/ports/%s/rate", device, port);
    muster_sysfs_line(root, layer, sizeof layer, "class/infiniband/%s/ports/%s/link_layer", device,
                      port);
    long long down = muster_sysfs_number(
        root, 0, "class/infiniband/%s/ports/%s/counters/link_downed", device, port);
    muster_check_evidence(check, "%s port %s: %s, %s, %s, %s%s", device, port,
                          *state ? state : "state unknown", *phys ? phys : "?", *rate ? rate : "?",
                          *layer ? layer : "?", down > 0 ? ", went down before" : "");
    if (!strstr(state, "ACTIVE")) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "ports that are down are not used, and hosts then differ: fix "
                                   "them or name the good ones in NCCL_IB_HCA (with =)");
    }
}

static void check_ports(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "ib.ports", "F58,F60");
    char pattern[PATH_MAX];
    glob_t found;
    int n = 0;
    muster_check_expected(check, "every port active");
    snprintf(pattern, sizeof pattern, "%s/class/infiniband/*/ports/*", doctor->sysfs);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char *port = strrchr(found.gl_pathv[i], '/');
            *port++ = '\0';
            char *ports = strrchr(found.gl_pathv[i], '/');
            *ports = '\0';
            const char *device = strrchr(found.gl_pathv[i], '/') + 1;
            judge_port(check, doctor, device, port);
            n++;
        }
        globfree(&found);
    }
    muster_check_found(check, n ? "%d RDMA ports" : "no RDMA device", n);
}

static void check_gdr(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "ib.gdr", "F61");
    char text[64];
    bool peermem =
        muster_sysfs_line(doctor->sysfs, text, sizeof text, "module/nvidia_peermem/version") ||
        count_entries(doctor->sysfs, "kernel/mm/memory_peers") > 0;
    if (count_entries(doctor->sysfs, "class/infiniband") == 0) {
        muster_check_found(check, "no RDMA device");
        return;
    }
    muster_check_expected(check, "nvidia-peermem, or DMA-BUF; the same on every host");
    muster_check_found(check, peermem ? "nvidia-peermem is loaded" : "no nvidia-peermem");
    if (!peermem && doctor->survey->nvml) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "modprobe nvidia-peermem, unless kernel and driver do DMA-BUF "
                                   "(open kernel modules, Linux 5.12)");
    }
}

static void check_verbs(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "ib.devices", "F63");
    if (count_entries(doctor->sysfs, "class/infiniband") == 0) {
        muster_check_found(check, "no RDMA device");
        return;
    }
    int devices = count_entries("/dev", "infiniband");
    muster_check_expected(check, "device files in /dev/infiniband");
    muster_check_found(check, devices ? "device files are there" : "no device files");
    if (!devices) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check, "docker: --device /dev/infiniband; without them NCCL uses TCP "
                                   "and says so only in its log");
    }
}

static void check_iommu(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.iommu", "F43,F62");
    char line[1024];
    int groups = count_entries(doctor->sysfs, "kernel/iommu_groups");
    muster_check_expected(check, "no IOMMU, or iommu=pt");
    muster_sysfs_line(doctor->procfs, line, sizeof line, "cmdline");
    bool through = strstr(line, "iommu=pt") || strstr(line, "iommu.passthrough=1");
    muster_check_found(check, groups == 0 ? "no IOMMU groups"
                              : through   ? "IOMMU, passed through"
                                          : "IOMMU in use");
    if (doctor->survey->machine->hidden)
        muster_check_evidence(check, "the IOMMU of the machine below this one cannot be seen");
    if (groups && !through && !doctor->survey->machine->virtual_machine) {
        char type[32];
        muster_sysfs_line(doctor->sysfs, type, sizeof type, "kernel/iommu_groups/0/type");
        muster_check_evidence(check, "default type: %s", *type ? type : "unknown");
        if (strcmp(type, "identity") != 0 && doctor->survey->machine->gpus > 1) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_advice(check, "if P2P hangs or is slow: iommu=pt on the kernel's command "
                                       "line, and ACS off on the bridges above the GPUs");
        }
    }
}

/* Redirect bits of ACS' control register; -1: not there, -2: not readable. */
static int read_acs(const struct muster_doctor *doctor, const char *pci)
{
    enum { FIRST = 0x100, CONFIG = 4096, ACS = 0x000d, CONTROL = 6 };
    char path[PATH_MAX];
    unsigned char config[CONFIG] = {0};
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s/config", doctor->sysfs, pci);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, config, sizeof config) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= FIRST)
        return -2;
    for (unsigned at = FIRST, steps = 0; at >= FIRST && at + 8 <= (unsigned)n && steps < 64;
         steps++) {
        unsigned header = config[at] | (unsigned)config[at + 1] << 8 |
                          (unsigned)config[at + 2] << 16 | (unsigned)config[at + 3] << 24;
        if ((header & 0xffff) == ACS)
            return config[at + CONTROL] & 0x0c;
        at = header >> 20;
    }
    return -1;
}

static void check_acs(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.acs", "F43,F62");
    const struct muster_machine *machine = doctor->survey->machine;
    int unreadable = 0, bridges = 0;
    char pci[24];
    muster_check_expected(check, "no redirection of peer traffic on bridges above GPUs");
    for (int i = 0; i < machine->gpus; i++) {
        int node = machine->gpu[i].node;
        for (node = node < 0 ? -1 : machine->node[node].parent; node >= 0;
             node = machine->node[node].parent) {
            if (machine->node[node].kind != MUSTER_NODE_BRIDGE)
                continue;
            muster_pci_print(machine->node[node].pci, pci, sizeof pci);
            int bits = read_acs(doctor, pci);
            bridges++;
            unreadable += bits == -2;
            if (bits > 0) {
                muster_check_worse(check, MUSTER_CHECK_WARNING);
                muster_check_evidence(check, "bridge %s above GPU %d redirects peer traffic", pci,
                                      i);
                muster_check_advice(check, "turn ACS off on those bridges (setpci, or the BIOS); "
                                           "in a virtual machine it cannot be");
            }
        }
    }
    muster_check_found(check, check->evidences ? "ACS redirects peer traffic"
                              : bridges        ? "no redirection seen"
                                               : "no bridge above a GPU");
    if (!bridges && machine->gpus && !machine->hidden)
        muster_check_unchecked(check, "the GPUs are not in the PCI tree that is visible here");
    if (machine->hidden && !check->evidences)
        muster_check_unchecked(check, "PCI tree hidden by the hypervisor: bridges above GPUs "
                                      "cannot be seen");
    else if (unreadable && !check->evidences)
        muster_check_unchecked(check, "only root can read the ACS bits of %d bridges", unreadable);
}

static void check_imex(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.imex", "F50");
    bool channels = access("/dev/nvidia-caps-imex-channels", F_OK) == 0;
    muster_check_found(check, channels ? "IMEX channels" : "no IMEX channels");
    muster_check_expected(check, "channels only on multi-node NVLink systems");
    (void)doctor;
}

void muster_doctor_fabric(struct muster_doctor *doctor)
{
    check_ports(doctor);
    check_verbs(doctor);
    check_gdr(doctor);
    check_iommu(doctor);
    check_acs(doctor);
    check_imex(doctor);
}
