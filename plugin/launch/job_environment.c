#include "launch/job_environment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/env.h"
#include "launch/job_policy.h"
#include "launch/locate.h"
#include "launch/plugin_form.h"

const char *const muster_capture_timings[] = {"configured", "auto",     "full",
                                              "light",      "channels", NULL};

static const char plugin_variable[] = "NCCL_PROFILER_PLUGIN";
static const char chain_variable[] = "MUSTER_CHAIN";
static const char tuner_variable[] = "NCCL_TUNER_PLUGIN";

int muster_environment_add(struct muster_environment *environment, const char *name,
                           const char *value, struct muster_err *err)
{
    struct muster_variable *variable = &environment->at[environment->n];
    if (environment->n == MUSTER_VARIABLES || strlen(value) >= sizeof variable->value)
        return muster_fail(err, "%s: longer than %zu bytes", name, sizeof variable->value - 1);
    *variable = (struct muster_variable){.name = name};
    memcpy(variable->value, value, strlen(value) + 1);
    environment->n++;
    return 0;
}

int muster_environment_add_long(struct muster_environment *environment, const char *name,
                                const char *value, struct muster_err *err)
{
    if (environment->n == MUSTER_VARIABLES)
        return muster_fail(err, "%s: too many variables", name);
    environment->at[environment->n++] = (struct muster_variable){.name = name, .whole = value};
    return 0;
}

const char *muster_variable_value(const struct muster_variable *variable)
{
    return variable->whole ? variable->whole : variable->value;
}

void muster_environment_free(struct muster_environment *environment)
{
    free(environment->owned);
    environment->owned = NULL;
}

static int add_path(struct muster_environment *environment, const char *name, const char *path,
                    struct muster_err *err)
{
    char folder[PATH_MAX];
    char whole[2 * PATH_MAX];
    if (!path)
        return 0;
    if (path[0] == '/')
        return muster_environment_add(environment, name, path, err);
    if (!getcwd(folder, sizeof folder))
        return muster_fail(err, "working directory: %s", strerror(errno));
    snprintf(whole, sizeof whole, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, path);
    return muster_environment_add(environment, name, whole, err);
}

static bool is_muster(const char *plugin)
{
    const char *slash = strrchr(plugin, '/');
    return strcmp(plugin, "muster") == 0 ||
           strcmp(slash ? slash + 1 : plugin, MUSTER_PROFILER_LIBRARY) == 0;
}

/* The profiler that the job would have had; NULL: none but muster. */
static const char *other_profiler(void)
{
    const char *other = muster_env(plugin_variable);
    return other && strcasecmp(other, "none") != 0 && !is_muster(other) ? other : NULL;
}

static int add_chain(struct muster_environment *environment, struct muster_err *err)
{
    const char *other = other_profiler();
    if (!other || muster_env(chain_variable))
        return 0;
    return muster_environment_add(environment, chain_variable, other, err);
}

static int add_library(struct muster_environment *environment, struct muster_err *err)
{
    char path[PATH_MAX];
    if (muster_locate_library(MUSTER_PROFILER_LIBRARY, path, sizeof path, err) ||
        muster_environment_add(environment, plugin_variable, muster_plugin_word(path), err)) {
        return -1;
    }
    *strrchr(path, '/') = '\0';
    if (strchr(path, ':')) {
        return muster_fail(err, "%s: a folder with ':' in its name cannot be in LD_LIBRARY_PATH",
                           path);
    }
    if (muster_environment_add(environment, "LD_LIBRARY_PATH", path, err))
        return -1;
    environment->at[environment->n - 1].prepend = true;
    return 0;
}

int muster_environment_record(const struct muster_capture *capture,
                              struct muster_environment *environment, struct muster_err *err)
{
    char bytes[24];
    environment->n = 0;
    environment->owned = NULL;
    snprintf(bytes, sizeof bytes, "%" PRIu64, capture->log_max);
    if (add_library(environment, err) || add_chain(environment, err) ||
        add_path(environment, "MUSTER_CONFIG", capture->config, err) ||
        add_path(environment, "MUSTER_DIR", capture->dir, err) ||
        add_path(environment, "MUSTER_TRACE", capture->trace, err) ||
        (capture->timing && muster_environment_add(environment, "MUSTER_TIMING",
                                                   muster_capture_timings[capture->timing], err)) ||
        (capture->log_max && muster_environment_add(environment, "MUSTER_LOG_MAX", bytes, err)) ||
        (capture->quiet && muster_environment_add(environment, "MUSTER_LOG_LEVEL", "error", err))) {
        return -1;
    }
    return 0;
}

int muster_environment_plan(const struct muster_capture *capture,
                            struct muster_environment *environment, struct muster_err *err)
{
    if (muster_environment_record(capture, environment, err) ||
        muster_steer_add(environment, capture->policy, capture->config, err)) {
        muster_environment_free(environment);
        return -1;
    }
    return 0;
}

static int set(const struct muster_variable *variable)
{
    const char *before = muster_env(variable->name);
    char *joined = NULL;
    int result;
    if (!variable->prepend || !before)
        return setenv(variable->name, muster_variable_value(variable), 1);
    if (asprintf(&joined, "%s:%s", variable->value, before) < 0)
        return -1;
    result = setenv(variable->name, joined, 1);
    free(joined);
    return result;
}

int muster_environment_apply(const struct muster_environment *environment, struct muster_err *err)
{
    for (unsigned i = 0; i < environment->n; i++)
        if (set(&environment->at[i]))
            return muster_fail_memory(err, environment->at[i].name);
    return 0;
}

static bool is_set(const struct muster_environment *environment, const char *name)
{
    for (unsigned i = 0; i < environment->n; i++)
        if (strcmp(environment->at[i].name, name) == 0)
            return true;
    return false;
}

void muster_environment_report_others(const char *command,
                                      const struct muster_environment *environment)
{
    const char *profiler = other_profiler(), *tuner = muster_env(tuner_variable);
    if (profiler && is_set(environment, chain_variable))
        fprintf(stderr, "muster %s: %s=%s is called beside muster (%s)\n", command, plugin_variable,
                profiler, chain_variable);
    else if (profiler && is_set(environment, plugin_variable))
        fprintf(stderr, "muster %s: %s=%s is replaced; beside muster is %s=%s\n", command,
                plugin_variable, profiler, chain_variable, muster_env(chain_variable));
    if (tuner && !is_muster(tuner) && is_set(environment, tuner_variable))
        fprintf(stderr, "muster %s: %s=%s is replaced\n", command, tuner_variable, tuner);
}
