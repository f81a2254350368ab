/* Threads, clocks and pages: what makes one rank of a host late. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

/* Whether a launcher started several ranks here, each of which sees these CPUs. */
static bool ranks_share_cpus(const struct muster_doctor *doctor, int cpus)
{
    char text[1024];
    uint64_t all[MUSTER_DOCTOR_CPU_WORDS];
    if (doctor->local_ranks < 2)
        return false;
    if (muster_doctor_local_rank() < 0)
        return true;
    return !muster_sysfs_line(doctor->sysfs, text, sizeof text, "devices/system/cpu/online") ||
           muster_proc_cpus(text, all, MUSTER_DOCTOR_CPU_WORDS) <= cpus;
}

static bool launched(void)
{
    return muster_env("LOCAL_WORLD_SIZE") || muster_env("OMPI_COMM_WORLD_LOCAL_SIZE") ||
           muster_env("MPI_LOCALNRANKS") || muster_env("SLURM_NTASKS_PER_NODE");
}

/* Binding that the ranks' common environment asks of OpenMP: each rank then takes the same CPUs,
 * the first for its main thread. A list that each rank may have been given for itself is none. */
static const char *bound_alike(void)
{
    const char *list = muster_env("GOMP_CPU_AFFINITY"), *bind = muster_env("OMP_PROC_BIND");
    const char *places = muster_env("OMP_PLACES");
    bool in_rank = muster_env("LOCAL_RANK") != NULL;
    if (list && *list && !in_rank)
        return "GOMP_CPU_AFFINITY";
    if (bind && *bind && strcasecmp(bind, "false") != 0 && !(in_rank && places && *places == '{'))
        return "OMP_PROC_BIND";
    return NULL;
}

static void check_bound(struct muster_check *check)
{
    const char *name = bound_alike();
    if (!name)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_evidence(check, "%s binds the threads of every rank to the same CPUs", name);
    muster_check_advice(check,
                        "unset %s, or bind each rank to CPUs of its own first (srun "
                        "--cpu-bind=cores, numactl by LOCAL_RANK)",
                        name);
}

/* OpenMP starts a thread for each CPU unless set otherwise; torchrun sets it to 1. */
static void check_openmp(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.threads", "F33");
    uint64_t allowed[MUSTER_DOCTOR_CPU_WORDS], threads;
    int cpus = muster_doctor_cpus(doctor, allowed);
    const char *given = muster_env("OMP_NUM_THREADS");
    unsigned ranks = doctor->local_ranks;
    muster_check_expected(check, "OMP_NUM_THREADS times ranks within the CPUs");
    muster_check_found(check, given ? "OMP_NUM_THREADS=%.20s" : "OMP_NUM_THREADS is not set",
                       given);
    if (cpus == 0 || !launched() || !ranks_share_cpus(doctor, cpus))
        return;
    check_bound(check);
    if (!given)
        threads = (uint64_t)cpus;
    else if (!muster_text_u64(given, &threads))
        return;
    if (threads * ranks <= (uint64_t)cpus * 2)
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_evidence(check, "%u ranks of %llu threads each on %d CPUs", ranks,
                          (unsigned long long)threads, cpus);
    int most = cpus / (int)ranks;
    muster_check_advice(check,
                        "OMP_NUM_THREADS=%d%s: threads that wait for CPUs hold NCCL's "
                        "proxy threads up",
                        most > 1 ? most : 1, most > 1 ? " or less" : "");
}

static void check_clock(struct muster_doctor *doctor)
{
    static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "pit", "refined-jiffies"};
    struct muster_check *check = muster_check_begin(doctor->checks, "host.clock", "F33");
    char source[64];
    muster_check_expected(check,
                          "a clock that is read without a system call (tsc, arch_sys_counter)");
    if (!muster_sysfs_line(doctor->sysfs, source, sizeof source,
                           "devices/system/clocksource/clocksource0/current_clocksource")) {
        muster_check_unchecked(check, "the clock source cannot be read");
        return;
    }
    muster_check_found(check, "clock source %s", source);
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (strcmp(source, slow[i]) == 0) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_advice(check,
                                "the kernel gave the processor's counter up as unstable: "
                                "look for \"clocksource\" in its log; tsc=reliable where the "
                                "hardware is sound. Reading the time costs 20 times as much");
        }
}

/* Network libraries (EFA, UCX) ask for huge pages where the host has some, and a cgroup may refuse.
 */
static void suspect_refusal(const struct muster_doctor *doctor, struct muster_check *check)
{
    char most[32];
    if (!muster_sysfs_line(doctor->sysfs, most, sizeof most, "fs/cgroup/hugetlb.2MB.max") ||
        strcmp(most, "0") != 0)
        return;
    muster_check_suspect(check, "the host has huge pages, and this cgroup may use none: network "
                                "libraries that ask for them fail");
    muster_check_advice(check, "give the container hugepages-2Mi, or FI_EFA_USE_HUGE_PAGE=0 (EFA), "
                               "UCX_IB_ALLOC without huge (UCX)");
    check->suspect_of = "init_error";
    check->suspect_weight = 6;
}

static void check_hugepages(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "host.hugepages", "F11,F12");
    char *text = muster_doctor_room(doctor), size[32];
    long long all = -1, reserved = -1, free_pages = -1;
    if (muster_doctor_read_proc(doctor, "meminfo", text)) {
        all = muster_proc_field(text, "MemTotal", 10);
        free_pages = muster_proc_field(text, "HugePages_Free", 10);
        reserved = muster_proc_field(text, "Hugepagesize", 10);
    }
    muster_check_expected(check,
                          "less than half of the memory kept for huge pages that nobody uses");
    if (all <= 0 || free_pages < 0 || reserved < 0) {
        muster_check_unchecked(check, "%s/meminfo does not tell", doctor->procfs);
        return;
    }
    double idle = (double)free_pages * (double)reserved;
    muster_text_bytes(size, sizeof size, (uint64_t)idle * 1024);
    muster_check_found(check, idle > 0 ? "memory kept for huge pages lies idle" : "none kept");
    if (idle > 0) {
        muster_check_evidence(check, "%s", size);
        suspect_refusal(doctor, check);
    }
    if (idle > (double)all / 2) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "vm.nr_hugepages=0, or use them: ordinary memory is short");
    }
}

void muster_doctor_threads(struct muster_doctor *doctor)
{
    check_openmp(doctor);
    check_clock(doctor);
    check_hugepages(doctor);
}
