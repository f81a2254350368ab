/* The screen on a real terminal, by ncurses. */
#ifndef MUSTER_TOP_TOP_TERMINAL_H
#define MUSTER_TOP_TOP_TERMINAL_H

#include <stdbool.h>

#include "base/err.h"
#include "top/top_source.h"

/* Shows the source's jobs, from `job` on, with a look every `interval_ns`, until q, SIGINT,
 * SIGTERM, SIGHUP or the terminal's end; the terminal is then as before. -1: it cannot be drawn on.
 */
int muster_top_terminal(const struct muster_top_source *source, size_t job, uint64_t interval_ns,
                        struct muster_err *err);

#endif
