/*
 * Whether the processes of a run on this host steer alike: their policies whenever something about
 * them changed, which is soon after a communicator is made, and the choices of their newest
 * operations when the job hangs. One thread, the live diagnosis' own.
 */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_POLICY_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_POLICY_H

#include "diagnose/finding_changes.h"
#include "diagnose/live/live_run.h"

struct muster_live_policies {
    uint64_t seen;  /* hash of all policies and communicators; 0: nothing yet */
    bool evaluated; /* that */
    bool pending; /* they differ: another look is due after half a second, for what was only on its
                     way */
    struct muster_watch watch;
};

/* One look, at most each second. False: there is nothing to evaluate. True: what was found was
 * added to the zeroed findings. `hanging`: the operations are compared, too. */
bool muster_live_policies_scan(struct muster_live_policies *policies, struct muster_live_run *live,
                               const struct muster_live_peers *peers, bool hanging,
                               struct muster_findings *findings);
void muster_live_policies_free(struct muster_live_policies *policies);

#endif
