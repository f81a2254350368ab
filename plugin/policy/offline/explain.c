#include "policy/offline/explain.h"

#include <string.h>

/* From here on NCCL up to 2.28 takes a cost for "impossible". */
#define HOUR_US 3.6e9f

static int fill_table(struct muster_explanation *explanation, struct muster_err *err)
{
    uint32_t has = muster_policy_available(explanation->query.func);
    if (explanation->table)
        return muster_cost_file_read(explanation->before, explanation->table,
                                     explanation->query.bytes, err);
    for (size_t i = 0; i < MUSTER_COST_ENTRIES; i++)
        explanation->before[i] = has >> i & 1 ? 0 : -1;
    return 0;
}

static void apply(struct muster_explanation *explanation)
{
    struct muster_cost_table table = {explanation->after, MUSTER_POLICY_ALGOS,
                                      MUSTER_POLICY_PROTOS};
    const struct muster_advice *advice = &explanation->policy->advice[explanation->rule];
    bool keeps = advice->keep & muster_policy_available(explanation->query.func);
    explanation->applied =
        muster_policy_apply(advice, &table, MUSTER_POLICY_CHANNELS, &explanation->channels);
    if (!explanation->table && keeps && advice->channels && !explanation->channels) {
        explanation->applied = MUSTER_APPLIED;
        explanation->channels = advice->channels;
        explanation->unless_collnet = true;
    }
}

int muster_explain(struct muster_explanation *explanation, struct muster_err *err)
{
    if (fill_table(explanation, err))
        return -1;
    memcpy(explanation->after, explanation->before, sizeof explanation->after);
    explanation->rule = muster_policy_match(explanation->policy, &explanation->query);
    if (explanation->rule >= 0)
        apply(explanation);
    return 0;
}

bool muster_explain_raised(const struct muster_explanation *explanation, unsigned i)
{
    return explanation->before[i] >= 0 && explanation->after[i] > explanation->before[i];
}

int muster_explain_choice(const float cost[MUSTER_COST_ENTRIES])
{
    int best = -1;
    for (int i = 0; i < MUSTER_COST_ENTRIES; i++)
        if (cost[i] >= 0 && cost[i] < HOUR_US && (best < 0 || cost[i] < cost[best]))
            best = i;
    return best;
}
