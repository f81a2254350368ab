/* `on:`, what is done about a finding, per kind. */
#ifndef MUSTER_CONFIG_ON_H
#define MUSTER_CONFIG_ON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct muster_yaml_node;

/* The kinds of findings, in the order of enum muster_finding_kind. */
enum { MUSTER_ON_KINDS = 10, MUSTER_ON_ARGS = 15, MUSTER_ON_BYTES = 1024 };
extern const char *const muster_on_kind_words[MUSTER_ON_KINDS];

struct muster_on {
    bool log;    /* a line on the job's stderr */
    bool report; /* shown by the report at the end */
    bool abort;  /* every process ends itself; hang_dead, hang_mismatch and hang_absent only */
    unsigned args;
    char exec[MUSTER_ON_BYTES]; /* `args` terminated texts, one behind the other */
};

/* log and report for all but path_degraded and path_missing, which `muster diagnose` shows. */
void muster_on_default(struct muster_on on[MUSTER_ON_KINDS]);

/* Reads the section; `file` stands in errors. */
int muster_on_apply(struct muster_on on[MUSTER_ON_KINDS], const char *file,
                    const struct muster_yaml_node *section, struct muster_err *err);

/* argv, NULL at the end, into `exec`. */
void muster_on_argv(const struct muster_on *on, const char *argv[MUSTER_ON_ARGS + 1]);

#endif
