#include "tune/tune_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/text.h"
#include "launch/child.h"
#include "launch/family.h"
#include "launch/job_environment.h"
#include "launch/job_policy.h"

enum { GRACE_S = 5, CANNOT = 126 };

static sigset_t before;
static int interrupted;

void muster_tune_watch_signals(void)
{
    sigset_t set = muster_child_signals_to_end();
    sigprocmask(SIG_BLOCK, &set, &before);
}

static void take_signals(uint64_t wait_ns)
{
    sigset_t set = muster_child_signals_to_end();
    struct timespec wait = {.tv_sec = (time_t)(wait_ns / MUSTER_NS_PER_S),
                            .tv_nsec = (long)(wait_ns % MUSTER_NS_PER_S)};
    int number = sigtimedwait(&set, NULL, &wait);
    if (number > 0 && number != SIGCHLD)
        interrupted = number;
}

int muster_tune_interrupted(void)
{
    take_signals(0);
    return interrupted;
}

/* ---- the child ---- */

/* What recorded and steered before is not this run's. */
static void forget_policy(void)
{
    const char *tuner = getenv("NCCL_TUNER_PLUGIN");
    unsetenv("MUSTER_POLICY_INLINE");
    unsetenv("MUSTER_POLICY_SHA256");
    if (tuner && (strcmp(tuner, MUSTER_TUNER_LIBRARY) == 0 || strcmp(tuner, "muster") == 0))
        unsetenv("NCCL_TUNER_PLUGIN");
}

static int set_environment(const struct muster_tune_job *job, struct muster_err *err)
{
    struct muster_environment environment;
    const char *wanted = muster_env("MUSTER_TIMING");
    struct muster_capture capture = {.timing = MUSTER_CAPTURE_FULL, .dir = job->dir, .quiet = true};
    if (wanted && strcmp(wanted, muster_capture_timings[MUSTER_CAPTURE_CHANNELS]) == 0)
        capture.timing = MUSTER_CAPTURE_CHANNELS;
    forget_policy();
    if (muster_environment_record(&capture, &environment, err) ||
        (job->policy && muster_steer_add_text(&environment, job->policy, err))) {
        return -1;
    }
    return muster_environment_apply(&environment, err);
}

static int prepare(void *arg, struct muster_err *err)
{
    const struct muster_tune_job *job = arg;
    return set_environment(job, err);
}

/* What the job prints, and why it could not be run, stands in its output. */
static int start(const struct muster_tune_job *job, pid_t *pid, struct muster_err *err)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(job->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const struct muster_child child = {.argv = (const char *const *)job->argv,
                                       .prepare = prepare,
                                       .arg = (void *)(uintptr_t)job,
                                       .files = (const int[]){null, out, out},
                                       .mask = &before,
                                       .group = true};
    fflush(NULL);
    int why = muster_child_start(&child, pid, err);
    if (why != 0 && out >= 0)
        dprintf(out, "%s\n", err->text);
    if (null >= 0)
        close(null);
    if (out >= 0)
        close(out);
    return why;
}

/* ---- waiting ---- */

/* Until it is over, `until_ns` has come, or somebody asks to end. True: it is over. */
static bool wait_for(pid_t child, uint64_t until_ns, bool patient, int *status)
{
    for (;;) {
        uint64_t now = muster_now_ns();
        if (muster_child_ended(child, status))
            return true;
        if (now >= until_ns || (!patient && interrupted))
            return false;
        uint64_t left = until_ns - now;
        take_signals(left < MUSTER_NS_PER_S ? left : MUSTER_NS_PER_S);
    }
}

/* What is left goes with the command, whichever way it ended: its group at once, so that a launcher
 * ends its own; then those with sessions of their own. */
static void end_all(const struct muster_tune_job *job, pid_t child, bool over, int *status)
{
    kill(-child, SIGTERM);
    if (!over)
        wait_for(child, muster_now_ns() + GRACE_S * MUSTER_NS_PER_S, true, status);
    kill(-child, SIGKILL);
    if (!over)
        muster_child_reap(child, status);
    muster_family_end(job->dir, GRACE_S * 1000);
}

static void evaluate(struct muster_tune_ended *ended, bool over, int status,
                     const struct muster_tune_job *job)
{
    ended->how = MUSTER_TUNE_FAILED;
    if (!over && interrupted) {
        ended->how = MUSTER_TUNE_INTERRUPTED;
        snprintf(ended->why, sizeof ended->why, "interrupted");
    } else if (!over) {
        ended->how = MUSTER_TUNE_TIMEOUT;
        snprintf(ended->why, sizeof ended->why, "not over after %.0f s", job->limit_s);
    } else if (WIFSIGNALED(status)) {
        snprintf(ended->why, sizeof ended->why, "signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status)) {
        snprintf(ended->why, sizeof ended->why, "exit status %d", WEXITSTATUS(status));
    } else {
        ended->how = MUSTER_TUNE_DONE;
    }
}

void muster_tune_run_job(const struct muster_tune_job *job, struct muster_tune_ended *ended)
{
    uint64_t begin = muster_now_ns();
    int status = 0;
    *ended = (struct muster_tune_ended){.how = MUSTER_TUNE_FAILED};
    pid_t child;
    struct muster_err err;
    muster_family_adopt();
    if (start(job, &child, &err) != 0) {
        snprintf(ended->why, sizeof ended->why, "exit status %d", CANNOT);
        return;
    }
    bool over = wait_for(child, begin + (uint64_t)(job->limit_s * 1e9), false, &status);
    ended->seconds = (double)(muster_now_ns() - begin) / 1e9;
    evaluate(ended, over, status, job);
    end_all(job, child, over, &status);
}

void muster_tune_output_end(const char *output, char *to, size_t size)
{
    char line[300];
    FILE *file = fopen(output, "r");
    to[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strspn(line, " ") < strlen(line))
            muster_text_copy(to, size, line);
    }
    if (file)
        fclose(file);
}
