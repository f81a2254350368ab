/* Readings of the processes of a run on this host, taken now and then, to say what changed. */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_EVIDENCE_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_EVIDENCE_H

#include "diagnose/evidence.h"
#include "diagnose/live/live_peers.h"

struct muster_live_evidence {
    struct muster_evidence *before; /* of peer i; taken at least a period ago */
    struct muster_evidence *last;
    size_t n;
    uint64_t taken_ns;
};

/* Reads every process once a period of 10 s. */
void muster_live_evidence_sample(struct muster_live_evidence *evidence,
                                 const struct muster_live_peers *peers, uint64_t now_ns);
/* Adds to the finding what is known of its first guilty rank, if that lives on this host. */
void muster_live_evidence_add(struct muster_live_evidence *evidence,
                              const struct muster_live_peers *peers, uint64_t now_ns,
                              struct muster_finding *finding);
void muster_live_evidence_free(struct muster_live_evidence *evidence);

#endif
