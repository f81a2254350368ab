/* Looking into libraries that may be absent, in somebody else's process. */
#ifndef MUSTER_BASE_LIBRARY_H
#define MUSTER_BASE_LIBRARY_H

/* Forgets what a failed dlopen or dlsym left on this thread: dlerror() would tell it to whoever
 * asks next, and it is allocated until somebody does. */
void muster_library_forget(void);

#endif
