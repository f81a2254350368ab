/* Hooks beside each other: a thread for each that runs, some at a time, all of them bounded. */
#ifndef MUSTER_LAUNCH_HOOK_POOL_H
#define MUSTER_LAUNCH_HOOK_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/actions.h"

struct muster_hook_pool {
    _Atomic unsigned running;
    _Atomic uint64_t end_ns; /* nothing runs longer; UINT64_MAX: open */
    unsigned left_out;       /* the caller's, who is one thread at a time */
};

void muster_hook_pool_init(struct muster_hook_pool *pool);

/* Runs the command of `on` with `text` on its standard input, both of which may go afterwards.
 * Waits while as many run as may; once the pool is over it is counted as left out. */
void muster_hook_pool_run(struct muster_hook_pool *pool, const struct muster_actions *on,
                          const char *text, size_t bytes);

/* Any thread: what runs has `ms` from now on. */
void muster_hook_pool_limit(struct muster_hook_pool *pool, unsigned ms);

/* After the limit: waits until nothing runs. False: a hook outlasts its kill inside the kernel and
 * still refers to the pool, whose memory has to stay. */
bool muster_hook_pool_wait(const struct muster_hook_pool *pool);

#endif
