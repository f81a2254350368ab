#include "diagnose/evidence.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "diagnose/evidence_wait.h"

enum { TEXT = 4096, PATH = 1024, THREADS = 512, INTERFACES = 64 };

/* ---- small files ---- */

/* The beginning of one, terminated; false: not readable. */
__attribute__((format(printf, 2, 3))) static bool slurp(char text[TEXT], const char *fmt, ...)
{
    char path[PATH];
    va_list args;
    va_start(args, fmt);
    vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, text, TEXT - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The number behind `key` at the beginning of a line; MUSTER_EVIDENCE_NONE: there is no such line.
 */
static uint64_t number_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == '\t' || line[n] == ':'))
            return strtoull(line + n + 1, NULL, 10);
    }
    return MUSTER_EVIDENCE_NONE;
}

/* ---- cgroups: the unified hierarchy (v2), or the controllers' own (v1) ---- */

/* Whether `list`, names between commas, holds `name`. */
static bool holds(const char *list, size_t bytes, const char *name)
{
    size_t n = strlen(name);
    for (const char *end = list + bytes; list + n <= end; list++) {
        if (strncmp(list, name, n) == 0 && (list + n == end || list[n] == ','))
            return true;
        list += strcspn(list, ",:");
    }
    return false;
}

/* Its cgroup, "" for the root one: of the unified hierarchy (`controller` ""), or of the one that
 * has the controller. Lines are NUMBER:CONTROLLER,...:PATH. */
static bool cgroup_of(const struct muster_evidence_roots *roots, uint32_t pid,
                      const char *controller, char to[PATH])
{
    char text[TEXT];
    if (!slurp(text, "%s/%" PRIu32 "/cgroup", roots->proc, pid))
        return false;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || strstr(path, ".."))
            continue;
        size_t bytes = (size_t)(path - list - 1);
        if (*controller ? !holds(list + 1, bytes, controller) : bytes != 0)
            continue;
        path++;
        snprintf(to, PATH, "%s", strcmp(path, "/") == 0 ? "" : path);
        return true;
    }
    return false;
}

static void read_unified(const struct muster_evidence_roots *roots, uint32_t pid,
                         struct muster_evidence *evidence)
{
    char group[PATH], text[TEXT];
    if (!cgroup_of(roots, pid, "", group))
        return;
    if (slurp(text, "%s/fs/cgroup%s/cpu.stat", roots->sys, group)) {
        evidence->throttled = number_of(text, "nr_throttled");
        evidence->throttled_us = number_of(text, "throttled_usec");
        /* The root one, and one without the controller, cannot be throttled and do not report it.
         */
        if (evidence->throttled_us == MUSTER_EVIDENCE_NONE && strstr(text, "usage_usec"))
            evidence->throttled = evidence->throttled_us = 0;
    }
    uint64_t quota, period;
    if (slurp(text, "%s/fs/cgroup%s/cpu.max", roots->sys, group) &&
        sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) == 2 && period > 0)
        evidence->quota_percent = quota * 100 / period;
    if (slurp(text, "%s/fs/cgroup%s/memory.events", roots->sys, group)) {
        evidence->memory_limited = number_of(text, "max");
        evidence->oom_kills = number_of(text, "oom_kill");
    }
}

/* A file of a v1 cgroup. In a container its path may be the host's, while what is mounted is the
 * container's own group. */
static bool slurp_v1(const struct muster_evidence_roots *roots, const char *mount,
                     const char *group, const char *name, char text[TEXT])
{
    return slurp(text, "%s/fs/cgroup/%s%s/%s", roots->sys, mount, group, name) ||
           slurp(text, "%s/fs/cgroup/%s/%s", roots->sys, mount, name);
}

static bool slurp_cpu_v1(const struct muster_evidence_roots *roots, const char *group,
                         const char *name, char text[TEXT])
{
    return slurp_v1(roots, "cpu", group, name, text) ||
           slurp_v1(roots, "cpu,cpuacct", group, name, text);
}

static void read_cpu_v1(const struct muster_evidence_roots *roots, uint32_t pid,
                        struct muster_evidence *evidence)
{
    char group[PATH], text[TEXT];
    if (!cgroup_of(roots, pid, "cpu", group) || !slurp_cpu_v1(roots, group, "cpu.stat", text))
        return;
    evidence->throttled = number_of(text, "nr_throttled");
    uint64_t ns = number_of(text, "throttled_time");
    evidence->throttled_us = ns == MUSTER_EVIDENCE_NONE ? ns : ns / 1000;
    if (!slurp_cpu_v1(roots, group, "cpu.cfs_quota_us", text))
        return;
    long long quota = strtoll(text, NULL, 10); /* -1: no limit */
    uint64_t period =
        slurp_cpu_v1(roots, group, "cpu.cfs_period_us", text) ? strtoull(text, NULL, 10) : 0;
    if (quota > 0 && period > 0)
        evidence->quota_percent = (uint64_t)quota * 100 / period;
}

static void read_memory_v1(const struct muster_evidence_roots *roots, uint32_t pid,
                           struct muster_evidence *evidence)
{
    char group[PATH], text[TEXT];
    if (!cgroup_of(roots, pid, "memory", group))
        return;
    if (slurp_v1(roots, "memory", group, "memory.oom_control", text))
        evidence->oom_kills = number_of(text, "oom_kill");
    if (slurp_v1(roots, "memory", group, "memory.failcnt", text))
        evidence->memory_limited = strtoull(text, NULL, 10);
}

static void read_cgroup(const struct muster_evidence_roots *roots, uint32_t pid,
                        struct muster_evidence *evidence)
{
    read_unified(roots, pid, evidence);
    if (evidence->throttled_us == MUSTER_EVIDENCE_NONE)
        read_cpu_v1(roots, pid, evidence);
    if (evidence->oom_kills == MUSTER_EVIDENCE_NONE)
        read_memory_v1(roots, pid, evidence);
}

/* ---- of the process ---- */

static void read_threads(const struct muster_evidence_roots *roots, uint32_t pid,
                         struct muster_evidence *evidence)
{
    char path[PATH], text[TEXT];
    snprintf(path, sizeof path, "%s/%" PRIu32 "/task", roots->proc, pid);
    DIR *tasks = opendir(path);
    const struct dirent *task;
    for (int n = 0; tasks && n < THREADS && (task = readdir(tasks)); n++) {
        uint64_t run, wait;
        if (task->d_name[0] == '.' ||
            !slurp(text, "%s/%" PRIu32 "/task/%s/schedstat", roots->proc, pid, task->d_name) ||
            sscanf(text, "%" SCNu64 " %" SCNu64, &run, &wait) != 2)
            continue;
        if (evidence->run_ns == MUSTER_EVIDENCE_NONE)
            evidence->run_ns = evidence->wait_ns = 0;
        evidence->run_ns += run;
        evidence->wait_ns += wait;
    }
    if (tasks)
        closedir(tasks);
}

/* "0-3,8" is five. */
static uint64_t width_of(const char *list)
{
    uint64_t n = 0;
    while (*list >= '0' && *list <= '9') {
        char *end;
        uint64_t from = strtoull(list, &end, 10), to = from;
        if (*end == '-')
            to = strtoull(end + 1, &end, 10);
        n += to >= from ? to - from + 1 : 0;
        list = *end == ',' ? end + 1 : "";
    }
    return n;
}

/* What it moved from and to storage, and how long its main thread ran. */
static void read_work(const struct muster_evidence_roots *roots, uint32_t pid,
                      struct muster_evidence *evidence)
{
    char text[TEXT];
    if (slurp(text, "%s/%" PRIu32 "/io", roots->proc, pid)) {
        evidence->read_bytes = number_of(text, "read_bytes");
        evidence->written_bytes = number_of(text, "write_bytes");
    }
    if (slurp(text, "%s/%" PRIu32 "/task/%" PRIu32 "/schedstat", roots->proc, pid, pid))
        evidence->main_run_ns = strtoull(text, NULL, 10);
}

static void read_status(const struct muster_evidence_roots *roots, uint32_t pid,
                        struct muster_evidence *evidence)
{
    char text[TEXT];
    const char *at;
    if (slurp(text, "%s/%" PRIu32 "/status", roots->proc, pid)) {
        if ((at = strstr(text, "\nState:\t")))
            evidence->state = at[strlen("\nState:\t")];
        if ((at = strstr(text, "\nCpus_allowed_list:\t")))
            evidence->cpus = width_of(at + strlen("\nCpus_allowed_list:\t"));
    }
    if (slurp(text, "%s/%" PRIu32 "/wchan", roots->proc, pid) && strcmp(text, "0") != 0)
        muster_text_copy(evidence->wchan, sizeof evidence->wchan, text);
}

/* ---- of the host ---- */

static void read_host(const struct muster_evidence_roots *roots, struct muster_evidence *evidence)
{
    static const char *const kind[] = {"cpu", "memory", "io"};
    char text[TEXT];
    for (int i = 0; i < 3; i++) {
        const char *at =
            slurp(text, "%s/pressure/%s", roots->proc, kind[i]) ? strstr(text, "total=") : NULL;
        if (at && strncmp(text, "some", 4) == 0)
            evidence->stall_us[i] = strtoull(at + strlen("total="), NULL, 10);
    }
    /* The file is longer than what is read of other files. */
    char path[PATH], line[128];
    snprintf(path, sizeof path, "%s/vmstat", roots->proc);
    FILE *vmstat = fopen(path, "re");
    while (vmstat && fgets(line, sizeof line, vmstat))
        if (strncmp(line, "pswpin ", 7) == 0)
            evidence->swapped_in = strtoull(line + 7, NULL, 10);
    if (vmstat)
        fclose(vmstat);
}

static void add_counter(const struct muster_evidence_roots *roots, const char *interface,
                        const char *name, uint64_t *sum)
{
    char text[TEXT];
    if (!slurp(text, "%s/class/net/%s/statistics/%s", roots->sys, interface, name))
        return;
    *sum = (*sum == MUSTER_EVIDENCE_NONE ? 0 : *sum) + strtoull(text, NULL, 10);
}

static void read_network(const struct muster_evidence_roots *roots,
                         struct muster_evidence *evidence)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/class/net", roots->sys);
    DIR *interfaces = opendir(path);
    const struct dirent *entry;
    for (int n = 0; interfaces && n < INTERFACES && (entry = readdir(interfaces)); n++) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "lo") == 0)
            continue;
        add_counter(roots, entry->d_name, "rx_dropped", &evidence->net_drops);
        add_counter(roots, entry->d_name, "tx_dropped", &evidence->net_drops);
    }
    if (interfaces)
        closedir(interfaces);
}

void muster_evidence_read(const struct muster_evidence_roots *roots, uint32_t pid,
                          struct muster_evidence *evidence)
{
    uint64_t at_ns = evidence->at_ns;
    memset(evidence, 0xff, sizeof *evidence); /* MUSTER_EVIDENCE_NONE everywhere */
    evidence->at_ns = at_ns;
    evidence->state = 0;
    evidence->wchan[0] = '\0';
    read_cgroup(roots, pid, evidence);
    read_threads(roots, pid, evidence);
    read_status(roots, pid, evidence);
    read_work(roots, pid, evidence);
    read_host(roots, evidence);
    read_network(roots, evidence);
}

/* ---- what changed ---- */

static uint64_t grown(uint64_t before, uint64_t after)
{
    bool known = before != MUSTER_EVIDENCE_NONE && after != MUSTER_EVIDENCE_NONE;
    return known && after > before ? after - before : 0;
}

#define FIELD(evidence, offset)                                                                    \
    (*(const uint64_t *)(const void *)((const char *)(evidence) + (offset)))

/* By how much it grew for the culprit, if that is at least `least` and four times what it grew
 * for any other in as long a time; else 0. */
static uint64_t stands_out(const struct muster_evidence culprit[2],
                           const struct muster_evidence (*others)[2], unsigned n, size_t offset,
                           uint64_t least)
{
    uint64_t mine = grown(FIELD(&culprit[0], offset), FIELD(&culprit[1], offset));
    double lasted = (double)grown(culprit[0].at_ns, culprit[1].at_ns);
    if (mine < least)
        return 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t other = grown(FIELD(&others[i][0], offset), FIELD(&others[i][1], offset));
        uint64_t passed = grown(others[i][0].at_ns, others[i][1].at_ns);
        double in_that = passed > 0 ? (double)other * lasted / (double)passed : (double)other;
        if (4 * in_that >= (double)mine)
            return 0;
    }
    return mine;
}

static void compare_cpu(const struct muster_evidence culprit[2],
                        const struct muster_evidence (*others)[2], unsigned n,
                        struct muster_finding_lines *lines)
{
    double s = (double)(culprit[1].at_ns - culprit[0].at_ns) / 1e9;
    uint64_t grew =
        stands_out(culprit, others, n, offsetof(struct muster_evidence, throttled_us), 10000);
    if (grew && culprit[1].quota_percent != MUSTER_EVIDENCE_NONE)
        muster_finding_line(lines,
                            "its cgroup throttled it for %.2f s of %.0f s (quota: %.2f CPUs), the "
                            "others not",
                            (double)grew / 1e6, s, (double)culprit[1].quota_percent / 100);
    grew = stands_out(culprit, others, n, offsetof(struct muster_evidence, wait_ns), 50000000);
    if (grew)
        muster_finding_line(lines,
                            "its threads were ready and had no CPU for %.2f s of %.0f s, the "
                            "others' not",
                            (double)grew / 1e9, s);
    uint64_t least = MUSTER_EVIDENCE_NONE;
    for (unsigned i = 0; i < n; i++)
        least = others[i][1].cpus < least ? others[i][1].cpus : least;
    if (n > 0 && least != MUSTER_EVIDENCE_NONE && culprit[1].cpus < least)
        muster_finding_line(lines, "it may use %" PRIu64 " CPUs, the others at least %" PRIu64,
                            culprit[1].cpus, least);
}

/* What it does instead. */
static void compare_work(const struct muster_evidence culprit[2],
                         const struct muster_evidence (*others)[2], unsigned n,
                         struct muster_finding_lines *lines)
{
    static const uint64_t much = 64 << 20;
    double s = (double)(culprit[1].at_ns - culprit[0].at_ns) / 1e9;
    char size[32];
    uint64_t grew =
        stands_out(culprit, others, n, offsetof(struct muster_evidence, main_run_ns), 1000000000);
    if (grew)
        muster_finding_line(lines,
                            "its main thread ran for %.1f s of %.0f s, the others' did not: it "
                            "computes on its host",
                            (double)grew / 1e9, s);
    grew = stands_out(culprit, others, n, offsetof(struct muster_evidence, read_bytes), much);
    if (grew) {
        muster_text_bytes(size, sizeof size, grew);
        muster_finding_line(lines, "it read %s from storage in %.0f s, the others did not", size,
                            s);
    }
    grew = stands_out(culprit, others, n, offsetof(struct muster_evidence, written_bytes), much);
    if (grew) {
        muster_text_bytes(size, sizeof size, grew);
        muster_finding_line(lines, "it wrote %s to storage in %.0f s, the others did not", size, s);
    }
}

void muster_evidence_compare(const struct muster_evidence culprit[2],
                             const struct muster_evidence (*others)[2], unsigned n,
                             struct muster_finding_lines *lines)
{
    compare_cpu(culprit, others, n, lines);
    compare_work(culprit, others, n, lines);
    uint64_t grew = stands_out(culprit, others, n, offsetof(struct muster_evidence, oom_kills), 1);
    if (grew)
        muster_finding_line(lines, "its cgroup ran out of memory: %" PRIu64 " processes killed",
                            grew);
    grew = stands_out(culprit, others, n, offsetof(struct muster_evidence, memory_limited), 1);
    if (grew)
        muster_finding_line(lines, "its cgroup met its memory limit %" PRIu64 " times", grew);
    if (culprit[1].state == 'D')
        muster_finding_line(lines, "it sleeps uninterruptibly (state D) in %s",
                            culprit[1].wchan[0] ? culprit[1].wchan : "the kernel");
    /* The host's counters are the same for all its ranks: they hint, they accuse nobody. */
    static const char *const kind[] = {"CPU", "memory", "I/O"};
    uint64_t us = grown(culprit[0].at_ns, culprit[1].at_ns) / 1000;
    for (int i = 0; i < 3; i++) {
        uint64_t stall = grown(culprit[0].stall_us[i], culprit[1].stall_us[i]);
        if (us > 0 && stall > us / 10)
            muster_finding_line(lines, "its host: tasks waited for %s %.0f %% of the time (PSI)",
                                kind[i], 100.0 * (double)stall / (double)us);
    }
    if ((grew = grown(culprit[0].swapped_in, culprit[1].swapped_in)) > 0)
        muster_finding_line(lines, "its host: %" PRIu64 " pages swapped in", grew);
    if ((grew = grown(culprit[0].net_drops, culprit[1].net_drops)) > 0)
        muster_finding_line(lines, "its host: %" PRIu64 " packets dropped", grew);
}

void muster_evidence_gone(const struct muster_evidence *before, const struct muster_evidence *now,
                          int32_t living, struct muster_finding_lines *lines)
{
    uint64_t kills = grown(before ? before->oom_kills : 0, now->oom_kills);
    if (kills == 0)
        return;
    muster_finding_line(lines, "the OOM killer ended %" PRIu64 " %s of rank %" PRId32 "'s cgroup%s",
                        kills, kills == 1 ? "process" : "processes", living,
                        before ? " meanwhile" : " so far, perhaps earlier");
}

void muster_evidence_absent(const struct muster_evidence_roots *roots, uint32_t pid, int32_t rank,
                            struct muster_finding_lines *lines)
{
    struct muster_evidence now = {0};
    char text[TEXT], call[48] = "";
    muster_evidence_read(roots, pid, &now);
    if (now.state == 0)
        return;
    if (slurp(text, "%s/%" PRIu32 "/syscall", roots->proc, pid) && text[0] >= '0' && text[0] <= '9')
        snprintf(call, sizeof call, ", system call %lu", strtoul(text, NULL, 10));
    muster_finding_line(lines, "rank %" PRId32 "'s main thread: state %c%s%s%s", rank, now.state,
                        now.wchan[0] ? ", waits in " : "", now.wchan, call);
    muster_wait_describe(roots, pid, rank, lines);
    if (now.state == 'T' || now.state == 't')
        muster_finding_line(
            lines, "rank %" PRId32 " is stopped: kill -CONT %" PRIu32 " lets it go on", rank, pid);
    muster_finding_line(lines,
                        "its stack: py-spy dump --pid %" PRIu32 ", or gdb -p %" PRIu32
                        " -batch -ex 'thread apply all bt'",
                        pid, pid);
}
