#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/clock.h"

#define FORK_WAIT_NS (1 * MUSTER_NS_PER_S)

/* Held in the loader and by who forks. Of a kind that a thread which could not get it may unlock,
 * and that a library which forks while it is loaded does not wait for. */
static pthread_mutex_t loader = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

void *muster_library_open(const char *name, int flags)
{
    pthread_mutex_lock(&loader);
    void *library = dlopen(name, flags);
    pthread_mutex_unlock(&loader);
    return library;
}

void muster_library_close(void *library)
{
    pthread_mutex_lock(&loader);
    dlclose(library);
    pthread_mutex_unlock(&loader);
}

void muster_library_fork_begins(void)
{
    struct timespec until = muster_realtime_in(FORK_WAIT_NS);
    (void)pthread_mutex_timedlock(&loader, &until);
}

void muster_library_fork_ended(void)
{
    (void)pthread_mutex_unlock(&loader);
}

void muster_library_forked(void)
{
    /* Not unlocked: the thread that holds it has another id here, or does not exist. */
    loader = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
}

void muster_library_forget(void)
{
    /* The first call takes the message, the second frees it. */
    (void)dlerror();
    (void)dlerror();
}
