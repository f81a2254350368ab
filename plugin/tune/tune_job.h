/* One run of the command that `muster tune` measures. */
#ifndef MUSTER_TUNE_TUNE_JOB_H
#define MUSTER_TUNE_TUNE_JOB_H

#include <signal.h>
#include <stddef.h>

#include "base/err.h"

enum muster_tune_end {
    MUSTER_TUNE_DONE,
    MUSTER_TUNE_FAILED,      /* did not end with 0, or cannot be run */
    MUSTER_TUNE_TIMEOUT,     /* ended because it took too long */
    MUSTER_TUNE_INTERRUPTED, /* ended because muster was asked to end */
};

struct muster_tune_job {
    char *const *argv;
    const char *dir;    /* run directory */
    const char *output; /* file for what it prints */
    const char *policy; /* text; NULL: without a policy, and as if none were in the environment */
    double limit_s;
};

struct muster_tune_ended {
    enum muster_tune_end how;
    double seconds;
    char why[128]; /* "exit status 3", "signal 11", "not over after 40 s" */
};

/* SIGINT, SIGTERM, SIGHUP and SIGCHLD are waited for, not delivered, from here on; call once. */
void muster_tune_watch_signals(void);
/* The signal that asked muster to end; 0: none. */
int muster_tune_interrupted(void);

/* All that the command started ends with it, also what left its process group, and leaves no
 * segment behind. The caller has no other children. */
void muster_tune_run_job(const struct muster_tune_job *job, struct muster_tune_ended *ended);
/* The last line that the job printed and that is not blank; "": none. */
void muster_tune_output_end(const char *output, char *to, size_t size);

#endif
