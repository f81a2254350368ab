#include "live_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "diagnose/finding_changes.h"
#include "diagnose/live/live_slow.h"
#include "live_job.h"

enum { HOSTS_MOST = 4 };
static const double TAKE_NS = 250e6;

/* The leader of one host. */
struct leader {
    struct live_run *run;
    struct muster_live_peers peers;
    struct live_process *of[JOB_HOST_GPUS]; /* of peer i */
    struct muster_live_run *refreshed;
    struct muster_live_slow slow;
    struct muster_watch watch;
    char dir[64];
    double now_ns, length_ns;
};

static void open_process(struct leader *leader, struct live_process *process, unsigned rank)
{
    if (!process->segment)
        return;
    size_t i = leader->peers.n++;
    struct muster_live_peer *peer = &leader->peers.peer[i];
    leader->of[i] = process;
    live_process_open(process, leader->dir, rank);
    memcpy(peer->path, process->path, sizeof process->path);
    peer->identity = process->segment->identity;
    peer->alive = peer->awake = true;
}

static void open_host(struct leader *leader, struct live_job *live, unsigned host)
{
    live_job_directory(leader->dir, sizeof leader->dir);
    leader->peers.peer = calloc(JOB_HOST_GPUS, sizeof *leader->peers.peer);
    leader->refreshed = muster_live_run_new();
    if (!leader->refreshed || !leader->peers.peer)
        exit(2);
    for (unsigned r = host * JOB_HOST_GPUS; r < (host + 1) * JOB_HOST_GPUS; r++)
        open_process(leader, &live->process[r], r);
}

static void close_host(struct leader *leader)
{
    for (size_t i = 0; i < leader->peers.n; i++)
        live_process_close(leader->of[i]);
    rmdir(leader->dir);
    muster_watch_free(&leader->watch);
    muster_live_run_free(leader->refreshed);
    free(leader->peers.peer);
}

static void emit(void *arg, const struct muster_finding *finding)
{
    const struct leader *leader = arg;
    live_run_note(leader->run, finding, (leader->now_ns - LIVE_BEGIN_NS) / 1e9);
}

static void take(struct leader *leader)
{
    for (bool all = false; !all;) {
        all = true;
        for (size_t i = 0; i < leader->peers.n; i++)
            all &= live_process_show(leader->of[i], leader->now_ns);
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
        live_process_show_nets(leader->of[i], (leader->now_ns - LIVE_BEGIN_NS) / leader->length_ns);
    if (!muster_live_slow_evaluate(&leader->slow, leader->refreshed, &leader->peers, now_ns, &now,
                                   NULL, NULL))
        exit(2);
    muster_watch_window(&leader->watch, leader->slow.windows.since_unix_ns);
    muster_watch_slow(&leader->watch, &now, false, emit, leader);
    muster_findings_free(&now);
}

static void play_host(struct live_job *live, unsigned host, double length_ns, struct live_run *run)
{
    struct leader leader = {.run = run, .length_ns = length_ns, .now_ns = LIVE_BEGIN_NS};
    open_host(&leader, live, host);
    uint64_t begin = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (double look_ns = leader.now_ns + 1e9; leader.now_ns < length_ns + 2e9;) {
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
    struct live_job *live = live_job_new(job, recorded);
    bool played[JOB_RANKS_MAX / JOB_HOST_GPUS] = {false};
    for (unsigned f = 0; f < job->faults; f++)
        play_once(live, culprit_host(&job->fault[f]), played, recorded->run_ns, run);
    for (unsigned h = 0; h < job->ranks / JOB_HOST_GPUS && run->hosts < HOSTS_MOST; h++)
        play_once(live, h, played, recorded->run_ns, run);
    live_job_free(live);
}
