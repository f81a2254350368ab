/* Running a command as if it had been called itself: its signals, its exit status. */
#ifndef MUSTER_CLI_CHILD_H
#define MUSTER_CLI_CHILD_H

#include <signal.h>
#include <stddef.h>

#include "base/err.h"

/* Runs argv[0] with the PATH and waits for it. Signals sent to this process go on to the command;
 * those of the terminal reach it anyway. Returns its exit status, 128 + n after signal n. Where it
 * cannot be run: 127 if there is no such command, else 126, with err filled in (else err->text is
 * empty). */
int muster_child_run(char **argv, struct muster_err *err);

/* What one waits for who has children: SIGCHLD, and signals sent to this process. */
sigset_t muster_child_signals(const int *sent, size_t n);
/* The same with SIGINT, SIGTERM and SIGHUP, which ask to end. */
sigset_t muster_child_signals_to_end(void);

#endif
