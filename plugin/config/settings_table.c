#include "config/settings_table.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define AT(member)     offsetof(struct muster_settings, member)
#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

/* In the order of enum muster_timing and enum muster_log_level. */
static const char *const timing_words[] = {"auto", "full", "light", "channels", NULL};
static const char *const level_words[] = {"error", "warn", "info", "debug", NULL};

const struct muster_setting muster_settings_table[] = {
    {
        .key = "capture.off",
        .variable = "MUSTER_CAPTURE_OFF",
        .short_variable = "MUSTER_OFF",
        .type = MUSTER_SETTING_BOOL,
        .offset = AT(off),
        .fallback = "0",
        .help = "1: load, do nothing",
    },
    {
        .key = "capture.dir",
        .variable = "MUSTER_CAPTURE_DIR",
        .short_variable = "MUSTER_DIR",
        .type = MUSTER_SETTING_PATH,
        .offset = AT(dir),
        .fallback = "",
        .help = "run directory; unset: ./muster-ID, ID from the job or the first communicator",
    },
    {
        .key = "capture.segment_dir",
        .variable = "MUSTER_CAPTURE_SEGMENT_DIR",
        .short_variable = "MUSTER_SEGMENT_DIR",
        .type = MUSTER_SETTING_PATH,
        .offset = AT(segment_dir),
        .fallback = "/dev/shm",
        .help = "where live segments are; tmpfs only, else there is no live view",
    },
    {
        .key = "capture.timing",
        .variable = "MUSTER_CAPTURE_TIMING",
        .short_variable = "MUSTER_TIMING",
        .type = MUSTER_SETTING_WORD,
        .offset = AT(timing),
        .words = timing_words,
        .fallback = "auto",
        .help =
            "full: GPU times of all; light: none; auto: within 0.5 %; channels: NCCL's stamps too",
    },
    {
        .key = "capture.mark",
        .variable = "MUSTER_CAPTURE_MARK",
        .short_variable = "MUSTER_MARK",
        .type = MUSTER_SETTING_BOOL,
        .offset = AT(mark),
        .fallback = "1",
        .help = "completion marks: untimed CUDA events that show which operations ended",
    },
    {
        .key = "capture.gpus",
        .variable = "MUSTER_CAPTURE_GPUS",
        .short_variable = "MUSTER_GPUS",
        .type = MUSTER_SETTING_BOOL,
        .offset = AT(gpus),
        .fallback = "1",
        .help = "look at paths, interface and state of the GPUs by NVML, at most every 10 s",
    },
    {
        .key = "capture.log_max",
        .variable = "MUSTER_CAPTURE_LOG_MAX",
        .short_variable = "MUSTER_LOG_MAX",
        .type = MUSTER_SETTING_SIZE,
        .offset = AT(log_max),
        .min = 64ull << 10,
        .max = 1ull << 50,
        .fallback = "256MiB",
        .help = "log bytes a process; beyond it the newest operations replace the oldest",
    },
    {
        .key = "capture.trace",
        .variable = "MUSTER_CAPTURE_TRACE",
        .short_variable = "MUSTER_TRACE",
        .type = MUSTER_SETTING_PATH,
        .offset = AT(trace),
        .fallback = "",
        .help = "directory: record the call trace there; unset: no trace",
    },
    {
        .key = "capture.chain",
        .variable = "MUSTER_CAPTURE_CHAIN",
        .short_variable = "MUSTER_CHAIN",
        .type = MUSTER_SETTING_PATH,
        .offset = AT(chain),
        .fallback = "",
        .help = "another profiler plugin that is called, too: its path, or a name as NCCL takes it",
    },
    {
        .key = "capture.log_level",
        .variable = "MUSTER_CAPTURE_LOG_LEVEL",
        .short_variable = "MUSTER_LOG_LEVEL",
        .type = MUSTER_SETTING_WORD,
        .offset = AT(log_level),
        .words = level_words,
        .fallback = "warn",
        .help = "what muster itself says on stderr",
    },
    {
        .key = "diagnose.hang_seconds",
        .variable = "MUSTER_DIAGNOSE_HANG_SECONDS",
        .short_variable = "MUSTER_HANG_SECONDS",
        .type = MUSTER_SETTING_NUMBER,
        .offset = AT(hang_seconds),
        .min = 1,
        .max = 1000000,
        .fallback = "10",
        .help = "how long nothing may move before it is called a hang",
    },
};
const size_t muster_settings_count = COUNT_OF(muster_settings_table);

static const char *const internal_variables[] = {
    "MUSTER_CONFIG", "MUSTER_POLICY_INLINE", "MUSTER_POLICY_SHA256",
    "MUSTER_REPLAY", "MUSTER_RUN_ID",        "MUSTER_SYSFS",
    "MUSTER_PROCFS", "MUSTER_SAID",          "MUSTER_LOAD_ANY",
};
bool muster_variable_is_internal(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(internal_variables); i++)
        if (strcmp(name, internal_variables[i]) == 0)
            return true;
    return false;
}

static bool parse_bool(const char *text, bool *value)
{
    static const char *const word[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < COUNT_OF(word); i++) {
        if (strcmp(text, word[i]) == 0) {
            *value = i & 1;
            return true;
        }
    }
    return false;
}

static bool parse_size(const struct muster_setting *setting, const char *text, uint64_t *value)
{
    uint64_t bytes;
    if (!muster_text_size(text, &bytes) || bytes < setting->min || bytes > setting->max)
        return false;
    *value = bytes;
    return true;
}

static bool parse_number(const struct muster_setting *setting, const char *text, uint64_t *value)
{
    uint64_t number;
    if (!muster_text_u64(text, &number) || number < setting->min || number > setting->max)
        return false;
    *value = number;
    return true;
}

static size_t count_words(const struct muster_setting *setting)
{
    size_t n = 0;
    while (setting->words[n])
        n++;
    return n;
}

static bool parse_word(const struct muster_setting *setting, const char *text, int *value)
{
    for (size_t i = 0; setting->words[i]; i++) {
        if (strcmp(text, setting->words[i]) == 0) {
            *value = (int)i;
            return true;
        }
    }
    return false;
}

static bool parse_path(const char *text, char path[MUSTER_SETTINGS_PATH])
{
    char clean[MUSTER_SETTINGS_PATH];
    muster_text_copy(clean, sizeof(clean), text);
    if (strcmp(clean, text) != 0)
        return false;
    memcpy(path, clean, sizeof(clean));
    return true;
}

static bool parse_value(struct muster_settings *settings, const struct muster_setting *setting,
                        const char *text)
{
    char *base = (char *)settings + setting->offset;
    switch (setting->type) {
    case MUSTER_SETTING_BOOL:
        return parse_bool(text, (bool *)base);
    case MUSTER_SETTING_SIZE:
        return parse_size(setting, text, (uint64_t *)(void *)base);
    case MUSTER_SETTING_NUMBER:
        return parse_number(setting, text, (uint64_t *)(void *)base);
    case MUSTER_SETTING_WORD:
        return parse_word(setting, text, (int *)(void *)base);
    case MUSTER_SETTING_PATH:
        return parse_path(text, base);
    }
    return false;
}

int muster_setting_set(struct muster_settings *settings, const struct muster_setting *setting,
                       const char *text, struct muster_err *err)
{
    char expected[128];
    if (parse_value(settings, setting, text))
        return 0;
    muster_setting_expected(setting, expected, sizeof(expected));
    const char *nearest = NULL;
    if (setting->type == MUSTER_SETTING_WORD)
        nearest = muster_text_nearest(text, setting->words, count_words(setting));
    if (nearest)
        return muster_fail(err, "expected %s, found '%.60s', did you mean '%s'?", expected, text,
                           nearest);
    return muster_fail(err, "expected %s, found '%.60s'", expected, text);
}

void muster_setting_expected(const struct muster_setting *setting, char *to, size_t size)
{
    char min[32], max[32];
    struct muster_text text = muster_text_begin(to, size);
    switch (setting->type) {
    case MUSTER_SETTING_BOOL:
        snprintf(to, size, "0 or 1");
        break;
    case MUSTER_SETTING_SIZE:
        muster_text_bytes(min, sizeof(min), setting->min);
        muster_text_bytes(max, sizeof(max), setting->max);
        snprintf(to, size, "a size from %s to %s", min, max);
        break;
    case MUSTER_SETTING_NUMBER:
        snprintf(to, size, "a whole number from %llu to %llu", (unsigned long long)setting->min,
                 (unsigned long long)setting->max);
        break;
    case MUSTER_SETTING_PATH:
        snprintf(to, size, "a path of at most %d bytes without control characters",
                 MUSTER_SETTINGS_PATH - 1);
        break;
    case MUSTER_SETTING_WORD:
        for (size_t i = 0, n = count_words(setting); i < n; i++)
            muster_text_add(&text, "%s%s", muster_text_join(i, n, " or "), setting->words[i]);
        break;
    }
}

const struct muster_setting *muster_setting_find(const char *key)
{
    for (size_t i = 0; i < muster_settings_count; i++)
        if (strcmp(muster_settings_table[i].key, key) == 0)
            return &muster_settings_table[i];
    return NULL;
}

const char *muster_setting_nearest_key(const char *key)
{
    const char *known[COUNT_OF(muster_settings_table)];
    const char *last[COUNT_OF(muster_settings_table)];
    for (size_t i = 0; i < muster_settings_count; i++) {
        known[i] = muster_settings_table[i].key;
        last[i] = strrchr(known[i], '.') + 1;
    }
    const char *nearest = muster_text_nearest(key, known, muster_settings_count);
    if (nearest)
        return nearest;
    /* Written without its section, or in the wrong one. */
    const char *dot = strrchr(key, '.');
    const char *word = muster_text_nearest(dot ? dot + 1 : key, last, muster_settings_count);
    for (size_t i = 0; word && i < muster_settings_count; i++)
        if (last[i] == word)
            return known[i];
    return NULL;
}

const char *muster_setting_nearest_variable(const char *name)
{
    enum { INTERNAL_SHOWN = 3 }; /* those that people set */
    const char *known[2 * COUNT_OF(muster_settings_table) + INTERNAL_SHOWN];
    const size_t rest = strlen("MUSTER_"); /* common to all, and no part of the likeness */
    for (size_t i = 0; i < muster_settings_count; i++) {
        known[2 * i] = muster_settings_table[i].short_variable + rest;
        known[2 * i + 1] = muster_settings_table[i].variable + rest;
    }
    for (size_t i = 0; i < INTERNAL_SHOWN; i++)
        known[2 * muster_settings_count + i] = internal_variables[i] + rest;
    if (strlen(name) <= rest)
        return NULL;
    const char *nearest = muster_text_nearest(name + rest, known, COUNT_OF(known));
    return nearest ? nearest - rest : NULL;
}
