/* Limits of this process and its container that NCCL runs into. */
#include <errno.h>
#include <glob.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/doctor.h"
#include "topology/sysfs.h"

enum {
    SHM_PER_RANK_MIB = 64, /* segments of 9.6 and 33 MB were seen; 64 MiB fail with two ranks */
    NOFILE_BASE = 1024,
    NOFILE_PER_RANK = 512,
};

static void check_shm(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.shm", "F27");
    struct statvfs shm;
    char have[32], want[32];
    uint64_t needed = (uint64_t)doctor->local_ranks * SHM_PER_RANK_MIB << 20;
    if (statvfs("/dev/shm", &shm)) {
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "/dev/shm: %s", strerror(errno));
        return;
    }
    uint64_t left = (uint64_t)shm.f_bavail * shm.f_frsize;
    uint64_t size = (uint64_t)shm.f_blocks * shm.f_frsize;
    muster_text_bytes(have, sizeof have, size);
    muster_text_bytes(want, sizeof want, needed);
    muster_check_found(check, "/dev/shm of %s", have);
    muster_check_expected(check, "%s free for %u ranks", want, doctor->local_ranks);
    muster_text_bytes(have, sizeof have, left);
    muster_check_evidence(check, "%s free", have);
    if (left < needed) {
        muster_check_worse(check, left < 64u << 20 ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "docker: --shm-size=%s; Kubernetes: an emptyDir with medium "
                            "Memory at /dev/shm",
                            "1g");
    }
}

static void check_stale(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.shm_stale", "F27");
    glob_t found;
    uint64_t bytes = 0;
    char text[32];
    int n = 0;
    if (glob("/dev/shm/nccl-*", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            struct stat status;
            if (stat(found.gl_pathv[i], &status) == 0) {
                bytes += (uint64_t)status.st_blocks * 512;
                n++;
            }
        }
        globfree(&found);
    }
    muster_text_bytes(text, sizeof text, bytes);
    muster_check_found(check, n ? "%d files of NCCL in /dev/shm" : "none", n);
    if (n) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_evidence(check, "they hold %s", text);
        muster_check_advice(check, "if no job runs, remove /dev/shm/nccl-*");
    }
}

static void print_limit(rlim_t value, char *text, size_t size)
{
    if (value == RLIM_INFINITY)
        snprintf(text, size, "unlimited");
    else
        muster_text_bytes(text, size, value);
}

static void check_memlock(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.memlock", "F30");
    struct rlimit limit;
    char text[32];
    getrlimit(RLIMIT_MEMLOCK, &limit);
    print_limit(limit.rlim_cur, text, sizeof text);
    muster_check_found(check, "memlock %s", text);
    muster_check_expected(check, "unlimited, in the job's own environment");
    bool rdma = false;
    for (int i = 0; i < doctor->survey->machine->nics; i++)
        rdma |= doctor->survey->machine->nic[i].verbs[0] != '\0';
    if (limit.rlim_cur != RLIM_INFINITY) {
        if (rdma)
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        else
            muster_check_evidence(check, "no RDMA device here needs it");
        muster_check_advice(check, "docker: --ulimit memlock=-1; Slurm: PropagateResourceLimits");
    }
}

static void check_nofile(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.nofile", "F32");
    struct rlimit limit;
    rlim_t wanted = NOFILE_BASE + (rlim_t)doctor->local_ranks * NOFILE_PER_RANK;
    getrlimit(RLIMIT_NOFILE, &limit);
    muster_check_found(check, "%llu open files", (unsigned long long)limit.rlim_cur);
    muster_check_expected(check, "at least %llu", (unsigned long long)wanted);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "ulimit -n 65536");
    }
}

static void check_stack(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.stack", "F31");
    struct rlimit limit;
    char text[32];
    int nccl = muster_doctor_version(doctor);
    getrlimit(RLIMIT_STACK, &limit);
    print_limit(limit.rlim_cur, text, sizeof text);
    muster_check_found(check, "stack %s", text);
    muster_check_expected(check, "a limit, for NCCL before 2.28");
    if (limit.rlim_cur == RLIM_INFINITY && nccl < 22800) { /* 0: not known */
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

static void check_cpus(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.cpus", "F33");
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) {
        muster_check_unchecked(check, "sched_getaffinity: %s", strerror(errno));
        return;
    }
    int n = CPU_COUNT(&allowed);
    bool far = false;
    muster_check_found(check, "may run on %d CPUs", n);
    muster_check_expected(check, "at least 2 CPUs a rank, near its GPU");
    for (int i = 0; i < doctor->survey->machine->gpus; i++) {
        int near = muster_survey_cpus(
            muster_machine_numa(doctor->survey->machine, doctor->survey->machine->gpu[i].node));
        if (near == 0) {
            far = true;
            muster_check_evidence(check, "none of them is on GPU %d's NUMA node", i);
        }
    }
    if ((unsigned)n < 2 * doctor->local_ranks || far) {
        muster_check_worse(check, (unsigned)n < doctor->local_ranks ? MUSTER_CHECK_PROBLEM
                                                                    : MUSTER_CHECK_WARNING);
        muster_check_advice(check, "the launcher's binding or cpuset is too narrow for %u ranks",
                            doctor->local_ranks);
    }
}

static uint64_t memory_limit(const struct muster_doctor *doctor)
{
    long long limit = muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/memory.max");
    if (limit <= 0)
        limit = muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/memory/memory.limit_in_bytes");
    return limit > 0 && limit < 1ll << 60 ? (uint64_t)limit : 0;
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
    check_shm(doctor);
    check_stale(doctor);
    check_memlock(doctor);
    check_nofile(doctor);
    check_stack(doctor);
    check_quota(doctor);
    check_cpus(doctor);
    check_memory(doctor);
}
