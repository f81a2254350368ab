/*
 * What a command is at while somebody waits for it at a terminal: one line on standard error that
 * appears after two seconds, is rewritten, and is gone at the end. Nothing where standard error is
 * no terminal. The line is written by a thread of its own; begin and end in the same thread.
 */
#ifndef MUSTER_CLI_PROGRESS_H
#define MUSTER_CLI_PROGRESS_H

#include <stdint.h>

struct muster_progress;

/* "muster COMMAND: WHAT, 4 s". Strings have to outlive it. `expected_s` 0: not known. NULL, which
 * the other functions take: nothing will be shown. */
struct muster_progress *muster_progress_begin(const char *command, const char *what,
                                              double expected_s);
/* Something else is done from now on. */
void muster_progress_now(struct muster_progress *progress, const char *what);
void muster_progress_end(struct muster_progress *progress);

#endif
