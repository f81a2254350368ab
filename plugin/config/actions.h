/* `on:`, what is done about a finding, per kind. */
#ifndef MUSTER_CONFIG_ACTIONS_H
#define MUSTER_CONFIG_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/finding_kinds.h"

struct muster_yaml_node;

enum { MUSTER_ACTION_ARGS = 15, MUSTER_ACTION_BYTES = 1024 };

struct muster_actions {
    bool log;    /* a line on the job's stderr */
    bool report; /* shown by the report at the end */
    bool abort;  /* every process ends itself; only where the kind may */
    unsigned args;
    char exec[MUSTER_ACTION_BYTES]; /* `args` terminated texts, one behind the other */
};

/* As in the table of kinds; what is not shown then, `muster diagnose` shows. */
void muster_actions_default(struct muster_actions on[MUSTER_FINDING_KINDS]);

/* Reads the section; `file` stands in errors. What is done about a late rank is done about a late
 * host, unless that has actions of its own. */
int muster_actions_parse(struct muster_actions on[MUSTER_FINDING_KINDS], const char *file,
                         const struct muster_yaml_node *section, struct muster_err *err);

/* argv, NULL at the end, into `exec`. */
void muster_action_argv(const struct muster_actions *on, const char *argv[MUSTER_ACTION_ARGS + 1]);

#endif
