#include "live_job.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/image.h"

enum { TAKEN_MOST = 600 /* operations between two looks at a ring of 1,024 */ };
static const double RETIRED_NS = 5e6; /* the drain thread comes by so often */

static void add_rank(void *arg, unsigned rank, const char *host, enum job_timing timing,
                     int64_t unix_ns)
{
    struct live_job *live = arg;
    struct live_process *process = &live->process[rank];
    struct muster_seg_identity who = {.pid = 1000 + rank,
                                      .start_ticks = 1,
                                      .rank = (int32_t)rank,
                                      .local_rank = (int32_t)(rank % JOB_HOST_GPUS),
                                      .world = (int32_t)live->job->ranks,
                                      .boot_hash = 1 + rank / JOB_HOST_GPUS,
                                      .begin_mono_ns = (uint64_t)LIVE_BEGIN_NS,
                                      .begin_unix_ns = (uint64_t)unix_ns + (uint64_t)LIVE_BEGIN_NS,
                                      .run_dir = "/scratch/verdicts"};
    who.timing = timing == TIMED_FULL   ? MUSTER_TIMING_FULL
                 : timing == TIMED_AUTO ? MUSTER_TIMING_AUTO
                                        : MUSTER_TIMING_LIGHT;
    process->unix_ns = (double)unix_ns;
    snprintf(who.host, sizeof who.host, "%s", host);
    process->segment = aligned_alloc(64, sizeof *process->segment);
    if (!process->segment)
        exit(2);
    memset(process->segment, 0, sizeof *process->segment);
    muster_segment_init(process->segment, &who);
}

static void add_member(void *arg, unsigned rank, enum job_group group, uint64_t comm,
                       unsigned local, unsigned n, unsigned hosts)
{
    struct live_process *process = &((struct live_job *)arg)->process[rank];
    uint32_t uid = 1;
    while (process->segment->comm[uid - 1].uid)
        uid++;
    struct muster_seg_comm *entry = &process->segment->comm[uid - 1];
    entry->uid = uid;
    entry->id = comm;
    entry->rank = (int32_t)local;
    entry->nranks = n;
    entry->nnodes = hosts;
    entry->gpu_index = (int32_t)(rank % JOB_HOST_GPUS);
    process->uid[group] = uid;
}

static void add_op(void *arg, unsigned rank, enum job_group group, const struct muster_op *op,
                   double over_ns)
{
    struct live_process *process = &((struct live_job *)arg)->process[rank];
    if (process->n == process->room) {
        process->room = process->room ? 2 * process->room : 1024;
        process->retired = realloc(process->retired, process->room * sizeof *process->retired);
        if (!process->retired)
            exit(2);
    }
    struct live_retired *retired = &process->retired[process->n++];
    *retired = (struct live_retired){*op, over_ns + RETIRED_NS};
    retired->op.comm = process->uid[group];
}

static void add_net(void *arg, unsigned rank, enum job_group group,
                    const struct muster_seg_net *net)
{
    struct live_process *process = &((struct live_job *)arg)->process[rank];
    if (process->nets == MUSTER_SEG_NETS)
        return;
    process->net[process->nets] = *net;
    process->net[process->nets++].comm = process->uid[group];
}

struct live_job *live_job_new(const struct job *job, struct recorded *recorded)
{
    struct live_job *live = calloc(1, sizeof *live);
    if (!live)
        exit(2);
    const struct recording_sink sink = {live, add_rank, add_member, add_op, add_net};
    live->job = job;
    recording_make(job, &sink, recorded);
    return live;
}

void live_job_free(struct live_job *live)
{
    for (unsigned r = 0; r < live->job->ranks; r++) {
        free(live->process[r].segment);
        free(live->process[r].retired);
    }
    free(live);
}

void live_job_directory(char *dir, size_t size)
{
    snprintf(dir, size, "/dev/shm/muster-verdicts-XXXXXX");
    if (mkdtemp(dir))
        return;
    perror("verdicts: /dev/shm");
    exit(2);
}

static void put(const struct live_process *process, const void *data, size_t bytes, size_t offset)
{
    if (pwrite(process->fd, data, bytes, (off_t)offset) != (ssize_t)bytes) {
        perror("verdicts: /dev/shm");
        exit(2);
    }
}

static int by_time(const void *left, const void *right)
{
    double a = ((const struct live_retired *)left)->at_ns;
    double b = ((const struct live_retired *)right)->at_ns;
    return a < b ? -1 : a > b;
}

void live_process_open(struct live_process *process, const char *dir, unsigned rank)
{
    snprintf(process->path, sizeof process->path, "%s/%u.seg", dir, rank);
    process->fd = open(process->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (process->fd < 0) {
        perror(process->path);
        exit(2);
    }
    put(process, process->segment, sizeof *process->segment, 0);
    qsort(process->retired, process->n, sizeof *process->retired, by_time);
    process->shown = 0;
}

void live_process_close(struct live_process *process)
{
    close(process->fd);
    unlink(process->path);
}

bool live_process_show(struct live_process *process, double now_ns)
{
    const size_t ring = offsetof(struct muster_segment, ring);
    struct muster_op op[TAKEN_MOST];
    size_t n = 0, first = process->shown % MUSTER_SEG_RING;
    while (process->shown < process->n && process->retired[process->shown].at_ns <= now_ns &&
           n < TAKEN_MOST)
        op[n++] = process->retired[process->shown++].op;
    if (n == 0)
        return true;
    size_t head_n = n < MUSTER_SEG_RING - first ? n : MUSTER_SEG_RING - first;
    put(process, op, head_n * sizeof *op, ring + first * sizeof *op);
    put(process, op + head_n, (n - head_n) * sizeof *op, ring);
    uint64_t head = process->shown;
    put(process, &head, sizeof head, offsetof(struct muster_segment, ring_head));
    return n < TAKEN_MOST;
}

void live_process_show_nets(const struct live_process *process, double share)
{
    for (unsigned i = 0; i < process->nets; i++) {
        struct muster_seg_net net = process->net[i];
        net.count = (uint64_t)((double)net.count * share);
        net.bytes = (uint64_t)((double)net.bytes * share);
        net.steps = (uint64_t)((double)net.steps * share);
        net.gpu_wait_ns = (uint64_t)((double)net.gpu_wait_ns * share);
        net.net_wait_ns = (uint64_t)((double)net.net_wait_ns * share);
        put(process, &net, sizeof net, offsetof(struct muster_segment, net) + i * sizeof net);
    }
}
