/* Memory, swap, namespaces and identity of this host. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/host.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

enum { FILE_MAX = MUSTER_DOCTOR_FILE, SWAPS_MAX = 8, CAP_SYS_NICE = 23 };

char *muster_doctor_room(const struct muster_doctor *doctor)
{
    return muster_arena_array(doctor->memory, 1, FILE_MAX);
}

bool muster_doctor_read_file(const char *path, char *text)
{
    size_t used = 0;
    if (!text)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    text[0] = '\0';
    if (fd < 0)
        return false;
    ssize_t n;
    while (used < FILE_MAX - 1 && (n = read(fd, text + used, FILE_MAX - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(fd);
    return used > 0;
}

bool muster_doctor_read_proc(const struct muster_doctor *doctor, const char *below, char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", doctor->procfs, below);
    return muster_doctor_read_file(path, text);
}

static bool is_network_disk(const struct muster_doctor *doctor, const char *file)
{
    static const char *const names[] = {"/dev/nbd", "/dev/rbd", "/dev/drbd"};
    char link[PATH_MAX], path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(file, names[i], strlen(names[i])) == 0)
            return true;
    const char *slash = strrchr(file, '/');
    snprintf(path, sizeof path, "%s/class/block/%s", doctor->sysfs, slash ? slash + 1 : file);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0)
        return false;
    link[n] = '\0';
    return strstr(link, "/session") != NULL; /* iSCSI */
}

static void check_swap(struct muster_doctor *doctor, char *text, char *mounts)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "host.swap", "F12");
    struct muster_swap swap[SWAPS_MAX];
    char type[64], size[32];
    muster_check_expected(check, "no swap on a network device");
    if (!muster_doctor_read_proc(doctor, "swaps", text)) {
        muster_check_unchecked(check, "%s/swaps cannot be read", doctor->procfs);
        return;
    }
    int n = muster_proc_swaps(text, swap, SWAPS_MAX);
    muster_check_found(check, n ? "%d swap areas" : "no swap", n);
    muster_doctor_read_proc(doctor, "mounts", mounts);
    for (int i = 0; i < n; i++) {
        bool file = strncmp(swap[i].file, "/dev/", 5) != 0;
        bool network = file ? muster_proc_mount_type(mounts, swap[i].file, type, sizeof type) &&
                                  muster_proc_is_network(type)
                            : is_network_disk(doctor, swap[i].file);
        muster_text_bytes(size, sizeof size, swap[i].used_kib * 1024);
        muster_check_evidence(check, "%s%s, %s in use", swap[i].file,
                              network ? " is on the network" : "", size);
        if (network) {
            muster_check_worse(check, MUSTER_CHECK_PROBLEM);
            muster_check_found(check, "swap on a network device");
            muster_check_advice(check, "swap on local storage or not at all: ranks stall in it for "
                                       "minutes");
        } else if (swap[i].used_kib > 4u << 20) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_advice(check, "much is swapped out already: the host is short of memory");
        }
    }
}

static void check_memory(struct muster_doctor *doctor, char *text)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "host.memory", "F11,F12");
    char total[32], left[32];
    muster_check_expected(check, "a tenth of the memory available");
    if (!muster_doctor_read_proc(doctor, "meminfo", text) ||
        muster_proc_field(text, "MemTotal", 10) <= 0) {
        muster_check_unchecked(check, "%s/meminfo cannot be read", doctor->procfs);
        return;
    }
    long long all = muster_proc_field(text, "MemTotal", 10);
    long long available = muster_proc_field(text, "MemAvailable", 10);
    muster_text_bytes(total, sizeof total, (uint64_t)all * 1024);
    muster_check_found(check, "enough memory is available");
    muster_text_bytes(left, sizeof left, available > 0 ? (uint64_t)available * 1024 : 0);
    muster_check_evidence(check, "%s of %s available", left, total);
    if (available >= 0 && available < all / 10) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_found(check, "less than a tenth of the memory is available");
        muster_check_advice(check, "end what uses it, or expect ranks to be killed or to swap");
    }
}

static void check_pressure(struct muster_doctor *doctor, char *text)
{
    static const char *const kinds[] = {"memory", "io", "cpu"};
    struct muster_check *check = muster_check_begin(doctor->checks, "host.pressure", "F12,F33");
    int seen = 0;
    char path[64];
    muster_check_expected(check, "nothing stalls before the job starts");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(path, sizeof path, "pressure/%s", kinds[i]);
        double full = muster_doctor_read_proc(doctor, path, text) ? muster_proc_pressure(text) : -1;
        seen += full >= 0;
        if (full < 10)
            continue;
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_evidence(check, "%s: everything stalled %.0f %% of the last minute", kinds[i],
                              full);
        muster_check_advice(check, "find what loads this host");
    }
    if (!seen)
        muster_check_unchecked(check, "this kernel tells no pressure");
    else
        muster_check_found(check, check->evidences ? "under pressure" : "no pressure");
}

static void check_identity(struct muster_doctor *doctor)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "host.identity", "F28,F67");
    const char *given = muster_env("NCCL_HOSTID");
    char link[128], boot[64];
    struct stat shm;
    static const char *const namespaces[] = {"ipc", "mnt", "pid", "net"};
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[i]);
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n > 0)
            muster_check_evidence(check, "namespace %.*s", (int)n, link);
    }
    if (stat("/dev/shm", &shm) == 0)
        muster_check_evidence(check, "/dev/shm is device %llx", (unsigned long long)shm.st_dev);
    if (muster_sysfs_line(doctor->procfs, boot, sizeof boot, "sys/kernel/random/boot_id"))
        muster_check_evidence(check, "boot id %s", boot);
    muster_check_found(check, given ? "NCCL_HOSTID is set" : "hostname and boot id");
    muster_check_expected(check,
                          "ranks of one host share /dev/shm; hosts differ in name or boot id");
    if (given) {
        muster_check_evidence(check, "NCCL_HOSTID=%.100s", given);
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "NCCL_HOSTID equal on two hosts makes NCCL try what cannot work "
                                   "between them");
    }
}

bool muster_doctor_may_not_bind(const struct muster_doctor *doctor, char *text)
{
    enum muster_container kind = muster_doctor_container_kind(doctor);
    if (kind == MUSTER_CONTAINER_NONE || kind == MUSTER_CONTAINER_ENROOT ||
        kind == MUSTER_CONTAINER_APPTAINER || /* pyxis' filter is of other calls */
        !muster_doctor_read_proc(doctor, "self/status", text))
        return false;
    long long caps = muster_proc_field(text, "CapEff", 16);
    return caps >= 0 && !(caps & 1ll << CAP_SYS_NICE) &&
           muster_proc_field(text, "Seccomp", 10) != 0;
}

/* NCCL binds cuMem's host memory to NUMA nodes. */
static bool binds_host_memory(const struct muster_doctor *doctor)
{
    int nccl = muster_doctor_version(doctor);
    const char *enable = muster_doctor_setting(doctor, "NCCL_CUMEM_HOST_ENABLE");
    return nccl >= 22400 && nccl < 22605 && !(enable && strcmp(enable, "0") == 0);
}

static void check_sys_nice(struct muster_doctor *doctor, char *text)
{
    struct muster_check *check = muster_check_begin(doctor->checks, "host.cumem", "F29");
    long long caps = muster_doctor_read_proc(doctor, "self/status", text)
                         ? muster_proc_field(text, "CapEff", 16)
                         : -1;
    muster_check_expected(check, "CAP_SYS_NICE for NCCL 2.24.0 to 2.26.4");
    muster_check_found(check, caps < 0                     ? "capabilities unknown"
                              : caps & 1ll << CAP_SYS_NICE ? "CAP_SYS_NICE"
                                                           : "no CAP_SYS_NICE");
    if (binds_host_memory(doctor) && muster_doctor_may_not_bind(doctor, text)) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check,
                            "docker, podman: --cap-add=SYS_NICE; Kubernetes: capability "
                            "SYS_NICE; or NCCL 2.26.5 and later, or NCCL_CUMEM_HOST_ENABLE=0");
    }
}

void muster_doctor_host(struct muster_doctor *doctor)
{
    char *text = muster_doctor_room(doctor), *mounts = muster_doctor_room(doctor);
    if (!text || !mounts)
        return;
    check_swap(doctor, text, mounts);
    check_memory(doctor, text);
    check_pressure(doctor, text);
    check_identity(doctor);
    check_sys_nice(doctor, text);
}
