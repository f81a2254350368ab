#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "config/document.h"
#include "config/settings.h"
#include "config/table.h"

static const char common_prefix[] = "MUSTER_";

static bool is_setting(const char *name)
{
    for (size_t i = 0; i < muster_settings_count; i++) {
        const struct muster_setting *setting = &muster_settings_table[i];
        if (strcmp(name, setting->variable) == 0 || strcmp(name, setting->short_variable) == 0)
            return true;
    }
    return false;
}

static int check_name(const char *name, struct muster_err *err)
{
    if (is_setting(name) || muster_variable_is_internal(name))
        return 0;
    const char *nearest = muster_setting_nearest_variable(name);
    if (nearest)
        return muster_fail(err, "%s: unknown variable, did you mean %s?", name, nearest);
    return muster_fail(err, "%s: unknown variable; 'muster help config' lists the known ones",
                       name);
}

static int check_names(struct muster_err *err)
{
    for (char **entry = environ; entry && *entry; entry++) {
        char name[128];
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, common_prefix, sizeof(common_prefix) - 1) != 0)
            continue;
        if ((*entry)[length] == '=' && (*entry)[length + 1] == '\0')
            continue;
        snprintf(name, sizeof(name), "%.*s", length < 100 ? (int)length : 100, *entry);
        if (check_name(name, err) != 0)
            return -1;
    }
    return 0;
}

static int apply_variable(struct muster_settings *settings, const struct muster_setting *setting,
                          const char *name, struct muster_err *err)
{
    struct muster_err why;
    const char *value = muster_env(name);
    if (!value || muster_setting_set(settings, setting, value, &why) == 0)
        return 0;
    return muster_fail(err, "%s: %s", name, why.text);
}

/* Both are checked; the short one comes last and so wins. */
static int apply_variables(struct muster_settings *settings, const struct muster_setting *setting,
                           struct muster_err *err)
{
    if (apply_variable(settings, setting, setting->variable, err) != 0)
        return -1;
    return apply_variable(settings, setting, setting->short_variable, err);
}

static int parse_file(struct muster_settings *settings, const char *path, struct muster_err *err)
{
    struct muster_document document;
    struct muster_err why;
    if (muster_document_read(&document, path, &why) != 0)
        return muster_fail(err, "MUSTER_CONFIG: %s", why.text);
    int failed = muster_settings_parse(settings, path, document.text, document.bytes, err);
    muster_document_free(&document);
    return failed;
}

/* The switch comes first: whoever turns muster off need not repair a configuration before. */
static bool is_off(void)
{
    struct muster_settings settings;
    muster_settings_default(&settings);
    return apply_variables(&settings, muster_setting_find("capture.off"), NULL) == 0 &&
           settings.off;
}

static int load(struct muster_settings *settings, struct muster_err *err)
{
    const char *path = muster_env("MUSTER_CONFIG");
    if (check_names(err) != 0)
        return -1;
    if (path && parse_file(settings, path, err) != 0)
        return -1;
    for (size_t i = 0; i < muster_settings_count; i++) {
        if (apply_variables(settings, &muster_settings_table[i], err) != 0)
            return -1;
    }
    return 0;
}

int muster_settings_load(struct muster_settings *settings, struct muster_err *err)
{
    muster_settings_default(settings);
    if (is_off()) {
        settings->off = true;
        return 0;
    }
    int failed = load(settings, err);
    if (failed)
        muster_settings_default(settings);
    return failed;
}
