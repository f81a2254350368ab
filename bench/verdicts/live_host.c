#include "live_host.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "live_job.h"
#include "live_leader.h"

enum { HOSTS_MOST = 4 };
static const double TAKE_NS = 250e6, LOOK_NS = 1e9;

/* One host. */
struct host {
    struct live_run *run;
    struct live_process *of[JOB_HOST_GPUS];
    size_t n;
    struct live_leader leader;
    double now_ns;
};

static void emit(void *arg, const struct muster_finding *finding)
{
    const struct host *host = arg;
    live_run_note(host->run, finding, (host->now_ns - LIVE_BEGIN_NS) / 1e9);
}

static void take(struct host *host)
{
    for (bool all = false; !all;) {
        all = true;
        for (size_t i = 0; i < host->n; i++)
            all &= live_process_show(host->of[i], host->now_ns);
        live_leader_take(&host->leader);
    }
}

static void look(struct host *host, double length_ns)
{
    for (size_t i = 0; i < host->n; i++)
        live_process_show_nets(host->of[i], (host->now_ns - LIVE_BEGIN_NS) / length_ns);
    live_leader_look(&host->leader, host->now_ns, false, emit, host);
}

static void play_host(struct live_job *live, unsigned which, double length_ns, struct live_run *run)
{
    struct host host = {.run = run, .now_ns = LIVE_BEGIN_NS};
    char dir[64];
    live_job_directory(dir, sizeof dir);
    for (unsigned r = which * JOB_HOST_GPUS; r < (which + 1) * JOB_HOST_GPUS; r++) {
        if (!live->process[r].segment)
            continue;
        live_process_open(&live->process[r], dir, r);
        host.of[host.n++] = &live->process[r];
    }
    live_leader_open(&host.leader, host.of, host.n);
    uint64_t begin = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (double look_ns = host.now_ns + LOOK_NS; host.now_ns < length_ns + 2e9;) {
        host.now_ns += TAKE_NS;
        take(&host);
        if (host.now_ns >= look_ns) {
            look(&host, length_ns);
            look_ns += LOOK_NS;
        }
    }
    run->busy_s += (double)(muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e9;
    run->looked_s += length_ns / 1e9;
    run->hosts++;
    live_leader_close(&host.leader);
    for (size_t i = 0; i < host.n; i++)
        live_process_close(host.of[i]);
    rmdir(dir);
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
