/*
 * A policy: rules that name which algorithm, protocol and number of channels NCCL should use where.
 *
 * Parse once; freeze per communicator; look up. A decision is a pure function of the policy and of
 * inputs that are equal on all ranks. The first rule that matches decides. Everything here is
 * immutable after it was made and may be used from any thread.
 */
#ifndef MUSTER_POLICY_POLICY_H
#define MUSTER_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/nccl_types.h"
#include "config/yaml.h"

enum {
    MUSTER_POLICY_BYTES = 1 << 20, /* of a document */
    MUSTER_POLICY_RULES = 4096,
    MUSTER_POLICY_NAME = 64,        /* of a rule, terminator included */
    MUSTER_POLICY_RANGES = 16,      /* in one list */
    MUSTER_POLICY_PIPE_BOUNDS = 16, /* different bounds of pipe_ops in a policy */
    MUSTER_POLICY_CHANNELS = 64,    /* NCCL's MAXCHANNELS since 2.25 */
    MUSTER_POLICY_SHA256 = 32,
    MUSTER_POLICY_NO_RULE = -1,
};

/* What a rule may match by number. The words are in muster_policy_key_name. */
enum muster_policy_key {
    MUSTER_KEY_BYTES,          /* as NCCL passes it: the whole operation */
    MUSTER_KEY_BYTES_PER_RANK, /* bytes / ranks, rounded down */
    MUSTER_KEY_RANKS,
    MUSTER_KEY_NODES,
    MUSTER_KEY_RANKS_PER_NODE, /* ranks / nodes; matches nothing where that is no whole number */
    MUSTER_KEY_NVLINK_DOMAINS, /* matches nothing below interface v5, which has none */
    MUSTER_KEY_PIPE_OPS,       /* operations that NCCL pipelines in one kernel */
    MUSTER_KEYS
};
const char *muster_policy_key_name(enum muster_policy_key key);

struct muster_policy_range {
    uint64_t min, max; /* inclusive */
};
/* Sorted, disjoint ranges policy->range[first] on; n 0: any value. */
struct muster_policy_match {
    uint32_t first, n;
};

/* Combinations of algorithm and protocol are bits: see muster_policy_combination. */
struct muster_rule {
    char name[MUSTER_POLICY_NAME];
    struct muster_yaml_place place; /* of the rule */
    uint32_t collectives;           /* bit 1 << enum muster_func; 0: any */
    struct muster_policy_match match[MUSTER_KEYS];
    bool leave;       /* explicitly nothing */
    uint32_t prefer;  /* combinations; 0: no preference */
    uint32_t avoid;   /* combinations; 0: none */
    uint8_t channels; /* 0: no opinion */
};

/* What a rule writes, boiled down. */
struct muster_advice {
    uint32_t keep;    /* combinations whose cost stays as it is */
    bool keep_others; /* and so does that of those which muster does not know */
    uint8_t channels; /* 0: no opinion */
};

struct muster_policy {
    struct muster_arena memory;
    struct muster_rule *rule;
    struct muster_advice *advice; /* of each rule */
    struct muster_policy_range *range;
    unsigned rules;
    size_t ranges;
    bool matches_nvlink_domains, matches_pipe_ops; /* some rule does */
    uint8_t sha256[MUSTER_POLICY_SHA256];          /* of the document's bytes */
};

/* The bit of one combination; 0 where muster knows no such algorithm or protocol. The bits are in
 * the row-major order of NCCL's cost table: TREE/LL is bit 0, TREE/LL128 bit 1, RING/LL bit 3. */
enum { MUSTER_POLICY_ALGOS = MUSTER_ALGO_PAT, MUSTER_POLICY_PROTOS = MUSTER_PROTO_SIMPLE };
static inline uint32_t muster_policy_combination(unsigned algo, unsigned proto)
{
    if (algo - 1 >= MUSTER_POLICY_ALGOS || proto - 1 >= MUSTER_POLICY_PROTOS)
        return 0;
    return 1u << ((algo - 1) * MUSTER_POLICY_PROTOS + (proto - 1));
}
/* The combinations that NCCL has for a collective (enum muster_func); 0: a tuner is never asked. */
uint32_t muster_policy_available(unsigned func);

/* What was found in a document. */
struct muster_policy_message {
    const char *file;
    unsigned line, column; /* 0: concerns the file as a whole */
    bool warning;
    const char *text;
};
typedef void muster_policy_report(void *to, const struct muster_policy_message *message);
/* "file:line:column: error: text". */
void muster_policy_message_print(char *to, size_t size,
                                 const struct muster_policy_message *message);

/* Parses the `policy:` of a document; its other sections are config/settings.h's to check. Reports
 * all errors (at most 100) and warnings in the order of the file; `emit` may be NULL. On success 0
 * and *policy, the caller's to free, without rules where there is no `policy:`; with any error -1.
 */
int muster_policy_parse(struct muster_policy **policy, const char *file, const char *text,
                        size_t bytes, muster_policy_report *emit, void *to);
void muster_policy_free(struct muster_policy *policy); /* takes NULL */

/* SHA-256 in 64 lower-case hex digits and a terminator. */
enum { MUSTER_POLICY_HEX = 2 * MUSTER_POLICY_SHA256 + 1 };
void muster_policy_hex(char to[MUSTER_POLICY_HEX], const uint8_t sha256[MUSTER_POLICY_SHA256]);

/* One operation of one communicator. */
struct muster_query {
    unsigned func; /* enum muster_func */
    uint64_t bytes;
    uint64_t pipe_ops; /* at least 1 */
    uint64_t ranks, nodes;
    uint64_t nvlink_domains; /* 0: the interface has none */
};

/* The slow, plain way: index of the first rule that matches, or MUSTER_POLICY_NO_RULE. */
int muster_policy_match(const struct muster_policy *policy, const struct muster_query *query);

/* Why a rule does not match: "bytes 32 KiB is not 64 KiB..1 GiB"; true and "" if it does. */
bool muster_rule_explain(const struct muster_policy *policy, const struct muster_rule *rule,
                         const struct muster_query *query, char *to, size_t size);
/* "all_reduce, reduce_scatter; bytes 64 KiB..1 GiB; nodes >= 2"; "everything". */
void muster_rule_describe_match(const struct muster_policy *policy, const struct muster_rule *rule,
                                char *to, size_t size);
/* "prefer ring/simple, tree/simple; 8 channels", "avoid any/ll128", "leave". */
void muster_rule_describe_action(const struct muster_rule *rule, char *to, size_t size);

/* The table for one communicator: sorted intervals of bytes per collective and pipe_ops. */
struct muster_frozen;
/* 0 and *frozen, the caller's to free, or -1 without memory. `comm`: func, bytes and pipe_ops are
 * not looked at. */
int muster_policy_freeze(struct muster_frozen **frozen, const struct muster_policy *policy,
                         const struct muster_query *comm);
void muster_frozen_free(struct muster_frozen *frozen); /* takes NULL */
/* The rule that decides, as muster_policy_match finds it, in a few comparisons. */
int muster_frozen_decide(const struct muster_frozen *frozen, unsigned func, uint64_t bytes,
                         uint64_t pipe_ops);
/* Calls `each` for every interval of a collective with the rule that decides there. */
typedef void muster_frozen_each(void *to, struct muster_policy_range pipe_ops,
                                struct muster_policy_range bytes, int rule);
void muster_frozen_walk(const struct muster_frozen *frozen, unsigned func, muster_frozen_each *each,
                        void *to);

/* NCCL's cost table: flat, row-major, algos x protos; microseconds; below 0: not offered. */
struct muster_cost_table {
    float *cost; /* row a: enum muster_algo a + 1; column p: enum muster_proto p + 1 */
    unsigned algos, protos;
};
/* Added to the cost of what a rule does not prefer, or avoids: 1,000 seconds. Less than the hour
 * from which on NCCL (up to 2.28) takes an entry for impossible. */
#define MUSTER_POLICY_PENALTY 1e9f

enum muster_applied {
    MUSTER_APPLIED_NOTHING,     /* there was nothing to write */
    MUSTER_APPLIED,             /* table or channels were written */
    MUSTER_APPLIED_NOT_OFFERED, /* nothing of what the rule keeps is offered: nothing written */
};
/* Writes what a rule wants. Entries below 0 and NaN are never touched; *channels only where the
 * wish is at most `channel_limit`, and only 1 where a CollNet algorithm may win, whose channels
 * NCCL does not bound by those it has. */
enum muster_applied muster_policy_apply(const struct muster_advice *advice,
                                        const struct muster_cost_table *table,
                                        unsigned channel_limit, int *channels);

/* JSON Schema (draft 2020-12) of a document's `policy:`, for editors. */
void muster_policy_schema(FILE *out);

#endif
