#include "agent/agent_watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_foreign.h"
#include "base/array.h"
#include "base/clock.h"
#include "segment/segment_reader.h"

enum { JOBS = 256 };
#define LOOK_NS  MUSTER_NS_PER_S
#define PROC_NS  (5 * MUSTER_NS_PER_S)  /* the CPU time of muster's threads */
#define WHOSE_NS (60 * MUSTER_NS_PER_S) /* everything in /proc: threads come later */

struct muster_agent_watch {
    struct muster_agent_watch_options options;
    struct muster_agent_job *job[JOBS];
    size_t jobs, turn; /* the one that is looked at first */
    uint64_t paid_ns;  /* struct muster_agent_look */
    struct muster_agent_foreign foreign;
    uint64_t proc_ns, whose_ns; /* when they were read */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* under the lock */
    struct muster_agent_news news;
};

struct muster_agent_watch *muster_agent_watch_new(const struct muster_agent_watch_options *options)
{
    struct muster_agent_watch *watch = calloc(1, sizeof *watch);
    pthread_condattr_t clock;
    if (!watch)
        return NULL;
    watch->options = *options;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->wake, &clock);
    pthread_condattr_destroy(&clock);
    return watch;
}

const struct muster_agent_news *muster_agent_watch_lock(struct muster_agent_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    return &watch->news;
}

void muster_agent_watch_unlock(struct muster_agent_watch *watch)
{
    pthread_mutex_unlock(&watch->lock);
}

/* ---- jobs ---- */

static struct muster_agent_job *job_of(struct muster_agent_watch *watch,
                                       const struct muster_seg_identity *who,
                                       const struct muster_found *found)
{
    for (size_t i = 0; i < watch->jobs; i++)
        if (muster_agent_job_is(watch->job[i], who, found->uid))
            return watch->job[i];
    if (watch->jobs == JOBS || !found->alive)
        return NULL;
    struct muster_agent_job *job = muster_agent_job_new(who, found->uid, watch->options.hang_ns);
    if (job)
        watch->job[watch->jobs++] = job;
    return job;
}

static struct muster_agent_job *known_job(const struct muster_agent_watch *watch,
                                          const struct muster_found *found)
{
    for (size_t i = 0; i < watch->jobs; i++)
        if (muster_agent_job_has(watch->job[i], found->path, found->uid))
            return watch->job[i];
    return NULL;
}

/* Whose job each segment is; NULL: nobody's. A living process makes a job where there is none. */
static void find_jobs(struct muster_agent_watch *watch, const struct muster_found *found, size_t n,
                      struct muster_agent_job **of)
{
    for (size_t i = 0; i < n; i++) {
        struct muster_seg_identity who;
        of[i] = known_job(watch, &found[i]);
        if (of[i])
            continue;
        if (muster_segment_read_identity(found[i].path, &who, NULL) == 0 && who.run_dir[0])
            of[i] = job_of(watch, &who, &found[i]);
        else if (watch->options.log)
            muster_agent_foreign_look(&watch->foreign, &found[i], 1, watch->options.log);
    }
}

static void count_finding(void *arg, const struct muster_finding *finding)
{
    uint64_t *ever = arg;
    if (!finding->resolved && !finding->retracted)
        ever[finding->kind]++;
}

static size_t living_of(const struct muster_found *found, size_t n)
{
    size_t living = 0;
    for (size_t k = 0; k < n; k++)
        living += found[k].alive;
    return living;
}

/* Nothing holds of it any more: not of the next one in its run directory either. */
static void end_job(const struct muster_agent_watch *watch, struct muster_agent_job *job)
{
    if (watch->options.report)
        watch->options.report(watch->options.report_arg, muster_agent_job_uid(job),
                              muster_agent_job_dir(job), NULL, 0);
    muster_agent_job_free(job);
}

/* What of the processor's share is too little for all goes to those first that got nothing. */
static void drop_over(struct muster_agent_watch *watch, const size_t *living)
{
    size_t kept = 0, turn = SIZE_MAX;
    for (size_t k = 0; k < watch->jobs && turn == SIZE_MAX; k++) {
        size_t i = (watch->turn + k) % watch->jobs;
        turn = living[i] && muster_agent_job_waits(watch->job[i]) ? i : turn;
    }
    watch->turn = 0;
    for (size_t i = 0; i < watch->jobs; i++) {
        if (living[i] == 0) {
            end_job(watch, watch->job[i]);
            continue;
        }
        watch->turn = i == turn ? kept : watch->turn;
        watch->job[kept++] = watch->job[i];
    }
    watch->jobs = kept;
}

static void look_at_jobs(struct muster_agent_watch *watch, const struct muster_found *found,
                         size_t n, bool at_once, uint64_t *ever)
{
    struct muster_arena memory = {0};
    struct muster_agent_job **of =
        muster_arena_array(&memory, n + 1, sizeof(struct muster_agent_job *));
    struct muster_found *own = muster_arena_array(&memory, n + 1, sizeof *own);
    size_t *living = muster_arena_array(&memory, JOBS, sizeof *living);
    size_t all = living_of(found, n);
    if (!memory.failed)
        find_jobs(watch, found, n, of);
    for (size_t j = 0; !memory.failed && j < watch->jobs; j++) {
        size_t i = (watch->turn + j) % watch->jobs, mine = 0;
        const struct muster_agent_look now = {
            .now_ns = muster_now_ns(), .at_once = at_once, .paid_ns = &watch->paid_ns};
        for (size_t k = 0; k < n; k++)
            if (of[k] == watch->job[i])
                own[mine++] = found[k];
        muster_agent_job_share(watch->job[i], all);
        living[i] = muster_agent_job_look(watch->job[i], own, mine, &now, count_finding, ever);
    }
    if (!memory.failed)
        drop_over(watch, living);
    muster_arena_free(&memory);
}

/* ---- news ---- */

struct gather {
    struct muster_agent_news *news;
    const struct muster_agent_job *job;
};

static void gather_finding(void *arg, const struct muster_finding *finding)
{
    struct gather *gather = arg;
    char run[MUSTER_AGENT_NAME];
    muster_agent_name_run(run, muster_agent_job_dir(gather->job));
    muster_finding_metrics_add(&gather->news->findings, MUSTER_AGENT_FINDINGS, run,
                               muster_agent_job_uid(gather->job), finding);
}

static void gather_late(void *arg, const struct muster_finding *finding)
{
    struct muster_findings *late = arg;
    if (finding->kind == MUSTER_FINDING_LATE_RANK)
        muster_findings_copy(late, finding);
}

static void report_late(const struct muster_agent_watch *watch, const struct muster_agent_job *job)
{
    struct muster_findings late = {0};
    muster_agent_job_findings(job, gather_late, &late);
    watch->options.report(watch->options.report_arg, muster_agent_job_uid(job),
                          muster_agent_job_dir(job), late.finding, late.n);
    muster_findings_free(&late);
}

static const struct muster_agent_known *known_before(const struct muster_agent_news *news,
                                                     const struct muster_seg_identity *who)
{
    for (size_t i = 0; i < news->knowns; i++)
        if (news->known[i].pid == who->pid && news->known[i].start_ticks == who->start_ticks)
            return &news->known[i];
    return NULL;
}

static void gather_known(struct muster_agent_watch *watch, struct muster_agent_news *news,
                         const struct muster_agent_job *job, bool whose, bool cpu)
{
    for (size_t i = 0; i < muster_agent_job_peers(job); i++) {
        struct muster_rank_cost compared;
        const struct muster_live_peer *peer = muster_agent_job_peer(job, i, &compared);
        const struct muster_seg_identity *who = &peer->identity;
        if (!peer->alive || !muster_grow(&news->known, news->knowns, sizeof *news->known))
            continue;
        const struct muster_agent_known *before = known_before(&watch->news, who);
        struct muster_agent_known *known = &news->known[news->knowns++];
        *known = (struct muster_agent_known){
            .pid = who->pid, .start_ticks = who->start_ticks, .compared = compared};
        if (before)
            known->proc = before->proc;
        if (!before || whose)
            muster_agent_proc_read("/proc", who->pid, who->start_ticks, &known->proc);
        else if (cpu)
            muster_agent_proc_cpu("/proc", who->pid, &known->proc);
        if (before && before->proc.cpu_ns > known->proc.cpu_ns)
            known->proc.cpu_ns = before->proc.cpu_ns;
    }
}

/* Made beside the old ones, which only this thread changes. */
static void publish(struct muster_agent_watch *watch, const uint64_t *ever, uint64_t cpu_ns)
{
    struct muster_agent_news news = {.looked_unix_ns = muster_unix_ns()};
    uint64_t now = muster_now_ns();
    bool whose = now - watch->whose_ns >= WHOSE_NS, cpu = now - watch->proc_ns >= PROC_NS;
    for (size_t i = 0; i < watch->jobs; i++) {
        struct gather gather = {&news, watch->job[i]};
        muster_agent_job_findings(watch->job[i], gather_finding, &gather);
        gather_known(watch, &news, watch->job[i], whose, cpu);
        if (watch->options.report)
            report_late(watch, watch->job[i]);
    }
    watch->whose_ns = whose ? now : watch->whose_ns;
    watch->proc_ns = cpu ? now : watch->proc_ns;
    for (unsigned k = 0; k < MUSTER_FINDING_KINDS; k++)
        news.findings.ever[k] = watch->news.findings.ever[k] + ever[k];
    news.cpu_ns = watch->news.cpu_ns + cpu_ns;
    pthread_mutex_lock(&watch->lock);
    struct muster_agent_known *old = watch->news.known;
    watch->news = news;
    pthread_mutex_unlock(&watch->lock);
    free(old);
}

static void look(struct muster_agent_watch *watch, bool at_once)
{
    uint64_t ever[MUSTER_FINDING_KINDS] = {0}, cpu = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct muster_found *found;
    size_t n = watch->options.all ? muster_find_all_segments(watch->options.segment_dir, &found)
                                  : muster_find_segments(watch->options.segment_dir, &found);
    look_at_jobs(watch, found, n, at_once, ever);
    if (watch->options.found)
        watch->options.found(watch->options.report_arg, found, n);
    else
        muster_found_free(found, n);
    publish(watch, ever, muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
}

void muster_agent_watch_once(struct muster_agent_watch *watch)
{
    look(watch, true);
}

/* ---- the thread ---- */

/* Until `due`, or the end. True: the end. */
static bool pause_until(struct muster_agent_watch *watch, uint64_t due)
{
    struct timespec at = {.tv_sec = (time_t)(due / MUSTER_NS_PER_S),
                          .tv_nsec = (long)(due % MUSTER_NS_PER_S)};
    pthread_mutex_lock(&watch->lock);
    while (!watch->stop && pthread_cond_timedwait(&watch->wake, &watch->lock, &at) == 0)
        ;
    bool stop = watch->stop;
    pthread_mutex_unlock(&watch->lock);
    return stop;
}

static void *watch_main(void *arg)
{
    struct muster_agent_watch *watch = arg;
    uint64_t due, look_ns = 0;
    do {
        uint64_t now = muster_now_ns();
        if (now >= look_ns) {
            look(watch, false);
            look_ns = now + LOOK_NS;
        }
        due = look_ns;
        for (size_t i = 0; i < watch->jobs; i++) {
            uint64_t again = muster_agent_job_take(watch->job[i], muster_now_ns());
            due = again < due ? again : due;
        }
    } while (!pause_until(watch, due));
    return NULL;
}

int muster_agent_watch_start(struct muster_agent_watch *watch, struct muster_err *err)
{
    int rc = pthread_create(&watch->thread, NULL, watch_main, watch);
    watch->running = rc == 0;
    return rc == 0 ? 0 : muster_fail(err, "no thread to watch jobs with: %s", strerror(rc));
}

void muster_agent_watch_free(struct muster_agent_watch *watch)
{
    if (watch->running) {
        pthread_mutex_lock(&watch->lock);
        watch->stop = true;
        pthread_cond_signal(&watch->wake);
        pthread_mutex_unlock(&watch->lock);
        pthread_join(watch->thread, NULL);
    }
    for (size_t i = 0; i < watch->jobs; i++)
        muster_agent_job_free(watch->job[i]);
    free(watch->news.known);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}
