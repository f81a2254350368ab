/* Looking into libraries that may be absent, in somebody else's process. */
#ifndef MUSTER_BASE_LIBRARY_H
#define MUSTER_BASE_LIBRARY_H

/* Forgets what a failed dlopen or dlsym left on this thread: dlerror() would give it to whoever
 * asks next, and it is allocated until somebody does. */
void muster_library_forget(void);

/*
 * dlopen and dlclose for threads of muster's own. The child of a process that forks while another
 * thread is in the loader has the loader's tables half changed: its next dlopen, an import of
 * Python's, crashes or waits for ever. So forks wait for these, at most a second.
 */
void *muster_library_open(const char *name, int flags);
void muster_library_close(void *library);

/* For pthread_atfork: before a fork, behind it in the parent, behind it in the child. */
void muster_library_fork_begins(void);
void muster_library_fork_ended(void);
void muster_library_forked(void);

#endif
