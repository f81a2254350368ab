#include "live_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fleet/evaluator.h"
#include "fleet/gather.h"
#include "fleet/join.h"
#include "live_job.h"
#include "live_leader.h"

enum { HOSTS = JOB_RANKS_MAX / JOB_HOST_GPUS, UID = 1000 };
static const double TAKE_NS = 250e6, PUBLISH_NS = 500e6, LOOK_NS = 1e9;
static const double SERVER_NS = 1.7e18; /* its clock, that of all hosts but for their error */
static const double ON_THE_WAY_NS = 2e6;

struct agent {
    struct muster_gather *gather; /* NULL: nobody of this host is recorded */
    struct live_process *of[JOB_HOST_GPUS];
    struct muster_found found[JOB_HOST_GPUS];
    size_t n;
    struct live_leader leader;
    double mono_ns; /* its clock is so far ahead of the job's */
};

struct fleet {
    struct live_run *run;
    unsigned hosts;
    struct agent agent[HOSTS];
    struct muster_publisher_parts *parts;
    struct muster_join *join;
    struct muster_evaluator *evaluator;
    char dir[64];
    double now_ns, length_ns;
};

static void open_agent(struct fleet *fleet, struct live_job *live, unsigned host)
{
    struct agent *agent = &fleet->agent[host];
    for (unsigned r = host * JOB_HOST_GPUS; r < (host + 1) * JOB_HOST_GPUS; r++) {
        struct live_process *process = &live->process[r];
        if (!process->segment)
            continue;
        live_process_open(process, fleet->dir, r);
        agent->of[agent->n] = process;
        agent->found[agent->n++] =
            (struct muster_found){.path = process->path, .alive = true, .uid = UID};
        agent->mono_ns = SERVER_NS - process->unix_ns;
    }
    if (agent->n == 0)
        return;
    live_leader_open(&agent->leader, agent->of, agent->n);
    agent->gather =
        muster_gather_new(&agent->of[0]->segment->identity, UID, host + 1, fleet->parts);
    if (!agent->gather)
        exit(2);
}

static void open_fleet(struct fleet *fleet, struct live_job *live)
{
    live_job_directory(fleet->dir, sizeof fleet->dir);
    fleet->parts = muster_gather_parts_new();
    /* Nothing stands still here: places are not played. */
    fleet->evaluator = muster_evaluator_new(UINT64_MAX / 4);
    if (!fleet->parts || !fleet->evaluator)
        exit(2);
    for (unsigned h = 0; h < fleet->hosts; h++) {
        open_agent(fleet, live, h);
        if (!fleet->join && fleet->agent[h].gather)
            fleet->join = muster_join_new(muster_gather_name(fleet->agent[h].gather));
    }
    if (!fleet->join)
        exit(2);
}

static void close_fleet(struct fleet *fleet)
{
    for (unsigned h = 0; h < fleet->hosts; h++) {
        for (size_t i = 0; i < fleet->agent[h].n; i++)
            live_process_close(fleet->agent[h].of[i]);
        if (fleet->agent[h].gather)
            live_leader_close(&fleet->agent[h].leader);
        muster_gather_free(fleet->agent[h].gather);
    }
    rmdir(fleet->dir);
    muster_evaluator_free(fleet->evaluator);
    muster_join_free(fleet->join);
    free(fleet->parts);
}

static uint64_t host_ns(const struct fleet *fleet, const struct agent *agent)
{
    return (uint64_t)(fleet->now_ns + agent->mono_ns);
}

static void take(struct fleet *fleet, struct agent *agent)
{
    for (bool all = false; !all;) {
        all = true;
        for (size_t i = 0; i < agent->n; i++)
            all &= live_process_show(agent->of[i], fleet->now_ns);
        muster_gather_take(agent->gather, host_ns(fleet, agent));
        live_leader_take(&agent->leader);
    }
}

static void publish(struct fleet *fleet, struct agent *agent)
{
    struct muster_wire_out out = {0};
    struct muster_err err = {0};
    uint64_t server_ns = (uint64_t)(SERVER_NS + fleet->now_ns + ON_THE_WAY_NS);
    struct muster_findings holds = live_leader_holds(&agent->leader);
    for (size_t i = 0; i < agent->n; i++)
        live_process_show_nets(agent->of[i], (fleet->now_ns - LIVE_BEGIN_NS) / fleet->length_ns);
    muster_gather_look(agent->gather, agent->found, agent->n, host_ns(fleet, agent));
    muster_gather_publish(agent->gather, host_ns(fleet, agent), server_ns, holds.finding, holds.n,
                          &out);
    muster_findings_free(&holds);
    if (out.failed || muster_join_take(fleet->join, out.byte, out.used, server_ns,
                                       (uint64_t)fleet->now_ns, &err) != 0) {
        fprintf(stderr, "verdicts: a message was refused: %s\n", err.text);
        exit(2);
    }
    free(out.byte);
}

static void emit(void *arg, const struct muster_finding *finding)
{
    const struct fleet *fleet = arg;
    live_run_note(fleet->run, finding, (fleet->now_ns - LIVE_BEGIN_NS) / 1e9);
}

/* Nobody is to hear of it here but the worker. */
static void pass(void *arg, const struct muster_finding *finding)
{
    (void)arg;
    (void)finding;
}

static void play(struct fleet *fleet)
{
    double look_ns = LIVE_BEGIN_NS + LOOK_NS;
    for (double publish_ns = LIVE_BEGIN_NS; fleet->now_ns < fleet->length_ns + 2e9;) {
        fleet->now_ns += TAKE_NS;
        bool due = fleet->now_ns >= publish_ns + PUBLISH_NS, looks = fleet->now_ns >= look_ns;
        for (unsigned h = 0; h < fleet->hosts; h++) {
            struct agent *agent = &fleet->agent[h];
            if (agent->gather)
                take(fleet, agent);
            if (agent->gather && looks)
                live_leader_look(&agent->leader, fleet->now_ns, true, pass, NULL);
            if (agent->gather && due)
                publish(fleet, agent);
        }
        publish_ns += due ? PUBLISH_NS : 0;
        look_ns += looks ? LOOK_NS : 0;
        uint64_t begin = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (!muster_evaluator_look(fleet->evaluator, fleet->join, (uint64_t)fleet->now_ns, emit,
                                   fleet))
            exit(2);
        fleet->run->busy_s += (double)(muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e9;
    }
}

void live_fleet_play(const struct job *job, struct recorded *recorded, struct live_run *run)
{
    struct live_job *live = live_job_new(job, recorded);
    struct fleet *fleet = calloc(1, sizeof *fleet);
    if (!fleet)
        exit(2);
    fleet->run = run;
    fleet->hosts = job->ranks / JOB_HOST_GPUS;
    fleet->now_ns = LIVE_BEGIN_NS;
    fleet->length_ns = recorded->run_ns;
    open_fleet(fleet, live);
    play(fleet);
    run->looked_s += recorded->run_ns / 1e9;
    close_fleet(fleet);
    free(fleet);
    live_job_free(live);
}
