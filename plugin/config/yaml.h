/*
 * A YAML document as a tree of nodes that know their place. Knows no schema. Refused, so that a
 * file means one thing only and cannot be made to grow: anchors and aliases, tags, duplicate keys,
 * several documents, keys that are not text, NUL characters, invalid UTF-8, and more than the
 * limits below.
 */
#ifndef MUSTER_CONFIG_YAML_H
#define MUSTER_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

enum {
    MUSTER_YAML_BYTES = 1 << 20,
    MUSTER_YAML_DEPTH = 32,
    MUSTER_YAML_NODES = 100000,
    MUSTER_YAML_MEMBERS = 1024, /* of one mapping */
};

enum muster_yaml_kind { MUSTER_YAML_SCALAR, MUSTER_YAML_MAP, MUSTER_YAML_LIST };

struct muster_yaml_place {
    unsigned line; /* from 1 */
    unsigned column;
};

struct muster_yaml_node {
    enum muster_yaml_kind kind;
    bool plain; /* a scalar without quotes */
    struct muster_yaml_place place;
    struct muster_yaml_place key_place;
    const char *key;  /* of a member of a mapping, else NULL */
    const char *text; /* of a scalar, else NULL */
    struct muster_yaml_node *first;
    struct muster_yaml_node *next; /* member or item, in the order of the file */
};

/* Parses `bytes` bytes, which need no terminator; `file` names them in errors. The tree is of the
 * arena; an empty document is an empty plain scalar at 1:1. */
int muster_yaml_parse(struct muster_yaml_node **root, struct muster_arena *memory, const char *file,
                      const char *yaml, size_t bytes, struct muster_err *err);

/* A key without a value: empty, ~ or null. */
bool muster_yaml_is_null(const struct muster_yaml_node *node);
/* "a mapping", "a list", "no value" or the text in quotes, shortened to fit: for errors. */
void muster_yaml_describe(const struct muster_yaml_node *node, char *to, size_t size);
/* "file:line:column: ..."; returns -1. */
__attribute__((format(printf, 4, 5))) int muster_yaml_fail(struct muster_err *err, const char *file,
                                                           struct muster_yaml_place place,
                                                           const char *fmt, ...);

#endif
