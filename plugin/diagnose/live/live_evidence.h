/* Readings of the processes of a run on this host, taken now and then, to show what changed. */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_EVIDENCE_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_EVIDENCE_H

#include "diagnose/evidence.h"
#include "diagnose/live/live_peers.h"

struct muster_live_evidence {
    struct muster_evidence *before; /* of peer i; taken at least a period ago */
    struct muster_evidence *last;
    size_t n;
    size_t next; /* the process that is read next */
    uint64_t round_ns, rest_until_ns;
};

/* Reads a process or two, one after another: each at most once in 10 s, less often where there are
 * many or where reading takes long. */
void muster_live_evidence_sample(struct muster_live_evidence *evidence,
                                 const struct muster_live_peers *peers, uint64_t now_ns);
/* Adds to the finding what is known of its first culprit, if that lives on this host. */
void muster_live_evidence_add(struct muster_live_evidence *evidence,
                              const struct muster_live_peers *peers, uint64_t now_ns,
                              struct muster_finding *finding);
void muster_live_evidence_free(struct muster_live_evidence *evidence);

#endif
