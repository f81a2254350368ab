#include "config/actions.h"

#include <string.h>

#include "base/text.h"
#include "config/yaml.h"

void muster_actions_default(struct muster_actions on[MUSTER_FINDING_KINDS])
{
    memset(on, 0, MUSTER_FINDING_KINDS * sizeof *on);
    for (unsigned i = 0; i < MUSTER_FINDING_KINDS; i++)
        on[i].log = on[i].report = muster_finding_rows[i].shown;
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

static int apply_exec(struct muster_actions *on, const char *file,
                      const struct muster_yaml_node *list, const char *kind, struct muster_err *err)
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
        if (on->args == MUSTER_ACTION_ARGS || used + bytes > sizeof on->exec)
            return muster_yaml_fail(err, file, n->place,
                                    "on.%s: exec: at most %d words and %d bytes", kind,
                                    MUSTER_ACTION_ARGS, MUSTER_ACTION_BYTES);
        memcpy(on->exec + used, n->text, bytes);
        used += bytes;
        on->args++;
    }
    return 0;
}

/* "a, b and c" of the kinds that may end a job. */
static int fail_abort(const char *file, const struct muster_yaml_node *node, unsigned kind,
                      struct muster_err *err)
{
    const char *name[MUSTER_FINDING_KINDS];
    char list[300];
    struct muster_text text = muster_text_begin(list, sizeof list);
    unsigned n = 0;
    for (unsigned i = 0; i < MUSTER_FINDING_KINDS; i++)
        if (muster_finding_rows[i].may_abort)
            name[n++] = muster_finding_rows[i].name;
    for (unsigned i = 0; i < n; i++)
        muster_text_add(&text, "%s%s", muster_text_join(i, n, " and "), name[i]);
    return muster_yaml_fail(err, file, node->place, "on.%s: abort is for %s only",
                            muster_finding_rows[kind].name, list);
}

static int apply_action(struct muster_actions *on, const char *file,
                        const struct muster_yaml_node *node, unsigned kind, struct muster_err *err)
{
    const char *name = muster_finding_rows[kind].name;
    if (node->kind == MUSTER_YAML_MAP && node->first && !node->first->next &&
        strcmp(node->first->key, "exec") == 0)
        return apply_exec(on, file, node->first, name, err);
    if (node->kind != MUSTER_YAML_SCALAR)
        return fail_action(file, node, name, err);
    if (strcmp(node->text, "log") == 0)
        on->log = true;
    else if (strcmp(node->text, "report") == 0)
        on->report = true;
    else if (strcmp(node->text, "abort") == 0 && muster_finding_rows[kind].may_abort)
        on->abort = true;
    else if (strcmp(node->text, "abort") == 0)
        return fail_abort(file, node, kind, err);
    else
        return fail_action(file, node, name, err);
    return 0;
}

/* What is listed is done, and nothing else. */
static int apply_kind(struct muster_actions *on, const char *file,
                      const struct muster_yaml_node *node, unsigned kind, struct muster_err *err)
{
    memset(on, 0, sizeof *on);
    if (node->kind != MUSTER_YAML_LIST)
        return apply_action(on, file, node, kind, err);
    for (const struct muster_yaml_node *n = node->first; n; n = n->next)
        if (apply_action(on, file, n, kind, err) != 0)
            return -1;
    return 0;
}

static int fail_kind(const char *file, const struct muster_yaml_node *node, struct muster_err *err)
{
    const char *names[MUSTER_FINDING_KINDS];
    for (unsigned i = 0; i < MUSTER_FINDING_KINDS; i++)
        names[i] = muster_finding_rows[i].name;
    const char *nearest = muster_text_nearest(node->key, names, MUSTER_FINDING_KINDS);
    if (nearest)
        return muster_yaml_fail(err, file, node->key_place,
                                "on: unknown finding '%.100s', did you mean '%s'?", node->key,
                                nearest);
    return muster_yaml_fail(err, file, node->key_place, "on: unknown finding '%.100s'", node->key);
}

int muster_actions_parse(struct muster_actions on[MUSTER_FINDING_KINDS], const char *file,
                         const struct muster_yaml_node *section, struct muster_err *err)
{
    if (muster_yaml_is_null(section))
        return 0;
    if (section->kind != MUSTER_YAML_MAP)
        return muster_yaml_fail(err, file, section->place, "on: expected findings and actions");
    bool host_too = true;
    for (const struct muster_yaml_node *n = section->first; n; n = n->next) {
        enum muster_finding_kind kind = muster_finding_kind_of(n->key, strlen(n->key));
        if (kind == MUSTER_FINDING_KINDS)
            return fail_kind(file, n, err);
        if (apply_kind(&on[kind], file, n, kind, err) != 0)
            return -1;
        host_too &= kind != MUSTER_FINDING_LATE_HOST;
        if (kind == MUSTER_FINDING_LATE_RANK && host_too)
            on[MUSTER_FINDING_LATE_HOST] = on[kind];
    }
    return 0;
}

void muster_action_argv(const struct muster_actions *on, const char *argv[MUSTER_ACTION_ARGS + 1])
{
    const char *at = on->exec;
    unsigned n = 0;
    for (; n < on->args && n < MUSTER_ACTION_ARGS; n++) {
        argv[n] = at;
        at += strlen(at) + 1;
    }
    argv[n] = NULL;
}
