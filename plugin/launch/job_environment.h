/* The variables that make an unchanged job record itself: `muster run` sets them, `muster env`
 * prints them. */
#ifndef MUSTER_LAUNCH_JOB_ENVIRONMENT_H
#define MUSTER_LAUNCH_JOB_ENVIRONMENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What both commands let one choose. */
struct muster_capture {
    int timing;                                /* index into muster_capture_timings */
    const char *dir, *trace, *config, *policy; /* NULL: not given */
    uint64_t log_max;                          /* 0: not given */
    bool quiet;
};

extern const char *const muster_capture_timings[];             /* the first: as configured */
enum { MUSTER_CAPTURE_FULL = 2, MUSTER_CAPTURE_CHANNELS = 4 }; /* their indices there */

struct muster_variable {
    const char *name;
    char value[PATH_MAX];
    const char *whole; /* instead of value where that is too short; not owned */
    bool prepend;      /* to a list with ':' */
};

enum { MUSTER_VARIABLES = 12 };

struct muster_environment {
    struct muster_variable at[MUSTER_VARIABLES];
    unsigned n;
    char *owned; /* what a `whole` points to, if it is the environment's */
};

/* Paths become absolute: the job may change its directory. err: the plugin is not where it should
 * be, a path is too long, or the policy has errors, which were printed. */
int muster_environment_plan(const struct muster_capture *capture,
                            struct muster_environment *environment, struct muster_err *err);

/* The same without the policy. */
int muster_environment_record(const struct muster_capture *capture,
                              struct muster_environment *environment, struct muster_err *err);

/* Adds one; -1: the value is too long. */
int muster_environment_add(struct muster_environment *environment, const char *name,
                           const char *value, struct muster_err *err);

/* The same for a text of any length, which must outlive the environment. */
int muster_environment_add_long(struct muster_environment *environment, const char *name,
                                const char *value, struct muster_err *err);
const char *muster_variable_value(const struct muster_variable *variable);

/* Sets them in this process. -1: out of memory. */
int muster_environment_apply(const struct muster_environment *environment, struct muster_err *err);

void muster_environment_free(struct muster_environment *environment);

/* One line on stderr for each other plugin that is set: a profiler is called beside muster, a tuner
 * is replaced. */
void muster_environment_report_others(const char *command,
                                      const struct muster_environment *environment);

#endif
