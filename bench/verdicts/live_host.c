#include "live_host.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "diagnose/finding_changes.h"
#include "diagnose/live/live_slow.h"
#include "segment/image.h"

enum {
    TAKEN_MOST = 600, /* operations between two looks at a ring of 1,024 */
    HOSTS_MOST = 4,
};
static const double RETIRED_NS = 5e6; /* the drain thread comes by so often */
static const double TAKE_NS = 250e6;

struct retired {
    struct muster_op op;
    double at_ns;
};

/* What one process writes. */
struct process {
    struct muster_segment *segment; /* NULL: not recorded */
    struct retired *retired;
    size_t n, room, shown;
    uint32_t uid[GROUPS];
    struct muster_seg_net net[MUSTER_SEG_NETS]; /* of the whole run */
    unsigned nets;
    int fd;
};

struct live_job {
    const struct job *job;
    struct process process[JOB_RANKS_MAX];
};

/* The leader of one host. */
struct leader {
    struct live_job *live;
    struct live_run *run;
    unsigned first, ranks;
    struct muster_live_peers peers;
    struct process *of[JOB_HOST_GPUS]; /* of peer i */
    struct muster_live_run *refreshed;
    struct muster_live_slow slow;
    struct muster_watch watch;
    char dir[64];
    double now_ns, length_ns;
};

static void *get(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    if (!memory) {
        fprintf(stderr, "verdicts: out of memory\n");
        exit(2);
    }
    return memory;
}

static void add_rank(void *arg, unsigned rank, const char *host, enum job_timing timing,
                     int64_t unix_ns)
{
    struct live_job *live = arg;
    struct process *process = &live->process[rank];
    struct muster_seg_identity who = {.pid = 1000 + rank,
                                      .rank = (int32_t)rank,
                                      .local_rank = (int32_t)(rank % JOB_HOST_GPUS),
                                      .world = (int32_t)live->job->ranks,
                                      .begin_mono_ns = 1000000000,
                                      .begin_unix_ns = (uint64_t)(unix_ns + 1000000000)};
    who.timing = timing == TIMED_FULL   ? MUSTER_TIMING_FULL
                 : timing == TIMED_AUTO ? MUSTER_TIMING_AUTO
                                        : MUSTER_TIMING_LIGHT;
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
    struct process *process = &((struct live_job *)arg)->process[rank];
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
    struct process *process = &((struct live_job *)arg)->process[rank];
    if (process->n == process->room) {
        process->room = process->room ? 2 * process->room : 1024;
        process->retired = realloc(process->retired, process->room * sizeof *process->retired);
        if (!process->retired)
            exit(2);
    }
    struct retired *retired = &process->retired[process->n++];
    *retired = (struct retired){*op, over_ns + RETIRED_NS};
    retired->op.comm = process->uid[group];
}

static void add_net(void *arg, unsigned rank, enum job_group group,
                    const struct muster_seg_net *net)
{
    struct process *process = &((struct live_job *)arg)->process[rank];
    if (process->nets == MUSTER_SEG_NETS)
        return;
    process->net[process->nets] = *net;
    process->net[process->nets++].comm = process->uid[group];
}

static int by_time(const void *left, const void *right)
{
    double a = ((const struct retired *)left)->at_ns, b = ((const struct retired *)right)->at_ns;
    return a < b ? -1 : a > b;
}

static void put(const struct process *process, const void *data, size_t bytes, size_t offset)
{
    if (pwrite(process->fd, data, bytes, (off_t)offset) != (ssize_t)bytes) {
        perror("verdicts: /dev/shm");
        exit(2);
    }
}

static void open_process(struct leader *leader, unsigned rank)
{
    struct process *process = &leader->live->process[rank];
    if (!process->segment)
        return;
    size_t i = leader->peers.n++;
    struct muster_live_peer *peer = &leader->peers.peer[i];
    leader->of[i] = process;
    snprintf(peer->path, sizeof peer->path, "%s/%u.seg", leader->dir, rank);
    peer->identity = process->segment->identity;
    peer->alive = peer->awake = true;
    process->fd = open(peer->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (process->fd < 0) {
        perror(peer->path);
        exit(2);
    }
    put(process, process->segment, sizeof *process->segment, 0);
    qsort(process->retired, process->n, sizeof *process->retired, by_time);
}

static void open_host(struct leader *leader)
{
    snprintf(leader->dir, sizeof leader->dir, "/dev/shm/muster-verdicts-XXXXXX");
    leader->peers.peer = get(JOB_HOST_GPUS, sizeof *leader->peers.peer);
    leader->refreshed = muster_live_run_new();
    if (!leader->refreshed || !mkdtemp(leader->dir)) {
        perror("verdicts: /dev/shm");
        exit(2);
    }
    for (unsigned r = leader->first; r < leader->first + leader->ranks; r++)
        open_process(leader, r);
}

static void close_host(struct leader *leader)
{
    for (size_t i = 0; i < leader->peers.n; i++) {
        close(leader->of[i]->fd);
        unlink(leader->peers.peer[i].path);
    }
    rmdir(leader->dir);
    muster_watch_free(&leader->watch);
    muster_live_run_free(leader->refreshed);
    free(leader->peers.peer);
}

/* What has retired until now goes into the ring, at most so much that none is overwritten unread.
 * False: there is more. */
static bool show(struct process *process, double now_ns)
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

/* Totals grow evenly. */
static void show_nets(const struct process *process, double share)
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

static void emit(void *arg, const struct muster_finding *finding)
{
    const struct leader *leader = arg;
    struct live_run *run = leader->run;
    for (size_t i = 0; i < run->n && finding->retracted; i++)
        run->emitted[i].retracted |= muster_watch_same(&run->emitted[i].finding, finding);
    if (finding->retracted || finding->resolved)
        return;
    if (run->n == run->room) {
        run->room = run->room ? 2 * run->room : 16;
        run->emitted = realloc(run->emitted, run->room * sizeof *run->emitted);
        if (!run->emitted)
            exit(2);
    }
    run->emitted[run->n++] = (struct live_emitted){*finding, leader->now_ns / 1e9 - 1, false};
}

static void take(struct leader *leader)
{
    for (bool all = false; !all;) {
        all = true;
        for (size_t i = 0; i < leader->peers.n; i++)
            all &= show(leader->of[i], leader->now_ns);
        muster_live_run_take(leader->refreshed, &leader->peers);
    }
}

static void look(struct leader *leader)
{
    struct muster_findings now = {0};
    uint64_t now_ns = (uint64_t)leader->now_ns;
    if (!muster_live_slow_due(&leader->slow, leader->refreshed, now_ns,
                              muster_watch_suspects(&leader->watch)))
        return;
    for (size_t i = 0; i < leader->peers.n; i++)
        show_nets(leader->of[i], (leader->now_ns - 1e9) / leader->length_ns);
    if (!muster_live_slow_evaluate(&leader->slow, leader->refreshed, &leader->peers, now_ns, &now,
                                   NULL, NULL))
        exit(2);
    muster_watch_window(&leader->watch, leader->slow.windows.since_unix_ns);
    muster_watch_slow(&leader->watch, &now, false, emit, leader);
    muster_findings_free(&now);
}

static void play_host(struct live_job *live, unsigned host, double length_ns, struct live_run *run)
{
    struct leader leader = {.live = live,
                            .run = run,
                            .first = host * JOB_HOST_GPUS,
                            .ranks = JOB_HOST_GPUS,
                            .length_ns = length_ns,
                            .now_ns = 1e9};
    open_host(&leader);
    uint64_t begin = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (double look_ns = 2e9; leader.now_ns < length_ns + 2e9;) {
        leader.now_ns += TAKE_NS;
        take(&leader);
        if (leader.now_ns >= look_ns) {
            look(&leader);
            look_ns += 1e9;
        }
    }
    run->busy_s += (double)(muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e9;
    run->looked_s += length_ns / 1e9;
    run->hosts++;
    close_host(&leader);
}

static unsigned culprit_host(const struct fault *fault)
{
    return fault->how == HOW_LINK ? fault->first : job_host(fault->first);
}

static void play_once(struct live_job *live, unsigned host, bool *played, double length_ns,
                      struct live_run *run)
{
    if (!played[host])
        play_host(live, host, length_ns, run);
    played[host] = true;
}

void live_play(const struct job *job, struct recorded *recorded, struct live_run *run)
{
    struct live_job *live = get(1, sizeof *live);
    const struct recording_sink sink = {live, add_rank, add_member, add_op, add_net};
    live->job = job;
    memset(run, 0, sizeof *run);
    recording_make(job, &sink, recorded);
    bool played[JOB_RANKS_MAX / JOB_HOST_GPUS] = {false};
    for (unsigned f = 0; f < job->faults; f++)
        play_once(live, culprit_host(&job->fault[f]), played, recorded->run_ns, run);
    for (unsigned h = 0; h < job->ranks / JOB_HOST_GPUS && run->hosts < HOSTS_MOST; h++)
        play_once(live, h, played, recorded->run_ns, run);
    for (unsigned r = 0; r < job->ranks; r++) {
        free(live->process[r].segment);
        free(live->process[r].retired);
    }
    free(live);
}

void live_free(struct live_run *run)
{
    free(run->emitted);
    *run = (struct live_run){0};
}
