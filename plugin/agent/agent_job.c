#include "agent/agent_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "diagnose/live/live_motion.h"
#include "diagnose/live/live_policy.h"
#include "diagnose/live/live_slow.h"
#include "run/live_jobs.h"

enum { COMMS = 2 * MUSTER_SEG_COMMS };

/* Up to which operation ranks were compared. */
struct reached {
    uint64_t id, next;
    bool graph;
};

struct muster_agent_job {
    struct muster_seg_identity who;
    uint32_t uid;
    uint64_t hang_ns, evaluated_ns, again_ns;
    uint64_t take_ns; /* when the rings are due */
    size_t living;
    struct muster_live_peers peers;
    struct muster_live_policies policies;
    struct muster_live_run *run;
    struct muster_live_slow slow;
    bool waits; /* for the others' share */
    struct muster_watch watch;
    struct muster_watch paths; /* what is wrong with the machine stays so */
    struct muster_live_motions motions;
    struct reached reached[COMMS];
    unsigned reacheds;
    struct muster_rank_cost *compared; /* of peer i */
    size_t compareds;
};

struct muster_agent_job *muster_agent_job_new(const struct muster_seg_identity *who, uint32_t uid,
                                              uint64_t hang_ns)
{
    size_t bytes = (sizeof(struct muster_agent_job) + 63) / 64 * 64;
    struct muster_agent_job *job = aligned_alloc(64, bytes);
    if (!job)
        return NULL;
    memset(job, 0, bytes);
    job->who = *who;
    job->uid = uid;
    job->hang_ns = hang_ns;
    job->again_ns = MUSTER_LIVE_AGAIN_NS;
    job->motions.from_outside = true;
    job->run = muster_live_run_new();
    if (job->run)
        return job;
    free(job);
    return NULL;
}

void muster_agent_job_free(struct muster_agent_job *job)
{
    muster_watch_free(&job->watch);
    muster_watch_free(&job->paths);
    muster_live_policies_free(&job->policies);
    muster_live_run_free(job->run);
    muster_live_motions_free(&job->motions);
    muster_live_peers_free(&job->peers);
    free(job->compared);
    free(job);
}

bool muster_agent_job_is(const struct muster_agent_job *job, const struct muster_seg_identity *who,
                         uint32_t uid)
{
    return muster_same_job(&job->who, job->uid, who, uid) && strcmp(job->who.host, who->host) == 0;
}

bool muster_agent_job_has(const struct muster_agent_job *job, const char *path, uint32_t uid)
{
    const struct muster_live_peer *peer =
        job->uid == uid ? muster_live_peer_at(&job->peers, path) : NULL;
    return peer && peer->seen;
}

bool muster_agent_job_waits(const struct muster_agent_job *job)
{
    return job->waits;
}

const char *muster_agent_job_dir(const struct muster_agent_job *job)
{
    return job->who.run_dir;
}

uint32_t muster_agent_job_uid(const struct muster_agent_job *job)
{
    return job->uid;
}

void muster_agent_job_on_read(struct muster_agent_job *job, muster_live_saw *saw, void *arg)
{
    job->peers.saw = saw;
    job->peers.saw_arg = arg;
}

size_t muster_agent_job_peers(const struct muster_agent_job *job)
{
    return job->peers.n;
}

const struct muster_live_peer *muster_agent_job_peer(const struct muster_agent_job *job, size_t i,
                                                     struct muster_rank_cost *compared)
{
    *compared = i < job->compareds ? job->compared[i] : (struct muster_rank_cost){0};
    return &job->peers.peer[i];
}

/* ---- comparing ---- */

static struct reached *reached_of(struct muster_agent_job *job, uint64_t id, bool graph)
{
    for (unsigned i = 0; i < job->reacheds; i++)
        if (job->reached[i].id == id && job->reached[i].graph == graph)
            return &job->reached[i];
    if (job->reacheds == COMMS) {
        memmove(&job->reached[0], &job->reached[1], (COMMS - 1) * sizeof job->reached[0]);
        job->reacheds--;
    }
    job->reached[job->reacheds] = (struct reached){.id = id, .graph = graph};
    return &job->reached[job->reacheds++];
}

static struct muster_rank_cost *compared_of(struct muster_agent_job *job,
                                            const struct muster_seg_identity *who)
{
    for (size_t i = 0; i < job->peers.n && i < job->compareds; i++) {
        const struct muster_seg_identity *its = &job->peers.peer[i].identity;
        if (its->pid == who->pid && its->start_ticks == who->start_ticks &&
            strcmp(its->file_stem, who->file_stem) == 0)
            return &job->compared[i];
    }
    return NULL;
}

static struct muster_rank_cost *cost_of(void *arg, const struct muster_view *view, uint32_t process)
{
    return compared_of(arg, &view->run->process[process].identity);
}

/* Each operation once, though it stays in the window for some evaluations. */
static bool is_new(void *arg, const struct muster_joint *joint)
{
    bool graph = (joint->any->flags & MUSTER_OP_GRAPH) != 0;
    struct reached *reached = reached_of(arg, joint->comm->id, graph);
    if (joint->any->number < reached->next)
        return false;
    reached->next = joint->any->number + 1;
    return true;
}

static void compare_new(void *arg, const struct muster_view *view)
{
    struct muster_arena memory = {0};
    muster_joint_costs_add(
        &(struct muster_joint_costs){.of = cost_of, .counts = is_new, .arg = arg}, view, &memory);
    muster_arena_free(&memory);
}

/* ---- late ranks and slow transfers ---- */

static void take_rings(struct muster_agent_job *job, uint64_t now_ns)
{
    job->take_ns = now_ns + muster_live_run_take(job->run, &job->peers);
}

void muster_agent_job_share(struct muster_agent_job *job, size_t host)
{
    muster_live_run_share(job->run, host);
}

uint64_t muster_agent_job_take(struct muster_agent_job *job, uint64_t now_ns)
{
    if (now_ns >= job->take_ns)
        take_rings(job, now_ns);
    return job->take_ns;
}

/* What was found and waits for another look does not wait for other jobs. */
static bool may_compare(struct muster_agent_job *job, const struct muster_agent_look *look)
{
    bool waiting = muster_watch_suspects(&job->watch);
    job->waits = false;
    if (look->at_once)
        return true;
    if (!muster_live_slow_due(&job->slow, job->run, look->now_ns, waiting))
        return false;
    job->waits = !waiting && look->paid_ns && *look->paid_ns > look->now_ns;
    return !job->waits;
}

static void find_slow(struct muster_agent_job *job, const struct muster_agent_look *look,
                      muster_watch_emit *emit, void *arg)
{
    struct muster_findings now = {0};
    if (!may_compare(job, look))
        return;
    while (job->compareds < job->peers.n) {
        if (!muster_grow(&job->compared, job->compareds, sizeof *job->compared))
            return;
        job->compared[job->compareds++] = (struct muster_rank_cost){0};
    }
    bool whole = muster_live_slow_evaluate(&job->slow, job->run, &job->peers, look->now_ns, &now,
                                           compare_new, job);
    if (look->paid_ns)
        *look->paid_ns = muster_live_slow_paid_ns(*look->paid_ns, look->now_ns, job->slow.rest_ns);
    if (whole) {
        muster_watch_window(&job->watch, job->slow.windows.since_unix_ns);
        muster_watch_slow(&job->watch, &now, look->at_once, emit, arg);
        muster_watch_update(&job->paths, &now, emit, arg);
        muster_watch_drop_over(&job->watch, &now, NULL, NULL);
    }
    muster_findings_free(&now);
}

/* ---- hangs ---- */

/* Whether a communicator has stood still for long enough, a process been gone for long enough, all
 * are gone, or one that hung moves. */
static bool worth_evaluating(struct muster_agent_job *job, size_t living, uint64_t now_ns)
{
    bool ended = living == 0 && job->living > 0;
    bool moved =
        muster_live_motions_take(&job->motions, job->peers.peer, job->peers.n, NULL, now_ns);
    bool due = muster_live_motions_due(&job->motions, job->hang_ns, job->evaluated_ns,
                                       job->again_ns, now_ns);
    due |= muster_live_gone_due(&job->peers, muster_watch_gone(&job->watch) > 0, job->evaluated_ns,
                                job->again_ns, now_ns);
    job->living = living;
    return due || ended || (moved && muster_watch_hanging(&job->watch) > 0);
}

static void find_hangs(struct muster_agent_job *job, uint64_t now_ns, muster_watch_emit *emit,
                       void *arg)
{
    struct muster_findings now = {0};
    uint64_t cost_ns = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    bool fresh =
        muster_live_motions_due(&job->motions, job->hang_ns, job->evaluated_ns, UINT64_MAX, now_ns);
    job->evaluated_ns = now_ns;
    if (muster_live_run_hangs(job->run, &job->peers, job->hang_ns, job->living == 0, &now))
        muster_watch_update(&job->watch, &now, emit, arg);
    cost_ns = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cost_ns;
    job->again_ns = muster_live_again_ns(job->again_ns, now.n > 0, fresh, cost_ns);
    muster_findings_free(&now);
}

/* ---- all ---- */

static size_t alive(const struct muster_agent_job *job)
{
    size_t n = 0;
    for (size_t i = 0; i < job->peers.n; i++)
        n += job->peers.peer[i].alive;
    return n;
}

size_t muster_agent_job_look(struct muster_agent_job *job, const struct muster_found *found,
                             size_t n, const struct muster_agent_look *look,
                             muster_watch_emit *emit, void *arg)
{
    struct muster_findings choices = {0};
    muster_live_peers_take(&job->peers, found, n, &job->who);
    size_t living = alive(job);
    muster_watch_alive(&job->watch, living);
    bool evaluated = worth_evaluating(job, living, look->now_ns) || look->at_once;
    if (evaluated)
        find_hangs(job, look->now_ns, emit, arg);
    if (muster_live_policies_scan(&job->policies, job->run, &job->peers, evaluated, &choices))
        muster_watch_update(&job->policies.watch, &choices, emit, arg);
    muster_findings_free(&choices);
    take_rings(job, look->now_ns);
    find_slow(job, look, emit, arg);
    return living;
}

static void take_known(const struct muster_watch *watch, muster_watch_emit *take, void *arg)
{
    for (size_t i = 0; i < watch->known.n; i++)
        if (!watch->known.finding[i].resolved && !watch->known.finding[i].retracted)
            take(arg, &watch->known.finding[i]);
}

void muster_agent_job_findings(const struct muster_agent_job *job, muster_watch_emit *take,
                               void *arg)
{
    take_known(&job->watch, take, arg);
    take_known(&job->policies.watch, take, arg);
    take_known(&job->paths, take, arg);
}
