/* Policies as `muster tune` tries and leaves them. */
#ifndef MUSTER_CLI_TUNE_WRITE_H
#define MUSTER_CLI_TUNE_WRITE_H

#include <stdio.h>

#include "cli/tune_measure.h"
#include "cli/tune_stats.h"

/* What was measured of a rule. */
struct muster_tune_evidence {
    struct muster_tune_choice before; /* NCCL's own */
    struct muster_tune_choice after;  /* with the rule */
    double before_us, after_us;       /* medians of the runs' medians */
    uint32_t ops;                     /* of a run */
    struct muster_tune_interval interval;
};

struct muster_tune_rule {
    struct muster_tune_class class;
    struct muster_tune_choice choice;
    bool proven;
    struct muster_tune_evidence evidence; /* of a proven one; becomes its comment */
};

/* About the whole file. */
struct muster_tune_account {
    char *const *command; /* NULL: no account, for a policy that is only tried */
    const char *when;     /* UTC */
    double seconds, budget_s;
    unsigned runs;
    const char *ending; /* "", or why it ended early */
};

/* "all_reduce 64 KiB, 4 ranks, 1 node". */
void muster_tune_word_class(char *to, size_t size, const struct muster_tune_class *class);
/* "ring/ll128 on 8 channels", without what is 0. */
void muster_tune_word_choice(char *to, size_t size, const struct muster_tune_choice *choice);

/* A policy of these rules; muster_policy_parse takes it, whatever the rules are. */
void muster_tune_write(FILE *out, const struct muster_tune_account *account,
                       const struct muster_tune_rule *rule, size_t rules);
/* One rule for everything that has the combination: the cheapest way to try it everywhere. */
void muster_tune_write_force(FILE *out, const struct muster_tune_choice *choice);

#endif
