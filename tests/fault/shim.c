/* The shim's core: preloaded into a driven process, it counts calls and picks the one to fail. */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define TLS    __attribute__((tls_model("initial-exec"))) static _Thread_local

static struct fault_plan *plan;
static bool everywhere;
TLS unsigned armed;

static bool is_command(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = 0;
    const char *name = strrchr(path, '/');
    return name && strcmp(name, "/muster") == 0;
}

__attribute__((constructor)) static void open_plan(void)
{
    const char *fd = getenv("FAULT_PLAN");
    void *map = fd ? mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0)
                   : MAP_FAILED;
    if (map != MAP_FAILED)
        plan = map;
    everywhere = is_command();
}

EXPORT void fault_enter(void)
{
    armed++;
}

EXPORT void fault_leave(void)
{
    armed--;
}

void *fault_next(const char *name)
{
    unsigned before = armed;
    armed = 0;
    void *function = dlsym(RTLD_NEXT, name);
    armed = before;
    if (!function)
        abort();
    return function;
}

bool fault_now(enum fault_family family, const char *call, int *error)
{
    if (!plan || plan->family != (int)family || (!armed && !everywhere))
        return false;
    uint64_t n = atomic_fetch_add(&plan->seen, 1) + 1;
    if (plan->at == 0 || n < plan->at || (n > plan->at && !plan->onwards))
        return false;
    if (atomic_fetch_add(&plan->failed, 1) == 0)
        strncpy(plan->call, call, sizeof(plan->call) - 1);
    *error = plan->error;
    return true;
}

static bool is_of_place(void)
{
    return plan && (plan->family == FAULT_HELD || plan->family == FAULT_SLOW);
}

void fault_hold_path(const char *call, const char *path)
{
    int error;
    if (!is_of_place() || strncmp(path, plan->place, strlen(plan->place)) != 0 ||
        !fault_now((enum fault_family)plan->family, call, &error))
        return;
    struct timespec left = {.tv_sec = FAULT_SLOW_S};
    while (plan->family == FAULT_HELD || nanosleep(&left, &left) != 0)
        if (plan->family == FAULT_HELD)
            pause();
}

void fault_hold_fd(const char *call, int fd)
{
    char link[32], path[4096];
    if (!is_of_place())
        return;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = 0;
    fault_hold_path(call, path);
}

bool fault_cuts(void)
{
    return plan && plan->cut;
}

/* A thread made on behalf of muster is muster's. */
struct start {
    void *(*main)(void *);
    void *arg;
};

static void *armed_main(void *memory)
{
    struct start start = *(struct start *)memory;
    munmap(memory, sizeof(start));
    fault_enter();
    return start.main(start.arg);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *function = fault_next("pthread_create");
    int error;
    memcpy(&next, &function, sizeof(next));
    if (fault_now(FAULT_MEMORY, "pthread_create", &error))
        return EAGAIN;
    if (!armed)
        return next(thread, attr, main, arg);
    struct start *start =
        mmap(NULL, sizeof(*start), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if ((void *)start == MAP_FAILED)
        return EAGAIN;
    *start = (struct start){main, arg};
    int rc = next(thread, attr, armed_main, start);
    if (rc)
        munmap(start, sizeof(*start));
    return rc;
}
