/* IOMMU, ACS and IMEX: from sysfs and /dev alone. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "topology/sysfs.h"

static void check_iommu(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.iommu", "F43,F62");
    char line[1024];
    int groups = muster_doctor_entries(doctor->sysfs, "kernel/iommu_groups");
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
            muster_check_advice(check, "if P2P fails, hangs or is slow: iommu=pt on the kernel's "
                                       "command line or the IOMMU off in the BIOS, and ACS off on "
                                       "the bridges above the GPUs");
            muster_check_suspect(check, "IOMMU in use, which P2P between GPUs may not pass");
            check->suspect_of = "init_error";
            check->suspect_weight = 2; /* before bugs of NCCL of any host */
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
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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

/* Whether NVLink may join the hosts of this job (MNNVL). */
static bool joins_hosts(const struct muster_doctor *doctor)
{
    const struct muster_nvml *nvml = doctor->survey->nvml;
    bool joins = false;
    for (int i = 0; nvml && i < nvml->gpus; i++)
        joins |= nvml->gpu[i].fabric_domain;
    return joins && muster_doctor_several_hosts();
}

static void check_imex(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "gpu.imex", "F50");
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/nvidia-caps-imex-channels", doctor->devfs);
    bool has_folder = access(folder, F_OK) == 0;
    bool has_channel = muster_doctor_entries(doctor->devfs, "nvidia-caps-imex-channels") > 0;
    muster_check_found(check, has_channel ? "IMEX channels" : "no IMEX channels");
    if (joins_hosts(doctor) && !has_channel)
        muster_check_evidence(check, "NVLink reaches other hosts of this job");
    muster_check_expected(check, "a channel where NVLink joins hosts");
    if ((has_folder || joins_hosts(doctor)) && !has_channel) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "NCCL cannot use NVLink between hosts without one: load the driver "
                            "with NVreg_CreateImexChannel0=1, or give the container "
                            "/dev/nvidia-caps-imex-channels/channel0");
    }
}

void muster_doctor_fabric(struct muster_doctor *doctor)
{
    check_iommu(doctor);
    check_acs(doctor);
    check_imex(doctor);
}
