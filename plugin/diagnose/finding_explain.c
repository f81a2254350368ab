#include "diagnose/finding_explain.h"

#include <string.h>

const struct muster_finding_explains muster_finding_explains[] = {
    {MUSTER_FINDING_POLICY_DIVERGENCE, MUSTER_FINDING_HANG_STUCK,
     "policy_divergence explains it: ranks that run one operation in different ways wait for each "
     "other for ever"},
};
const unsigned muster_finding_explains_n =
    sizeof muster_finding_explains / sizeof *muster_finding_explains;

static bool has_rank(const int32_t *list, unsigned n, int32_t rank)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i] == rank)
            return true;
    return false;
}

/* A divergence is reported of the largest communicator: its ranks may hang in a smaller one. */
static bool meet(const struct muster_finding *cause, const struct muster_finding *symptom)
{
    if (cause->comm == symptom->comm)
        return true;
    for (unsigned i = 0; i < cause->ranks; i++)
        if (has_rank(symptom->victim, symptom->victims, cause->rank[i]))
            return true;
    return false;
}

static void move_before(struct muster_findings *findings, size_t from, size_t to)
{
    struct muster_finding *list = findings->finding, moved = list[from];
    memmove(&list[to + 1], &list[to], (from - to) * sizeof *list);
    list[to] = moved;
}

static void explain(struct muster_findings *findings, size_t symptom,
                    const struct muster_finding_explains *row)
{
    struct muster_finding *of = &findings->finding[symptom];
    if (of->kind != row->symptom || of->resolved || of->retracted)
        return;
    for (size_t cause = 0; cause < findings->n; cause++) {
        if (findings->finding[cause].kind != row->cause || !meet(&findings->finding[cause], of))
            continue;
        muster_finding_line(&of->evidence, "%s", row->why);
        if (cause > symptom)
            move_before(findings, cause, symptom);
        return;
    }
}

void muster_findings_explain(struct muster_findings *findings)
{
    for (unsigned row = 0; row < muster_finding_explains_n; row++)
        for (size_t i = findings->n; i-- > 0;)
            explain(findings, i, &muster_finding_explains[row]);
}
