/*
 * Starting muster's own background threads inside somebody else's process: detached (nobody may
 * ever have to wait for one), all signals blocked, named, and free to run on every CPU that the
 * process uses. NCCL pins the thread that initialises a communicator to the GPU's CPUs for a
 * while, and a thread created then would inherit that.
 */
#ifndef MUSTER_BASE_THREAD_H
#define MUSTER_BASE_THREAD_H

/* `name`: at most 15 characters, for ps and debuggers. Returns 0 or an errno value. */
int muster_thread_start(const char *name, void *(*main)(void *), void *arg);

#endif
