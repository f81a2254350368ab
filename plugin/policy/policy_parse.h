/* What the parts of the parser share. */
#ifndef MUSTER_POLICY_POLICY_PARSE_H
#define MUSTER_POLICY_POLICY_PARSE_H

#include "policy/policy.h"

struct muster_policy_parser {
    struct muster_policy *policy;
    const char *file;
    muster_policy_report *emit;
    void *to;
    unsigned errors, warnings;
    uint32_t pipe_bounds; /* different ones so far */
    uint64_t pipe_bound[MUSTER_POLICY_PIPE_BOUNDS + 2];
};

/* Reports it, and returns false. */
__attribute__((format(printf, 3, 4))) bool muster_policy_error(struct muster_policy_parser *parser,
                                                               struct muster_yaml_place place,
                                                               const char *fmt, ...);
__attribute__((format(printf, 3, 4))) void muster_policy_warn(struct muster_policy_parser *parser,
                                                              struct muster_yaml_place place,
                                                              const char *fmt, ...);

/* One item of `policy:`. */
void muster_policy_parse_rule(struct muster_policy_parser *parser,
                              const struct muster_yaml_node *node);

/* Where the parts of one rule stand, for errors about their combination. */
struct muster_rule_nodes {
    const struct muster_yaml_node *rule;
    const struct muster_yaml_node *prefer, *prefer_algo, *prefer_proto;
    const struct muster_yaml_node *avoid, *avoid_algo, *avoid_proto;
};
/* Whether NCCL has what the rule names: algorithm x protocol x collective. */
void muster_policy_check_rule(struct muster_policy_parser *parser, const struct muster_rule *rule,
                              const struct muster_rule_nodes *nodes);
/* Over all rules: names used twice (errors), rules that an earlier one covers (warnings). */
void muster_policy_check_all(struct muster_policy_parser *parser);

#endif
