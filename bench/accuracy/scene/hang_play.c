/* What becomes of a case: every host calls on until it has to wait for its GPU, every GPU begins
 * what it was given, and an operation ends where all that take part have begun. Nothing depends on
 * the order in which ranks are looked at. */
#include <stdlib.h>
#include <string.h>

#include "hang_scene_job.h"

#define CONNECT_NS 50e6 /* a communicator's first operation */

bool hang_is_culprit(const struct hang_case *hang, unsigned rank)
{
    for (unsigned g = 0; g < hang->n_culprits; g++)
        if (hang->culprit[g] == rank)
            return true;
    return false;
}

struct hang_members hang_members_of(const struct hang_case *hang, unsigned stream, unsigned rank)
{
    if (stream == HANG_TP)
        return (struct hang_members){rank / hang->tp * hang->tp, 1, hang->tp};
    if (stream == HANG_DP)
        return (struct hang_members){rank % hang->tp, hang->tp, hang->ranks / hang->tp};
    return (struct hang_members){0, 1, hang->ranks};
}

bool hang_same_content(const struct hang_call *a, const struct hang_call *b)
{
    bool rooted = a->func == MUSTER_FUNC_BROADCAST;
    return a->func == b->func && a->count == b->count && a->dtype == b->dtype &&
           (!rooted || a->root == b->root);
}

static void *need(size_t n, size_t size)
{
    void *memory = calloc(n + 1, size);
    if (!memory)
        exit(2);
    return memory;
}

/* ---- what each rank would call ---- */

/* The peer of a rank in the chain; false: it has none. */
static bool peer_of(const struct hang_case *hang, unsigned stream, unsigned rank, int32_t *peer)
{
    bool up = stream == HANG_SEND_ON || stream == HANG_RECV_BACK;
    *peer = up ? (int32_t)rank + 1 : (int32_t)rank - 1;
    return *peer >= 0 && *peer < (int32_t)hang->ranks;
}

static void change(const struct hang_case *hang, struct hang_call *call)
{
    unsigned changed = hang->fault == HANG_HARMLESS ? 2 : hang->changed;
    if (changed == 0) {
        call->func =
            call->func == MUSTER_FUNC_ALL_REDUCE ? MUSTER_FUNC_BROADCAST : MUSTER_FUNC_ALL_REDUCE;
    } else if (changed == 1) {
        call->count += 1 + call->count / 3;
    } else if (changed == 2) {
        call->dtype = hang->fault == HANG_HARMLESS ? MUSTER_DTYPE_INT32 : MUSTER_DTYPE_FLOAT64;
    } else {
        call->root = 1;
    }
}

static void add_call(struct hang_job *job, unsigned r, const struct hang_position *position,
                     unsigned place)
{
    struct hang_rank *rank = &job->rank[r];
    int32_t peer = 0;
    if (hang_is_p2p(position->stream) && !peer_of(job->hang, position->stream, r, &peer))
        return;
    rank->call[rank->calls++] = (struct hang_call){
        .stream = position->stream,
        .func = position->func,
        .dtype = position->dtype,
        .sync = position->sync,
        .grouped = position->grouped,
        .count = position->count,
        .root = hang_is_p2p(position->stream) ? peer : position->root,
        .place = place,
        .work_ns = position->work_ns * (0.8 + 0.4 * draw_unit(&job->draw)),
        .transfer_ns = position->transfer_ns,
        .call_ns = HANG_NEVER,
        .launch_ns = HANG_NEVER,
        .begin_ns = HANG_NEVER,
    };
}

static const struct hang_position *position_at(const struct hang_case *hang, unsigned place)
{
    return &hang->position[place % hang->positions];
}

static void add_faulty(struct hang_job *job, unsigned r, unsigned place)
{
    const struct hang_case *hang = job->hang;
    struct hang_position position = *position_at(hang, place);
    struct hang_rank *rank = &job->rank[r];
    if (hang->fault == HANG_ORDER) {
        add_call(job, r, position_at(hang, place + 1), place);
        add_call(job, r, &position, place + 1);
        return;
    }
    if (hang->fault == HANG_SKIPPED)
        return;
    if (hang->fault == HANG_EXTRA) {
        struct hang_position extra = position;
        extra.func = MUSTER_FUNC_ALL_REDUCE;
        extra.count = hang->changed == 0 ? position.count : 1;
        extra.grouped = false;
        add_call(job, r, &extra, place);
    }
    add_call(job, r, &position, place);
    if (hang->fault == HANG_DIFFERENT || hang->fault == HANG_HARMLESS)
        change(hang, &rank->call[rank->calls - 1]);
}

static void add_calls(struct hang_job *job, unsigned r)
{
    const struct hang_case *hang = job->hang;
    bool bends = hang->fault == HANG_ORDER || hang->fault == HANG_SKIPPED ||
                 hang->fault == HANG_EXTRA || hang->fault == HANG_DIFFERENT ||
                 hang->fault == HANG_HARMLESS;
    for (unsigned place = 0; place < hang->steps * hang->positions; place++) {
        if (place == hang->place && bends && hang_is_culprit(hang, r)) {
            add_faulty(job, r, place);
            place += hang->fault == HANG_ORDER;
        } else {
            add_call(job, r, position_at(hang, place), place);
        }
    }
    struct hang_rank *rank = &job->rank[r];
    for (unsigned i = 0; i < rank->calls; i++) {
        /* What is launched together is of one communicator. */
        rank->call[i].grouped &= i + 1 < rank->calls &&
                                 rank->call[i + 1].stream == rank->call[i].stream &&
                                 !rank->call[i + 1].sync;
    }
}

/* ---- where ranks meet ---- */

/* A send and its receive meet where the sender is. */
static size_t instance_of(const struct hang_case *hang, unsigned r, const struct hang_call *call)
{
    unsigned stream = call->stream;
    unsigned at = hang_members_of(hang, stream, r).first;
    if (hang_is_p2p(stream)) {
        bool receives = stream == HANG_RECV_ON || stream == HANG_RECV_BACK;
        at = receives ? (unsigned)call->root : r;
        stream -= receives;
    }
    return (size_t)stream * hang->ranks + at;
}

static void meet_at(struct hang_job *job, unsigned r, struct hang_call *call)
{
    const struct hang_case *hang = job->hang;
    call->meet = &job->meet[instance_of(hang, r, call) * job->numbers + call->number];
    struct hang_meet *meet = call->meet;
    meet->needed = hang_is_p2p(call->stream) ? 2 : hang_members_of(hang, call->stream, r).n;
    bool first = !meet->first;
    meet->first = first ? call : meet->first;
    if (first)
        meet->end_ns = HANG_NEVER;
    if (!hang_is_p2p(call->stream) && hang->fault != HANG_HARMLESS)
        meet->differs |= !hang_same_content(call, meet->first);
}

static void number_calls(struct hang_job *job)
{
    const struct hang_case *hang = job->hang;
    for (unsigned r = 0; r < hang->ranks; r++) {
        uint64_t next[HANG_STREAMS] = {0};
        for (unsigned i = 0; i < job->rank[r].calls; i++) {
            struct hang_call *call = &job->rank[r].call[i];
            call->number = next[call->stream]++;
            job->numbers = call->number + 1 > job->numbers ? call->number + 1 : job->numbers;
        }
    }
    job->meet = need(HANG_STREAMS * hang->ranks * job->numbers, sizeof *job->meet);
    for (unsigned r = 0; r < hang->ranks; r++)
        for (unsigned i = 0; i < job->rank[r].calls; i++)
            meet_at(job, r, &job->rank[r].call[i]);
    /* The link that fails is of the communicator of the first culprit. */
    const struct hang_rank *rank = hang->fault == HANG_STUCK ? &job->rank[hang->culprit[0]] : NULL;
    for (unsigned i = 0; rank && i < rank->calls; i++) {
        if (rank->call[i].place >= hang->place) {
            rank->call[i].meet->stuck = true;
            break;
        }
    }
}

/* ---- time ---- */

static double end_of(const struct hang_call *call)
{
    return call->meet->end_ns;
}

/* Follows what has ended, in order. */
static void follow_ends(struct hang_rank *rank)
{
    while (rank->ended < rank->made && end_of(&rank->call[rank->ended]) < HANG_NEVER) {
        double end = end_of(&rank->call[rank->ended]);
        rank->ended_ns = end > rank->ended_ns ? end : rank->ended_ns;
        rank->ended++;
    }
}

static bool stops_at(const struct hang_job *job, unsigned r, unsigned i)
{
    const struct hang_case *hang = job->hang;
    const struct hang_call *call = &job->rank[r].call[i];
    bool inside = i > 0 && call[-1].grouped;
    return hang->fault == HANG_ABSENT && hang_is_culprit(hang, r) && call->place >= hang->place &&
           !inside;
}

static double pause_ns(const struct hang_job *job, unsigned r, unsigned i)
{
    const struct hang_case *hang = job->hang;
    const struct hang_call *call = &job->rank[r].call[i];
    bool here = call->place >= hang->place && (i == 0 || call[-1].place < hang->place);
    bool all = hang->fault == HANG_PAUSE;
    bool one = hang->fault == HANG_SHORT_PAUSE || hang->fault == HANG_ARRIVED;
    return here && (all || (one && hang_is_culprit(hang, r))) ? hang->pause_s * 1e9 : 0;
}

/* The host of the rank makes its next call, if nothing holds it up. */
static bool make_call(struct hang_job *job, unsigned r)
{
    const struct hang_case *hang = job->hang;
    struct hang_rank *rank = &job->rank[r];
    struct hang_call *call = &rank->call[rank->made];
    follow_ends(rank);
    if (rank->in_call || rank->made == rank->calls || stops_at(job, r, rank->made) ||
        (call->sync && rank->ended < rank->made)) {
        return false;
    }
    bool inside = rank->made > 0 && call[-1].grouped;
    unsigned behind = rank->made > hang->ahead && !inside ? rank->made - hang->ahead : 0;
    if (behind > rank->ended)
        return false;
    double at = rank->now_ns + call->work_ns + pause_ns(job, r, rank->made);
    if (call->sync && rank->ended_ns + call->work_ns > at)
        at = rank->ended_ns + call->work_ns + pause_ns(job, r, rank->made);
    else if (behind && end_of(&rank->call[behind - 1]) > at)
        at = end_of(&rank->call[behind - 1]);
    if (at >= rank->gone_ns)
        return false;
    call->call_ns = rank->now_ns = at;
    rank->made++;
    rank->posted[call->stream]++;
    call->meet->called++;
    call->meet->last_call_ns = at > call->meet->last_call_ns ? at : call->meet->last_call_ns;
    rank->in_call = true;
    return true;
}

/* A communicator's first operation connects, and so waits for all; then it is launched. */
static bool return_from_call(struct hang_job *job, unsigned r)
{
    struct hang_rank *rank = &job->rank[r];
    struct hang_call *call = rank->made ? &rank->call[rank->made - 1] : NULL;
    if (!rank->in_call)
        return false;
    double at = call->call_ns + 2e3;
    if (call->number == 0) {
        if (call->meet->called < call->meet->needed)
            return false;
        at = call->meet->last_call_ns + CONNECT_NS;
    }
    if (at >= rank->gone_ns)
        return false;
    rank->in_call = false;
    rank->now_ns = at;
    if (!call->grouped)
        for (; call >= rank->call && call->launch_ns == HANG_NEVER; call--)
            call->launch_ns = at;
    return true;
}

static bool any_goes(const struct hang_job *job, unsigned r, const struct hang_call *call,
                     double before_ns)
{
    const struct hang_case *hang = job->hang;
    struct hang_members members = hang_members_of(hang, call->stream, r);
    if (hang_is_p2p(call->stream))
        return job->rank[r].gone_ns < before_ns || job->rank[call->root].gone_ns < before_ns;
    for (unsigned i = 0; i < members.n; i++)
        if (job->rank[members.first + i * members.stride].gone_ns < before_ns)
            return true;
    return false;
}

static void join(struct hang_job *job, unsigned r, struct hang_call *call)
{
    struct hang_meet *meet = call->meet;
    meet->begun++;
    meet->last_begin_ns =
        call->begin_ns > meet->last_begin_ns ? call->begin_ns : meet->last_begin_ns;
    double end = meet->last_begin_ns + call->transfer_ns;
    if (meet->begun == meet->needed && !meet->differs && !meet->stuck &&
        !any_goes(job, r, call, end)) {
        meet->end_ns = end;
    }
}

/* The GPU begins its next operations of every stream. */
static bool begin_next(struct hang_job *job, unsigned r)
{
    const struct hang_case *hang = job->hang;
    struct hang_rank *rank = &job->rank[r];
    bool any = false;
    bool held[HANG_STREAMS + 1] = {false};
    while (rank->begun < rank->made && rank->call[rank->begun].begin_ns < HANG_NEVER)
        rank->begun++;
    for (unsigned i = rank->begun; i < rank->made; i++) {
        struct hang_call *call = &rank->call[i];
        unsigned comm = hang_is_p2p(call->stream) ? HANG_CHAIN : call->stream;
        unsigned stream = hang->serial ? HANG_STREAMS : comm;
        if (call->begin_ns < HANG_NEVER)
            continue;
        int last = rank->last[stream];
        const struct hang_call *before = last < 0 ? NULL : &rank->call[last];
        bool together = before && before->grouped && last + 1 == (int)i;
        double ready = !before ? 0 : together ? before->begin_ns : end_of(before);
        bool busy =
            hang->fault == HANG_GPU_BUSY && hang_is_culprit(hang, r) && call->place >= hang->place;
        if (held[stream] || call->launch_ns == HANG_NEVER || ready == HANG_NEVER || busy) {
            held[stream] = true;
            continue;
        }
        double at = call->launch_ns + 5e3 > ready + 2e3 ? call->launch_ns + 5e3 : ready + 2e3;
        if (at >= rank->gone_ns) {
            held[stream] = true;
            continue;
        }
        call->begin_ns = at;
        rank->last[stream] = (int)i;
        join(job, r, call);
        any = true;
    }
    return any;
}

/* All three are tried: one makes room for another. */
static bool go_on(struct hang_job *job, unsigned r)
{
    bool called = make_call(job, r);
    bool returned = return_from_call(job, r);
    bool begun = begin_next(job, r);
    return called || returned || begun;
}

static void run(struct hang_job *job)
{
    for (bool any = true; any;) {
        any = false;
        for (unsigned r = 0; r < job->hang->ranks; r++)
            while (go_on(job, r))
                any = true;
    }
}

static void set_up(struct hang_job *job)
{
    const struct hang_case *hang = job->hang;
    for (unsigned r = 0; r < hang->ranks; r++) {
        struct hang_rank *rank = &job->rank[r];
        rank->call = need(hang->steps * hang->positions + 2, sizeof *rank->call);
        rank->now_ns = 1e9 + 2e9 * draw_unit(&job->draw);
        rank->gone_ns = HANG_NEVER;
        for (unsigned s = 0; s <= HANG_STREAMS; s++)
            rank->last[s] = -1;
        add_calls(job, r);
    }
    number_calls(job);
}

static double last_thing(const struct hang_job *job)
{
    double last = 0;
    for (unsigned r = 0; r < job->hang->ranks; r++) {
        const struct hang_rank *rank = &job->rank[r];
        last = rank->now_ns > last ? rank->now_ns : last;
        for (unsigned i = 0; i < rank->made; i++) {
            double end = end_of(&rank->call[i]);
            last = end < HANG_NEVER && end > last ? end : last;
        }
    }
    return last;
}

static struct hang_job *play(const struct hang_case *hang, const double *gone_ns)
{
    struct hang_job *job = need(1, sizeof *job);
    job->hang = hang;
    job->draw.state = hang->seed * 0x9e3779b97f4a7c15ull + 29;
    job->rank = need(hang->ranks, sizeof *job->rank);
    set_up(job);
    for (unsigned r = 0; gone_ns && r < hang->ranks; r++)
        job->rank[r].gone_ns = gone_ns[r];
    run(job);
    job->last_ns = last_thing(job);
    return job;
}

/* When the rank came, or would have come, to the place. */
static double time_at(const struct hang_job *job, unsigned r, unsigned place)
{
    const struct hang_rank *rank = &job->rank[r];
    for (unsigned i = 0; i < rank->made; i++)
        if (rank->call[i].place >= place)
            return rank->call[i].call_ns;
    return rank->now_ns;
}

/* Those that go are played a second time, knowing when. */
static struct hang_job *play_with_death(const struct hang_case *hang)
{
    struct hang_job *dry = play(hang, NULL);
    double *gone_ns = need(hang->ranks, sizeof *gone_ns);
    for (unsigned r = 0; r < hang->ranks; r++) {
        bool all = hang->fault == HANG_INTERRUPTED;
        double spread = all ? 1.2e9 : draw_chance(&dry->draw, 0.5) ? 5e6 : 1e5;
        double at = time_at(dry, all ? 0 : hang->culprit[0], hang->place);
        gone_ns[r] =
            all || hang_is_culprit(hang, r) ? at + spread * draw_unit(&dry->draw) : HANG_NEVER;
    }
    hang_free(dry);
    struct hang_job *job = play(hang, gone_ns);
    free(gone_ns);
    return job;
}

/* When somebody looks, and who has gone by then. */
static void end_it(struct hang_job *job)
{
    const struct hang_case *hang = job->hang;
    double quiet = job->last_ns + hang->look_s * 1e9;
    job->look_ns = quiet;
    if (hang->fault == HANG_NOTHING || hang->fault == HANG_HARMLESS ||
        hang->fault == HANG_ARRIVED) {
        double from = hang->fault == HANG_NOTHING ? 0 : time_at(job, hang->culprit[0], hang->place);
        /* What waited goes on within moments; logs of other hosts are up to a second behind. */
        from += hang->fault != HANG_ARRIVED ? 0 : hang->hosts > 1 ? 1.2e9 : 0.2e9;
        double until = job->last_ns > from ? job->last_ns : from;
        job->look_ns = from + (until - from) * draw_unit(&job->draw);
    } else if (hang->fault == HANG_SHORT_PAUSE || hang->fault == HANG_PAUSE) {
        double after = time_at(job, hang->fault == HANG_PAUSE ? 0 : hang->culprit[0], hang->place);
        job->look_ns = after - hang->pause_s * 1e9 * draw_unit(&job->draw);
    }
    for (unsigned r = 0; r < hang->ranks; r++) {
        struct hang_rank *rank = &job->rank[r];
        double at = HANG_NEVER;
        if (hang->fault == HANG_FINISHED) {
            at = job->last_ns + 40e9 * draw_unit(&job->draw);
        } else if (hang->all_go) {
            at = quiet + 1.2e9 * draw_unit(&job->draw);
            job->look_ns = quiet + 60e9;
        }
        rank->gone_ns = rank->gone_ns < HANG_NEVER ? rank->gone_ns : at;
    }
}

struct hang_job *hang_play(const struct hang_case *hang)
{
    bool goes = hang->fault == HANG_DEAD || hang->fault == HANG_INTERRUPTED;
    struct hang_job *job = goes ? play_with_death(hang) : play(hang, NULL);
    end_it(job);
    return job;
}

void hang_free(struct hang_job *job)
{
    for (unsigned r = 0; r < job->hang->ranks; r++)
        free(job->rank[r].call);
    free(job->rank);
    free(job->meet);
    free(job);
}
