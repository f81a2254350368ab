#include "fleet/judge.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "diagnose/diagnose.h"
#include "diagnose/hang/hang.h"

enum {
    NEW_LEAST = 16, /* timed operations of a rank since the last judgement, as inside a job */
    HEARD_PERCENT = 90,
};
#define SLOW_NS       (500 * MUSTER_NS_PER_MS) /* at most so often */
#define HANG_NS       MUSTER_NS_PER_S
#define AGAIN_NS      (10 * MUSTER_NS_PER_S) /* while nothing moves and it is no hang; doubles */
#define AGAIN_MOST_NS (320 * MUSTER_NS_PER_S)

/* One communicator over all hosts. */
struct standing {
    uint64_t id, mark, since_ns;
    uint32_t heard, nranks;
};

struct muster_judge {
    uint64_t hang_ns, slow_due_ns, hang_due_ns, judged_ns, again_ns, timed, silenced;
    struct muster_arena memory; /* of `standing`, until the next look */
    struct standing *standing;
    size_t standings;
    struct muster_hashmap by_id;
    struct muster_watch hangs, slow, paths;
    struct muster_windows windows;
    struct muster_rank_costs costs;
};

struct muster_judge *muster_judge_new(uint64_t hang_ns)
{
    struct muster_judge *judge = calloc(1, sizeof *judge);
    if (!judge)
        return NULL;
    judge->hang_ns = hang_ns;
    judge->again_ns = AGAIN_NS;
    judge->by_id.key_bytes = sizeof(uint64_t);
    return judge;
}

void muster_judge_free(struct muster_judge *judge)
{
    if (!judge)
        return;
    muster_rank_costs_free(&judge->costs);
    muster_watch_free(&judge->hangs);
    muster_watch_free(&judge->slow);
    muster_watch_free(&judge->paths);
    muster_hashmap_free(&judge->by_id);
    muster_arena_free(&judge->memory);
    free(judge);
}

const struct muster_rank_costs *muster_judge_costs(const struct muster_judge *judge)
{
    return &judge->costs;
}

uint64_t muster_judge_silenced(const struct muster_judge *judge)
{
    return judge->silenced;
}

/* The thread's own time: on a busy machine a look takes longer, and rests no longer for that. */
static uint64_t spent_ns(void)
{
    return muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* What looking took is left to others for as long again. */
static uint64_t rest_until(uint64_t begin_ns, uint64_t least_ns, uint64_t now_ns)
{
    uint64_t took = spent_ns() - begin_ns;
    return now_ns + (2 * took > least_ns ? 2 * took : least_ns);
}

/* ---- late ranks and slow transfers ---- */

static bool judge_slow(struct muster_judge *judge, struct muster_join *join, uint64_t now_ns,
                       muster_watch_emit *tell, void *arg)
{
    struct muster_findings now = {0};
    struct muster_run run;
    struct muster_view view;
    if (!muster_join_run(join, now_ns, false, &run))
        return false;
    bool whole = muster_view_of_run(&run, &view, NULL) == 0;
    if (whole) {
        muster_windows_take(&judge->windows, now_ns, &view);
        whole = muster_diagnose_slow(&view, &now, NULL) == 0 &&
                muster_rank_costs_take(&judge->costs, join, &run, &view);
        muster_view_free(&view);
    }
    if (whole) {
        for (size_t i = 0; i < now.n; i++)
            muster_finding_say(&now.finding[i].not_observable,
                               "judged over all hosts while the job runs, by a share of its latest "
                               "operations; what it cost counts in them alone");
        muster_watch_slow(&judge->slow, &now, false, tell, arg);
        muster_watch_update(&judge->paths, &now, tell, arg);
        muster_watch_drop_over(&judge->slow, &now, tell, arg);
    }
    muster_findings_free(&now);
    muster_join_run_free(&run);
    return whole;
}

static bool look_slow(struct muster_judge *judge, struct muster_join *join, uint64_t now_ns,
                      muster_watch_emit *tell, void *arg)
{
    struct muster_join_coverage is = muster_join_coverage(join, now_ns);
    bool news = join->timed - judge->timed >= NEW_LEAST * (is.living ? is.living : 1);
    if (now_ns < judge->slow_due_ns || (!news && judge->slow.maybe.n == 0))
        return true;
    if (is.ranks * 100 < is.expected * HEARD_PERCENT) {
        judge->silenced++;
        judge->slow_due_ns = now_ns + SLOW_NS;
        return true;
    }
    uint64_t begin = spent_ns();
    judge->timed = join->timed;
    bool whole = judge_slow(judge, join, now_ns, tell, arg);
    /* Who is suspected is looked at again at once: nobody is named by one look. */
    judge->slow_due_ns = judge->slow.maybe.n > 0 ? now_ns + SLOW_NS + spent_ns() - begin
                                                 : rest_until(begin, SLOW_NS, now_ns);
    return whole;
}

/* ---- hangs ---- */

static struct standing *standing_of(struct muster_judge *judge, uint64_t id)
{
    size_t at = muster_hashmap_find(&judge->by_id, &id);
    if (at != SIZE_MAX)
        return &judge->standing[at];
    struct muster_arena *memory = &judge->memory;
    struct standing *standing =
        muster_arena_add(memory, &judge->standing, &judge->standings, sizeof *standing);
    standing->id = id;
    memory->failed =
        memory->failed || !muster_hashmap_put(&judge->by_id, &id, judge->standings - 1);
    return memory->failed ? NULL : standing;
}

/* Of all living members together: changes when one of them moves. */
static bool mark_process(struct muster_judge *judge, const struct muster_join_process *process,
                         size_t which)
{
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && process->segment->comm[i].uid; i++) {
        const struct muster_seg_comm *comm = &process->segment->comm[i];
        if (comm->end_ns)
            continue;
        struct standing *standing = standing_of(judge, comm->id);
        if (!standing)
            return false;
        uint64_t facts[] = {which, comm->uid, comm->calls, comm->called_ns, comm->launches_ended,
                            process->state};
        standing->mark += muster_hash(MUSTER_HASH_SEED, facts, sizeof facts);
        standing->heard++;
        standing->nranks = comm->nranks > standing->nranks ? comm->nranks : standing->nranks;
    }
    return true;
}

/* Communicators as they stand, each with the time since which it stands so. */
static bool mark_all(struct muster_judge *judge, const struct muster_join *join, uint64_t now_ns,
                     bool *moved)
{
    struct muster_arena memory = judge->memory; /* of those before */
    const struct standing *before = judge->standing;
    struct muster_hashmap by_id = judge->by_id;
    bool whole = true;
    judge->memory = (struct muster_arena){0};
    judge->standing = NULL;
    judge->standings = 0;
    judge->by_id = (struct muster_hashmap){.key_bytes = sizeof(uint64_t)};
    for (size_t i = 0; whole && i < join->processes; i++) {
        const struct muster_join_host *host = &join->host[join->process[i].host];
        if (host->instance && muster_join_hears(join, host, now_ns))
            whole = mark_process(judge, &join->process[i], i);
    }
    for (size_t i = 0; i < judge->standings; i++) {
        struct standing *standing = &judge->standing[i];
        size_t at = muster_hashmap_find(&by_id, &standing->id);
        bool same = at != SIZE_MAX && before[at].mark == standing->mark;
        standing->since_ns = same ? before[at].since_ns : now_ns;
        *moved |= !same;
    }
    muster_arena_free(&memory);
    muster_hashmap_free(&by_id);
    return whole;
}

static bool worth_judging(const struct muster_judge *judge, uint64_t now_ns, bool moved)
{
    for (size_t i = 0; i < judge->standings; i++) {
        uint64_t due = judge->standing[i].since_ns + judge->hang_ns;
        if (now_ns >= due &&
            (judge->judged_ns < due || now_ns - judge->judged_ns >= judge->again_ns))
            return true;
    }
    return moved && muster_watch_hanging(&judge->hangs) > 0;
}

static bool is_heard(const struct muster_judge *judge, uint64_t comm)
{
    size_t at = comm ? muster_hashmap_find(&judge->by_id, &comm) : SIZE_MAX;
    return comm == 0 ||
           (at != SIZE_MAX && judge->standing[at].heard >= judge->standing[at].nranks);
}

static bool is_heard_whole(const struct muster_judge *judge, const struct muster_finding *finding)
{
    return is_heard(judge, finding->comm) && is_heard(judge, finding->comms[0]) &&
           is_heard(judge, finding->comms[1]);
}

/* Only what was seen whole; and what hung where nobody sees any more is not over for that. */
static bool keep_heard(struct muster_judge *judge, struct muster_findings *now)
{
    size_t kept = 0;
    for (size_t i = 0; i < now->n; i++) {
        if (is_heard_whole(judge, &now->finding[i]))
            now->finding[kept++] = now->finding[i];
        else
            judge->silenced++;
    }
    now->n = kept;
    for (size_t i = 0; i < judge->hangs.known.n; i++) {
        const struct muster_finding *known = &judge->hangs.known.finding[i];
        if (known->resolved || is_heard_whole(judge, known))
            continue;
        struct muster_finding *copy = muster_findings_add(now);
        if (!copy)
            return false;
        *copy = *known;
    }
    return true;
}

static bool judge_hangs(struct muster_judge *judge, struct muster_join *join, uint64_t now_ns,
                        muster_watch_emit *tell, void *arg)
{
    struct muster_findings now = {0};
    struct muster_run run;
    struct muster_view view;
    if (!muster_join_run(join, now_ns, true, &run))
        return false;
    bool whole = muster_view_of_run_aligned(&run, &view, NULL) == 0;
    if (whole) {
        whole = muster_hang_find(&view, judge->hang_ns, &now) && keep_heard(judge, &now);
        muster_view_free(&view);
    }
    if (whole)
        muster_watch_update(&judge->hangs, &now, tell, arg);
    judge->again_ns = now.n > 0                           ? AGAIN_NS
                      : judge->again_ns < AGAIN_MOST_NS ? 2 * judge->again_ns
                                                        : judge->again_ns;
    muster_findings_free(&now);
    muster_join_run_free(&run);
    return whole;
}

static bool look_hangs(struct muster_judge *judge, struct muster_join *join, uint64_t now_ns,
                       muster_watch_emit *tell, void *arg)
{
    bool moved = false;
    if (now_ns < judge->hang_due_ns)
        return true;
    uint64_t begin = spent_ns();
    muster_watch_alive(&judge->hangs, muster_join_coverage(join, now_ns).living);
    bool whole = mark_all(judge, join, now_ns, &moved);
    judge->again_ns = moved ? AGAIN_NS : judge->again_ns;
    if (whole && worth_judging(judge, now_ns, moved)) {
        judge->judged_ns = now_ns;
        whole = judge_hangs(judge, join, now_ns, tell, arg);
    }
    judge->hang_due_ns = rest_until(begin, HANG_NS, now_ns);
    return whole;
}

/* ---- all ---- */

bool muster_judge_look(struct muster_judge *judge, struct muster_join *join, uint64_t now_ns,
                       muster_watch_emit *tell, void *arg)
{
    bool hangs = look_hangs(judge, join, now_ns, tell, arg);
    return look_slow(judge, join, now_ns, tell, arg) && hangs;
}

static void take_known(const struct muster_watch *watch, muster_watch_emit *take, void *arg)
{
    for (size_t i = 0; i < watch->known.n; i++)
        if (!watch->known.finding[i].resolved && !watch->known.finding[i].retracted)
            take(arg, &watch->known.finding[i]);
}

void muster_judge_findings(const struct muster_judge *judge, muster_watch_emit *take, void *arg)
{
    take_known(&judge->hangs, take, arg);
    take_known(&judge->slow, take, arg);
    take_known(&judge->paths, take, arg);
}
