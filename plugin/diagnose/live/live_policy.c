#include "diagnose/live/live_policy.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "diagnose/divergence/divergence.h"
#include "view/view.h"

static uint64_t add_comms(uint64_t hash, const struct muster_live_peer *peer)
{
    for (unsigned i = 0; i < peer->comms; i++)
        hash = muster_hash(hash, &peer->comm[i].id, sizeof(peer->comm[i].id));
    return hash;
}

/* The hash of what there is; *differ: at least two policies are not the same. */
static uint64_t scan_one(const struct muster_live_peers *peers, bool *differ)
{
    uint64_t hash = MUSTER_HASH_SEED;
    const struct muster_live_steering *first = NULL;
    *differ = false;
    for (size_t i = 0; i < peers->n; i++) {
        const struct muster_live_peer *peer = &peers->peer[i];
        if (!peer->alive)
            continue;
        hash = muster_hash(hash, &i, sizeof(i));
        hash = muster_hash(hash, &peer->steering, sizeof(peer->steering));
        hash = add_comms(hash, peer);
        first = first ? first : &peer->steering;
        *differ |= memcmp(first, &peer->steering, sizeof(*first)) != 0;
    }
    return hash | 1;
}

/* Only who lives has a policy that counts; what ran by it is compared only if the job hangs. */
static bool evaluate(struct muster_live_run *live, const struct muster_live_peers *peers,
                     bool hanging, struct muster_findings *findings)
{
    struct muster_view view;
    const struct muster_run *run = muster_live_run_standing(live, peers, true);
    for (size_t i = 0; run && !hanging && i < run->processes; i++)
        run->process[i].ops = 0;
    bool whole = run && muster_view_of_run_aligned(run, &view, NULL) == 0;
    if (whole) {
        whole = muster_diagnose_divergence(&view, true, findings, NULL) == 0;
        muster_view_free(&view);
    }
    if (run)
        muster_live_run_end_standing(live);
    return whole;
}

bool muster_live_policies_scan(struct muster_live_policies *policies, struct muster_live_run *live,
                               const struct muster_live_peers *peers, bool hanging,
                               struct muster_findings *findings)
{
    bool differ;
    uint64_t seen = scan_one(peers, &differ);
    bool changed = seen != policies->seen;
    bool due = differ && !changed && !policies->evaluated;
    policies->seen = seen;
    policies->evaluated = (policies->evaluated && !changed) || due;
    policies->pending = differ && !policies->evaluated;
    if ((!due && !hanging) || !evaluate(live, peers, hanging, findings))
        return false;
    for (size_t i = 0; i < findings->n; i++)
        if (findings->finding[i].since_unix_ns == 0)
            findings->finding[i].since_unix_ns = muster_unix_ns();
    return true;
}

void muster_live_policies_free(struct muster_live_policies *policies)
{
    muster_watch_free(&policies->watch);
}
