#include "config/on.h"

#include <string.h>

#include "base/text.h"
#include "config/yaml.h"

const char *const muster_on_kind_words[MUSTER_ON_KINDS] = {
    "late_rank",  "slow_transfer", "hang_absent",   "hang_dead",    "hang_mismatch",
    "hang_stuck", "hang_order",    "path_degraded", "path_missing", "policy_divergence",
};

/* What stands against training on a wrong guess: only these may end a job. */
static const char *const may_abort[] = {"hang_absent", "hang_dead", "hang_mismatch"};

/* All but paths, which are a matter of the machine, not of what the job does. */
static bool is_told(const char *kind)
{
    return strncmp(kind, "path_", 5) != 0;
}

void muster_on_default(struct muster_on on[MUSTER_ON_KINDS])
{
    memset(on, 0, MUSTER_ON_KINDS * sizeof *on);
    for (unsigned i = 0; i < MUSTER_ON_KINDS; i++)
        on[i].log = on[i].report = is_told(muster_on_kind_words[i]);
}

static int fail_action(const char *file, const struct muster_yaml_node *node, const char *kind,
                       struct muster_err *err)
{
    char found[80];
    muster_yaml_describe(node, found, sizeof found);
    return muster_yaml_fail(err, file, node->place,
                            "on.%s: expected log, report, abort or exec: [COMMAND...], found %s",
                            kind, found);
}

static bool abort_allowed(const char *kind)
{
    for (size_t i = 0; i < sizeof may_abort / sizeof *may_abort; i++) {
        if (strcmp(may_abort[i], kind) == 0)
            return true;
    }
    return false;
}

static int apply_exec(struct muster_on *on, const char *file, const struct muster_yaml_node *list,
                      const char *kind, struct muster_err *err)
{
    size_t used = 0;
    if (list->kind != MUSTER_YAML_LIST || !list->first)
        return muster_yaml_fail(err, file, list->place,
                                "on.%s: expected exec: [COMMAND, ARGUMENT...]", kind);
    on->args = 0;
    for (const struct muster_yaml_node *n = list->first; n; n = n->next) {
        if (n->kind != MUSTER_YAML_SCALAR)
            return muster_yaml_fail(err, file, n->place, "on.%s: exec: expected a word", kind);
        size_t bytes = strlen(n->text) + 1;
        if (on->args == MUSTER_ON_ARGS || used + bytes > sizeof on->exec)
            return muster_yaml_fail(err, file, n->place,
                                    "on.%s: exec: at most %d words and %d bytes", kind,
                                    MUSTER_ON_ARGS, MUSTER_ON_BYTES);
        memcpy(on->exec + used, n->text, bytes);
        used += bytes;
        on->args++;
    }
    return 0;
}

static int apply_action(struct muster_on *on, const char *file, const struct muster_yaml_node *node,
                        const char *kind, struct muster_err *err)
{
    if (node->kind == MUSTER_YAML_MAP && node->first && !node->first->next &&
        strcmp(node->first->key, "exec") == 0)
        return apply_exec(on, file, node->first, kind, err);
    if (node->kind != MUSTER_YAML_SCALAR)
        return fail_action(file, node, kind, err);
    if (strcmp(node->text, "log") == 0)
        on->log = true;
    else if (strcmp(node->text, "report") == 0)
        on->report = true;
    else if (strcmp(node->text, "abort") == 0 && abort_allowed(kind))
        on->abort = true;
    else if (strcmp(node->text, "abort") == 0)
        return muster_yaml_fail(err, file, node->place,
                                "on.%s: abort is for hang_absent, hang_dead and hang_mismatch only",
                                kind);
    else
        return fail_action(file, node, kind, err);
    return 0;
}

/* What is listed is done, and nothing else. */
static int apply_kind(struct muster_on *on, const char *file, const struct muster_yaml_node *node,
                      struct muster_err *err)
{
    memset(on, 0, sizeof *on);
    if (node->kind != MUSTER_YAML_LIST)
        return apply_action(on, file, node, node->key, err);
    for (const struct muster_yaml_node *n = node->first; n; n = n->next) {
        if (apply_action(on, file, n, node->key, err) != 0)
            return -1;
    }
    return 0;
}

static int fail_kind(const char *file, const struct muster_yaml_node *node, struct muster_err *err)
{
    const char *nearest = muster_text_nearest(node->key, muster_on_kind_words, MUSTER_ON_KINDS);
    if (nearest)
        return muster_yaml_fail(err, file, node->key_place,
                                "on: unknown finding '%.100s', did you mean '%s'?", node->key,
                                nearest);
    return muster_yaml_fail(err, file, node->key_place, "on: unknown finding '%.100s'", node->key);
}

int muster_on_apply(struct muster_on on[MUSTER_ON_KINDS], const char *file,
                    const struct muster_yaml_node *section, struct muster_err *err)
{
    if (muster_yaml_is_null(section))
        return 0;
    if (section->kind != MUSTER_YAML_MAP)
        return muster_yaml_fail(err, file, section->place, "on: expected findings and actions");
    for (const struct muster_yaml_node *n = section->first; n; n = n->next) {
        unsigned kind = 0;
        while (kind < MUSTER_ON_KINDS && strcmp(muster_on_kind_words[kind], n->key) != 0)
            kind++;
        if (kind == MUSTER_ON_KINDS)
            return fail_kind(file, n, err);
        if (apply_kind(&on[kind], file, n, err) != 0)
            return -1;
    }
    return 0;
}

void muster_on_argv(const struct muster_on *on, const char *argv[MUSTER_ON_ARGS + 1])
{
    const char *at = on->exec;
    unsigned n = 0;
    for (; n < on->args && n < MUSTER_ON_ARGS; n++) {
        argv[n] = at;
        at += strlen(at) + 1;
    }
    argv[n] = NULL;
}
