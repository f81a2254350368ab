/* What the kernel said about GPUs, memory and DMA since it started. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

enum { RECORDS_MAX = 100000 };

struct findings {
    struct muster_check *xid, *oom, *dma;
    int xids, killed, faults;
};

/* Xid 45 follows other errors: it names no culprit. */
static void take_line(struct findings *to, const char *line)
{
    static const char *const faults[] = {"DMAR: [DMA", "IO_PAGE_FAULT", "arm-smmu"};
    const char *xid = strstr(line, "NVRM: Xid"), *killed = strstr(line, "Killed process");
    if (xid && !strstr(xid, "): 45,")) {
        muster_check_evidence(to->xid, "%.150s", xid);
        to->xids++;
    }
    if (killed) {
        muster_check_evidence(to->oom, "%s%.150s",
                              strstr(line, "emory cgroup") ? "in its cgroup: " : "", killed);
        to->killed++;
    }
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *fault = strstr(line, faults[i]);
        if (fault && (strstr(fault, "fault") || strstr(fault, "FAULT"))) {
            muster_check_evidence(to->dma, "%.150s", fault);
            to->faults++;
        }
    }
}

static void read_lines(struct findings *to, char *text)
{
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        take_line(to, line);
}

/* Each read is one record, its text behind the first ';'. */
static void read_records(struct findings *to, int fd, char *text)
{
    for (int i = 0; i < RECORDS_MAX; i++) {
        ssize_t n = read(fd, text, MUSTER_DOCTOR_FILE - 1);
        if (n < 0 && errno == EPIPE)
            continue;
        if (n <= 0)
            break;
        text[n] = '\0';
        text[strcspn(text, "\n")] = '\0';
        take_line(to, text);
    }
}

/* false: why gets the reason. */
static bool read_log(struct muster_doctor *doctor, struct findings *to, char *text,
                     const char **why)
{
    if (strcmp(doctor->procfs, "/proc") != 0) {
        *why = "none recorded";
        if (!muster_doctor_read_proc(doctor, "kmsg", text))
            return false;
        read_lines(to, text);
        return true;
    }
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        *why = strerror(errno);
        return false;
    }
    read_records(to, fd, text);
    close(fd);
    return true;
}

static void evaluate_xids(struct muster_check *check, int xids)
{
    muster_check_found(check, xids ? "%d Xid events since boot" : "no Xid event", xids);
    if (xids) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "drain the host and look at the GPUs named");
    }
}

/* Kills of this process' own cgroup; -1: unknown. */
static long long own_kills(const struct muster_doctor *doctor, char *text)
{
    char path[512] = "", file[PATH_MAX];
    if (muster_doctor_read_proc(doctor, "self/cgroup", text)) {
        const char *own = strstr(text, "0::");
        if (own)
            snprintf(path, sizeof path, "%.*s", (int)strcspn(own + 3, "\n"), own + 3);
    }
    const char *const folders[] = {path, ""};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(file, sizeof file, "%s/fs/cgroup%.500s/memory.events", doctor->sysfs, folders[i]);
        if (muster_doctor_read_file(file, text))
            return muster_proc_name(text, "oom_kill");
    }
    return -1;
}

static void evaluate_killed(struct muster_doctor *doctor, struct findings *of, char *text,
                            const char *no_log)
{
    long long own = own_kills(doctor, text);
    muster_check_expected(of->oom, "no process that the kernel killed for memory");
    if (own > 0)
        muster_check_evidence(of->oom, "memory.events: oom_kill %lld in this cgroup", own);
    if (own > 0 || of->killed) {
        muster_check_worse(of->oom, own > 0 ? MUSTER_CHECK_PROBLEM : MUSTER_CHECK_WARNING);
        muster_check_found(of->oom, "the kernel killed processes for want of memory");
        muster_check_advice(of->oom, "the ranks killed are gone and all others wait for them: "
                                     "raise the memory limit, or use less (data loaders, pinned "
                                     "memory, shared memory)");
    } else if (no_log && own < 0) {
        muster_check_unchecked(of->oom,
                               "the kernel log cannot be read here (%s): a missing kill "
                               "proves nothing",
                               no_log);
    } else {
        muster_check_found(of->oom, "no process killed");
    }
}

static void evaluate_faults(struct muster_check *check, int faults, const char *no_log)
{
    muster_check_expected(check, "no DMA that the IOMMU refused");
    muster_check_found(check, faults ? "the IOMMU refused DMA" : "no fault");
    if (faults) {
        muster_check_worse(check, MUSTER_CHECK_WARNING);
        muster_check_advice(check, "if the devices are GPUs or NICs: iommu=pt, or the IOMMU off");
    } else if (no_log) {
        muster_check_unchecked(check, "the kernel log cannot be read here (%s)", no_log);
    }
}

void muster_doctor_kernel_log(struct muster_doctor *doctor)
{
    char *text = muster_doctor_room(doctor);
    const char *why = NULL;
    if (!text)
        return;
    struct findings found = {
        .xid = muster_check_begin(doctor->checks, "host.kernel_log", "F51,F52"),
        .oom = muster_check_begin(doctor->checks, "host.oom", "F11"),
        .dma = muster_check_begin(doctor->checks, "host.dma_faults", "F43,F62"),
    };
    bool read = read_log(doctor, &found, text, &why);
    const char *no_log = read ? NULL : why;
    muster_check_expected(found.xid, "no Xid of an NVIDIA GPU but 45");
    if (read)
        evaluate_xids(found.xid, found.xids);
    else
        muster_check_unchecked(found.xid,
                               "the kernel log cannot be read here (%s): a missing Xid "
                               "proves nothing",
                               why);
    evaluate_killed(doctor, &found, text, no_log);
    evaluate_faults(found.dma, found.faults, no_log);
}
