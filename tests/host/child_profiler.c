#include "child_profiler.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef CHILD_NEWEST
#define CHILD_NEWEST 7
#endif

enum { ONES = 1 << 20, CONTEXTS = 4096, MAGIC = 0x600d };

/* What a handle, or a context, of this profiler points to. */
struct one {
    _Atomic uint32_t magic;
    _Atomic uint32_t open; /* stops to come */
    uint32_t kind;
    struct one *context;
};

static struct child_report nowhere, *report = &nowhere;
static struct one one[ONES], context_of[CONTEXTS];
static _Atomic uint32_t ones, contexts;
static unsigned asked;
static bool keeps_nothing;
static pid_t self;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "child profiler, line %d: not %s\n", __LINE__, #what);                 \
            _exit(CHILD_BROKEN);                                                                   \
        }                                                                                          \
    } while (0)

static void add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add(to, n);
}

static bool is_mine(const void *handle)
{
    const struct one *at = handle;
    return at >= one && at < one + ONES && ((uintptr_t)at - (uintptr_t)one) % sizeof *at == 0 &&
           atomic_load(&at->magic) == MAGIC;
}

static bool is_context(const void *context)
{
    const struct one *at = context;
    return at >= context_of && at < context_of + CONTEXTS && atomic_load(&at->magic) == MAGIC;
}

static uint64_t word(const void *d, size_t at)
{
    uint64_t value;
    memcpy(&value, (const char *)d + at, sizeof value);
    return value;
}

static void *pointer(const void *d, size_t at)
{
    return (void *)(uintptr_t)word(d, at);
}

static void open_report(void)
{
    const char *path = getenv("CHILD_REPORT");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *at = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(at != MAP_FAILED);
    report = at;
}

static int make(unsigned api, void **context, int *mask)
{
    static _Atomic bool begun;
    const char *mode = getenv("CHILD_MODE"), *wanted = getenv("CHILD_MASK");
    if (!atomic_exchange(&begun, true))
        open_report();
    self = getpid();
    add(&report->inits, 1);
    atomic_store(&report->api, api);
    if (mode && strcmp(mode, "fail") == 0)
        return 3;
    keeps_nothing = mode && strcmp(mode, "null") == 0;
    asked = wanted ? (unsigned)strtoul(wanted, NULL, 0) : 0xffff;
    *mask = (int)asked;
    uint32_t at = atomic_fetch_add(&contexts, 1) % CONTEXTS;
    atomic_store(&context_of[at].magic, MAGIC);
    atomic_store(&context_of[at].open, 1);
    *context = &context_of[at];
    return 0;
}

/* The ancestors of what was asked for come, too. */
static bool was_asked(unsigned api, unsigned kind)
{
    static const unsigned below[CHILD_KINDS] = {0xdf,   0x80da, 0x80dc, 0x98,   0x90,   0x20,
                                                0x40,   0x80,   0x8fdf, 0x82da, 0x84dc, 0x800,
                                                0x1000, 0x2000, 0x4000, 0x8000};
    if (api <= 2 && kind == 2) /* up to 2.25 Coll's bit is enough */
        return asked & (below[2] | 2);
    return asked & below[kind];
}

static void look_at_operation(unsigned api, unsigned kind, const void *d)
{
    static const size_t count_at[2][8] = {{0, 72, 72, 72, 56, 56, 56, 56},
                                          {0, 64, 64, 64, 48, 48, 48, 48}};
    bool p2p = kind == 2;
    add(&report->count, word(d, count_at[p2p][api]));
    if (api <= 3) {
        const char *name = pointer(d, 24);
        add(&report->named, name && !strcmp(name, "tp") && word(d, 32) == CHILD_HASH);
    }
    if (api == 1) {
        CHECK(((const uint8_t *)d)[p2p ? 40 : 48] <= 7);
        CHECK(((const uint8_t *)d)[p2p ? 56 : 84] <= 11);
    } else {
        static const size_t func_at[2][8] = {{0, 0, 48, 48, 32, 32, 32, 32},
                                             {0, 0, 40, 40, 24, 24, 24, 24}};
        const char *func = pointer(d, func_at[p2p][api]);
        CHECK(func && strlen(func) >= 4);
    }
    if (api >= 5) {
        const void *group = pointer(d, p2p ? 64 : 104);
        CHECK(!group || (is_mine(group) && ((const struct one *)group)->kind == 0));
        add(&report->groups, group != NULL);
    }
}

static int start_api(unsigned api, void *context, void **handle, const void *d)
{
    uint64_t type = api < 5 ? *(const uint8_t *)d : word(d, 0);
    unsigned kind = (unsigned)__builtin_ctzll(type);
    const void *parent = pointer(d, 8);
    pid_t pid = 0;
    CHECK(type && (type & (type - 1)) == 0 && kind < CHILD_KINDS);
    CHECK(is_context(context) && atomic_load(&((struct one *)context)->open) == 1);
    CHECK(was_asked(api, kind));
    if (kind == 3)
        memcpy(&pid, (const char *)d + 24, sizeof pid);
    if (pid && pid != self) {
        add(&report->foreign, parent != NULL);
        CHECK(!is_mine(parent));
    } else {
        CHECK(!parent || is_mine(parent));
        add(&report->parents, parent != NULL);
    }
    if (kind == 1 || kind == 2)
        look_at_operation(api, kind, d);
    add(&report->channels, kind == 6);
    add(&report->starts[kind], 1);
    *handle = NULL;
    if (keeps_nothing)
        return 0;
    struct one *made = &one[atomic_fetch_add(&ones, 1) % ONES];
    made->kind = kind;
    made->context = context;
    atomic_store(&made->open, 1);
    atomic_store(&made->magic, MAGIC);
    *handle = made;
    return 0;
}

static int stop(void *handle)
{
    if (!handle) /* as NCCL does up to 2.25 */
        return 0;
    CHECK(!keeps_nothing && is_mine(handle));
    struct one *made = handle;
    if (atomic_exchange(&made->open, 0) == 1)
        add(&report->stops[made->kind], 1);
    else
        add(&report->again, 1);
    return 0;
}

static int record_api(unsigned api, void *handle, int state, const void *args)
{
    static const int newest[] = {0, 18, 18, 18, 22, 24, 30, 31};
    CHECK(!keeps_nothing && is_mine(handle) && atomic_load(&((struct one *)handle)->open));
    CHECK(state >= 0 && state <= newest[api]);
    if (args) /* whoever gets some may read them */
        memcpy(&(uint64_t){0}, args, sizeof(uint64_t));
    add(&report->states[state], 1);
    return 0;
}

static int finalize(void *context)
{
    CHECK(is_context(context) && atomic_exchange(&((struct one *)context)->open, 0) == 1);
    add(&report->finalizes, 1);
    return 0;
}

#define EXPORT __attribute__((visibility("default")))

#define ENTRIES(api)                                                                               \
    static int start_v##api(void *context, void **handle, const void *d)                           \
    {                                                                                              \
        return start_api(api, context, handle, d);                                                 \
    }                                                                                              \
    static int record_v##api(void *handle, int state, const void *args)                            \
    {                                                                                              \
        return record_api(api, handle, state, args);                                               \
    }                                                                                              \
    extern const void *const ncclProfiler_v##api[6];                                               \
    EXPORT const void *const ncclProfiler_v##api[6] = {                                            \
        "child",      (void *)init_v##api,   (void *)start_v##api,                                 \
        (void *)stop, (void *)record_v##api, (void *)finalize};

#define INIT_1(api)                                                                                \
    static int init_v##api(void **context, int *mask)                                              \
    {                                                                                              \
        return make(api, context, mask);                                                           \
    }

#if CHILD_NEWEST >= 4
static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nnodes,
                   int nranks, int rank, void *logger)
{
    CHECK(hash && nnodes > 0 && rank < nranks && logger && (!name || name[0]));
    return make(4, context, mask);
}
#endif

#define INIT_5(api)                                                                                \
    static int init_v##api(void **context, uint64_t id, int *mask, const char *name, int nnodes,   \
                           int nranks, int rank, void *logger)                                     \
    {                                                                                              \
        CHECK(id &&nnodes > 0 && rank < nranks && logger && (!name || name[0]));                   \
        return make(api, context, mask);                                                           \
    }

INIT_1(1)
ENTRIES(1)
#if CHILD_NEWEST >= 3
INIT_1(2)
INIT_1(3)
ENTRIES(2)
ENTRIES(3)
#endif
#if CHILD_NEWEST >= 4
ENTRIES(4)
#endif
#if CHILD_NEWEST >= 7
INIT_5(5)
INIT_5(6)
INIT_5(7)
ENTRIES(5)
ENTRIES(6)
ENTRIES(7)
#endif
