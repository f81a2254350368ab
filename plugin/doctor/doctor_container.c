/* What a container of a job has to be given, in the words of what started it. */
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "topology/sysfs.h"

static bool has_mark(const struct muster_doctor *doctor, const char *file)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", doctor->root, file);
    return access(path, F_OK) == 0;
}

enum muster_container muster_doctor_container_kind(const struct muster_doctor *doctor)
{
    char group[1024] = "";
    muster_sysfs_line(doctor->procfs, group, sizeof group, "self/cgroup");
    if (muster_env("KUBERNETES_SERVICE_HOST") || strstr(group, "kubepods"))
        return MUSTER_CONTAINER_KUBERNETES;
    if (muster_env("SINGULARITY_CONTAINER") || muster_env("APPTAINER_CONTAINER"))
        return MUSTER_CONTAINER_APPTAINER;
    if (has_mark(doctor, "run/.containerenv") || strstr(group, "libpod"))
        return MUSTER_CONTAINER_PODMAN;
    if (has_mark(doctor, ".dockerenv") || strstr(group, "docker") || strstr(group, "containerd") ||
        strstr(group, "lxc"))
        return MUSTER_CONTAINER_DOCKER;
    return has_mark(doctor, ".lock") ? MUSTER_CONTAINER_ENROOT : MUSTER_CONTAINER_NONE;
}

bool muster_doctor_container(const struct muster_doctor *doctor)
{
    return muster_doctor_container_kind(doctor) != MUSTER_CONTAINER_NONE;
}

bool muster_doctor_lacks_caps(const struct muster_doctor *doctor)
{
    char caps[PATH_MAX];
    snprintf(caps, sizeof caps, "%s/nvidia-caps", doctor->devfs);
    return muster_doctor_container(doctor) && access(caps, F_OK) != 0;
}

/* Where docker and podman agree, one word for both. enroot and apptainer share the host's network
 * and shared memory, filter no system calls, and hand on the limits of whoever starts them. */
struct lack {
    const char *id, *docker, *podman, *kubernetes, *enroot, *apptainer;
};

#define BOTH(flag)    flag, flag
#define SLURMD(limit) limit " in slurmd's unit", limit " in slurmd's unit"

static const struct lack lacks[] = {
    {"limit.shm", BOTH("--ipc=host (or --shm-size=8g)"), "an emptyDir of medium Memory at /dev/shm",
     "a larger /dev/shm on the host", "a larger /dev/shm on the host, no --contain"},
    {"ib.devices", BOTH("--device=/dev/infiniband"), "the RDMA device plugin's resource",
     "MELLANOX_VISIBLE_DEVICES=all", "--bind /dev/infiniband"},
    {"limit.memlock", BOTH("--ulimit memlock=-1 --cap-add=IPC_LOCK"),
     "capability IPC_LOCK, LimitMEMLOCK=infinity in containerd's unit",
     SLURMD("LimitMEMLOCK=infinity")},
    {"limit.nofile", BOTH("--ulimit nofile=65536"), "LimitNOFILE=65536 in containerd's unit",
     SLURMD("LimitNOFILE=65536")},
    {"limit.processes", BOTH("--pids-limit=-1"), "podPidsLimit: -1 of the kubelet",
     SLURMD("TasksMax=infinity")},
    {"limit.stack", BOTH("--ulimit stack=8388608"), "ulimit -s 8192 in the command",
     "ulimit -s 8192 before srun", "ulimit -s 8192 before it"},
    {"net.interface", BOTH("--network=host"), "hostNetwork: true, or a second interface", NULL,
     "no --net"},
    {"net.names", BOTH("--network=host"), "hostNetwork: true, or a second interface", NULL,
     "no --net"},
    {"gpu.driver", "--gpus=all", "--device=nvidia.com/gpu=all",
     "nvidia.com/gpu in the limits, runtimeClassName: nvidia",
     "NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility", "--nv"},
    {"host.cumem", BOTH("--cap-add=SYS_NICE"), "capability SYS_NICE", NULL, NULL},
    {"gpu.imex", BOTH("--device=/dev/nvidia-caps-imex-channels/channel0"),
     "a ComputeDomain of NVIDIA's DRA driver",
     "--container-mounts=/dev/nvidia-caps-imex-channels:/dev/nvidia-caps-imex-channels",
     "--bind /dev/nvidia-caps-imex-channels"},
    {"gpu.multicast", BOTH("--device=/dev/nvidia-caps"),
     "privileged: true, a hostPath volume at /dev/nvidia-caps",
     "--container-mounts=/dev/nvidia-caps:/dev/nvidia-caps", "--bind /dev/nvidia-caps"},
};

static const char *words_of(const struct lack *lack, enum muster_container kind)
{
    switch (kind) {
    case MUSTER_CONTAINER_PODMAN:
        return lack->podman;
    case MUSTER_CONTAINER_KUBERNETES:
        return lack->kubernetes;
    case MUSTER_CONTAINER_ENROOT:
        return lack->enroot;
    case MUSTER_CONTAINER_APPTAINER:
        return lack->apptainer;
    default:
        return lack->docker;
    }
}

static const char *starter_of(enum muster_container kind)
{
    switch (kind) {
    case MUSTER_CONTAINER_PODMAN:
        return "podman run";
    case MUSTER_CONTAINER_KUBERNETES:
        return "the pod:";
    case MUSTER_CONTAINER_ENROOT:
        return "enroot, pyxis:";
    case MUSTER_CONTAINER_APPTAINER:
        return "apptainer exec:";
    default:
        return "docker run";
    }
}

/* A network of the container's own has no device. */
static bool has_hosts_network(const struct muster_doctor *doctor)
{
    const struct muster_interfaces *interfaces = muster_doctor_interfaces(doctor);
    char path[PATH_MAX];
    bool device = false;
    for (int i = 0; interfaces && i < interfaces->n; i++) {
        snprintf(path, sizeof path, "%s/class/net/%s/device", doctor->sysfs,
                 interfaces->at[i].name);
        device |= access(path, F_OK) == 0;
    }
    return device;
}

/* Whether another check found that the job needs what it has not got. */
static bool is_lacking(const struct muster_doctor *doctor, const struct muster_check *check)
{
    if (strcmp(check->id, "gpu.multicast") == 0) /* it may do without: only where the job fails */
        return doctor->symptoms && check->suspect[0] && muster_doctor_lacks_caps(doctor);
    bool of_cgroup = strcmp(check->id, "limit.processes") != 0; /* ulimit -u is no container's */
    for (int i = 0; i < check->evidences; i++)
        of_cgroup |= strncmp(check->evidence[i], "pids.max", 8) == 0;
    if (check->status < MUSTER_CHECK_WARNING || !of_cgroup)
        return false;
    return strncmp(check->id, "net.", 4) != 0 || !has_hosts_network(doctor);
}

/* Whether these words are among those: one option may begin another. */
static bool holds(const char *all, const char *words)
{
    size_t n = strlen(words);
    for (const char *at = strstr(all, words); at; at = strstr(at + 1, words))
        if ((at == all || at[-1] == ' ') && (at[n] == '\0' || at[n] == ' ' || at[n] == ';'))
            return true;
    return false;
}

void muster_doctor_runtime(struct muster_doctor *doctor)
{
    struct muster_check *check =
        muster_check_begin(doctor->checks, "host.container", "F24,F27,F29,F30");
    enum muster_container kind = muster_doctor_container_kind(doctor);
    bool flags = kind == MUSTER_CONTAINER_DOCKER || kind == MUSTER_CONTAINER_PODMAN;
    char missing[sizeof check->advice - 32];
    struct muster_text text = muster_text_begin(missing, sizeof missing);
    muster_check_expected(check, "a container with the host's shared memory, network and devices");
    if (kind == MUSTER_CONTAINER_NONE) {
        muster_check_found(check, "no container");
        return;
    }
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        const struct muster_check *other = muster_checks_find(doctor->checks, lacks[i].id);
        const char *words = words_of(&lacks[i], kind);
        if (!other || !words || !is_lacking(doctor, other))
            continue;
        muster_check_evidence(check, "%s: %s", other->id,
                              other->status >= MUSTER_CHECK_WARNING ? other->found
                                                                    : "no /dev/nvidia-caps");
        if (!holds(missing, words))
            muster_text_add(&text, "%s%s", !text.used ? "" : flags ? " " : "; ", words);
    }
    muster_check_found(check, *missing ? "the container lacks what NCCL needs"
                                       : "a container that lacks nothing seen here");
    if (!*missing)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_advice(check, "%s %s", starter_of(kind), missing);
}
