/* What the kernel was given: its version and command line, its settings of the network, of memory
 * and of processes. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/env.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

enum {
    THREADS_PER_RANK = 64, /* NCCL's, CUDA's and a framework's, without data loaders */
    THREADS_WANTED = 256,  /* with those */
    ADDRESSES_GIB = 256,   /* that CUDA reserves: all memory of GPUs and host */
    PORTS_WANTED = 1000,
    FULL_PERCENT = 90,
};

static long long setting(const struct muster_doctor *doctor, const char *name)
{
    return muster_sysfs_number(doctor->procfs, -1, "sys/%s", name);
}

/* ---- net.kernel */

static long long reverse_path(const struct muster_doctor *doctor, const char *interface)
{
    long long all = setting(doctor, "net/ipv4/conf/all/rp_filter");
    long long own =
        muster_sysfs_number(doctor->procfs, -1, "sys/net/ipv4/conf/%s/rp_filter", interface);
    return all > own ? all : own;
}

/* The kernel then answers through one of them, and drops what comes in on the other. */
static void evaluate_reverse_path(struct muster_doctor *doctor, struct muster_check *check)
{
    const struct muster_interfaces *of = muster_doctor_interfaces(doctor);
    for (int i = 0; of && i < of->n; i++)
        for (int j = i + 1; j < of->n; j++) {
            const struct muster_interface *a = &of->at[i], *b = &of->at[j];
            if (a->family != AF_INET || b->family != AF_INET || strcmp(a->name, b->name) == 0 ||
                a->prefix >= 32 || a->prefix != b->prefix || muster_interfaces_link_local(a) ||
                !muster_interfaces_same_subnet(a, b) ||
                (reverse_path(doctor, a->name) != 1 && reverse_path(doctor, b->name) != 1))
                continue;
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_found(check, "a strict reverse path filter over interfaces of one subnet");
            muster_check_evidence(check, "%s and %s share a subnet, rp_filter is 1", a->name,
                                  b->name);
            muster_check_advice(check,
                                "net.ipv4.conf.all.rp_filter=2 and arp_ignore=1, or a subnet "
                                "for each interface");
        }
}

static void evaluate_conntrack(const struct muster_doctor *doctor, struct muster_check *check)
{
    long long used = setting(doctor, "net/netfilter/nf_conntrack_count");
    long long room = setting(doctor, "net/netfilter/nf_conntrack_max");
    if (used < 0 || room <= 0 || used < room / 100 * FULL_PERCENT)
        return;
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_found(check,
                       "the table of tracked connections is nearly full: new ones are dropped");
    muster_check_evidence(check, "%lld of %lld", used, room);
    muster_check_advice(check,
                        "raise net.netfilter.nf_conntrack_max, or leave the job's interfaces "
                        "untracked (iptables -t raw -j NOTRACK)");
}

/* "32768-40000,50000": how many of low to high are in it. */
static long long reserved_ports(const char *list, unsigned long low, unsigned long high)
{
    long long n = 0;
    unsigned long first, last;
    while (*list && (list = muster_proc_range(list, &first, &last))) {
        first = first > low ? first : low;
        last = last < high ? last : high;
        n += last >= first ? (long long)(last - first) + 1 : 0;
    }
    return n;
}

static void evaluate_free_ports(struct muster_doctor *doctor, struct muster_check *check)
{
    char range[64], *text = muster_doctor_room(doctor);
    unsigned long low, high;
    unsigned long long waiting = 0, used = 0;
    if (!text ||
        !muster_sysfs_line(doctor->procfs, range, sizeof range,
                           "sys/net/ipv4/ip_local_port_range") ||
        sscanf(range, "%lu %lu", &low, &high) != 2 || high < low || high > 65535)
        return;
    long long all = (long long)(high - low) + 1, reserved = 0;
    if (muster_doctor_read_proc(doctor, "sys/net/ipv4/ip_local_reserved_ports", text))
        reserved = reserved_ports(text, low, high);
    if (muster_doctor_read_proc(doctor, "net/sockstat", text) && strstr(text, "TCP: "))
        sscanf(strstr(text, "TCP: "), "TCP: inuse %llu orphan %*u tw %llu", &used, &waiting);
    long long left = all - reserved - (long long)waiting;
    if (left >= PORTS_WANTED || all < PORTS_WANTED) /* net.ports reports a range that is small */
        return;
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    muster_check_found(check, "few ports are left for connections");
    muster_check_evidence(check, "%lld ports, %lld of them reserved, %llu of closed connections",
                          all, reserved, waiting);
    muster_check_advice(check,
                        "net.ipv4.ip_local_reserved_ports, net.ipv4.tcp_tw_reuse=1, or wait a "
                        "minute for what jobs before left");
}

/* All ranks connect to rank 0 at once; what does not fit into its queue tries again later. */
static void suspect_backlog(const struct muster_doctor *doctor, struct muster_check *check)
{
    long long room = setting(doctor, "net/core/somaxconn");
    unsigned world = muster_doctor_world();
    if (room < 0 || world <= room)
        return;
    muster_check_suspect(check, "%u ranks connect to rank 0 at once, whose queue takes %lld", world,
                         room);
    muster_check_advice(check, "net.core.somaxconn=16384 and net.ipv4.tcp_max_syn_backlog=16384");
}

static void check_network(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "net.kernel", "F23,F25");
    muster_check_expected(check, "a kernel that drops none of the job's connections");
    muster_check_found(check, "nothing against its settings");
    suspect_backlog(doctor, check);
    evaluate_free_ports(doctor, check);
    evaluate_reverse_path(doctor, check);
    evaluate_conntrack(doctor, check);
}

/* ---- limit.processes */

static uint64_t process_limit(const struct muster_doctor *doctor, const char *name, int resource)
{
    char *text = muster_doctor_room(doctor);
    uint64_t soft = UINT64_MAX;
    struct rlimit limit;
    if (muster_doctor_read_proc(doctor, "self/limits", text) &&
        muster_proc_limit(text, name, &soft))
        return soft;
    if (!muster_doctor_is_live(doctor) || getrlimit((__rlimit_resource_t)resource, &limit) ||
        limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

static void evaluate_threads(struct muster_check *check, unsigned ranks, const char *what,
                             uint64_t limit, uint64_t used)
{
    uint64_t left = limit > used ? limit - used : 0;
    if (limit == UINT64_MAX || left >= (uint64_t)ranks * THREADS_WANTED)
        return;
    muster_check_worse(check, left < (uint64_t)ranks * THREADS_PER_RANK ? MUSTER_CHECK_PROBLEM
                                                                        : MUSTER_CHECK_WARNING);
    muster_check_found(check, "few processes and threads are allowed");
    muster_check_evidence(check, "%s: %llu, %llu of them in use, for %u ranks", what,
                          (unsigned long long)limit, (unsigned long long)used, ranks);
    muster_check_advice(check,
                        "docker, podman: --pids-limit=-1; Kubernetes: the kubelet's podPidsLimit; "
                        "else ulimit -u, or TasksMax of the service that starts jobs");
}

static void evaluate_addresses(struct muster_doctor *doctor, struct muster_check *check)
{
    char size[32];
    uint64_t limit = process_limit(doctor, "Max address space", RLIMIT_AS);
    if (limit != UINT64_MAX && limit >> 30 < ADDRESSES_GIB) {
        muster_text_bytes(size, sizeof size, limit);
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_found(check, "the address space is limited: CUDA does not start");
        muster_check_evidence(check, "Max address space %s", size);
        muster_check_advice(check, "ulimit -v unlimited: CUDA reserves addresses for the memory of "
                                   "all GPUs and of the host");
    } else if (setting(doctor, "vm/overcommit_memory") == 2) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "the kernel refuses memory that is reserved, not used");
        muster_check_evidence(check, "vm.overcommit_memory is 2");
        muster_check_advice(check,
                            "vm.overcommit_memory=0: CUDA, NCCL and data loaders reserve more "
                            "than they use");
    }
}

static void check_processes(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "limit.processes", "F32");
    long long most = muster_sysfs_number(doctor->sysfs, -1, "fs/cgroup/pids.max");
    long long used = muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/pids.current");
    if (most < 0) {
        most = muster_sysfs_number(doctor->sysfs, -1, "fs/cgroup/pids/pids.max");
        used = muster_sysfs_number(doctor->sysfs, 0, "fs/cgroup/pids/pids.current");
    }
    muster_check_expected(check, "%d processes and threads a rank, addresses without limit",
                          THREADS_WANTED);
    muster_check_found(check, "room for processes and threads");
    evaluate_threads(check, doctor->local_ranks, "pids.max of the cgroup",
                     most > 0 ? (uint64_t)most : UINT64_MAX, (uint64_t)(used > 0 ? used : 0));
    evaluate_threads(check, doctor->local_ranks, "Max processes",
                     process_limit(doctor, "Max processes", RLIMIT_NPROC), 0);
    evaluate_addresses(doctor, check);
}

/* ---- host.kernel, host.tuning */

static void suspect_command_line(const struct muster_doctor *doctor, struct muster_check *check)
{
    static const struct {
        const char *word, *text;
    } words[] = {
        {"pcie_acs_override", "pcie_acs_override is on the kernel's command line: groups that are "
                              "none, so that the IOMMU tells devices apart that share a switch"},
        {"pci=nommconf", "pci=nommconf is on the kernel's command line: no extended PCI settings"},
        {"isolcpus=", "isolcpus is on the kernel's command line: threads on those CPUs are never "
                      "moved, and all of a rank may share one"},
    };
    char line[2048];
    if (!muster_sysfs_line(doctor->procfs, line, sizeof line, "cmdline"))
        return;
    for (size_t i = 0; i < sizeof words / sizeof *words && !check->suspect[0]; i++)
        if (strstr(line, words[i].word)) {
            muster_check_suspect(check, "%s", words[i].text);
            muster_check_advice(check, "start without it once, and see whether the job works");
        }
}

/* What people set to make P2P work where NVIDIA switched it off. */
static void suspect_registry(struct muster_doctor *doctor, struct muster_check *check)
{
    char *text = muster_doctor_room(doctor);
    const char *words = muster_doctor_read_proc(doctor, "driver/nvidia/params", text)
                            ? strstr(text, "RegistryDwords: ")
                            : NULL;
    const char *end = words ? words + strcspn(words, "\n") : NULL;
    const char *p2p = words ? strstr(words, "P2P") : NULL,
               *peer = words ? strstr(words, "Peer") : NULL;
    const char *bar = words ? strstr(words, "StaticBar1") : NULL;
    if (!(p2p && p2p < end) && !(peer && peer < end) && !(bar && bar < end))
        return;
    muster_check_suspect(check,
                         "the driver is told to allow P2P that its boards do not promise: "
                         "%.100s",
                         words);
    muster_check_advice(check, "remove NVreg_RegistryDwords (modprobe.d), or NCCL_P2P_DISABLE=1; "
                               "p2p.kernel shows whether data arrives");
}

/* Hugging Face's accelerate warns of kernels before 5.5: processes that hang. */
static void suspect_version(const struct muster_doctor *doctor, struct muster_check *check)
{
    char release[64];
    unsigned major, minor;
    if (!muster_sysfs_line(doctor->procfs, release, sizeof release, "sys/kernel/osrelease") ||
        sscanf(release, "%u.%u", &major, &minor) != 2)
        return;
    muster_check_evidence(check, "Linux %s", release);
    if (check->suspect[0] || major > 5 || (major == 5 && minor >= 5))
        return;
    muster_check_suspect(check, "Linux %u.%u is old: processes that hang were seen before 5.5",
                         major, minor);
    muster_check_advice(check, "a newer kernel");
    check->suspect_of = "hang_stuck"; /* behind all others: it was hardly ever the cause */
}

static void check_kernel(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "host.kernel", "F43,F45");
    muster_check_expected(check, "a kernel and driver without special settings");
    muster_check_found(check, "nothing unusual");
    suspect_registry(doctor, check);
    suspect_command_line(doctor, check);
    suspect_version(doctor, check);
}

/* Fine for most, and worth a look where a rank is late. */
static void check_tuning(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "host.tuning", "F33");
    char governor[32] = "", driver[32] = "";
    muster_sysfs_line(doctor->sysfs, governor, sizeof governor,
                      "devices/system/cpu/cpu0/cpufreq/scaling_governor");
    muster_sysfs_line(doctor->sysfs, driver, sizeof driver,
                      "devices/system/cpu/cpu0/cpufreq/scaling_driver");
    bool slow = strcmp(governor, "powersave") == 0 && strstr(driver, "pstate") == NULL;
    bool reclaim = setting(doctor, "vm/zone_reclaim_mode") > 0;
    bool balancing = setting(doctor, "kernel/numa_balancing") > 0;
    muster_check_expected(check, "CPUs at full clock, memory that stays where it is");
    muster_check_found(check, "nothing unusual");
    if (*governor)
        muster_check_evidence(check, "CPU clocks: %s (%s)", governor, *driver ? driver : "?");
    if (slow)
        muster_check_suspect(check, "CPUs stay at their lowest clock (governor powersave)");
    else if (reclaim)
        muster_check_suspect(check, "the kernel frees memory of a NUMA node rather than use "
                                    "another's (vm.zone_reclaim_mode)");
    else if (balancing)
        muster_check_suspect(check, "the kernel moves memory between NUMA nodes while the job runs "
                                    "(kernel.numa_balancing)");
    if (check->suspect[0])
        muster_check_advice(check, "governor performance; vm.zone_reclaim_mode=0; "
                                   "kernel.numa_balancing=0");
}

void muster_doctor_kernel(struct muster_doctor *doctor)
{
    check_network(doctor);
    check_processes(doctor);
    check_kernel(doctor);
    check_tuning(doctor);
}
