/*
 * Threads as a guest. Starting muster's own background threads inside somebody else's process:
 * detached (nobody may ever have to wait for one), all signals blocked, named, and free to run on
 * every CPU that the process uses. NCCL pins the thread that initialises a communicator to the
 * GPU's CPUs for a while, and a thread created then would inherit that.
 */
#ifndef MUSTER_BASE_THREAD_H
#define MUSTER_BASE_THREAD_H

#include <signal.h>
#include <stdbool.h>

/* `name`: at most 15 characters, for ps and debuggers. Returns 0 or an errno value. */
int muster_thread_start(const char *name, void *(*main)(void *), void *arg);

/* Writing into a pipe whose reader may have gone: the process decides when to die of that, not
 * muster. Between the two the calling thread gets no SIGPIPE. `raised`: a write failed with EPIPE,
 * so that the signal is muster's own and goes; one that was pending before stays. */
struct muster_sigpipe {
    sigset_t before;
    bool held, was_pending;
};
void muster_sigpipe_hold(struct muster_sigpipe *hold);
void muster_sigpipe_release(const struct muster_sigpipe *hold, bool raised);

#endif
