#include "evaluated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "diagnose/straggler/straggler.h"
#include "diagnose/transfer/transfer.h"

enum { HOSTS_MAX = JOB_RANKS_MAX / JOB_HOST_GPUS };

struct feeder {
    struct muster_view view;
    uint32_t gpu[JOB_RANKS_MAX];
    uint32_t member[JOB_RANKS_MAX][GROUPS];
    char host[HOSTS_MAX][32];
};

static void add_rank(void *arg, unsigned rank, const char *host, enum job_timing timing,
                     int64_t unix_ns)
{
    static const uint8_t word[] = {[TIMED_FULL] = MUSTER_TIMING_FULL,
                                   [TIMED_AUTO] = MUSTER_TIMING_AUTO,
                                   [TIMED_LIGHT] = MUSTER_TIMING_LIGHT};
    struct feeder *feeder = arg;
    char *name = feeder->host[job_host(rank)];
    snprintf(name, sizeof feeder->host[0], "%s", host);
    feeder->gpu[rank] = muster_view_add_gpu(
        &feeder->view, &(struct muster_view_gpu){.rank = (int32_t)rank,
                                                 .gpu_index = (int32_t)(rank % JOB_HOST_GPUS),
                                                 .host = name,
                                                 .process = rank,
                                                 .timing = word[timing],
                                                 .host_times = true,
                                                 .one_pace = true,
                                                 .called = true,
                                                 .unix_ns = unix_ns});
}

static void add_member(void *arg, unsigned rank, enum job_group group, uint64_t comm,
                       unsigned local, unsigned n, unsigned hosts)
{
    struct feeder *feeder = arg;
    feeder->member[rank][group] = muster_view_add_member(&feeder->view, feeder->gpu[rank], comm,
                                                         (int32_t)local, n, hosts, "");
}

static void add_op(void *arg, unsigned rank, enum job_group group, const struct muster_op *op,
                   double over_ns)
{
    struct feeder *feeder = arg;
    (void)over_ns;
    muster_view_add_op(&feeder->view, feeder->member[rank][group], op);
}

static void add_net(void *arg, unsigned rank, enum job_group group,
                    const struct muster_seg_net *net)
{
    struct feeder *feeder = arg;
    muster_view_add_net(&feeder->view, feeder->member[rank][group], net);
}

void evaluate_run(const struct job *job, struct recorded *recorded, struct evaluated *evaluated)
{
    struct feeder *feeder = calloc(1, sizeof *feeder);
    struct muster_err err = {""};
    if (!feeder) {
        fprintf(stderr, "verdicts: out of memory\n");
        exit(2);
    }
    const struct recording_sink sink = {feeder, add_rank, add_member, add_op, add_net};
    memset(evaluated, 0, sizeof *evaluated);
    recording_make(job, &sink, recorded);
    uint64_t begin = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (muster_view_finish(&feeder->view, &err) ||
        muster_straggler_find(&feeder->view, &evaluated->findings, &err) ||
        muster_diagnose_transfer(&feeder->view, &evaluated->findings, &err)) {
        fprintf(stderr, "verdicts: %s\n", err.text);
        exit(2);
    }
    evaluated->busy_s = (double)(muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e9;
    muster_view_free(&feeder->view);
    free(feeder);
}

void evaluated_free(struct evaluated *evaluated)
{
    muster_findings_free(&evaluated->findings);
}
