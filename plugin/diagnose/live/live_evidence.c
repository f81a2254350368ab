#include "diagnose/live/live_evidence.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/host.h"

#define PERIOD_NS (10 * MUSTER_NS_PER_S)
enum {
    OTHERS = 64,
    AT_ONCE = 2,  /* processes */
    SHARE = 1000, /* one part in so many of a processor's time is for reading */
};

static const struct muster_evidence_roots here = {"/proc", "/sys"};

/* A place for each process; those that come later begin with their first reading. */
static bool make_room(struct muster_live_evidence *evidence, size_t n, uint64_t now_ns,
                      const struct muster_live_peers *peers)
{
    while (evidence->n < n) {
        if (!muster_grow(&evidence->before, evidence->n, sizeof *evidence->before) ||
            !muster_grow(&evidence->last, evidence->n, sizeof *evidence->last))
            return false;
        struct muster_evidence *first = &evidence->last[evidence->n];
        first->at_ns = now_ns;
        muster_evidence_read(&here, peers->peer[evidence->n].identity.pid, first);
        evidence->before[evidence->n++] = *first;
    }
    return true;
}

static void sample_one(struct muster_live_evidence *evidence, const struct muster_live_peers *peers,
                       size_t i, uint64_t now_ns)
{
    if (!peers->peer[i].alive)
        return;
    evidence->before[i] = evidence->last[i];
    evidence->last[i].at_ns = now_ns;
    muster_evidence_read(&here, peers->peer[i].identity.pid, &evidence->last[i]);
}

void muster_live_evidence_sample(struct muster_live_evidence *evidence,
                                 const struct muster_live_peers *peers, uint64_t now_ns)
{
    if (now_ns < evidence->rest_until_ns)
        return;
    if (evidence->next >= peers->n && now_ns - evidence->round_ns >= PERIOD_NS) {
        evidence->next = 0;
        evidence->round_ns = now_ns;
    }
    uint64_t cost = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!make_room(evidence, evidence->next < peers->n ? evidence->next + 1 : 0, now_ns, peers))
        return;
    for (unsigned i = 0; i < AT_ONCE && evidence->next < evidence->n; i++)
        sample_one(evidence, peers, evidence->next++, now_ns);
    cost = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cost;
    evidence->rest_until_ns = now_ns + SHARE * cost;
}

static size_t culprit_of(const struct muster_live_peers *peers,
                         const struct muster_finding *finding)
{
    for (size_t i = 0; i < peers->n && finding->ranks > 0; i++) {
        const struct muster_live_peer *peer = &peers->peer[i];
        /* By the start time a process of another pid namespace is known from one of ours. */
        if (peer->alive && peer->identity.rank == finding->rank[0] &&
            muster_live_holds(peer, finding->comm) &&
            muster_process_start_ticks((pid_t)peer->identity.pid) == peer->identity.start_ticks)
            return i;
    }
    return SIZE_MAX;
}

static void pair_of(const struct muster_live_evidence *evidence,
                    const struct muster_live_peers *peers, size_t i, uint64_t now_ns,
                    struct muster_evidence pair[2])
{
    pair[0] = evidence->before[i];
    pair[1].at_ns = now_ns;
    muster_evidence_read(&here, peers->peer[i].identity.pid, &pair[1]);
}

/* One that lives on the host of who is gone shows whether memory ran out. */
static void add_gone(const struct muster_live_evidence *evidence,
                     const struct muster_live_peers *peers, uint64_t now_ns,
                     struct muster_finding *finding)
{
    unsigned lines = finding->evidence.n;
    for (size_t i = 0; i < peers->n && finding->evidence.n == lines; i++) {
        struct muster_evidence pair[2];
        if (!peers->peer[i].alive || !muster_live_holds(&peers->peer[i], finding->comm))
            continue;
        pair_of(evidence, peers, i, now_ns, pair);
        muster_evidence_gone(&pair[0], &pair[1], peers->peer[i].identity.rank, &finding->evidence);
    }
}

void muster_live_evidence_add(struct muster_live_evidence *evidence,
                              const struct muster_live_peers *peers, uint64_t now_ns,
                              struct muster_finding *finding)
{
    struct muster_evidence culprit[2], others[OTHERS][2];
    size_t at = culprit_of(peers, finding);
    unsigned n = 0;
    if (!make_room(evidence, peers->n, now_ns, peers))
        return;
    if (finding->kind == MUSTER_FINDING_HANG_DEAD)
        add_gone(evidence, peers, now_ns, finding);
    if (at == SIZE_MAX)
        return;
    if (finding->kind == MUSTER_FINDING_HANG_ABSENT)
        muster_evidence_absent(&here, peers->peer[at].identity.pid, finding->rank[0],
                               &finding->evidence);
    pair_of(evidence, peers, at, now_ns, culprit);
    for (size_t i = 0; i < peers->n && n < OTHERS; i++)
        if (i != at && peers->peer[i].alive && muster_live_holds(&peers->peer[i], finding->comm))
            pair_of(evidence, peers, i, now_ns, others[n++]);
    muster_evidence_compare(culprit, (const struct muster_evidence(*)[2])others, n,
                            &finding->evidence);
}

void muster_live_evidence_free(struct muster_live_evidence *evidence)
{
    free(evidence->before);
    free(evidence->last);
}
