/* Work that may crash or never return (drivers, network names, file systems), in a child process
 * with a deadline. */
#ifndef MUSTER_LAUNCH_BOUNDED_H
#define MUSTER_LAUNCH_BOUNDED_H

#include <stddef.h>

#include "base/err.h"

enum { MUSTER_BOUNDED_MAX = 64 << 20 };

/* In the child: what `work` writes to fd is the answer. Returns 0, or -1 with err, which reaches
 * the caller. The child and all that it starts are killed at the deadline. */
typedef int muster_bounded_work(void *arg, int fd, struct muster_err *err);

/* The answer goes to *bytes (free it; terminated by a zero byte that *n does not count); `bytes`
 * NULL: it is not wanted. `what` names it in errors. */
int muster_bounded(const char *what, muster_bounded_work *work, void *arg, unsigned deadline_ms,
                   char **bytes, size_t *n, struct muster_err *err);

/* The same, but what came before a failure is given out as well: *bytes is NULL or the caller's.
 * Work that once answered ends also when nothing more comes for `pause_ms` (0: no such limit). */
int muster_bounded_partly(const char *what, muster_bounded_work *work, void *arg,
                          unsigned deadline_ms, unsigned pause_ms, char **bytes, size_t *n,
                          struct muster_err *err);

/* All of it, or -1. For workers. */
int muster_bounded_write(int fd, const void *bytes, size_t n, struct muster_err *err);

#endif
