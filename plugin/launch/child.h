/*
 * Child processes: every one of the command's is started, waited for and ended here. Any thread;
 * with others running, `prepare` and `work` must do with what a signal handler may call.
 */
#ifndef MUSTER_LAUNCH_CHILD_H
#define MUSTER_LAUNCH_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* What a child is. All zero but argv or work: as this process, with its files and signals. */
struct muster_child {
    const char *const *argv; /* becomes this */
    const char *program;     /* which file that is; NULL: argv[0] by the PATH */
    /* Before that, in the child. -1: it ends, and starting it fails with err. */
    int (*prepare)(void *arg, struct muster_err *err);
    int (*work)(void *arg); /* instead of argv: its exit status */
    void *arg;
    const int *files;     /* become its standard input, output and error; NULL: they stay */
    const sigset_t *mask; /* blocked in it; NULL: as in this thread */
    bool default_signals; /* none ignored, none blocked but by `mask` */
    bool group;           /* leads a process group of its own */
    int orphaned;         /* gets this signal when the parent's thread ends; 0: none */
};

/* 0 once it runs argv, or has begun to work; else an errno (of exec: ENOENT if there is no such
 * command; ECANCELED: prepare failed) with err filled in, and there is no child. */
int muster_child_start(const struct muster_child *child, pid_t *pid, struct muster_err *err);

/* Whether it has ended; then *status is as waitpid's, and its number is no longer its own. */
bool muster_child_ended(pid_t pid, int *status);
/* Until then. False: it had not ended `patience_ms` later. */
bool muster_child_wait(pid_t pid, unsigned patience_ms, int *status);
/* As long as it takes. */
void muster_child_reap(pid_t pid, int *status);
/* Kills it, and all of its group if it leads one; false if it outlasts that, as a process inside a
 * driver may: it is left behind then. */
bool muster_child_kill(pid_t pid, int *status);

/* Runs argv[0] with the PATH as if it had been called itself: signals sent to this process go on to
 * the command; those of the terminal reach it anyway. Returns its exit status, 128 + n after signal
 * n. Where it cannot be run: 127 if there is no such command, else 126, with err filled in (else
 * err->text is empty). */
int muster_child_run(char **argv, struct muster_err *err);

/* What one waits for who has children: SIGCHLD, and signals sent to this process. */
sigset_t muster_child_signals(const int *sent, size_t n);
/* The same with SIGINT, SIGTERM and SIGHUP, which ask to end. */
sigset_t muster_child_signals_to_end(void);

#endif
