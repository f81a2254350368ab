/*
 * What the kernel says of a process, from hostile bytes: the input between zero bytes is the
 * content of the files below, in that order. Sentences that come of it are text that a terminal may
 * be given.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diagnose/evidence.h"
#include "diagnose/evidence_wait.h"
#include "file_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const files[] = {"42/status",
                                    "42/syscall",
                                    "42/net/tcp",
                                    "42/cgroup",
                                    "42/task/42/schedstat",
                                    "42/io",
                                    "42/wchan",
                                    "pressure/cpu",
                                    "vmstat",
                                    "fs/cgroup/cpu.max",
                                    "fs/cgroup/cpu.stat",
                                    "fs/cgroup/memory.events",
                                    "fs/cgroup/cpu/cpu.cfs_quota_us",
                                    "class/net/eth0/statistics/rx_dropped"};
enum { FILES = sizeof files / sizeof *files };

static char root[64];
static int fd[FILES];

static void make_root(void)
{
    char path[256];
    file_tree_make(root, files, FILES, fd);
    snprintf(path, sizeof path, "%s/42/fd", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/42/fd/3", root);
    if (symlink("socket:[12345]", path))
        abort();
    snprintf(path, sizeof path, "%s/42/fd/4", root);
    if (symlink("/data/\033[31m\xc2\x9bshard", path))
        abort();
}

static void put(const uint8_t *data, size_t size)
{
    for (int i = 0; i < FILES; i++) {
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t n = end ? (size_t)(end - data) : size;
        if (pwrite(fd[i], data, n, 0) != (ssize_t)n || ftruncate(fd[i], (off_t)n))
            abort();
        data += n + (end != NULL);
        size -= n + (end != NULL);
    }
}

static void check(const struct muster_finding_lines *lines)
{
    for (size_t i = 0; i < lines->n; i++)
        for (const char *at = lines->line[i]; *at; at++)
            if ((unsigned char)*at < ' ' || *at == 0x7f)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct muster_evidence_roots roots = {root, root};
    struct muster_evidence culprit[2] = {{.at_ns = 1}, {.at_ns = 2000000000}};
    struct muster_evidence others[1][2];
    struct muster_finding_lines lines = {.n = 0};
    if (!root[0])
        make_root();
    put(data, 0);
    muster_evidence_read(&roots, 42, &culprit[0]);
    memcpy(others[0], culprit, sizeof culprit);
    put(data, size);
    muster_evidence_read(&roots, 42, &culprit[1]);
    others[0][1] = culprit[0];
    muster_evidence_compare(culprit, (const struct muster_evidence(*)[2])others, 1, &lines);
    muster_evidence_absent(&roots, 42, 3, &lines);
    check(&lines);
    return 0;
}
