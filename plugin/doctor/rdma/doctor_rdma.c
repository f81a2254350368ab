/* RDMA devices and GPUDirect: from sysfs alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "topology/paths.h"
#include "topology/sysfs.h"

enum { UVERBS_MAX = 64 };

int muster_doctor_entries(const char *root, const char *below)
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

static void evaluate_port(struct muster_check *check, const struct muster_doctor *doctor,
                          const char *device, const char *port)
{
    static const char *const counters[] = {"hw_counters/local_ack_timeout_err",
                                           "hw_counters/packet_seq_err", "counters/symbol_error"};
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
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        long long n = muster_sysfs_number(root, 0, "class/infiniband/%s/ports/%s/%s", device, port,
                                          counters[i]);
        if (n > 0)
            muster_check_evidence(check, "%s port %s: %s %lld since it was reset", device, port,
                                  strchr(counters[i], '/') + 1, n);
    }
    if (!strstr(state, "ACTIVE")) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "ports that are down are not used, and hosts then differ: fix "
                                   "them or name the good ones in NCCL_IB_HCA (with =)");
    }
}

typedef void for_port(struct muster_check *check, const struct muster_doctor *doctor,
                      const char *device, const char *port);

/* Returns how many ports there are. */
static int each_port(struct muster_check *check, const struct muster_doctor *doctor,
                     for_port *evaluate)
{
    char pattern[PATH_MAX];
    glob_t found;
    int n = 0;
    snprintf(pattern, sizeof pattern, "%s/class/infiniband/*/ports/*", doctor->sysfs);
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *port = strrchr(found.gl_pathv[i], '/');
        *port++ = '\0';
        char *ports = strrchr(found.gl_pathv[i], '/');
        *ports = '\0';
        evaluate(check, doctor, strrchr(found.gl_pathv[i], '/') + 1, port);
        n++;
    }
    globfree(&found);
    return n;
}

static void check_ports(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "ib.ports", "F58,F60");
    muster_check_expected(check, "every port active");
    int n = each_port(check, doctor, evaluate_port);
    if (n)
        muster_check_found(check, "%d RDMA ports", n);
    else
        muster_check_unchecked(check, "no RDMA device");
}

/* What a GID of an Ethernet port is good for. */
enum gid { GID_NONE, GID_LOCAL, GID_V1, GID_ROUTABLE };

static enum gid read_gid(const struct muster_doctor *doctor, const char *device, const char *port,
                         int index)
{
    char gid[64], type[32];
    if (!muster_sysfs_line(doctor->sysfs, gid, sizeof gid, "class/infiniband/%s/ports/%s/gids/%d",
                           device, port, index) ||
        strspn(gid, "0:") == strlen(gid))
        return GID_NONE;
    muster_sysfs_line(doctor->sysfs, type, sizeof type,
                      "class/infiniband/%s/ports/%s/gid_attrs/types/%d", device, port, index);
    return strncmp(type, "RoCE v2", 7) != 0 ? GID_V1
           : strncmp(gid, "fe80", 4) == 0   ? GID_LOCAL
                                            : GID_ROUTABLE;
}

static void evaluate_given(struct muster_check *check, const struct muster_doctor *doctor,
                           const char *device, const char *port, int index)
{
    static const char *const words[] = {"empty", "link-local", "RoCE v1", "routable"};
    enum gid gid = read_gid(doctor, device, port, index);
    muster_check_evidence(check, "%s port %s: NCCL_IB_GID_INDEX=%d is %s", device, port, index,
                          words[gid]);
    if (gid == GID_ROUTABLE)
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_advice(check, muster_doctor_version(doctor) >= 22100
                                   ? "unset NCCL_IB_GID_INDEX: NCCL 2.21 and later choose well"
                                   : "name the index of a routable RoCE v2 GID (show_gids)");
}

static void evaluate_gids(struct muster_check *check, const struct muster_doctor *doctor,
                          const char *device, const char *port)
{
    enum { GIDS = 256 };
    const char *given = getenv("NCCL_IB_GID_INDEX");
    char layer[64];
    uint64_t index;
    muster_sysfs_line(doctor->sysfs, layer, sizeof layer, "class/infiniband/%s/ports/%s/link_layer",
                      device, port);
    if (strcmp(layer, "Ethernet") != 0)
        return;
    if (given && muster_text_u64(given, &index) && index < GIDS) {
        evaluate_given(check, doctor, device, port, (int)index);
        return;
    }
    for (int i = 0; i < GIDS; i++)
        if (read_gid(doctor, device, port, i) == GID_ROUTABLE) {
            muster_check_evidence(check, "%s port %s: GID %d is a routable RoCE v2 one", device,
                                  port, i);
            return;
        }
    muster_check_worse(check,
                       muster_doctor_several_hosts() ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
    muster_check_evidence(check, "%s port %s: no routable RoCE v2 GID", device, port);
    muster_check_advice(check, "give the interface an address: connections over a link-local or "
                               "RoCE v1 GID end at the first router");
}

static void check_gids(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "ib.gid", "F57,F59");
    muster_check_expected(check, "a routable RoCE v2 GID on every Ethernet port");
    int n = each_port(check, doctor, evaluate_gids);
    if (n == 0) {
        muster_check_unchecked(check, "no RDMA device");
        return;
    }
    muster_check_found(check, !check->evidences ? "no Ethernet port"
                              : check->status   ? "a port whose GID is unusable"
                                                : "every Ethernet port has one");
}

/* DMA-BUF does what a peer-memory module does: open kernel modules and Linux 5.12. */
static bool has_dmabuf(const struct muster_doctor *doctor)
{
    char version[256], kernel[64];
    unsigned major = 0, minor = 0;
    if (!muster_sysfs_line(doctor->procfs, version, sizeof version, "driver/nvidia/version") ||
        !strstr(version, "Open Kernel Module") ||
        !muster_sysfs_line(doctor->procfs, kernel, sizeof kernel, "sys/kernel/osrelease") ||
        sscanf(kernel, "%u.%u", &major, &minor) != 2)
        return false;
    return major > 5 || (major == 5 && minor >= 12);
}

/* The module that lets NICs into the memory of GPUs; NULL: none. */
static const char *peer_module(const struct muster_doctor *doctor)
{
    static const char *const modules[] = {"nvidia_peermem", "efa_nv_peermem", "nv_peer_mem"};
    char text[64];
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (muster_sysfs_line(doctor->sysfs, text, sizeof text, "module/%s/version", modules[i]) ||
            muster_sysfs_line(doctor->sysfs, text, sizeof text, "module/%s/initstate", modules[i]))
            return modules[i];
    return muster_doctor_entries(doctor->sysfs, "kernel/mm/memory_peers") > 0
               ? "a peer-memory module"
               : NULL;
}

/* nvidia-peermem loads without complaint beside RDMA drivers that have no peer memory (those of
 * plain kernels), and then does nothing. */
static bool is_unheard(const struct muster_doctor *doctor, const char *module)
{
    return module && strcmp(module, "nvidia_peermem") == 0 &&
           muster_doctor_entries(doctor->sysfs, "kernel/mm") > 0 &&
           muster_doctor_entries(doctor->sysfs, "kernel/mm/memory_peers") == 0;
}

/* NCCL's NICs read GPUs' memory by themselves where NVLink is; elsewhere sends go by way of the
 * host (nccl#371). */
static void suspect_reads(const struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_machine *machine = doctor->survey->machine;
    struct muster_path path;
    if (muster_env("NCCL_NET_GDR_READ"))
        return;
    for (int gpu = 0; gpu < machine->gpus; gpu++)
        for (int nic = 0; nic < machine->nics && machine->gpu[gpu].nvlinks <= 0; nic++) {
            if (machine->gpu[gpu].node < 0 || !machine->nic[nic].fabric || check->suspect[0])
                continue;
            muster_path_gpu_nic(machine, gpu, nic, &path);
            if (path.class != MUSTER_PATH_PIX && path.class != MUSTER_PATH_PXB)
                continue;
            muster_check_suspect(
                check,
                "without NVLink NCCL sends by way of the host's memory, though a NIC "
                "is below a PCIe switch with GPU %d",
                gpu);
            muster_check_advice(check, "NCCL_NET_GDR_READ=1, measured");
        }
}

static void check_gdr(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "ib.gdr", "F61");
    if (muster_doctor_entries(doctor->sysfs, "class/infiniband") == 0) {
        muster_check_unchecked(check, "no RDMA device");
        return;
    }
    const char *module = peer_module(doctor);
    bool dmabuf = has_dmabuf(doctor);
    muster_check_expected(check,
                          "nvidia-peermem, efa_nv_peermem or DMA-BUF; the same on every host");
    if (module)
        muster_check_found(check, "%s is loaded", module);
    else
        muster_check_found(check, "%s",
                           dmabuf ? "no peer-memory module, but DMA-BUF"
                                  : "NICs cannot reach the GPUs' memory: no "
                                    "nvidia-peermem, no DMA-BUF");
    if (module || dmabuf)
        suspect_reads(doctor, check);
    if (is_unheard(doctor, module) && !dmabuf) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check,
                           "nvidia_peermem is loaded, but the RDMA drivers do not know of it");
        muster_check_advice(check,
                            "their kernel has no peer memory: install DOCA or MLNX_OFED, then "
                            "the NVIDIA driver again, or use the open kernel modules (DMA-BUF)");
    }
    if (!module && !dmabuf && doctor->survey->nvml && doctor->survey->nvml->gpus > 0) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_advice(check,
                            "modprobe nvidia-peermem, or the open kernel modules on Linux 5.12 "
                            "and later: without, all that crosses hosts goes through the "
                            "host's memory, at a fraction of the speed");
    }
}

/* Devices that the kernel has and this process lacks: a container that was not given them, or whose
 * cgroup forbids them. */
static void check_verbs(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "ib.devices", "F63");
    char path[PATH_MAX];
    if (muster_doctor_entries(doctor->sysfs, "class/infiniband") == 0) {
        muster_check_unchecked(check, "no RDMA device");
        return;
    }
    int files = muster_doctor_entries(doctor->devfs, "infiniband");
    muster_check_expected(check, "device files in /dev/infiniband that can be opened");
    muster_check_found(check, files ? "device files are there" : "no device files");
    for (int i = 0; files && i < UVERBS_MAX; i++) {
        snprintf(path, sizeof path, "%s/infiniband/uverbs%d", doctor->devfs, i);
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0)
            close(fd);
        else if (errno == EPERM || errno == EACCES)
            muster_check_evidence(check, "%s: %s%s", path, strerror(errno),
                                  errno == EPERM ? ": the cgroup's device rules forbid it" : "");
    }
    if (!files || check->evidences) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        if (files)
            muster_check_found(check, "device files that cannot be opened");
        muster_check_advice(
            check, "docker, podman: --device /dev/infiniband; Kubernetes: the RDMA device "
                   "plugin; enroot: MELLANOX_VISIBLE_DEVICES=all; apptainer: --bind "
                   "/dev/infiniband. Without them NCCL uses TCP and says so only in its log, and a "
                   "libnccl-net.so (aws-ofi-nccl) may crash: NCCL_NET_PLUGIN=none");
    }
}

void muster_doctor_rdma(struct muster_doctor *doctor)
{
    check_ports(doctor);
    check_gids(doctor);
    check_verbs(doctor);
    check_gdr(doctor);
}
