/* What the kernel logged about GPUs, memory and DMA since it started. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/rules/job_log.h"
#include "doctor/rules/proc_text.h"
#include "topology/sysfs.h"

enum { RECORDS_MAX = 100000 };

struct findings {
    struct muster_check *xid, *oom, *dma, *faults_seen;
    const struct xid *worst;
    int xids, killed, faults;
};

/* What an Xid means: NVIDIA's own list of them, by what to do about it. */
struct xid {
    int number;
    const char *meaning, *advice;
    int rank; /* the greatest is reported first */
};

#define RESET "reset the GPU or reboot; where it comes back, replace it"
#define FIRMWARE                                                                                   \
    "reset the GPU or reboot, then the driver's newest release; where it comes back, replace it"
#define LINKS "reset the GPUs and switches; where it comes back: the bridge, the baseboard, the GPU"

static const struct xid xids[] = {
    {13, "a program's kernel went out of its memory", "the program's own fault: compute-sanitizer",
     1},
    {31, "a program's kernel used an address that is not mapped",
     "the program's own fault (compute-sanitizer), or a peer that ended first", 1},
    {43, "a program's own error ended its work on a GPU", "look at what that program said first",
     1},
    {48, "memory of a GPU lost two bits", RESET, 6},
    {62, "the GPU's own controller stopped", RESET, 5},
    {63, "a row of a GPU's memory is to be replaced", "reset the GPU when the job is over", 4},
    {64, "a row of a GPU's memory could not be replaced", "replace the GPU", 6},
    {74, "an NVLink failed", LINKS, 7},
    {79, "a GPU fell off the bus",
     "power, cooling and seating of that GPU; reboot, else replace it", 9},
    {92, "corrected memory errors come often", "watch it, or drain the host", 3},
    {94, "a program met memory that was lost", "start it again; reset the GPU when there is time",
     5},
    {95, "memory of a GPU is lost beyond the program that used it", RESET, 7},
    {119, "the GPU's system processor (GSP) did not answer",
     "reset the GPU and upgrade the driver; NVreg_EnableGpuFirmware=0 avoids it", 8},
    {120, "the GPU's system processor (GSP) failed", "reset the GPU and upgrade the driver", 8},
    {121, "the link between GPU and CPU had errors", LINKS, 4},
    {137, "a GPU used another one's memory that was gone",
     "the program's own fault, or a peer ended "
     "first",
     2},
    {140, "memory of a GPU lost bits that were not noticed at once", RESET, 6},
    {145, "an NVLink failed", LINKS, 7},
    {149, "an NVLink failed", LINKS, 7},
    {8, "a GPU stopped working on what it was given", RESET, 5},
    {32, "a GPU was given commands that it cannot read", RESET, 4},
    {38, "the driver's own firmware failed", FIRMWARE, 5},
    {46, "a GPU stopped working on what it was given", RESET, 5},
    {54, "a GPU has too little power: a cable is not connected", "the board's auxiliary power", 8},
    {61, "the GPU's own controller stopped", FIRMWARE, 5},
    {69, "a program gave a GPU a command that it has not", "the program's own fault, or its CUDA's",
     1},
    {109, "a GPU did not change from one program to another in time", FIRMWARE, 6},
    {110, "a GPU failed a check of its own security", RESET, 6},
    {136, "an NVLink could not be trained", LINKS, 7},
    {143, "a GPU could not be started", FIRMWARE, 8},
    {144, "an NVLink failed", LINKS, 7},
    {146, "an NVLink failed", LINKS, 7},
    {147, "an NVLink failed", LINKS, 7},
    {148, "an NVLink failed", LINKS, 7},
    {150, "an NVLink failed", LINKS, 7},
    {154, "the driver says what a GPU needs before it is used again",
     "do what the line names (a reset, a reboot, drained first): the Xid before it is the cause",
     3},
    {155, "an NVLink was switched off after errors", LINKS, 7},
    {156, "a part of a GPU is to be taken out of use", "reset the GPU when the job is over", 4},
    {157, "a part of a GPU could not be taken out of use", "replace the GPU", 6},
    {158, "a GPU did not answer for too long", RESET, 8},
    {160, "a channel of a GPU's memory is to be taken out of use",
     "reset the GPU when the job is over", 4},
    {161, "a channel of a GPU's memory could not be taken out of use", "replace the GPU", 6},
    {167, "a GPU's PCIe link did not answer",
     "power, cooling and seating of that GPU; reboot, else replace it", 9},
    {171, "memory of a GPU lost bits that cannot be corrected", RESET, 6},
    {172, "a cache of a GPU lost bits that cannot be corrected", RESET, 6},
    {173, "the link between GPU and CPU failed", LINKS, 8},
};

static const struct xid *find_xid(const char *text)
{
    const char *at = strstr(text, "): ");
    int number = at ? atoi(at + 3) : 0;
    for (size_t i = 0; i < sizeof xids / sizeof *xids; i++)
        if (xids[i].number == number)
            return &xids[i];
    return NULL;
}

/* Xid 45 follows other errors: it names no culprit. */
static void take_xid(struct findings *to, const char *text)
{
    const struct xid *xid = find_xid(text);
    if (strstr(text, "): 45,"))
        return;
    muster_check_evidence(to->xid, "%.150s%s%s", text, xid ? ": " : "", xid ? xid->meaning : "");
    to->xids++;
    if (xid && (!to->worst || xid->rank > to->worst->rank))
        to->worst = xid;
}

/* What else breaks a job, by the words that the kernel and its drivers have for it. */
static void take_fault(struct muster_check *check, const char *line)
{
    static const struct {
        const char *words, *found, *advice;
    } faults[] = {
        {"table full, dropping packet",
         "the table of tracked connections was full: connections were "
         "dropped",
         "raise net.netfilter.nf_conntrack_max"},
        {"severity=Uncorrected", "PCIe devices had errors that could not be corrected",
         "seating, riser and slot of that device; its firmware"},
        {"severity=Corrected", "PCIe devices have errors that are corrected again and again",
         "seating, riser and slot of that device; a link at a lower generation until then"},
        {"NETDEV WATCHDOG", "a network card stopped sending", "its firmware and driver; its cable"},
        {"Cable unplugged", "a network card's cable was unplugged", "plug it in, or replace it"},
        {"Bad or shorted cable", "a network card's cable is bad", "replace it"},
        {"High Temperature", "a network card's module is too hot", "cooling of that port"},
        {"device's health compromised", "a network card's firmware stopped",
         "reset or replace the card, "
         "and update its firmware"},
        {"Failed to process command",
         "a network card refused a command: it has no more room for it",
         "end processes of earlier jobs that hold it; fewer or larger registrations; its driver"},
        {"blocked for more than", "a process was stuck in the kernel for minutes",
         "what it waits for stands in the kernel log: storage, a driver"},
        {"soft lockup", "a CPU was stuck in the kernel", "the driver that the kernel log names"},
        {"Machine check events", "the processor or its memory had errors",
         "mcelog or rasdaemon tells "
         "which; drain the host"},
        {"RmInitAdapter failed", "the driver could not start a GPU",
         "reset or reseat that GPU; the "
         "driver's version; the BIOS (above 4G decoding, resizable BAR)"},
        {"API mismatch", "the driver's library is of another version than its module",
         "reload the module, or reboot"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (!strstr(line, faults[i].words))
            continue;
        muster_check_evidence(check, "%.150s", line);
        if (check->status == MUSTER_CHECK_OK) {
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_found(check, "%s", faults[i].found);
            muster_check_advice(check, "%s", faults[i].advice);
        }
    }
}

static void take_line(struct findings *to, const char *line)
{
    static const char *const faults[] = {"DMAR: [DMA", "IO_PAGE_FAULT", "arm-smmu"};
    const char *xid = strstr(line, "NVRM: Xid"), *killed = strstr(line, "Killed process");
    if (xid)
        take_xid(to, xid);
    take_fault(to->faults_seen, line);
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
    if (!muster_doctor_is_live(doctor)) {
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

/* Lines of the kernel's that stand in the job's log. */
static bool read_given(const struct muster_doctor *doctor, struct findings *to)
{
    for (int i = 0; doctor->log && i < doctor->log->kernels; i++)
        take_line(to, doctor->log->kernel[i]);
    return doctor->log && doctor->log->kernels > 0;
}

static void evaluate_xids(struct muster_check *check, const struct findings *of)
{
    if (of->xids == 0) {
        muster_check_found(check, "no Xid event");
        return;
    }
    muster_check_worse(check, MUSTER_CHECK_WARNING);
    if (of->worst && of->xids == 1)
        muster_check_found(check, "%s (Xid %d)", of->worst->meaning, of->worst->number);
    else if (of->worst)
        muster_check_found(check, "%s (Xid %d), of %d Xid events since boot", of->worst->meaning,
                           of->worst->number, of->xids);
    else
        muster_check_found(check, "%d Xid events since boot", of->xids);
    muster_check_advice(
        check, "%s", of->worst ? of->worst->advice : "drain the host and look at the GPUs named");
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
        .faults_seen = muster_check_begin(doctor->checks, "host.faults", "F25,F51,F54,F58"),
    };
    muster_check_expected(found.faults_seen, "no fault of PCIe, network cards, memory or drivers");
    muster_check_found(found.faults_seen, "no such fault");
    bool given = read_given(doctor, &found), read = read_log(doctor, &found, text, &why) || given;
    const char *no_log = read ? NULL : why;
    muster_check_expected(found.xid, "no Xid of an NVIDIA GPU but 45");
    if (read)
        evaluate_xids(found.xid, &found);
    else
        muster_check_unchecked(found.xid,
                               "the kernel log cannot be read here (%s): a missing Xid "
                               "proves nothing",
                               why);
    if (!read)
        muster_check_unchecked(found.faults_seen, "the kernel log cannot be read here (%s)", why);
    evaluate_killed(doctor, &found, text, no_log);
    evaluate_faults(found.dma, found.faults, no_log);
}
