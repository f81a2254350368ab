/* Confidence: the share of generated cases with this evidence in which the finding was right
 * (docs/diagnosis.md). Not a feeling. */
#ifndef MUSTER_DIAGNOSE_CONFIDENCE_H
#define MUSTER_DIAGNOSE_CONFIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "diagnose/finding.h"

/* What a finding about a hang rests on. */
enum muster_proof {
    MUSTER_PROOF_ORDER, /* the order of calls alone */
    MUSTER_PROOF_ENDED, /* and what is known to have ended, or not to */
    MUSTER_PROOF_PART,  /* only some of the ranks show that; or are seen */
    MUSTER_PROOF_TIE, /* as many ranks on one side as on the other; or one that left looks the same
                       */
    MUSTER_PROOFS
};

/* What ranks differ in. */
enum muster_divergence { MUSTER_DIVERGENCE_POLICIES, MUSTER_DIVERGENCE_CHOICES };

/* A late rank. `chained`: sends and receives of the job wait for each other in chains, as in
 * pipelines and rings, where peers of the culprit may seem to be late. */
double muster_confidence_late(bool chained);

/* A late rank by when hosts called, without GPU times. */
double muster_confidence_late_calls(void);

/* All ranks wait alike: in a job where they do. */
double muster_confidence_alike(void);

/* A stage of a pipeline that has more to do than the others. */
double muster_confidence_uneven(void);

/* A link that stands out by its sender's waits for the network. */
double muster_confidence_transfer(void);

/* A communicator, or pair, whose transfers became slow; one whose transfers are slower than those
 * of others of its shape. */
double muster_confidence_transfer_history(void);
double muster_confidence_transfer_peers(void);

/* A hang. At a tie a half: both sides are named. */
double muster_confidence_hang(enum muster_finding_kind kind, enum muster_proof proof);

/* Ranks that decide differently. At a tie a half: both sides are named. `open`: ranks that are not
 * seen could turn the minority into the majority. */
double muster_confidence_divergence(enum muster_divergence of, bool tie, bool open);

#endif
