/*
 * The one table of what a policy may hold. Parser, error texts, nearest words, JSON Schema and
 * `muster policy` all walk it.
 */
#ifndef MUSTER_POLICY_POLICY_FIELDS_H
#define MUSTER_POLICY_POLICY_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/* Where a field may stand. */
enum muster_policy_section {
    MUSTER_SECTION_RULE = 1 << 0,
    MUSTER_SECTION_MATCH = 1 << 1,
    MUSTER_SECTION_PREFER = 1 << 2,
    MUSTER_SECTION_AVOID = 1 << 3,
};

enum muster_policy_type {
    MUSTER_FIELD_NAME,
    MUSTER_FIELD_SECTION,
    MUSTER_FIELD_LEAVE,
    MUSTER_FIELD_CHANNELS,
    MUSTER_FIELD_COLLECTIVE,
    MUSTER_FIELD_ALGO,
    MUSTER_FIELD_PROTO,
    MUSTER_FIELD_RANGES,
};

struct muster_policy_field {
    const char *word;
    unsigned sections; /* that it may stand in */
    enum muster_policy_type type;
    unsigned opens;             /* of a section: which */
    enum muster_policy_key key; /* of ranges */
    bool sizes;                 /* of ranges: with units */
    uint64_t min;               /* of ranges: the least value that exists */
    const char *help;
};
extern const struct muster_policy_field muster_policy_fields[];
extern const size_t muster_policy_field_count;

const struct muster_policy_field *muster_policy_field(unsigned section, const char *word);
/* The nearest word of a section, else NULL. */
const char *muster_policy_nearest_field(unsigned section, const char *word);
/* "name, match, prefer, avoid, channels or leave". */
void muster_policy_field_list(unsigned section, char *to, size_t size);
/* Why a word that one might expect does not exist; NULL: no such word either. */
const char *muster_policy_unsupported(unsigned section, const char *word);

/* Words of a type (collective, algo, proto). Case, '_' and '-' make no difference, so that NCCL's
 * several spellings are all known. 0: unknown. */
unsigned muster_policy_name_value(enum muster_policy_type type, const char *text);
/* As muster writes it; NULL beyond the last. Value 1 << n order is that of base/nccl_types.h. */
const char *muster_policy_name(enum muster_policy_type type, size_t index);
const char *muster_policy_name_of(enum muster_policy_type type, unsigned value);
const char *muster_policy_nearest_name(enum muster_policy_type type, const char *text);
void muster_policy_name_list(enum muster_policy_type type, char *to, size_t size);

#endif
