/*
 * Lags that are carried on. Where every operation waits for its host, somebody's host is the last
 * in all of them, although all hosts take as long for a step: it fell behind once, and nothing
 * lets it catch up, for the others' calls stand in their queues meanwhile. Such a job is as slow
 * as its hosts, and no rank is to blame. What a host did take longer than the others is the
 * difference between its and their time from call to call, which needs no common clock. But it
 * says something only of hosts that waited for nothing in between: those that were so far ahead
 * that the last one had not even called what they could have waited for (one host, one clock).
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "diagnose/late_build.h"

/* Operations that a host is ahead if it certainly waited for none of the last. */
enum { AHEAD = 2, ROWS = AHEAD + 1, OTHERS_MOST = 32 };

int muster_late_calls_begin(struct muster_late_walk *walk)
{
    const struct muster_view_comm *comm = walk->joint.comm;
    const struct muster_view *view = walk->joint.view;
    const struct muster_view_member *member = &view->member[comm->first_member];
    memset(&walk->calls, 0, sizeof walk->calls);
    walk->calls.call_ns = calloc((size_t)ROWS * comm->members + 1, sizeof *walk->calls.call_ns);
    walk->calls.host = calloc(comm->members + 1, sizeof *walk->calls.host);
    if (!walk->calls.call_ns || !walk->calls.host) {
        muster_late_calls_end(&walk->calls);
        return -1;
    }
    for (uint32_t i = 0; i < comm->members; i++) {
        const char *own = view->gpu[member[i].gpu].host;
        uint32_t first = 0;
        while (first < i && (walk->calls.host[first] != first ||
                             strcmp(view->gpu[member[first].gpu].host, own) != 0)) {
            first++;
        }
        walk->calls.host[i] = first;
    }
    return 0;
}

void muster_late_calls_end(struct muster_late_calls *calls)
{
    free(calls->call_ns);
    free(calls->host);
    memset(calls, 0, sizeof *calls);
}

/* When the member called the operation `back` before the current one. */
static uint64_t call(const struct muster_late_walk *walk, uint32_t i, unsigned back)
{
    const struct muster_late_calls *calls = &walk->calls;
    if (back == 0) {
        const struct muster_view_op *op = walk->joint.op[i];
        return op && op->queued != MUSTER_QUEUED_UNKNOWN ? op->enqueue_ns : 0;
    }
    return calls->call_ns[(calls->row + ROWS - back) % ROWS * walk->joint.comm->members + i];
}

void muster_late_calls_note(struct muster_late_walk *walk)
{
    struct muster_late_calls *calls = &walk->calls;
    uint32_t n = walk->joint.comm->members;
    uint64_t number = walk->joint.any->number;
    calls->rows = calls->rows && number == calls->number + 1 ? calls->rows : 0;
    for (uint32_t i = 0; i < n; i++) {
        calls->call_ns[(size_t)calls->row * n + i] = call(walk, i, 0);
    }
    calls->rows += calls->rows < ROWS;
    calls->row = (calls->row + 1) % ROWS;
    calls->number = number;
}

/* From call to call, the median of the others of the host that are far ahead. False: they are not
 * the most of them. */
static bool others_pace(const struct muster_late_walk *walk, uint32_t own, uint64_t *pace_ns)
{
    uint64_t before = call(walk, own, AHEAD);
    size_t n = 0;
    size_t others = 0;
    for (uint32_t i = 0; i < walk->joint.comm->members && others < OTHERS_MOST; i++) {
        if (i == own || walk->calls.host[i] != walk->calls.host[own] || !walk->joint.op[i]) {
            continue;
        }
        uint64_t now = call(walk, i, 0);
        uint64_t last = call(walk, i, 1);
        others++;
        if (now && last && now > last && now < before) {
            walk->scratch[n++] = now - last;
        }
    }
    if (n == 0 || 2 * n < others) {
        return false;
    }
    *pace_ns = muster_upper_median_u64(walk->scratch, n);
    return true;
}

void muster_late_carry(struct muster_late_walk *walk)
{
    const struct muster_late_calls *calls = &walk->calls;
    walk->carried = false;
    if (calls->rows < AHEAD || walk->joint.any->number != calls->number + 1) {
        return;
    }
    uint64_t least_ns = muster_late_least_ns(walk);
    for (uint32_t i = 0; i < walk->joint.comm->members; i++) {
        uint64_t blame_ns = walk->blame_ns[i];
        uint64_t now = call(walk, i, 0);
        uint64_t last = call(walk, i, 1);
        uint64_t pace_ns;
        if (blame_ns < least_ns || !now || !last || now < last ||
            walk->joint.op[i]->queued * MUSTER_QUEUED_NS >= blame_ns / 2 ||
            !others_pace(walk, i, &pace_ns)) {
            continue;
        }
        uint64_t longer_ns = now - last > pace_ns ? now - last - pace_ns : 0;
        walk->blame_ns[i] = longer_ns < blame_ns ? longer_ns : blame_ns;
        walk->carried |= longer_ns < blame_ns / 2;
    }
}
