/* Limits of this process and its container that NCCL runs into. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

enum {
    NOFILE_BASE = 1024,
    NOFILE_PER_RANK = 512,
    NOFILE_MANY_HERE = 8,
    NOFILE_MANY = 32,
    MEMORY_WANTED_GIB = 4,
    MEMORY_NEEDED_GIB = 2,
};

/* This process', or the recorded one's. */
static uint64_t read_limit(const struct muster_doctor *doctor, const char *name, int resource)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    char *text = muster_doctor_room(doctor);
    uint64_t soft = UINT64_MAX;
    bool found = muster_doctor_read_proc(doctor, "self/limits", text) &&
                 muster_proc_limit(text, name, &soft);
    if (found)
        return soft;
    getrlimit((__rlimit_resource_t)resource, &limit);
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

static void print_limit(uint64_t value, char *text, size_t size)
{
    if (value == UINT64_MAX)
        snprintf(text, size, "unlimited");
    else
        muster_text_bytes(text, size, value);
}

/* Such memory counts as free for CMA, beyond what CMA was given: programs get it, and what is in it
 * cannot be pinned. */
static void suspect_handover(const struct muster_doctor *doctor, struct muster_check *check)
{
    char line[2048] = "", *text = muster_doctor_room(doctor);
    if (!muster_doctor_read_proc(doctor, "meminfo", text))
        return;
    long long total = muster_proc_field(text, "CmaTotal", 10);
    long long left = muster_proc_field(text, "CmaFree", 10);
    muster_sysfs_line(doctor->procfs, line, sizeof line, "cmdline");
    if (total < 0 || left <= total || strstr(line, "kho=off"))
        return;
    muster_check_evidence(check, "CmaTotal %lld kB, CmaFree %lld kB", total, left);
    muster_check_suspect(check,
                         "the kernel keeps %lld MiB for Kexec HandOver (as CMA), and what "
                         "lies there cannot be registered with a network card",
                         (left - total) >> 10);
    muster_check_advice(check, "kho=off on the kernel's command line and a reboot, else the kernel "
                               "before (Linux 6.17)");
}

static void check_memlock(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.memlock", "F30");
    uint64_t limit = read_limit(doctor, "Max locked memory", RLIMIT_MEMLOCK);
    char text[32];
    print_limit(limit, text, sizeof text);
    muster_check_found(check, "memlock %s", text);
    muster_check_expected(check, "unlimited, in the job's own environment");
    bool rdma = muster_doctor_entries(doctor->sysfs, "class/infiniband") > 0;
    for (int i = 0; i < doctor->survey->machine->nics; i++)
        rdma |= doctor->survey->machine->nic[i].verbs[0] != '\0';
    if (limit != UINT64_MAX) {
        if (rdma)
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        else
            muster_check_evidence(check, "no RDMA device here needs it");
        muster_check_advice(
            check, "docker, podman: --ulimit memlock=-1; Kubernetes: LimitMEMLOCK=infinity in "
                   "containerd's unit; Slurm, enroot and apptainer: the same in slurmd's, and "
                   "PropagateResourceLimits=NONE, or a list without MEMLOCK");
    } else if (rdma) {
        suspect_handover(doctor, check);
    }
}

/* Each connection to a peer takes some, and so do the frameworks' data loaders: with 1024, jobs of
 * many ranks end in "Too many open files". */
static void check_nofile(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.nofile", "F32");
    uint64_t wanted = NOFILE_BASE + (uint64_t)doctor->local_ranks * NOFILE_PER_RANK;
    uint64_t limit = read_limit(doctor, "Max open files", RLIMIT_NOFILE);
    if (limit == UINT64_MAX)
        muster_check_found(check, "no limit of open files");
    else
        muster_check_found(check, "%llu open files", (unsigned long long)limit);
    muster_check_expected(check, "at least %llu", (unsigned long long)wanted);
    if (limit >= wanted)
        return;
    bool many = doctor->local_ranks >= NOFILE_MANY_HERE || muster_doctor_world() >= NOFILE_MANY;
    muster_check_worse(check,
                       limit <= NOFILE_BASE && many ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
    muster_check_advice(check,
                        "ulimit -n 65536, in the job's own environment: docker, podman: --ulimit "
                        "nofile=65536; systemd, Kubernetes' containerd, Slurm's slurmd (enroot, "
                        "apptainer): LimitNOFILE=65536");
}

static void check_stack(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.stack", "F31");
    uint64_t limit = read_limit(doctor, "Max stack size", RLIMIT_STACK);
    char text[32];
    int nccl = muster_doctor_version(doctor);
    print_limit(limit, text, sizeof text);
    muster_check_found(check, "stack %s", text);
    muster_check_expected(check, "a limit, for NCCL before 2.28");
    if (limit == UINT64_MAX && nccl < 22800) { /* 0: not known */
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "ulimit -s 8192: with unlimited stacks glibc gives threads 2 MiB, "
                            "too little on large NVLink domains");
    }
}

static void check_quota(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.cpu_quota", "F33");
    char text[64];
    double quota = 0, period = 0;
    if (muster_sysfs_line(doctor->sysfs, text, sizeof text, "fs/cgroup/cpu.max")) {
        if (sscanf(text, "%lf %lf", &quota, &period) != 2)
            quota = 0;
    } else {
        quota = (double)muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/cpu/cpu.cfs_quota_us");
        period = (double)muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/cpu/cpu.cfs_period_us");
    }
    muster_check_expected(check, "no quota, or at least 4 CPUs a rank");
    if (quota <= 0 || period <= 0) {
        muster_check_found(check, "no CPU quota");
        return;
    }
    muster_check_found(check, "a quota of %.2f CPUs", quota / period);
    if (quota / period < 4.0 * doctor->local_ranks) {
        muster_check_worse(check, quota / period < doctor->local_ranks ? MUSTER_CHECK_PROBLEM
                                                                       : MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "raise the container's CPU limit: NCCL's proxy threads spin, and "
                            "a throttled one holds all ranks");
    }
}

int muster_doctor_cpus(const struct muster_doctor *doctor, uint64_t *set)
{
    char *text = muster_doctor_room(doctor);
    const char *list = muster_doctor_read_proc(doctor, "self/status", text)
                           ? strstr(text, "Cpus_allowed_list:")
                           : NULL;
    int n = 0;
    if (list) {
        list += strlen("Cpus_allowed_list:");
        n = muster_proc_cpus(list + strspn(list, " \t"), set, MUSTER_DOCTOR_CPU_WORDS);
    }
    return n;
}

int muster_doctor_cpus_near(const struct muster_doctor *doctor, int gpu, const uint64_t *set)
{
    const struct muster_machine *machine = doctor->survey->machine;
    uint64_t numa = muster_machine_numa(machine, machine->gpu[gpu].node),
             near[MUSTER_DOCTOR_CPU_WORDS];
    char list[1024];
    int n = 0;
    if (numa == 0 || (numa & (numa - 1)) ||
        !muster_sysfs_line(doctor->sysfs, list, sizeof list, "devices/system/node/node%d/cpulist",
                           __builtin_ctzll(numa)) ||
        muster_proc_cpus(list, near, MUSTER_DOCTOR_CPU_WORDS) == 0)
        return -1;
    for (int i = 0; i < MUSTER_DOCTOR_CPU_WORDS; i++)
        n += __builtin_popcountll(set[i] & near[i]);
    return n;
}

static void check_cpus(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.cpus", "F33");
    uint64_t allowed[MUSTER_DOCTOR_CPU_WORDS];
    int n = muster_doctor_cpus(doctor, allowed);
    int rank = muster_doctor_local_rank();
    unsigned ranks = rank < 0 ? doctor->local_ranks : 1;
    bool far = false;
    if (n == 0) {
        muster_check_unchecked(check, "%s/self/status does not tell the CPUs", doctor->procfs);
        return;
    }
    muster_check_found(check, "may run on %d CPUs", n);
    muster_check_expected(check, "at least 2 CPUs a rank, near its GPU");
    for (int i = 0; i < doctor->survey->machine->gpus; i++)
        if ((rank < 0 || rank == i) && muster_doctor_cpus_near(doctor, i, allowed) == 0) {
            far = true;
            muster_check_evidence(check, "none of them is on GPU %d's NUMA node", i);
        }
    if ((unsigned)n < 2 * ranks || far) {
        muster_check_worse(check,
                           (unsigned)n < ranks ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
        muster_check_advice(check, "the launcher's binding or cpuset is too narrow for %u rank%s",
                            ranks, ranks > 1 ? "s" : "");
    }
}

static uint64_t memory_limit(const struct muster_doctor *doctor)
{
    long long limit = muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/memory.max");
    if (limit <= 0)
        limit = muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/memory/memory.limit_in_bytes");
    return limit > 0 && limit < 1ll << 60 ? (uint64_t)limit : 0;
}

/* A rank takes about 0.5 GiB for NCCL's host buffers, 1 to 2 for CUDA and its libraries, and 2 to 4
 * for a framework and its data loaders, before any data. */
static void evaluate_memory(struct muster_check *check, unsigned ranks, uint64_t limit)
{
    char text[32];
    double each = (double)limit / ranks / (1u << 30);
    muster_check_expected(check, "%d GiB a rank, for NCCL, CUDA and a framework",
                          MEMORY_WANTED_GIB);
    if (each >= MEMORY_WANTED_GIB)
        return;
    muster_check_worse(check,
                       each < MEMORY_NEEDED_GIB ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
    muster_text_bytes(text, sizeof text, limit / ranks);
    muster_check_evidence(check, "%s for each of %u ranks", text, ranks);
    muster_check_advice(check, "the kernel kills a rank when the limit is reached, and the others "
                               "hang: raise it (docker: --memory, Slurm: --mem, Kubernetes: the "
                               "memory limit)");
}

static void check_memory(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.memory", "F11");
    char text[32];
    uint64_t limit = memory_limit(doctor);
    long long used = muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/memory.current");
    if (limit == 0) {
        muster_check_found(check, "no cgroup memory limit");
        return;
    }
    muster_text_bytes(text, sizeof text, limit);
    muster_check_found(check, "a memory limit of %s", text);
    evaluate_memory(check, doctor->local_ranks, limit);
    if (used > 0 && (double)used > 0.9 * (double)limit) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_text_bytes(text, sizeof text, (uint64_t)used);
        muster_check_evidence(check, "%s are in use", text);
        muster_check_advice(check, "the kernel kills a rank when the limit is reached, and the "
                                   "others hang: raise it");
    }
}

void muster_doctor_limits(struct muster_doctor *doctor)
{
    check_memlock(doctor);
    check_nofile(doctor);
    check_stack(doctor);
    check_quota(doctor);
    check_cpus(doctor);
    check_memory(doctor);
}
