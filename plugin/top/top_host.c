#include "top/top_host.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "segment/segment_reader.h"
#include "top/top_job.h"

enum {
    JOBS = 64,
    ROWS_SHARE = 16, /* one process in so many has its sums read in a look */
};

struct muster_top_host {
    struct muster_top_host_options options;
    struct muster_top_job job[JOBS];
    size_t jobs;
    struct muster_segment *scratch;
    struct muster_op ring[MUSTER_SEG_RING];
    uint64_t looks;
    struct muster_top_filled filled;
};

struct muster_top_host *muster_top_host_new(const struct muster_top_host_options *options)
{
    size_t bytes = (sizeof(struct muster_top_host) + 63) / 64 * 64;
    struct muster_top_host *host = aligned_alloc(64, bytes);
    if (!host)
        return NULL;
    memset(host, 0, bytes);
    host->options = *options;
    host->scratch = aligned_alloc(64, sizeof *host->scratch);
    if (host->scratch)
        memset(host->scratch, 0, sizeof *host->scratch);
    if (host->scratch)
        return host;
    free(host);
    return NULL;
}

void muster_top_host_free(struct muster_top_host *host)
{
    for (size_t j = 0; host && j < host->jobs; j++) {
        for (size_t i = 0; i < host->job[j].processes; i++)
            muster_top_process_free(&host->job[j].process[i]);
        free(host->job[j].process);
        if (host->job[j].evaluator)
            muster_agent_job_free(host->job[j].evaluator);
    }
    if (host) {
        muster_top_filled_free(&host->filled);
        free(host->scratch);
    }
    free(host);
}

/* ---- looking ---- */

static struct muster_top_job *job_of(struct muster_top_host *host,
                                     const struct muster_seg_identity *who,
                                     const struct muster_found *found)
{
    for (size_t j = 0; j < host->jobs; j++)
        if (muster_agent_job_is(host->job[j].evaluator, who, found->uid))
            return &host->job[j];
    if (!found->alive || host->jobs == JOBS)
        return NULL;
    struct muster_top_job *job = &host->job[host->jobs];
    *job = (struct muster_top_job){.who = *who, .uid = found->uid};
    job->evaluator = muster_agent_job_new(who, found->uid, host->options.hang_ns);
    host->jobs += job->evaluator != NULL;
    return job->evaluator ? job : NULL;
}

static struct muster_top_process *process_of(struct muster_top_job *job, const char *path,
                                             const struct muster_seg_identity *who)
{
    for (size_t i = 0; i < job->processes; i++)
        if (strcmp(job->process[i].path, path) == 0)
            return &job->process[i];
    if (job->processes == MUSTER_LIVE_PROCESSES || strlen(path) >= sizeof job->process->path ||
        !muster_grow(&job->process, job->processes, sizeof *job->process))
        return NULL;
    struct muster_top_process *process = &job->process[job->processes++];
    memset(process, 0, sizeof *process);
    snprintf(process->path, sizeof process->path, "%s", path);
    process->who = *who;
    return process;
}

static bool wanted(const struct muster_top_host *host, const struct muster_seg_identity *who)
{
    return who->run_dir[0] && (!host->options.run || strcmp(host->options.run, who->run_dir) == 0);
}

/* Of the last look: what lies at a path is another job's once it is not seen there. */
static struct muster_top_job *job_of_path(struct muster_top_host *host, const char *path)
{
    for (size_t j = 0; j < host->jobs; j++)
        for (size_t i = 0; i < host->job[j].processes; i++)
            if (host->job[j].process[i].look + 1 == host->looks &&
                strcmp(host->job[j].process[i].path, path) == 0)
                return &host->job[j];
    return NULL;
}

/* The job that the segment belongs to; NULL: to none that is shown. */
static struct muster_top_job *job_of_segment(struct muster_top_host *host,
                                             const struct muster_found *found)
{
    struct muster_seg_identity who;
    struct muster_top_job *job = job_of_path(host, found->path);
    if (job)
        return job;
    if (muster_segment_read_identity(found->path, &who, NULL) != 0 || !wanted(host, &who))
        return NULL;
    return job_of(host, &who, found);
}

/* Only where the newest call is a send: a table of calls does not name it. */
static void take_sends(struct muster_top_host *host, struct muster_top_process *process)
{
    if (!muster_top_process_asks(process) ||
        muster_segment_read_flight(process->path, host->scratch, NULL) != 0)
        return;
    size_t ops = muster_segment_read_ring(process->path, &process->next, host->ring);
    muster_top_process_take_sends(process, host->scratch, host->ring, ops);
}

struct seeing {
    struct muster_top_host *host;
    struct muster_top_job *job;
};

static void saw(void *arg, const struct muster_live_peer *peer,
                const struct muster_segment *segment, unsigned entries)
{
    const struct seeing *seeing = arg;
    struct muster_top_process *process =
        peer->alive ? process_of(seeing->job, peer->path, &peer->identity) : NULL;
    if (!process)
        return;
    process->who = peer->identity;
    process->look = seeing->host->looks;
    muster_top_process_take(process, segment, entries, muster_now_ns());
    take_sends(seeing->host, process);
}

/* Of some processes by turns, as reading the sums of all would cost more than all else. */
static void take_rows(struct muster_top_host *host, struct muster_top_job *job)
{
    size_t n = job->processes / ROWS_SHARE + 1;
    for (size_t i = 0; i < n && i < job->processes; i++) {
        struct muster_top_process *process = &job->process[job->next_rows++ % job->processes];
        memset(host->scratch->row, 0, sizeof host->scratch->row);
        if (process->alive && muster_segment_read_tables(process->path, host->scratch, NULL) == 0)
            muster_top_process_take_rows(process, host->scratch);
    }
}

static void ignore(void *arg, const struct muster_finding *finding)
{
    (void)arg;
    (void)finding;
}

static void take_compared(struct muster_top_job *job)
{
    for (size_t i = 0; i < muster_agent_job_peers(job->evaluator); i++) {
        struct muster_rank_cost compared;
        const struct muster_live_peer *peer = muster_agent_job_peer(job->evaluator, i, &compared);
        for (size_t p = 0; p < job->processes; p++)
            if (strcmp(job->process[p].path, peer->path) == 0)
                muster_top_process_compare(&job->process[p], &compared);
    }
}

/* `own`: its segments among those found. */
static void look_at(struct muster_top_host *host, struct muster_top_job *job,
                    const struct muster_found *own, size_t n)
{
    uint64_t now = muster_now_ns();
    bool was_alive = job->alive > 0 || job->looked_ns == 0;
    if (!was_alive && n == 0)
        return;
    struct seeing seeing = {host, job};
    muster_agent_job_on_read(job->evaluator, saw, &seeing);
    job->alive = muster_agent_job_look(job->evaluator, own, n,
                                       &(struct muster_agent_look){.now_ns = now}, ignore, NULL);
    muster_agent_job_on_read(job->evaluator, NULL, NULL);
    if (job->alive)
        job->looked_ns = now;
    take_compared(job);
    take_rows(host, job);
}

size_t muster_top_host_look(struct muster_top_host *host)
{
    struct muster_found *found;
    const char *dir = host->options.segment_dir;
    size_t n = host->options.all ? muster_find_all_segments(dir, &found)
                                 : muster_find_segments(dir, &found);
    struct muster_arena memory = {0};
    struct muster_top_job **of =
        muster_arena_array(&memory, n + 1, sizeof(struct muster_top_job *));
    struct muster_found *own = muster_arena_array(&memory, n + 1, sizeof *own);
    for (size_t j = 0; j < host->jobs; j++)
        for (size_t i = 0; i < host->job[j].processes; i++)
            host->job[j].process[i].alive = false;
    host->looks++;
    for (size_t i = 0; !memory.failed && i < n; i++)
        of[i] = job_of_segment(host, &found[i]);
    for (size_t j = 0; !memory.failed && j < host->jobs; j++) {
        size_t mine = 0;
        for (size_t i = 0; i < n; i++)
            if (of[i] == &host->job[j])
                own[mine++] = found[i];
        look_at(host, &host->job[j], own, mine);
    }
    muster_arena_free(&memory);
    muster_found_free(found, n);
    return host->jobs;
}

uint64_t muster_top_host_take(struct muster_top_host *host)
{
    uint64_t due = UINT64_MAX;
    for (size_t j = 0; j < host->jobs; j++) {
        if (!host->job[j].alive)
            continue;
        uint64_t again = muster_agent_job_take(host->job[j].evaluator, muster_now_ns());
        due = again < due ? again : due;
    }
    return due;
}

static bool has_pid(const struct muster_top_job *job, uint32_t pid)
{
    for (size_t i = 0; i < job->processes; i++)
        if (job->process[i].who.pid == pid)
            return true;
    return false;
}

size_t muster_top_host_largest(const struct muster_top_host *host)
{
    size_t best = 0;
    for (size_t j = 0; j < host->jobs; j++) {
        if (host->options.pid && has_pid(&host->job[j], host->options.pid))
            return j;
        if (host->job[j].alive > host->job[best].alive)
            best = j;
    }
    return host->options.pid || host->jobs == 0 ? SIZE_MAX : best;
}

void muster_top_host_fill(struct muster_top_host *host, size_t job, struct muster_top *top)
{
    *top = (struct muster_top){.state = MUSTER_TOP_ENDED, .job = job, .jobs = host->jobs};
    if (job < host->jobs)
        muster_top_fill(&host->job[job], &host->filled, top);
}

static void look_source(void *arg)
{
    muster_top_host_look(arg);
}

static uint64_t take_source(void *arg)
{
    return muster_top_host_take(arg);
}

static void fill_source(void *arg, size_t job, struct muster_top *top)
{
    muster_top_host_fill(arg, job, top);
}

struct muster_top_source muster_top_host_source(struct muster_top_host *host)
{
    return (struct muster_top_source){host, look_source, take_source, fill_source};
}
