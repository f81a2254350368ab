#include "config/settings.h"

#include <string.h>

#include "base/text.h"
#include "config/settings_table.h"
#include "config/yaml.h"

static const char version_key[] = "muster", on_key[] = "on";
static const char policy_key[] = "policy"; /* policy/policy.h reads it */

void muster_settings_default(struct muster_settings *settings)
{
    memset(settings, 0, sizeof(*settings));
    for (size_t i = 0; i < muster_settings_count; i++) {
        const struct muster_setting *setting = &muster_settings_table[i];
        muster_setting_set(settings, setting, setting->fallback, NULL);
    }
    muster_actions_default(settings->on);
}

static bool is_section(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < muster_settings_count; i++) {
        const char *key = muster_settings_table[i].key;
        if (strncmp(key, name, length) == 0 && key[length] == '.')
            return true;
    }
    return false;
}

static int fail_unknown(const char *file, const struct muster_yaml_node *node, const char *key,
                        struct muster_err *err)
{
    const char *nearest = muster_setting_nearest_key(key);
    const char *dot = nearest ? strchr(nearest, '.') : NULL;
    if (dot && strcmp(nearest, key) == 0)
        return muster_yaml_fail(err, file, node->key_place,
                                "unknown key '%s', write '%s:' inside '%.*s:'", key, dot + 1,
                                (int)(dot - nearest), nearest);
    if (!nearest)
        nearest = muster_text_nearest(
            key, (const char *const[]){version_key, "capture", "diagnose", on_key, policy_key}, 5);
    if (nearest)
        return muster_yaml_fail(err, file, node->key_place, "unknown key '%s', did you mean '%s'?",
                                key, nearest);
    return muster_yaml_fail(err, file, node->key_place, "unknown key '%s'", key);
}

static int apply_value(struct muster_settings *settings, const struct muster_setting *setting,
                       const char *file, const struct muster_yaml_node *node,
                       struct muster_err *err)
{
    char text[160];
    struct muster_err why;
    if (node->kind != MUSTER_YAML_SCALAR || muster_yaml_is_null(node)) {
        char found[80];
        muster_setting_expected(setting, text, sizeof(text));
        muster_yaml_describe(node, found, sizeof(found));
        return muster_yaml_fail(err, file, node->place, "%s: expected %s, found %s", setting->key,
                                text, found);
    }
    if (muster_setting_set(settings, setting, node->text, &why) != 0)
        return muster_yaml_fail(err, file, node->place, "%s: %s", setting->key, why.text);
    return 0;
}

static int apply_section(struct muster_settings *settings, const char *file,
                         const struct muster_yaml_node *section, struct muster_err *err)
{
    if (muster_yaml_is_null(section))
        return 0;
    if (section->kind != MUSTER_YAML_MAP)
        return muster_yaml_fail(err, file, section->place, "%s: expected keys and values",
                                section->key);
    for (const struct muster_yaml_node *n = section->first; n; n = n->next) {
        char key[160];
        snprintf(key, sizeof(key), "%s.%.100s", section->key, n->key);
        const struct muster_setting *setting = muster_setting_find(key);
        if (!setting)
            return fail_unknown(file, n, key, err);
        if (apply_value(settings, setting, file, n, err) != 0)
            return -1;
    }
    return 0;
}

static int check_version(const char *file, const struct muster_yaml_node *root,
                         struct muster_err *err)
{
    const struct muster_yaml_node *n = root->kind == MUSTER_YAML_MAP ? root->first : NULL;
    while (n && strcmp(n->key, version_key) != 0)
        n = n->next;
    if (!n)
        return muster_yaml_fail(err, file, root->place,
                                "expected 'muster: 1', the version of this format");
    if (n->kind != MUSTER_YAML_SCALAR || strcmp(n->text, "1") != 0) {
        char found[80];
        muster_yaml_describe(n, found, sizeof(found));
        return muster_yaml_fail(err, file, n->place, "muster: expected 1, found %s", found);
    }
    return 0;
}

static int apply_root(struct muster_settings *settings, const char *file,
                      const struct muster_yaml_node *root, struct muster_err *err)
{
    if (check_version(file, root, err) != 0)
        return -1;
    for (const struct muster_yaml_node *n = root->first; n; n = n->next) {
        char key[160];
        snprintf(key, sizeof(key), "%.100s", n->key);
        if (strcmp(key, version_key) == 0 || strcmp(key, policy_key) == 0)
            continue;
        if (strcmp(key, on_key) == 0) {
            if (muster_actions_parse(settings->on, file, n, err) != 0)
                return -1;
            continue;
        }
        if (!is_section(key))
            return fail_unknown(file, n, key, err);
        if (apply_section(settings, file, n, err) != 0)
            return -1;
    }
    return 0;
}

int muster_settings_parse(struct muster_settings *settings, const char *file, const char *yaml,
                          size_t bytes, struct muster_err *err)
{
    struct muster_yaml_node *root = NULL;
    struct muster_arena memory = {0};
    muster_settings_default(settings);
    int failed = muster_yaml_parse(&root, &memory, file, yaml, bytes, err);
    if (!failed)
        failed = apply_root(settings, file, root, err);
    muster_arena_free(&memory);
    if (failed)
        muster_settings_default(settings);
    return failed;
}
