/* Policies as `muster tune` tries and leaves them. */
#ifndef MUSTER_TUNE_TUNE_WRITE_H
#define MUSTER_TUNE_TUNE_WRITE_H

#include <stdio.h>

#include "base/arena.h"
#include "tune/tune_measure.h"
#include "tune/tune_stats.h"
#include "view/measure.h"

/* What was measured of a rule. */
struct muster_tune_evidence {
    struct muster_tune_choice before; /* NCCL's own */
    struct muster_tune_choice after;  /* with the rule */
    enum muster_measure by;
    double before_us, after_us; /* by it: medians of the runs' medians */
    uint32_t ops;               /* of a run */
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
    const char *ending;   /* "", or why it ended early */
    const char *whole[3]; /* what all rules together did, a line each; "" or NULL: none */
    size_t rare;          /* classes with too few operations */
    size_t unevaluated;   /* classes in which something that ran had no comparable time */
};

/* "all_reduce 64 KiB, 4 ranks, 1 node". */
void muster_tune_format_class(char *to, size_t size, const struct muster_tune_class *class);
/* "ring/ll128 on 8 channels", without what is 0. */
void muster_tune_format_choice(char *to, size_t size, const struct muster_tune_choice *choice);

/* A policy of these rules; muster_policy_parse takes it, whatever the rules are. */
void muster_tune_write(FILE *out, const struct muster_tune_account *account,
                       const struct muster_tune_rule *rule, size_t rules);
/* "6088 us", "21.3 us". */
void muster_tune_format_us(char *to, size_t size, double us);
/* What is not evaluated: "1 class with fewer than 10 operations a run"; "": nothing is left out. */
void muster_tune_format_left_out(char *to, size_t size, size_t rare, size_t unevaluated);
/* One rule for everything that has one of the combinations (muster_policy_combination): the
 * cheapest way to try it everywhere. They are all of some algorithms with some protocols. */
void muster_tune_write_force(FILE *out, uint32_t combinations);
/* A policy of rules without an account or, with `force`, of these combinations everywhere, as text
 * in the arena; NULL: no memory. */
const char *muster_tune_text(struct muster_arena *arena, const struct muster_tune_rule *rule,
                             size_t rules, uint32_t force);

#endif
