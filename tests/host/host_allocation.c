#include "host_allocation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAME, INIT, START, STOP, RECORD, FINALIZE, SLOTS };

typedef int start_fn(void *, void **, const void *);
typedef int stop_fn(void *);
typedef int record_fn(void *, int, const void *);

static _Thread_local bool watched;
static _Atomic unsigned long seen, calls;
static void *table[SLOTS];
static start_fn *real_start;
static stop_fn *real_stop;
static record_fn *real_record;

void allocation_watch_begin(void)
{
    watched = true;
    atomic_fetch_add(&calls, 1);
}

void allocation_watch_end(void)
{
    watched = false;
}

unsigned long allocations_seen(void)
{
    return atomic_load(&seen);
}

unsigned long allocation_calls(void)
{
    return atomic_load(&calls);
}

static int watched_start(void *context, void **handle, const void *descriptor)
{
    allocation_watch_begin();
    int rc = real_start(context, handle, descriptor);
    allocation_watch_end();
    return rc;
}

static int watched_stop(void *handle)
{
    allocation_watch_begin();
    int rc = real_stop(handle);
    allocation_watch_end();
    return rc;
}

static int watched_record(void *handle, int state, const void *args)
{
    allocation_watch_begin();
    int rc = real_record(handle, state, args);
    allocation_watch_end();
    return rc;
}

void allocation_watch(struct standin *nccl)
{
    start_fn *start = watched_start;
    stop_fn *stop = watched_stop;
    record_fn *record = watched_record;
    memcpy(table, atomic_load(&nccl->table), sizeof table);
    /* C has no cast between these pointers. */
    memcpy(&real_start, &table[START], sizeof real_start);
    memcpy(&real_stop, &table[STOP], sizeof real_stop);
    memcpy(&real_record, &table[RECORD], sizeof real_record);
    memcpy(&table[START], &start, sizeof start);
    memcpy(&table[STOP], &stop, sizeof stop);
    memcpy(&table[RECORD], &record, sizeof record);
    atomic_store(&nccl->table, (void *const *)table);
}

/* ---- What every library of this process finds instead of libc's ---- */

#define EXPORT __attribute__((visibility("default")))

/* glibc's own, under the names that it keeps for replacements. */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static void count(void)
{
    if (watched)
        atomic_fetch_add(&seen, 1);
}

EXPORT void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}

EXPORT void *calloc(size_t n, size_t bytes)
{
    count();
    return __libc_calloc(n, bytes);
}

EXPORT void *realloc(void *old, size_t bytes)
{
    count();
    return __libc_realloc(old, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
    count();
    return __libc_memalign(alignment, bytes);
}

EXPORT int posix_memalign(void **made, size_t alignment, size_t bytes)
{
    count();
    *made = __libc_memalign(alignment, bytes);
    return *made ? 0 : ENOMEM;
}

EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    count();
    long made = syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
    return made == -1 ? MAP_FAILED : (void *)made;
}
