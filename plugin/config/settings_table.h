/* The one table of settings, and how a text becomes a value of one. */
#ifndef MUSTER_CONFIG_SETTINGS_TABLE_H
#define MUSTER_CONFIG_SETTINGS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "config/settings.h"

enum muster_setting_type {
    MUSTER_SETTING_BOOL,
    MUSTER_SETTING_SIZE,
    MUSTER_SETTING_NUMBER, /* whole */
    MUSTER_SETTING_WORD,   /* one of `words`; the value is its index */
    MUSTER_SETTING_PATH,
};

struct muster_setting {
    const char *key;            /* "capture.log_max" */
    const char *variable;       /* "MUSTER_CAPTURE_LOG_MAX" */
    const char *short_variable; /* "MUSTER_LOG_MAX"; wins over the long one */
    enum muster_setting_type type;
    size_t offset;            /* in struct muster_settings */
    uint64_t min, max;        /* of a size or number */
    const char *const *words; /* of a word, NULL at the end */
    const char *fallback;     /* the default, as one would write it */
    const char *help;
};

extern const struct muster_setting muster_settings_table[];
extern const size_t muster_settings_count;

/* The variable that names the file, those that muster sets for itself or that only its command
 * reads: known, and no settings. */
bool muster_variable_is_internal(const char *name);

/* Sets one value. The error reads only "expected ..., found ...": the caller knows where. */
int muster_setting_set(struct muster_settings *settings, const struct muster_setting *setting,
                       const char *text, struct muster_err *err);
/* "auto, full, light or channels": what the setting accepts, for errors and help. */
void muster_setting_expected(const struct muster_setting *setting, char *to, size_t size);

const struct muster_setting *muster_setting_find(const char *key);
/* The known key or variable nearest to an unknown one, else NULL. */
const char *muster_setting_nearest_key(const char *key);
const char *muster_setting_nearest_variable(const char *name);

#endif
