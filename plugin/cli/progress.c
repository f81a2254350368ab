#include "cli/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/terminal.h"

#define QUIET_NS (2 * MUSTER_NS_PER_S) /* shorter waits need no words */
#define AGAIN_NS (MUSTER_NS_PER_S / 2)

struct muster_progress {
    const char *command;
    double expected_s;
    uint64_t begin_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    const char *what; /* under the lock */
    bool over;        /* under the lock */
    bool shown;       /* the thread's; behind its end whoever joined it */
};

static void show(struct muster_progress *progress)
{
    double s = (double)(muster_now_ns() - progress->begin_ns) / (double)MUSTER_NS_PER_S;
    char line[256], of[64] = "";
    if (progress->expected_s > 0)
        snprintf(of, sizeof of, " of about %.0f s", progress->expected_s);
    else
        snprintf(of, sizeof of, " s");
    snprintf(line, sizeof line, "muster %s: %s, %.0f%s", progress->command, progress->what, s, of);
    muster_terminal_cut(line, sizeof line, muster_terminal_of(STDERR_FILENO).width - 1);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    progress->shown = true;
}

static void *progress_main(void *arg)
{
    struct muster_progress *progress = arg;
    uint64_t due = progress->begin_ns + QUIET_NS;
    pthread_mutex_lock(&progress->lock);
    while (!progress->over) {
        const struct timespec at = {.tv_sec = (time_t)(due / MUSTER_NS_PER_S),
                                    .tv_nsec = (long)(due % MUSTER_NS_PER_S)};
        pthread_cond_timedwait(&progress->wake, &progress->lock, &at);
        if (progress->over || muster_now_ns() < due)
            continue;
        show(progress);
        due = muster_now_ns() + AGAIN_NS;
    }
    pthread_mutex_unlock(&progress->lock);
    return NULL;
}

/* Signals are for the thread that does the work. */
static bool start(struct muster_progress *progress)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&progress->thread, NULL, progress_main, progress) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

struct muster_progress *muster_progress_begin(const char *command, const char *what,
                                              double expected_s)
{
    pthread_condattr_t clock;
    const char *term = muster_env("TERM");
    if (!isatty(STDERR_FILENO) || !term || strcmp(term, "dumb") == 0)
        return NULL;
    struct muster_progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        return NULL;
    progress->command = command;
    progress->what = what;
    progress->expected_s = expected_s;
    progress->begin_ns = muster_now_ns();
    pthread_mutex_init(&progress->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->wake, &clock);
    pthread_condattr_destroy(&clock);
    if (start(progress))
        return progress;
    pthread_cond_destroy(&progress->wake);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
    return NULL;
}

void muster_progress_now(struct muster_progress *progress, const char *what)
{
    if (!progress)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->what = what;
    pthread_mutex_unlock(&progress->lock);
}

void muster_progress_end(struct muster_progress *progress)
{
    if (!progress)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->over = true;
    pthread_cond_signal(&progress->wake);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    pthread_cond_destroy(&progress->wake);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}
