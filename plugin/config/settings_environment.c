#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/text.h"
#include "config/document.h"
#include "config/settings.h"
#include "config/settings_table.h"

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

/* What is wrong so far, in one line. */
struct faults {
    char text[400];
    unsigned n;
    bool harm; /* a directory or a policy */
};

static bool may_harm(const char *name)
{
    return strstr(name, "DIR") || strstr(name, "POLICY");
}

static void add_fault(struct faults *faults, const char *text)
{
    struct muster_text all = muster_text_behind(faults->text, sizeof(faults->text));
    muster_text_add(&all, "%s%s", faults->n++ ? "; " : "", text);
}

static void check_name(const char *name, struct faults *faults)
{
    char text[400];
    if (is_setting(name) || muster_variable_is_internal(name))
        return;
    const char *nearest = muster_setting_nearest_variable(name);
    faults->harm |= may_harm(nearest ? nearest : name);
    if (nearest)
        snprintf(text, sizeof(text), "%s: unknown variable, did you mean %s?", name, nearest);
    else
        snprintf(text, sizeof(text),
                 "%s: unknown variable; 'muster help config' lists the known ones", name);
    add_fault(faults, text);
}

static void check_names(struct faults *faults)
{
    for (char **entry = environ; entry && *entry; entry++) {
        char name[128];
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, common_prefix, sizeof(common_prefix) - 1) != 0)
            continue;
        if ((*entry)[length] == '=' && (*entry)[length + 1] == '\0')
            continue;
        snprintf(name, sizeof(name), "%.*s", length < 100 ? (int)length : 100, *entry);
        check_name(name, faults);
    }
}

static void apply_variable(struct muster_settings *settings, const struct muster_setting *setting,
                           const char *name, struct faults *faults)
{
    struct muster_err why;
    char text[400];
    const char *value = muster_env(name);
    if (!value || muster_setting_set(settings, setting, value, &why) == 0)
        return;
    faults->harm |= may_harm(name);
    snprintf(text, sizeof(text), "%s: %.300s", name, why.text);
    add_fault(faults, text);
}

/* Both are checked; the short one comes last and so wins. */
static void apply_variables(struct muster_settings *settings, const struct muster_setting *setting,
                            struct faults *faults)
{
    apply_variable(settings, setting, setting->variable, faults);
    apply_variable(settings, setting, setting->short_variable, faults);
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

static const char reported_variable[] = "MUSTER_SAID";

void muster_settings_mark_reported(const struct muster_err *err)
{
    setenv(reported_variable, err->text, 1);
}

bool muster_settings_was_reported(const struct muster_err *err)
{
    const char *reported = getenv(reported_variable);
    return reported && strcmp(reported, err->text) == 0;
}

/* The switch comes first: whoever turns muster off need not repair a configuration before. */
static bool is_off(void)
{
    struct muster_settings settings;
    struct faults faults = {.n = 0};
    muster_settings_default(&settings);
    apply_variables(&settings, muster_setting_find("capture.off"), &faults);
    return faults.n == 0 && settings.off;
}

int muster_settings_load(struct muster_settings *settings, struct muster_err *err)
{
    const char *path = muster_env("MUSTER_CONFIG");
    struct faults faults = {.n = 0};
    struct muster_err why;
    muster_settings_default(settings);
    if (is_off()) {
        settings->off = true;
        return 0;
    }
    check_names(&faults);
    bool bad_file = path && parse_file(settings, path, &why) != 0;
    if (bad_file) {
        muster_settings_default(settings);
        add_fault(&faults, why.text);
    }
    for (size_t i = 0; i < muster_settings_count; i++)
        apply_variables(settings, &muster_settings_table[i], &faults);
    if (faults.n == 0)
        return 0;
    settings->off |= faults.harm;
    return muster_fail(err, "%s: %s", faults.text,
                       faults.harm ? "nothing is recorded, as it may be meant for elsewhere"
                       : bad_file  ? "nothing in that file holds, MUSTER_ variables do"
                                   : "the other settings hold");
}
