#include "held_ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "mapped_ranks.h"

void held_fail(const char *what)
{
    perror(what);
    exit(2);
}

static struct muster_seg_identity identity_of(const struct held_ranks *held, unsigned rank)
{
    struct muster_seg_identity who = {.boot_hash = 7,
                                      .begin_mono_ns = muster_now_ns(),
                                      .begin_unix_ns = muster_unix_ns(),
                                      .start_ticks = muster_process_start_ticks(0),
                                      .pid = (uint32_t)getpid(),
                                      .uid = geteuid(),
                                      .rank = (int32_t)rank,
                                      .local_rank = (int32_t)rank,
                                      .world = (int32_t)held->ranks,
                                      .host = "node0"};
    struct muster_host host;
    muster_host_read(&host, NULL);
    if (held->here) {
        who.boot_hash = host.boot_hash;
        snprintf(who.host, sizeof who.host, "%s", host.id);
    }
    snprintf(who.run_dir, sizeof who.run_dir, "%s", held->shm);
    snprintf(who.file_stem, sizeof who.file_stem, "node0-%u", rank);
    return who;
}

void held_create(const struct held_ranks *held, unsigned rank, struct muster_segment_file *file)
{
    struct muster_seg_identity who = identity_of(held, rank);
    struct muster_err err;
    if (muster_segment_create(file, held->shm, &who, &err) != MUSTER_SEGMENT_OK || !file->shared)
        held_fail("segment");
    for (unsigned c = 0; c < held->comms; c++) {
        struct muster_seg_comm *comm = &file->map->comm[c];
        comm->uid = c + 1;
        comm->id = 0xabc + c;
        comm->rank = (int32_t)rank;
        comm->nranks = held->ranks;
        comm->nnodes = 1;
        comm->gpu_index = (int32_t)rank;
        comm->begin_ns = muster_now_ns();
    }
}

pid_t held_start(const struct held_ranks *held, unsigned rank, int ready)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct muster_segment_file file = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    held_create(held, rank, &file);
    if (write(ready, "", 1) != 1)
        _exit(2);
    for (;;)
        pause();
}

struct muster_op held_op(uint64_t number, unsigned rank)
{
    uint64_t end_us = 1000000 + number * 5000;
    return (struct muster_op){.number = number,
                              .enqueue_ns = end_us * 1000,
                              .begin_ns = (end_us - 40 - (number * 7 + rank * 3) % 5) * 1000,
                              .end_ns = end_us * 1000,
                              .count = 1ull << (10 + number % 5),
                              .comm = 1,
                              .peer = -1,
                              .func = MUSTER_FUNC_ALL_REDUCE,
                              .dtype = MUSTER_DTYPE_FLOAT32,
                              .source = MUSTER_SOURCE_GPU};
}

void held_map_all(struct held_ranks *held)
{
    if (!mapped_ranks(held->shm, held->segment, HELD_RANKS_MAX))
        held_fail(held->shm);
}

void held_end(const struct held_ranks *held)
{
    char command[128];
    for (unsigned r = 0; r < held->ranks; r++) {
        kill(held->pid[r], SIGKILL);
        waitpid(held->pid[r], NULL, 0);
    }
    snprintf(command, sizeof command, "rm -rf %s", held->shm);
    if (system(command) != 0)
        held_fail(held->shm);
}
