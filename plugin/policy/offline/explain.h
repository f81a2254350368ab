/* What a policy does to one operation's cost table. */
#ifndef MUSTER_POLICY_OFFLINE_EXPLAIN_H
#define MUSTER_POLICY_OFFLINE_EXPLAIN_H

#include <stdbool.h>

#include "policy/offline/cost_file.h"

struct muster_explanation {
    const struct muster_policy *policy;
    const char *table; /* a file of costs; NULL: they are not known, only what NCCL has */
    struct muster_query query;
    /* filled by muster_explain */
    int rule; /* that decides; MUSTER_POLICY_NO_RULE */
    float before[MUSTER_COST_ENTRIES], after[MUSTER_COST_ENTRIES]; /* -1: not offered */
    enum muster_applied applied;
    int channels;        /* written; 0: none */
    bool unless_collnet; /* not where NCCL offers CollNet, which is not known */
};

/* -1: the table cannot be read. */
int muster_explain(struct muster_explanation *explanation, struct muster_err *err);

/* Whether the rule added to entry i. */
bool muster_explain_raised(const struct muster_explanation *explanation, unsigned i);
/* The entry that NCCL would take; -1: none. */
int muster_explain_choice(const float cost[MUSTER_COST_ENTRIES]);

#endif
