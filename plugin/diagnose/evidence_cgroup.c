/* Cgroups: the unified hierarchy (v2), or the controllers' own (v1). */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diagnose/evidence_read.h"

enum { TEXT = MUSTER_EVIDENCE_TEXT, PATH = MUSTER_EVIDENCE_PATH };

bool muster_evidence_slurp(char text[MUSTER_EVIDENCE_TEXT], const char *fmt, ...)
{
    char path[MUSTER_EVIDENCE_PATH];
    va_list args;
    va_start(args, fmt);
    vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, text, MUSTER_EVIDENCE_TEXT - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

uint64_t muster_evidence_number(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == '\t' || line[n] == ':'))
            return strtoull(line + n + 1, NULL, 10);
    }
    return MUSTER_EVIDENCE_NONE;
}

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
    if (!muster_evidence_slurp(text, "%s/%" PRIu32 "/cgroup", roots->proc, pid))
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
    if (muster_evidence_slurp(text, "%s/fs/cgroup%s/cpu.stat", roots->sys, group)) {
        evidence->throttled = muster_evidence_number(text, "nr_throttled");
        evidence->throttled_us = muster_evidence_number(text, "throttled_usec");
        /* The root one, and one without the controller, cannot be throttled and do not say so. */
        if (evidence->throttled_us == MUSTER_EVIDENCE_NONE && strstr(text, "usage_usec"))
            evidence->throttled = evidence->throttled_us = 0;
    }
    uint64_t quota, period;
    if (muster_evidence_slurp(text, "%s/fs/cgroup%s/cpu.max", roots->sys, group) &&
        sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) == 2 && period > 0)
        evidence->quota_percent = quota * 100 / period;
    if (muster_evidence_slurp(text, "%s/fs/cgroup%s/memory.events", roots->sys, group)) {
        evidence->memory_limited = muster_evidence_number(text, "max");
        evidence->oom_kills = muster_evidence_number(text, "oom_kill");
    }
}

/* A file of a v1 cgroup. In a container its path may be the host's, while what is mounted is the
 * container's own group. */
static bool slurp_v1(const struct muster_evidence_roots *roots, const char *mount,
                     const char *group, const char *name, char text[TEXT])
{
    return muster_evidence_slurp(text, "%s/fs/cgroup/%s%s/%s", roots->sys, mount, group, name) ||
           muster_evidence_slurp(text, "%s/fs/cgroup/%s/%s", roots->sys, mount, name);
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
    evidence->throttled = muster_evidence_number(text, "nr_throttled");
    uint64_t ns = muster_evidence_number(text, "throttled_time");
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
        evidence->oom_kills = muster_evidence_number(text, "oom_kill");
    if (slurp_v1(roots, "memory", group, "memory.failcnt", text))
        evidence->memory_limited = strtoull(text, NULL, 10);
}

void muster_evidence_cgroup(const struct muster_evidence_roots *roots, uint32_t pid,
                            struct muster_evidence *evidence)
{
    read_unified(roots, pid, evidence);
    if (evidence->throttled_us == MUSTER_EVIDENCE_NONE)
        read_cpu_v1(roots, pid, evidence);
    if (evidence->oom_kills == MUSTER_EVIDENCE_NONE)
        read_memory_v1(roots, pid, evidence);
}
