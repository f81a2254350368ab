#include "diagnose/confidence.h"

/* (right + 1) / (cases + 2) of the generated cases with this evidence, seeds 1 to 100 of
 * bench/accuracy, 20 cases each. */
struct row {
    uint32_t right, cases;
};

static double share(struct row row)
{
    return (double)(row.right + 1) / (double)(row.cases + 2);
}

double muster_confidence_late(bool chained)
{
    /* bench/verdicts, seeds 1 to 20: jobs in which sends wait for each other, and the others. It
     * prints both under "one kind of evidence". */
    return chained ? share((struct row){55, 55}) : share((struct row){164, 165});
}

double muster_confidence_late_calls(void)
{
    /* bench/verdicts --no-gpu-times, seeds 1 to 60. */
    return share((struct row){113, 114});
}

double muster_confidence_alike(void)
{
    /* bench/verdicts, seeds 1 to 40. */
    return share((struct row){9, 9});
}

double muster_confidence_uneven(void)
{
    /* bench/verdicts, seeds 1 to 40. */
    return share((struct row){18, 18});
}

double muster_confidence_transfer(void)
{
    return share((struct row){202, 202});
}

/* bench/accuracy/slow, seeds 1 to 100, 20 cases each. */
double muster_confidence_transfer_history(void)
{
    return share((struct row){589, 589});
}

double muster_confidence_transfer_peers(void)
{
    return share((struct row){25, 25});
}

double muster_confidence_hang(enum muster_finding_kind kind, enum muster_proof proof)
{
    /* bench/accuracy/hangs, seeds 1 to 100, 40 cases each. */
    static const struct row table[MUSTER_FINDING_KINDS][MUSTER_PROOFS] = {
        [MUSTER_FINDING_HANG_ABSENT] = {[MUSTER_PROOF_ORDER] = {120, 134},
                                        [MUSTER_PROOF_ENDED] = {310, 312},
                                        [MUSTER_PROOF_PART] = {33, 33}},
        [MUSTER_FINDING_HANG_DEAD] = {[MUSTER_PROOF_ORDER] = {32, 33},
                                      [MUSTER_PROOF_ENDED] = {405, 407},
                                      [MUSTER_PROOF_PART] = {38, 38}},
        [MUSTER_FINDING_HANG_MISMATCH] =
            {[MUSTER_PROOF_ENDED] = {382, 382}, [MUSTER_PROOF_PART] = {44, 44}},
        [MUSTER_FINDING_HANG_STUCK] =
            {[MUSTER_PROOF_ENDED] = {348, 355}, [MUSTER_PROOF_PART] = {96, 97}},
        [MUSTER_FINDING_HANG_ORDER] =
            {[MUSTER_PROOF_ORDER] = {43, 44}, [MUSTER_PROOF_ENDED] = {172, 173}},
    };
    return proof == MUSTER_PROOF_TIE ? 0.5 : share(table[kind][proof]);
}

double muster_confidence_divergence(enum muster_divergence of, bool tie, bool open)
{
    /* bench/accuracy/divergent, seeds 1 to 100, 20 cases each. */
    static const struct row table[2][2] = {
        [MUSTER_DIVERGENCE_POLICIES] = {{778, 778}, {66, 98}},
        [MUSTER_DIVERGENCE_CHOICES] = {{172, 172}, {39, 56}},
    };
    return tie ? 0.5 : share(table[of][open]);
}
