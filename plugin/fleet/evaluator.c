#include "fleet/evaluator.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "diagnose/diagnose.h"
#include "diagnose/hang/hang.h"
#include "diagnose/straggler/straggler.h"
#include "fleet/host_findings.h"
#include "fleet/near.h"

enum {
    NEW_LEAST = 8, /* timed operations of a rank since the last evaluation */
    HEARD_PERCENT = 90,
    NEAR_FROM = 2048, /* below, a look at all of them takes less than a second */
};
#define SLOW_NS      (500 * MUSTER_NS_PER_MS) /* at most so often */
#define NEAR_NS      (250 * MUSTER_NS_PER_MS) /* between two looks at who has just shown */
#define NEAR_CALM_NS MUSTER_NS_PER_S
#define ALONE_NS     (6 * MUSTER_NS_PER_S)  /* so long a look at all waits for them */
#define LATEST_NS    (10 * MUSTER_NS_PER_S) /* of what is held: so much, and up to twice that */
#define HANG_NS      MUSTER_NS_PER_S
/* Until all of a job that is over is heard; less than hosts are heard for after their last
 * message. */
#define ENDED_NS      (2 * MUSTER_NS_PER_S)
#define AGAIN_NS      (10 * MUSTER_NS_PER_S) /* while nothing moves and it is no hang; doubles */
#define AGAIN_MOST_NS (320 * MUSTER_NS_PER_S)

/* One communicator over all hosts. */
struct standing {
    uint64_t id, mark, since_ns;
    uint32_t heard, nranks;
};

struct muster_evaluator {
    uint64_t hang_ns, slow_due_ns, hang_due_ns, evaluated_ns, again_ns, timed, silenced;
    struct muster_arena memory; /* of `standing`, until the next look */
    struct standing *standing;
    size_t standings;
    size_t gone;      /* processes that are heard of and did not finalize */
    uint64_t gone_ns; /* when the last one of them went; 0: none did */
    struct muster_hashmap by_id;
    struct muster_watch hangs, slow, paths, near_slow, hosts;
    struct windows {
        struct muster_windows taken;
        uint64_t heard; /* who was, in the last of them */
    } windows, near_windows;
    struct muster_near near;
    uint64_t near_due_ns, near_timed, hosts_due_ns;
    uint64_t latest_ns; /* the server's time from which on the latest is looked at */
    size_t near_from;
    struct muster_rank_costs costs;
};

struct muster_evaluator *muster_evaluator_new(uint64_t hang_ns)
{
    struct muster_evaluator *evaluator = calloc(1, sizeof *evaluator);
    if (!evaluator)
        return NULL;
    evaluator->hang_ns = hang_ns;
    evaluator->again_ns = AGAIN_NS;
    evaluator->near_from = NEAR_FROM;
    evaluator->by_id.key_bytes = sizeof(uint64_t);
    return evaluator;
}

void muster_evaluator_free(struct muster_evaluator *evaluator)
{
    if (!evaluator)
        return;
    muster_rank_costs_free(&evaluator->costs);
    muster_watch_free(&evaluator->hangs);
    muster_watch_free(&evaluator->slow);
    muster_watch_free(&evaluator->paths);
    muster_watch_free(&evaluator->near_slow);
    muster_watch_free(&evaluator->hosts);
    muster_near_free(&evaluator->near);
    muster_hashmap_free(&evaluator->by_id);
    muster_arena_free(&evaluator->memory);
    free(evaluator);
}

void muster_evaluator_near_from(struct muster_evaluator *evaluator, size_t processes)
{
    evaluator->near_from = processes;
}

const struct muster_rank_costs *muster_evaluator_costs(const struct muster_evaluator *evaluator)
{
    return &evaluator->costs;
}

uint64_t muster_evaluator_silenced(const struct muster_evaluator *evaluator)
{
    return evaluator->silenced;
}

/* The thread's own time: on a busy machine a look takes longer, and rests no longer for that. */
static uint64_t spent_ns(void)
{
    return muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* What looking took is left to others for so many times as long. */
static uint64_t rest_until(uint64_t begin_ns, unsigned times, uint64_t least_ns, uint64_t now_ns)
{
    uint64_t rests = (1 + times) * (spent_ns() - begin_ns);
    return now_ns + (rests > least_ns ? rests : least_ns);
}

/* ---- late ranks and slow transfers ---- */

/* Of a job so large some are looked at closely. */
static bool is_large(const struct muster_evaluator *evaluator, const struct muster_join *join)
{
    return join->processes >= evaluator->near_from;
}

/* All looks of a job spend one error rate, as on one host; the two kinds of them take its windows
 * in turn. Where somebody falls silent or is heard again, or others are looked at, the evidence is
 * another one. Returns since when it is. */
static uint64_t take_window(struct muster_evaluator *evaluator, const struct muster_join *join,
                            uint64_t now_ns, bool near, struct muster_view *view)
{
    struct windows *windows = near ? &evaluator->near_windows : &evaluator->windows;
    bool chosen = near && is_large(evaluator, join);
    uint64_t heard, since_ns = muster_join_since_ns(join, now_ns, chosen, &heard);
    if (near && !chosen && since_ns < evaluator->latest_ns)
        since_ns = evaluator->latest_ns;
    if (heard != windows->heard)
        windows->taken.since_unix_ns = UINT64_MAX;
    windows->heard = heard;
    muster_windows_take(&windows->taken, since_ns, view);
    view->window = 2 * view->window - !near;
    return since_ns;
}

/* Emits what the other kinds of looks do not emit already. */
struct gate {
    const struct muster_watch *other[2];
    muster_watch_emit *emit;
    void *arg;
};

static void emit_once(void *arg, const struct muster_finding *finding)
{
    const struct gate *gate = arg;
    if (!muster_watch_knows(gate->other[0], finding) &&
        !muster_watch_knows(gate->other[1], finding))
        gate->emit(gate->arg, finding);
}

/* What the findings rest on. */
static void put_basis(struct muster_findings *now)
{
    for (size_t i = 0; i < now->n; i++)
        muster_finding_line(&now->finding[i].not_observable,
                            "judged over all hosts while the job runs, by a share of its latest "
                            "operations; what it cost counts in them alone");
}

static bool evaluate_slow(struct muster_evaluator *evaluator, struct muster_join *join,
                          uint64_t now_ns, muster_watch_emit *emit, void *arg)
{
    struct muster_findings now = {0};
    struct muster_run run;
    struct muster_view view;
    if (!muster_join_run(join, now_ns, false, &run))
        return false;
    struct gate gate = {{&evaluator->near_slow, &evaluator->hosts}, emit, arg};
    bool whole = muster_view_of_run(&run, &view, NULL) == 0;
    if (whole) {
        muster_watch_window(&evaluator->slow, take_window(evaluator, join, now_ns, false, &view));
        whole = muster_diagnose_slow(&view, &now, NULL) == 0 &&
                muster_rank_costs_take(&evaluator->costs, join, &run, &view);
        muster_view_free(&view);
    }
    if (whole) {
        put_basis(&now);
        muster_watch_slow(&evaluator->slow, &now, false, emit_once, &gate);
        muster_watch_update(&evaluator->paths, &now, emit, arg);
        muster_watch_drop_over(&evaluator->slow, &now, emit_once, &gate);
    }
    muster_findings_free(&now);
    muster_join_run_free(&run);
    return whole;
}

/* ---- of a large job those who show; of others the latest ---- */

static bool evaluate_near(struct muster_evaluator *evaluator, struct muster_join *join,
                          uint64_t now_ns, muster_watch_emit *emit, void *arg)
{
    struct muster_findings now = {0};
    struct muster_run run;
    struct muster_view view;
    bool large = is_large(evaluator, join);
    if (large ? !muster_join_run_near(join, now_ns, &run)
              : !muster_join_run_latest(join, now_ns, evaluator->latest_ns, &run))
        return false;
    struct gate gate = {{&evaluator->slow, &evaluator->hosts}, emit, arg};
    struct muster_watch *watch = &evaluator->near_slow;
    bool whole = muster_view_of_run(&run, &view, NULL) == 0;
    if (whole) {
        view.chosen_of = large ? muster_join_coverage(join, now_ns).ranks : 0;
        muster_watch_window(watch, take_window(evaluator, join, now_ns, true, &view));
        whole = muster_straggler_find(&view, &now, NULL) == 0;
        muster_findings_name(&now, &view);
        muster_view_free(&view);
    }
    if (whole) {
        put_basis(&now);
        muster_watch_slow(watch, &now, false, emit_once, &gate);
        muster_watch_drop_over(watch, &now, emit_once, &gate);
    }
    muster_findings_free(&now);
    muster_join_run_free(&run);
    return whole;
}

/* Somebody may be named as late soon. Who was named is looked at no oftener than all: one that is
 * on the edge is not taken back at once. */
static bool is_urgent(const struct muster_evaluator *evaluator)
{
    const struct muster_watch *watch = &evaluator->near_slow;
    return muster_watch_suspects(watch) ||
           (evaluator->near.fresh && muster_watch_unresolved(watch) == 0);
}

static bool is_news(const struct muster_join *join, uint64_t timed, size_t living)
{
    return join->timed - timed >= NEW_LEAST * (living ? living : 1);
}

/* Beside the minutes that the windows of a small job hold, what somebody has cost since he is late
 * is little for long. */
static bool is_latest_wanted(struct muster_evaluator *evaluator, const struct muster_join *join,
                             size_t living, uint64_t now_ns)
{
    uint64_t server_ns = muster_join_server_ns(join, now_ns);
    bool jumped_back = server_ns < evaluator->latest_ns;
    if (jumped_back || server_ns > evaluator->latest_ns + 2 * LATEST_NS)
        evaluator->latest_ns = server_ns - LATEST_NS;
    bool news = is_news(join, evaluator->near_timed, living);
    return (news || muster_watch_suspects(&evaluator->near_slow)) &&
           muster_join_reaches(join, now_ns, evaluator->latest_ns);
}

/* Who is named as late there is looked at until that is over. */
static bool look_near(struct muster_evaluator *evaluator, struct muster_join *join, uint64_t now_ns,
                      muster_watch_emit *emit, void *arg)
{
    struct muster_join_coverage is = muster_join_coverage(join, now_ns);
    bool large = is_large(evaluator, join), whole = true, wanted;
    if (now_ns < evaluator->near_due_ns)
        return true;
    uint64_t begin = spent_ns();
    if (large)
        whole = muster_near_choose(&evaluator->near, join, now_ns);
    wanted = large ? evaluator->near.hosts > 0 || muster_watch_unresolved(&evaluator->near_slow) > 0
                   : is_latest_wanted(evaluator, join, is.living, now_ns);
    if (whole && wanted && is.ranks * 100 >= is.expected * HEARD_PERCENT) {
        evaluator->near_timed = join->timed;
        whole = evaluate_near(evaluator, join, now_ns, emit, arg);
    }
    evaluator->near_due_ns = is_urgent(evaluator) ? now_ns + NEAR_NS + spent_ns() - begin
                                                  : rest_until(begin, 3, NEAR_CALM_NS, now_ns);
    return whole;
}

/* ---- of all ---- */

/* Then those of all leave the others their time. */
static bool has_two_kinds(const struct muster_evaluator *evaluator, const struct muster_join *join,
                          uint64_t now_ns)
{
    return is_large(evaluator, join) || muster_join_reaches(join, now_ns, evaluator->latest_ns);
}

static bool look_slow(struct muster_evaluator *evaluator, struct muster_join *join, uint64_t now_ns,
                      muster_watch_emit *emit, void *arg)
{
    struct muster_join_coverage is = muster_join_coverage(join, now_ns);
    bool shown = is_urgent(evaluator) && now_ns < evaluator->slow_due_ns + ALONE_NS;
    bool news = is_news(join, evaluator->timed, is.living);
    if (now_ns < evaluator->slow_due_ns || shown ||
        (!news && !muster_watch_suspects(&evaluator->slow)))
        return true;
    if (is.ranks * 100 < is.expected * HEARD_PERCENT) {
        evaluator->silenced++;
        evaluator->slow_due_ns = now_ns + SLOW_NS;
        return true;
    }
    uint64_t begin = spent_ns();
    evaluator->timed = join->timed;
    bool whole = evaluate_slow(evaluator, join, now_ns, emit, arg);
    /* Who is suspected is looked at again at once: nobody is named by one look. */
    evaluator->slow_due_ns =
        muster_watch_suspects(&evaluator->slow)
            ? now_ns + SLOW_NS + spent_ns() - begin
            : rest_until(begin, has_two_kinds(evaluator, join, now_ns) ? 3 : 1, SLOW_NS, now_ns);
    return whole;
}

/* ---- what agents find on their hosts ---- */

/* Each was found for long enough there; here it holds until it is heard of no more. */
static bool look_hosts(struct muster_evaluator *evaluator, struct muster_join *join,
                       uint64_t now_ns, muster_watch_emit *emit, void *arg)
{
    struct muster_findings now = {0};
    struct gate gate = {{&evaluator->slow, &evaluator->near_slow}, emit, arg};
    struct muster_join_coverage is = muster_join_coverage(join, now_ns);
    if (now_ns < evaluator->hosts_due_ns || is.ranks * 100 < is.expected * HEARD_PERCENT)
        return true;
    evaluator->hosts_due_ns = now_ns + SLOW_NS;
    bool whole = muster_host_findings(join, now_ns, &now);
    for (size_t i = 0; i < now.n; i++) {
        now.finding[i].against_one = false; /* its agent has waited */
        muster_finding_line(&now.finding[i].not_observable,
                            "found by the agent of host %s, which sees all operations of its ranks "
                            "and none of other hosts",
                            now.finding[i].host);
    }
    if (whole) {
        muster_watch_window(&evaluator->hosts, UINT64_MAX); /* nothing is looked at again */
        muster_watch_slow(&evaluator->hosts, &now, true, emit_once, &gate);
        muster_watch_drop_over(&evaluator->hosts, &now, emit_once, &gate);
    }
    muster_findings_free(&now);
    return whole;
}

/* ---- hangs ---- */

static struct standing *standing_of(struct muster_evaluator *evaluator, uint64_t id)
{
    size_t at = muster_hashmap_find(&evaluator->by_id, &id);
    if (at != SIZE_MAX)
        return &evaluator->standing[at];
    struct muster_arena *memory = &evaluator->memory;
    struct standing *standing =
        muster_arena_add(memory, &evaluator->standing, &evaluator->standings, sizeof *standing);
    standing->id = id;
    memory->failed =
        memory->failed || !muster_hashmap_put(&evaluator->by_id, &id, evaluator->standings - 1);
    return memory->failed ? NULL : standing;
}

/* Of all living members together: changes when one of them moves. */
static bool mark_process(struct muster_evaluator *evaluator,
                         const struct muster_join_process *process, size_t which)
{
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && process->segment->comm[i].uid; i++) {
        const struct muster_seg_comm *comm = &process->segment->comm[i];
        if (comm->end_ns)
            continue;
        struct standing *standing = standing_of(evaluator, comm->id);
        if (!standing)
            return false;
        uint64_t facts[] = {
            which, comm->uid, comm->calls, comm->called_ns, comm->launches_ended, process->state};
        standing->mark += muster_hash(MUSTER_HASH_SEED, facts, sizeof facts);
        standing->heard++;
        standing->nranks = comm->nranks > standing->nranks ? comm->nranks : standing->nranks;
    }
    return true;
}

/* An id that is used again leaves remains, which are not what others stand in. */
static bool is_remains(const struct muster_segment *segment, unsigned which)
{
    bool again = false;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && segment->comm[i].uid; i++)
        again |= i != which && segment->comm[i].id == segment->comm[which].id &&
                 (segment->comm[i].end_ns == 0 || i > which);
    return again;
}

/* Who gave up what others stand in is heard, too. */
static void hear_ended(struct muster_evaluator *evaluator, const struct muster_segment *segment)
{
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && segment->comm[i].uid; i++) {
        const struct muster_seg_comm *comm = &segment->comm[i];
        size_t at = comm->end_ns ? muster_hashmap_find(&evaluator->by_id, &comm->id) : SIZE_MAX;
        if (at < evaluator->standings && !is_remains(segment, i))
            evaluator->standing[at].heard++;
    }
}

static bool is_gone(const struct muster_join_process *process)
{
    return process->state == MUSTER_PROCESS_KILLED || process->state == MUSTER_PROCESS_EXITED;
}

static bool is_heard_of(const struct muster_join *join, const struct muster_join_process *process,
                        uint64_t now_ns)
{
    const struct muster_join_host *host = &join->host[process->host];
    return host->instance && muster_join_hears(join, host, now_ns);
}

/* Communicators as they stand, each with the time since which it stands so. */
static bool mark_all(struct muster_evaluator *evaluator, const struct muster_join *join,
                     uint64_t now_ns, bool *moved)
{
    struct muster_arena memory = evaluator->memory; /* of those before */
    const struct standing *before = evaluator->standing;
    struct muster_hashmap by_id = evaluator->by_id;
    bool whole = true;
    evaluator->memory = (struct muster_arena){0};
    evaluator->standing = NULL;
    evaluator->standings = 0;
    evaluator->by_id = (struct muster_hashmap){.key_bytes = sizeof(uint64_t)};
    size_t gone = 0;
    for (size_t i = 0; whole && i < join->processes; i++) {
        if (!is_heard_of(join, &join->process[i], now_ns))
            continue;
        whole = mark_process(evaluator, &join->process[i], i);
        gone += is_gone(&join->process[i]);
    }
    for (size_t i = 0; whole && i < join->processes; i++)
        if (is_heard_of(join, &join->process[i], now_ns))
            hear_ended(evaluator, join->process[i].segment);
    evaluator->gone_ns = gone > evaluator->gone ? now_ns : evaluator->gone_ns;
    evaluator->gone = gone;
    for (size_t i = 0; i < evaluator->standings; i++) {
        struct standing *standing = &evaluator->standing[i];
        size_t at = muster_hashmap_find(&by_id, &standing->id);
        bool same = at != SIZE_MAX && before[at].mark == standing->mark;
        standing->since_ns = same ? before[at].since_ns : now_ns;
        *moved |= !same;
    }
    muster_arena_free(&memory);
    muster_hashmap_free(&by_id);
    return whole;
}

/* Somebody has just been gone for long enough, or all have, or somebody is reported as gone. */
static bool gone_due(const struct muster_evaluator *evaluator, size_t living, uint64_t now_ns)
{
    uint64_t ended_ns = evaluator->gone_ns + ENDED_NS;
    if (living == 0 && evaluator->gone_ns && now_ns >= ended_ns &&
        evaluator->evaluated_ns < ended_ns)
        return true;
    return muster_hang_gone_due(evaluator->gone_ns, evaluator->evaluated_ns, now_ns) ||
           (muster_watch_gone(&evaluator->hangs) > 0 &&
            now_ns - evaluator->evaluated_ns >= AGAIN_NS);
}

static bool worth_evaluating(const struct muster_evaluator *evaluator, size_t living,
                             uint64_t now_ns, bool moved)
{
    if (gone_due(evaluator, living, now_ns))
        return true;
    for (size_t i = 0; i < evaluator->standings; i++) {
        uint64_t due = evaluator->standing[i].since_ns + evaluator->hang_ns;
        if (now_ns >= due && (evaluator->evaluated_ns < due ||
                              now_ns - evaluator->evaluated_ns >= evaluator->again_ns))
            return true;
    }
    return moved && muster_watch_hanging(&evaluator->hangs) > 0;
}

static bool is_heard(const struct muster_evaluator *evaluator, uint64_t comm)
{
    size_t at = comm ? muster_hashmap_find(&evaluator->by_id, &comm) : SIZE_MAX;
    return comm == 0 ||
           (at != SIZE_MAX && evaluator->standing[at].heard >= evaluator->standing[at].nranks);
}

static bool is_heard_whole(const struct muster_evaluator *evaluator,
                           const struct muster_finding *finding)
{
    return is_heard(evaluator, finding->comm) && is_heard(evaluator, finding->comms[0]) &&
           is_heard(evaluator, finding->comms[1]);
}

/* Only what was seen whole; and what hung where nobody sees any more is not over for that. */
static bool keep_heard(struct muster_evaluator *evaluator, struct muster_findings *now)
{
    size_t kept = 0;
    for (size_t i = 0; i < now->n; i++)
        if (is_heard_whole(evaluator, &now->finding[i]))
            now->finding[kept++] = now->finding[i];
        else
            evaluator->silenced++;
    now->n = kept;
    for (size_t i = 0; i < evaluator->hangs.known.n; i++) {
        const struct muster_finding *known = &evaluator->hangs.known.finding[i];
        if (known->resolved || is_heard_whole(evaluator, known))
            continue;
        if (!muster_findings_copy(now, known))
            return false;
    }
    return true;
}

static bool evaluate_hangs(struct muster_evaluator *evaluator, struct muster_join *join, bool over,
                           uint64_t now_ns, muster_watch_emit *emit, void *arg)
{
    struct muster_findings now = {0};
    struct muster_run run;
    struct muster_view view;
    if (!muster_join_run(join, now_ns, true, &run))
        return false;
    bool whole = muster_view_of_run_aligned(&run, &view, NULL) == 0;
    if (whole) {
        whole =
            muster_hang_find(&view, evaluator->hang_ns, over, &now) && keep_heard(evaluator, &now);
        muster_view_free(&view);
    }
    if (whole)
        muster_watch_update(&evaluator->hangs, &now, emit, arg);
    evaluator->again_ns = now.n > 0                             ? AGAIN_NS
                          : evaluator->again_ns < AGAIN_MOST_NS ? 2 * evaluator->again_ns
                                                                : evaluator->again_ns;
    muster_findings_free(&now);
    muster_join_run_free(&run);
    return whole;
}

static bool look_hangs(struct muster_evaluator *evaluator, struct muster_join *join,
                       uint64_t now_ns, muster_watch_emit *emit, void *arg)
{
    bool moved = false;
    if (now_ns < evaluator->hang_due_ns)
        return true;
    uint64_t begin = spent_ns();
    size_t living = muster_join_coverage(join, now_ns).living;
    muster_watch_alive(&evaluator->hangs, living);
    bool whole = mark_all(evaluator, join, now_ns, &moved);
    evaluator->again_ns = moved ? AGAIN_NS : evaluator->again_ns;
    if (whole && worth_evaluating(evaluator, living, now_ns, moved)) {
        evaluator->evaluated_ns = now_ns;
        whole = evaluate_hangs(evaluator, join, living == 0, now_ns, emit, arg);
    }
    evaluator->hang_due_ns = rest_until(begin, 1, HANG_NS, now_ns);
    return whole;
}

/* ---- all ---- */

bool muster_evaluator_look(struct muster_evaluator *evaluator, struct muster_join *join,
                           uint64_t now_ns, muster_watch_emit *emit, void *arg)
{
    bool hangs = look_hangs(evaluator, join, now_ns, emit, arg);
    bool hosts = look_hosts(evaluator, join, now_ns, emit, arg);
    bool near = look_near(evaluator, join, now_ns, emit, arg);
    return look_slow(evaluator, join, now_ns, emit, arg) && hangs && hosts && near;
}

static void take_known(const struct muster_watch *watch, muster_watch_emit *take, void *arg)
{
    for (size_t i = 0; i < watch->known.n; i++)
        if (!watch->known.finding[i].resolved && !watch->known.finding[i].retracted)
            take(arg, &watch->known.finding[i]);
}

void muster_evaluator_findings(const struct muster_evaluator *evaluator, muster_watch_emit *take,
                               void *arg)
{
    take_known(&evaluator->hangs, take, arg);
    take_known(&evaluator->slow, take, arg);
    take_known(&evaluator->near_slow, emit_once,
               &(struct gate){{&evaluator->slow, &evaluator->slow}, take, arg});
    take_known(&evaluator->hosts, emit_once,
               &(struct gate){{&evaluator->slow, &evaluator->near_slow}, take, arg});
    take_known(&evaluator->paths, take, arg);
}
