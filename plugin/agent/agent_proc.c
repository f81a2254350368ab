#include "agent/agent_proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/text.h"

enum { PROC_PATH = 512, CGROUP_BYTES = 8192, ENVIRON_BYTES = 1 << 20 };

/* The terminated text of a file, at most size - 1 bytes; how many. */
static size_t slurp(const char *path, char *to, size_t size)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd >= 0 && n < size - 1) {
        ssize_t got = read(fd, to + n, size - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    to[n] = 0;
    return n;
}

static void take(char to[static MUSTER_AGENT_WORD], const char *from, size_t n)
{
    char word[MUSTER_AGENT_WORD];
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), from);
    muster_text_copy(to, MUSTER_AGENT_WORD, word);
}

/* What stands behind `key` in the path, up to its next part. */
static void after(const char *text, const char *key, char to[static MUSTER_AGENT_WORD])
{
    const char *at = strstr(text, key);
    if (at && !to[0])
        take(to, at + strlen(key), strcspn(at + strlen(key), "/\n"));
}

/* kubepods-besteffort-pod0a1b_2c.slice, or kubepods/besteffort/pod0a1b-2c. */
static void pod_of(const char *text, char to[static MUSTER_AGENT_WORD])
{
    for (const char *at = strstr(text, "kubepods"); at; at = strstr(at + 1, "pod")) {
        size_t n = strspn(at + strlen("pod"), "0123456789abcdef-_");
        if (n < 32)
            continue;
        take(to, at + strlen("pod"), n);
        for (char *c = to; *c; c++)
            *c = (char)(*c == '_' ? '-' : *c);
        return;
    }
}

void muster_agent_proc_cgroup(const char *text, struct muster_agent_proc *proc)
{
    if (strstr(text, "slurm")) {
        after(text, "/job_", proc->job_id);
        after(text, "/step_", proc->step_id);
    }
    pod_of(text, proc->pod_uid);
}

void muster_agent_proc_environ(const char *text, size_t bytes, struct muster_agent_proc *proc)
{
    const struct {
        const char *name;
        char *to;
    } wanted[] = {
        {"SLURM_JOB_ID=", proc->job_id}, {"SLURM_STEP_ID=", proc->step_id},
        {"PBS_JOBID=", proc->job_id},    {"LSB_JOBID=", proc->job_id},
        {"POD_NAME=", proc->pod},        {"POD_NAMESPACE=", proc->namespace},
        {"POD_UID=", proc->pod_uid},
    };
    for (size_t at = 0; at < bytes;) {
        const char *entry = text + at;
        size_t n = strnlen(entry, bytes - at);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
            size_t name = strlen(wanted[i].name);
            if (n > name && strncmp(entry, wanted[i].name, name) == 0 && !wanted[i].to[0])
                take(wanted[i].to, entry + name, n - name);
        }
        at += n + 1;
    }
}

static void read_environ(const char *root, uint32_t pid, struct muster_agent_proc *proc)
{
    char path[PROC_PATH];
    char *text = malloc(ENVIRON_BYTES);
    snprintf(path, sizeof path, "%s/%u/environ", root, pid);
    if (text)
        muster_agent_proc_environ(text, slurp(path, text, ENVIRON_BYTES), proc);
    free(text);
}

static void find_threads(const char *root, uint32_t pid, struct muster_agent_proc *proc)
{
    char path[PROC_PATH], name[32];
    snprintf(path, sizeof path, "%s/%u/task", root, pid);
    DIR *tasks = opendir(path);
    struct dirent *entry;
    uint64_t tid;
    while (tasks && proc->tids < MUSTER_AGENT_THREADS && (entry = readdir(tasks))) {
        if (!muster_text_u64(entry->d_name, &tid))
            continue;
        snprintf(path, sizeof path, "%s/%u/task/%llu/comm", root, pid, (unsigned long long)tid);
        slurp(path, name, sizeof name);
        if (strncmp(name, "muster-", strlen("muster-")) == 0)
            proc->tid[proc->tids++] = (uint32_t)tid;
    }
    if (tasks)
        closedir(tasks);
}

void muster_agent_proc_cpu(const char *root, uint32_t pid, struct muster_agent_proc *proc)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < proc->tids; i++) {
        char path[PROC_PATH], text[96];
        snprintf(path, sizeof path, "%s/%u/task/%u/schedstat", root, pid, proc->tid[i]);
        if (slurp(path, text, sizeof text))
            sum += strtoull(text, NULL, 10);
    }
    if (sum > proc->cpu_ns)
        proc->cpu_ns = sum;
}

void muster_agent_proc_read(const char *root, uint32_t pid, uint64_t start_ticks,
                            struct muster_agent_proc *proc)
{
    char path[PROC_PATH], text[CGROUP_BYTES];
    memset(proc, 0, sizeof *proc);
    snprintf(path, sizeof path, "%s/%u/stat", root, pid);
    if (!slurp(path, text, sizeof text) || muster_stat_start_ticks(text) != start_ticks)
        return;
    snprintf(path, sizeof path, "%s/%u/cgroup", root, pid);
    slurp(path, text, sizeof text);
    muster_agent_proc_cgroup(text, proc);
    read_environ(root, pid, proc);
    find_threads(root, pid, proc);
    muster_agent_proc_cpu(root, pid, proc);
}
