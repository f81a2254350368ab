#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <time.h>

#include "base/text.h"

enum { STACK_BYTES = 1 << 20, MAX_CPUS = 8192, MAX_THREADS_ASKED = 256 };

struct start {
    void *(*main)(void *);
    void *arg;
    char name[16];
};

static void add_affinity(pid_t thread, cpu_set_t *all, size_t bytes, cpu_set_t *scratch)
{
    if (sched_getaffinity(thread, bytes, scratch) == 0)
        CPU_OR_S(bytes, all, all, scratch);
}

/* The calling thread, and perhaps the main thread, is pinned just now; threads that were created
 * before still have what the user gave the process. Their union never leaves the user's choice. */
static void use_cpus_of_process(void)
{
    size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *all = CPU_ALLOC(MAX_CPUS);
    cpu_set_t *scratch = CPU_ALLOC(MAX_CPUS);
    DIR *tasks = opendir("/proc/self/task");
    if (all && scratch && tasks) {
        CPU_ZERO_S(bytes, all);
        struct dirent *entry;
        for (int n = 0; n < MAX_THREADS_ASKED && (entry = readdir(tasks)); n++) {
            pid_t thread = (pid_t)atoi(entry->d_name);
            if (thread > 0)
                add_affinity(thread, all, bytes, scratch);
        }
        if (CPU_COUNT_S(bytes, all) > 0)
            sched_setaffinity(0, bytes, all);
    }
    if (tasks)
        closedir(tasks);
    CPU_FREE(scratch);
    CPU_FREE(all);
}

static void *thread_main(void *arg)
{
    struct start start = *(struct start *)arg;
    free(arg);
    use_cpus_of_process();
    prctl(PR_SET_NAME, start.name, 0, 0, 0);
    return start.main(start.arg);
}

static int create(struct start *start)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc)
        return rc;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    /* Blocked before the thread exists, so that it never takes a signal meant for the job. */
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_t thread;
    rc = pthread_create(&thread, &attr, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

int muster_thread_start(const char *name, void *(*main)(void *), void *arg)
{
    struct start *start = malloc(sizeof(*start));
    if (!start)
        return ENOMEM;
    start->main = main;
    start->arg = arg;
    muster_text_copy(start->name, sizeof(start->name), name);
    int rc = create(start);
    if (rc)
        free(start);
    return rc;
}

static sigset_t only_sigpipe(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

void muster_sigpipe_hold(struct muster_sigpipe *hold)
{
    const sigset_t sigpipe = only_sigpipe();
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    hold->was_pending = sigismember(&pending, SIGPIPE) == 1;
    hold->held = pthread_sigmask(SIG_BLOCK, &sigpipe, &hold->before) == 0;
}

void muster_sigpipe_release(const struct muster_sigpipe *hold, bool raised)
{
    const sigset_t sigpipe = only_sigpipe();
    const struct timespec now = {0};
    if (!hold->held)
        return;
    if (raised && !hold->was_pending)
        while (sigtimedwait(&sigpipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}
