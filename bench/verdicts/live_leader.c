#include "live_leader.h"

#include <stdlib.h>
#include <string.h>

void live_leader_open(struct live_leader *leader, struct live_process *const *process, size_t n)
{
    memset(leader, 0, sizeof *leader);
    leader->refreshed = muster_live_run_new();
    leader->peers.peer = calloc(n + 1, sizeof *leader->peers.peer);
    if (!leader->refreshed || !leader->peers.peer)
        exit(2);
    for (size_t i = 0; i < n; i++) {
        struct muster_live_peer *peer = &leader->peers.peer[leader->peers.n++];
        memcpy(peer->path, process[i]->path, sizeof process[i]->path);
        peer->identity = process[i]->segment->identity;
        peer->alive = peer->awake = true;
    }
}

void live_leader_close(struct live_leader *leader)
{
    muster_watch_free(&leader->watch);
    muster_live_run_free(leader->refreshed);
    free(leader->peers.peer);
}

void live_leader_take(struct live_leader *leader)
{
    muster_live_run_take(leader->refreshed, &leader->peers);
}

void live_leader_look(struct live_leader *leader, double now_ns, bool agent,
                      muster_watch_emit *emit, void *arg)
{
    struct muster_findings now = {0};
    if (!muster_live_slow_due(&leader->slow, leader->refreshed, (uint64_t)now_ns,
                              muster_watch_suspects(&leader->watch)))
        return;
    if (!muster_live_slow_evaluate(&leader->slow, leader->refreshed, &leader->peers,
                                   (uint64_t)now_ns, &now, NULL, NULL))
        exit(2);
    muster_watch_window(&leader->watch, leader->slow.windows.since_unix_ns);
    muster_watch_slow(&leader->watch, &now, false, emit, arg);
    if (agent)
        muster_watch_drop_over(&leader->watch, &now, NULL, NULL);
    muster_findings_free(&now);
}

struct muster_findings live_leader_holds(struct live_leader *leader)
{
    struct muster_findings holds = {0};
    for (size_t i = 0; i < leader->watch.known.n; i++) {
        const struct muster_finding *known = &leader->watch.known.finding[i];
        if (known->resolved || known->retracted || known->kind != MUSTER_FINDING_LATE_RANK)
            continue;
        struct muster_finding *copy = muster_findings_add(&holds);
        if (!copy)
            exit(2);
        *copy = *known;
    }
    return holds;
}
