/* How the job's ranks fit on the GPUs that they see. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/visible.h"

enum { PEERS_MAX = 8 }; /* connections that CUDA lets a GPU without NVSwitch have */

static unsigned launched_ranks(void)
{
    static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"};
    uint64_t n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = muster_env(names[i]);
        if (text && muster_text_u64(text, &n) && n < 4096)
            return (unsigned)n;
    }
    return 0;
}

/* Launchers that bind may give each rank a list of its own: one GPU then is not all there are. */
static void check_shared(struct muster_doctor *doctor)
{
    struct muster_check *check =
        muster_doctor_begin_gpu(doctor, "gpu.shared", "F17", "a GPU for each rank of this host");
    struct muster_visible visible;
    unsigned ranks = launched_ranks();
    if (!doctor->survey->nvml)
        return;
    muster_visible_gpus(doctor->survey->machine, getenv("CUDA_VISIBLE_DEVICES"),
                        getenv("CUDA_DEVICE_ORDER"), &visible);
    bool own = muster_doctor_local_rank() >= 0 && visible.n == 1;
    if (!ranks || !visible.known || own) {
        muster_check_found(check, own ? "each rank has GPUs of its own" : "ranks are not told");
        return;
    }
    muster_check_found(check, "%u ranks, %d GPUs", ranks, visible.n);
    if (ranks <= (unsigned)visible.n)
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_advice(check,
                        "no more ranks than GPUs (--nproc-per-node, -n, CUDA_VISIBLE_DEVICES): "
                        "NCCL refuses two ranks on one GPU (\"Duplicate GPU detected\")");
}

/* Boards that are only sold with NVLink. */
static bool has_to_be_linked(const char *name)
{
    static const char *const names[] = {"SXM",   "H200", "H100 80GB HBM3", "H800",
                                        "GH200", "B200", "GB200",          "B300"};
    if (strstr(name, "NVL") || strstr(name, "PCIe"))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(name, names[i]))
            return true;
    return false;
}

static void check_bridge(struct muster_doctor *doctor)
{
    struct muster_check *check =
        muster_doctor_begin_gpu(doctor, "gpu.bridge", "F55", "NVLink on boards that have it");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    if (!nvml)
        return;
    muster_check_found(check, "nothing missing");
    for (int i = 0; nvml->gpus > 1 && i < nvml->gpus; i++) {
        int active = 0;
        for (int j = 0; j < MUSTER_NVML_LINKS; j++)
            active += nvml->gpu[i].link[j].state == MUSTER_NVLINK_ACTIVE;
        if (active || nvml->gpu[i].mig == 1 || nvml->gpu[i].virtualization == 2 ||
            !has_to_be_linked(nvml->gpu[i].name))
            continue;
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "boards made for NVLink without a link");
        muster_check_evidence(check, "GPU %d: %s, no NVLink is up", i, nvml->gpu[i].name);
        muster_check_advice(check, "fabric manager (gpu.fabric), the driver's registry "
                                   "(NVreg_NvLinkDisable), the virtual machine, or the hardware");
    }
}

static void check_peers(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_doctor_begin_gpu(
        doctor, "gpu.peers", "F46", "no more than 8 peers of a GPU without NVSwitch");
    const struct muster_machine *machine = doctor->survey->machine;
    bool switched = false;
    if (!doctor->survey->nvml)
        return;
    for (int i = 0; i < machine->gpus; i++)
        switched |= machine->gpu[i].fabric > 0;
    int peers = machine->gpus > 0 ? machine->gpus - 1 : 0;
    muster_check_found(check, "%d peers a GPU", peers);
    if (switched || peers <= PEERS_MAX)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_advice(check, "CUDA connects a GPU to 8 others by P2P (\"peer mapping resources "
                               "exhausted\"): NCCL_P2P_LEVEL=PXB keeps P2P to the near ones");
}

static void check_persistence(struct muster_doctor *doctor)
{
    struct muster_check *check =
        muster_doctor_begin_gpu(doctor, "gpu.persistence", "F53",
                                "persistence mode, or a driver that something else keeps up");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    int off = 0;
    if (!nvml)
        return;
    for (int i = 0; i < nvml->gpus; i++)
        off += nvml->gpu[i].persistence == 0;
    muster_check_found(check, off ? "persistence mode off" : "persistence mode on, or not told");
    if (off)
        muster_check_evidence(check,
                              "%d GPUs: the first process starts the driver anew, in seconds, "
                              "and settings are lost (nvidia-smi -pm 1, or "
                              "nvidia-persistenced)",
                              off);
}

/* Forward compatibility is for data-centre boards, and for drivers older than the library. */
static void check_compat(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_doctor_begin_gpu(
        doctor, "version.compat", "F35", "no CUDA compatibility library before the driver's");
    const struct muster_nvml *nvml = doctor->survey->nvml;
    const char *path = muster_env("LD_LIBRARY_PATH");
    size_t length;
    int of_driver = nvml ? atoi(nvml->driver) : 0;
    if (nvml)
        muster_check_found(check, "none");
    for (; nvml && path && *path; path += length + (path[length] == ':')) {
        length = strcspn(path, ":");
        const char *folder = muster_arena_format(doctor->memory, "%.*s", (int)length, path);
        char pattern[PATH_MAX];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/libcuda.so.[0-9]*.[0-9]*", folder);
        if (!strstr(folder, "compat") || glob(pattern, 0, NULL, &found))
            continue;
        int of_library = atoi(strrchr(found.gl_pathv[0], '/') + strlen("/libcuda.so."));
        bool consumer = strstr(nvml->gpu[0].name, "GeForce") != NULL;
        muster_check_found(check, "a compatibility library before the driver's");
        muster_check_evidence(check, "%s, driver %s", found.gl_pathv[0], nvml->driver);
        if (consumer || of_library <= of_driver) {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_advice(
                check,
                "take %.100s out of LD_LIBRARY_PATH: CUDA fails with 803 or "
                "804 where the library is %s",
                folder, consumer ? "for data-centre boards only" : "not newer than the driver");
        }
        globfree(&found);
    }
}

void muster_doctor_sharing(struct muster_doctor *doctor)
{
    check_shared(doctor);
    check_bridge(doctor);
    check_peers(doctor);
    check_persistence(doctor);
    check_compat(doctor);
}
