#include "diagnose/hang/hang_case.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"

/* A job that is killed as a whole does not go within one instant. */
#define TOGETHER_NS (2 * MUSTER_NS_PER_S)

struct muster_hang_case *muster_hang_case_add(struct muster_hang_cases *cases,
                                              struct muster_hang_comm *comm,
                                              enum muster_finding_kind kind)
{
    uint8_t *role = muster_arena_array(cases->arena, comm->members ? comm->members : 1, 1);
    if (!role || !muster_grow(&cases->at, cases->n, sizeof *cases->at))
        return NULL;
    struct muster_hang_case *hang = &cases->at[cases->n++];
    memset(hang, 0, sizeof *hang);
    hang->comm = comm;
    hang->role = role;
    hang->because_of = MUSTER_HANG_NOWHERE;
    hang->finding.kind = kind;
    hang->finding.comm = comm->id;
    hang->finding.gpu = -1;
    hang->finding.op.root = -1;
    return hang;
}

void muster_hang_case_undo(struct muster_hang_cases *cases)
{
    cases->n--;
}

const struct muster_hang_call *muster_hang_call_of_any(const struct muster_hang_comm *comm,
                                                       uint64_t number)
{
    const struct muster_hang_call *call = NULL;
    for (uint32_t i = 0; i < comm->members && !call; i++)
        call = muster_hang_call(&comm->member[i], number);
    return call;
}

uint64_t muster_hang_waited_ns(const struct muster_hang_member *member)
{
    uint64_t since = member->called_ns ? member->called_ns : member->begin_ns;
    return member->seen_ns > since ? member->seen_ns - since : 0;
}

uint64_t muster_hang_unix_ns(const struct muster_hang_member *member, uint64_t own_ns)
{
    return own_ns + (uint64_t)member->to_unix_ns;
}

uint64_t muster_hang_last_unix_ns(const struct muster_hang_member *member)
{
    bool called = member->called_ns > member->heartbeat_ns;
    return muster_hang_unix_ns(member, called ? member->called_ns : member->heartbeat_ns);
}

uint64_t muster_hang_latest_unix_ns(const struct muster_hang_comm *comm)
{
    uint64_t latest = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        uint64_t seen = muster_hang_unix_ns(&comm->member[i], comm->member[i].seen_ns);
        if (seen > latest)
            latest = seen;
    }
    return latest;
}

bool muster_hang_gone(const struct muster_hang_member *member)
{
    return member->state != MUSTER_PROCESS_RUNNING;
}

bool muster_hang_died_first(const struct muster_hang_comm *comm,
                            const struct muster_hang_member *member, uint64_t waiting_since,
                            uint64_t threshold_ns)
{
    uint64_t went = muster_hang_unix_ns(member, member->seen_ns);
    bool alone = went + TOGETHER_NS < muster_hang_latest_unix_ns(comm);
    return muster_hang_gone(member) && alone && went < waiting_since + threshold_ns;
}

uint64_t muster_hang_called_unix_ns(const struct muster_hang_member *member)
{
    uint64_t own = member->called_ns ? member->called_ns : member->begin_ns;
    return muster_hang_unix_ns(member, own);
}

void muster_hang_case_close(struct muster_hang_case *hang)
{
    struct muster_finding *finding = &hang->finding;
    const struct muster_hang_comm *comm = hang->comm;
    double lived = 0;
    bool left = true;
    finding->ranks = finding->victims = 0;
    finding->cost_s = 0;
    finding->entered = finding->has_op && finding->kind == MUSTER_FINDING_HANG_DEAD;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        uint8_t role = hang->role[i];
        lived += (double)(member->seen_ns - member->begin_ns) / 1e9;
        if (role & MUSTER_HANG_CULPRIT) {
            finding->entered &= member->calls > finding->op.index;
            left &= member->state == MUSTER_PROCESS_EXITED;
        }
        if ((role & MUSTER_HANG_CULPRIT) && finding->ranks < MUSTER_FINDING_RANKS) {
            if (finding->ranks == 0) {
                muster_text_copy(finding->host, sizeof finding->host, member->host);
                finding->gpu = member->gpu;
            }
            finding->rank[finding->ranks++] = member->rank;
        }
        if (!(role & MUSTER_HANG_VICTIM))
            continue;
        finding->cost_s += (double)muster_hang_waited_ns(member) / 1e9;
        if (role == MUSTER_HANG_VICTIM && finding->victims < MUSTER_FINDING_RANKS)
            finding->victim[finding->victims++] = member->rank;
        if (finding->since_unix_ns == 0 ||
            muster_hang_called_unix_ns(member) < finding->since_unix_ns)
            finding->since_unix_ns = muster_hang_called_unix_ns(member);
    }
    if (left && finding->kind == MUSTER_FINDING_HANG_DEAD)
        finding->went = MUSTER_WENT_LEFT;
    finding->cost_share = lived > 0 ? finding->cost_s / lived : 0;
    if (finding->cost_share > 1)
        finding->cost_share = 1;
}

bool muster_hang_same_call(const struct muster_hang_call *a, const struct muster_hang_call *b)
{
    return a->func == b->func && a->count == b->count && a->dtype == b->dtype &&
           (!muster_func_is_rooted(a->func) || a->root == b->root);
}

void muster_hang_case_op(struct muster_hang_case *hang, uint64_t number,
                         const struct muster_hang_call *call)
{
    struct muster_finding *finding = &hang->finding;
    finding->has_op = true;
    finding->op.index = number;
    finding->op.root = -1;
    if (!call)
        return;
    finding->op.func = call->func;
    finding->op.dtype = call->dtype;
    finding->op.bytes =
        muster_op_size_bytes(call->func, call->dtype, call->count, hang->comm->nranks);
    if (muster_func_is_rooted(call->func))
        finding->op.root = call->root;
}

void muster_hang_describe_calls(struct muster_hang_case *hang,
                                const struct muster_hang_member *member, uint64_t number)
{
    enum { BEFORE = 2, AFTER = 2 };
    char line[MUSTER_FINDING_LINE];
    struct muster_text text = muster_text_begin(line, sizeof line);
    muster_text_add(&text, "rank %" PRId32 " called", member->rank);
    uint64_t from = number > BEFORE ? number - BEFORE : 0;
    for (uint64_t n = from; n - from <= number - from + AFTER; n++) {
        const struct muster_hang_call *call = muster_hang_call(member, n);
        if (!call)
            continue;
        muster_text_add(&text, "%s %s#%" PRIu64 " %s %" PRIu64 " %s", n == from ? "" : ",",
                        n == number ? "here " : "", n, muster_func_name(call->func), call->count,
                        muster_dtype_name(call->dtype));
        if (muster_func_is_rooted(call->func))
            muster_text_add(&text, " root %" PRId32, call->root);
    }
    if (member->calls <= number + AFTER)
        muster_text_add(&text, ", then nothing");
    muster_finding_line(&hang->finding.evidence, "%s", line);
}

static const char *state_text(const struct muster_hang_member *member)
{
    switch (member->state) {
    case MUSTER_PROCESS_KILLED:
        return member->from_log ? "its log has stopped" : "its process is gone (killed or crashed)";
    case MUSTER_PROCESS_EXITED:
        return "its process left with the communicator alive";
    case MUSTER_PROCESS_FINALIZED:
        return "its process finalized its communicators and left";
    case MUSTER_PROCESS_RUNNING:
        break;
    }
    return member->over ? "it is alive and has finalized the communicator" : "it is alive";
}

void muster_hang_describe_absent(struct muster_hang_case *hang,
                                 const struct muster_hang_member *member, const char *stop,
                                 bool finished)
{
    struct muster_finding_lines *lines = &hang->finding.evidence;
    uint64_t posted = 0;
    for (uint32_t i = 0; i < member->pairs; i++)
        posted += member->pair[i].posted;
    muster_finding_line(lines,
                        "rank %" PRId32 " (pid %" PRIu32
                        " on %s)%s: %s; its last call%s was %.1f s "
                        "before it was last seen",
                        member->rank, member->pid, member->host, stop, state_text(member),
                        posted ? ", sends and receives included," : "",
                        (double)muster_hang_waited_ns(member) / 1e9);
    bool alive = member->state == MUSTER_PROCESS_RUNNING;
    uint64_t silent =
        member->seen_ns > member->heartbeat_ns ? member->seen_ns - member->heartbeat_ns : 0;
    if (alive && silent > 3 * MUSTER_NS_PER_S)
        muster_finding_line(lines,
                            "rank %" PRId32 "'s process has not run for %.1f s: it is stopped, "
                            "frozen or starved of CPU",
                            member->rank, (double)silent / 1e9);
    /* The others have gone on: that its kernels' ends were not all shown means nothing. */
    bool outdated = finished && posted == 0 && member->ended == MUSTER_HANG_OPEN;
    if (member->ended_by[0] && !outdated)
        muster_finding_line(lines, "rank %" PRId32 ": %s", member->rank, member->ended_by);
}

void muster_hang_describe_ended(struct muster_hang_case *hang, unsigned most)
{
    struct muster_finding_lines *lines = &hang->finding.evidence;
    for (uint32_t i = 0; i < hang->comm->members && lines->n < most; i++) {
        const struct muster_hang_member *member = &hang->comm->member[i];
        if (hang->role[i] == MUSTER_HANG_VICTIM && member->ended_by[0])
            muster_finding_line(lines, "rank %" PRId32 ": %s", member->rank, member->ended_by);
    }
}

void muster_hang_describe_limits(struct muster_hang_case *hang)
{
    struct muster_finding_lines *lines = &hang->finding.not_observable;
    const struct muster_hang_comm *comm = hang->comm;
    unsigned unknown = 0, captured = 0, logs = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        unknown += comm->member[i].ended == MUSTER_HANG_UNKNOWN;
        captured += comm->member[i].captured > 0;
        logs += comm->member[i].from_log;
    }
    if (unknown)
        muster_finding_line(
            lines,
            "whether operations ended on %u of %u ranks: no completion mark, kernel "
            "or network event tells; judged by the order of calls",
            unknown, comm->members);
    if (comm->nranks > comm->members)
        muster_finding_line(lines, "%u of %u ranks: no segment and no log of them is visible here",
                            comm->nranks - comm->members, comm->nranks);
    if (captured)
        muster_finding_line(lines,
                            "replays of CUDA graphs, which %u ranks captured: they are not "
                            "in the order of calls",
                            captured);
    if (logs)
        muster_finding_line(lines,
                            "the live state of %u ranks, whose segments are not here (another "
                            "host's, or gone): known from logs, to the second",
                            logs);
}
