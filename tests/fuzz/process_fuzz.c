/*
 * A recorded process of another user, as the agent reads it, which may be root: the input between
 * bytes of 255 is the content of the files below, in that order. What comes of it are labels that a
 * terminal may be given, and processor time that never falls.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_proc.h"
#include "file_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PID = 42, START = 7, SCHEDSTAT = 3 };

static const char *const files[] = {"42/cgroup", "42/environ", "42/task/42/comm",
                                    "42/task/42/schedstat", "42/stat"};
enum { FILES = sizeof files / sizeof *files, STAT = FILES - 1 };
static const char stat_of_one[] = "42 (python) S" /* and the fields up to its start */
                                  " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 7 0\n";

static char root[64];
static int fd[FILES];

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void put(const void *data, size_t size, int file)
{
    require(pwrite(fd[file], data, size, 0) == (ssize_t)size && !ftruncate(fd[file], (off_t)size));
}

static void put_all(const uint8_t *data, size_t size)
{
    for (int i = 0; i < FILES; i++) {
        const uint8_t *end = size ? memchr(data, 0xff, size) : NULL;
        size_t n = end ? (size_t)(end - data) : size;
        put(data, n, i);
        if (i == STAT && n == 0)
            put(stat_of_one, strlen(stat_of_one), STAT);
        data += n + (end != NULL);
        size -= n + (end != NULL);
    }
}

static void check_word(const char word[static MUSTER_AGENT_WORD])
{
    require(memchr(word, 0, MUSTER_AGENT_WORD) != NULL);
    for (const char *at = word; *at; at++)
        require((unsigned char)*at >= ' ' && *at != 0x7f);
}

static void check(const struct muster_agent_proc *proc)
{
    check_word(proc->job_id);
    check_word(proc->step_id);
    check_word(proc->pod_uid);
    check_word(proc->pod);
    check_word(proc->namespace);
    require(proc->tids <= 1); /* the folder holds one */
}

/* With nothing behind its last byte. */
static void read_environ(const uint8_t *data, size_t size)
{
    struct muster_agent_proc proc = {.tids = 0};
    char *text = malloc(size ? size : 1);
    require(text);
    memcpy(text, data, size);
    muster_agent_proc_environ(text, size, &proc);
    free(text);
    check(&proc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_agent_proc proc;
    if (!root[0])
        file_tree_make(root, files, FILES, fd);
    put_all(data, size);
    muster_agent_proc_read(root, PID, START, &proc);
    check(&proc);
    uint64_t before = proc.cpu_ns;
    put(data, size < 64 ? size : 64, SCHEDSTAT);
    muster_agent_proc_cpu(root, PID, &proc);
    require(proc.cpu_ns >= before);
    read_environ(data, size);
    return 0;
}
