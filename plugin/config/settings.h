/*
 * Every setting of muster, from defaults, then MUSTER_CONFIG's YAML file, then the environment.
 * One table (settings_table.c) holds name, variable, type, range, default and help; parser, `muster
 * help config`, and "did you mean" all walk it.
 */
#ifndef MUSTER_CONFIG_SETTINGS_H
#define MUSTER_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "config/actions.h"
#include "config/timing.h"

enum { MUSTER_SETTINGS_PATH = 1024 }; /* bytes of a path, its end included */

struct muster_settings {
    bool off;
    char dir[MUSTER_SETTINGS_PATH]; /* "": chosen from the job id or the first communicator */
    char segment_dir[MUSTER_SETTINGS_PATH];
    int timing; /* enum muster_timing */
    bool mark;
    bool gpus;
    uint64_t log_max;
    char trace[MUSTER_SETTINGS_PATH]; /* "": none */
    char chain[MUSTER_SETTINGS_PATH]; /* "": no other profiler */
    int log_level;                    /* enum muster_log_level */
    uint64_t hang_seconds;
    struct muster_actions on[MUSTER_FINDING_KINDS]; /* by enum muster_finding_kind */
};

void muster_settings_default(struct muster_settings *settings);

/* Reads the environment and the file it names. -1: something is wrong (unknown key with the nearest
 * known one, bad value, bad YAML): err has all of it in one line, "file:line:column: ..." or
 * "MUSTER_X: ...", with what follows from it. The rest holds all the same: of a file with an error
 * nothing, of variables those that are right. Where it may be a directory or a policy that is
 * meant, `off` is set: what would be written elsewhere, or steered otherwise, had better not be.
 * Unknown MUSTER_* variables are errors, too; empty ones count as not set. With MUSTER_OFF=1
 * nothing else is looked at. */
int muster_settings_load(struct muster_settings *settings, struct muster_err *err);

/* Whoever starts a job prints what is wrong, once; its processes, which inherit the environment,
 * find the same and need not print it again. Marked in MUSTER_SAID, which holds what was printed.
 */
void muster_settings_mark_reported(const struct muster_err *err);
bool muster_settings_was_reported(const struct muster_err *err);

/* The same from a document in memory, named `file` in errors; for tests, fuzzing and `--config`
 * checks. Does not look at the environment. On error *settings holds the defaults. */
int muster_settings_parse(struct muster_settings *settings, const char *file, const char *yaml,
                          size_t bytes, struct muster_err *err);

/* For `muster help config`: a table of all settings. */
void muster_settings_help(FILE *out);
/* What goes for all of them. */
extern const char *const muster_settings_more;

#endif
