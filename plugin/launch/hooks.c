#include "launch/hooks.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/thread.h"
#include "launch/hook_claim.h"
#include "launch/hook_pool.h"

enum { FILES = 1024, BLOCK = 1 << 16, PATIENCE_MS = 2000 };
static const char suffix[] = ".findings.jsonl";

/* A finding in a process's file. */
struct notice {
    uint64_t finding;
    unsigned file, resolved;
};

struct muster_hooks {
    struct muster_actions on[MUSTER_FINDING_KINDS];
    char dir[PATH_MAX];
    pthread_mutex_t lock; /* one look at a time */
    pthread_cond_t wake;
    bool finished, gone; /* what its thread is asked, and what it answers */
    struct {
        char name[256];
        off_t read;
    } file[FILES];
    unsigned files;
    struct notice *notice;
    size_t notices;
    struct muster_hook_pool pool;
    char block[BLOCK];
};

/* How often the finding was resolved before, as this file has it: it may come up again. */
static unsigned *resolved_before(struct muster_hooks *hooks, unsigned file, uint64_t finding)
{
    for (size_t i = 0; i < hooks->notices; i++)
        if (hooks->notice[i].file == file && hooks->notice[i].finding == finding)
            return &hooks->notice[i].resolved;
    if (!muster_grow(&hooks->notice, hooks->notices, sizeof *hooks->notice))
        return NULL;
    hooks->notice[hooks->notices] = (struct notice){.finding = finding, .file = file};
    return &hooks->notice[hooks->notices++].resolved;
}

static void act(struct muster_hooks *hooks, unsigned file, const char *text, size_t bytes)
{
    struct muster_hook_line line;
    if (!muster_hook_line_read(&line, text, bytes) || hooks->on[line.kind].args == 0)
        return;
    unsigned *times = resolved_before(hooks, file, line.finding);
    if (times && line.resolved)
        ++*times;
    else if (times && muster_hook_claim(hooks->dir, line.finding, *times))
        muster_hook_pool_run(&hooks->pool, &hooks->on[line.kind], text, bytes);
}

/* Whole lines from where the last look ended. */
static void read_file(struct muster_hooks *hooks, unsigned i)
{
    char path[PATH_MAX + 300];
    snprintf(path, sizeof path, "%s/%s", hooks->dir, hooks->file[i].name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    ssize_t n = pread(fd, hooks->block, BLOCK, hooks->file[i].read);
    close(fd);
    char *at = hooks->block, *end = n > 0 ? at + n : at, *line_end;
    while (at < end && (line_end = memchr(at, '\n', (size_t)(end - at)))) {
        act(hooks, i, at, (size_t)(line_end + 1 - at));
        at = line_end + 1;
    }
    if (at == hooks->block && n == BLOCK)
        at = end; /* no line of muster's */
    hooks->file[i].read += at - hooks->block;
}

static bool is_known(const struct muster_hooks *hooks, const char *name)
{
    for (unsigned i = 0; i < hooks->files; i++)
        if (strcmp(hooks->file[i].name, name) == 0)
            return true;
    return false;
}

static void scan(struct muster_hooks *hooks)
{
    DIR *entries = opendir(hooks->dir);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        size_t n = strlen(entry->d_name), m = sizeof suffix - 1;
        if (n > m && strcmp(entry->d_name + n - m, suffix) == 0 && hooks->files < FILES &&
            !is_known(hooks, entry->d_name))
            snprintf(hooks->file[hooks->files++].name, sizeof hooks->file->name, "%s",
                     entry->d_name);
    }
    if (entries)
        closedir(entries);
    for (unsigned i = 0; i < hooks->files; i++)
        read_file(hooks, i);
}

static void *hooks_main(void *arg)
{
    struct muster_hooks *hooks = arg;
    pthread_mutex_lock(&hooks->lock);
    while (!hooks->finished) {
        scan(hooks);
        struct timespec next;
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&hooks->wake, &hooks->lock, &next);
    }
    hooks->gone = true;
    pthread_cond_broadcast(&hooks->wake);
    pthread_mutex_unlock(&hooks->lock);
    return NULL;
}

static void init_wake(pthread_cond_t *wake)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(wake, &attr);
    pthread_condattr_destroy(&attr);
}

static void hooks_free(struct muster_hooks *hooks)
{
    pthread_cond_destroy(&hooks->wake);
    pthread_mutex_destroy(&hooks->lock);
    free(hooks->notice);
    free(hooks);
}

struct muster_hooks *muster_hooks_start(const struct muster_settings *settings, const char *dir)
{
    unsigned commands = 0;
    for (unsigned i = 0; i < MUSTER_FINDING_KINDS; i++)
        commands += settings->on[i].args;
    struct muster_hooks *hooks = commands && dir[0] ? calloc(1, sizeof *hooks) : NULL;
    if (!hooks)
        return NULL;
    memcpy(hooks->on, settings->on, sizeof hooks->on);
    snprintf(hooks->dir, sizeof hooks->dir, "%s", dir);
    pthread_mutex_init(&hooks->lock, NULL);
    init_wake(&hooks->wake);
    muster_hook_pool_init(&hooks->pool);
    if (muster_thread_start("muster-hooks", hooks_main, hooks) != 0) {
        hooks_free(hooks);
        return NULL;
    }
    return hooks;
}

void muster_hooks_finish(struct muster_hooks *hooks)
{
    if (!hooks)
        return;
    /* Before the lock: a look may be waiting for hooks to end. */
    muster_hook_pool_limit(&hooks->pool, PATIENCE_MS);
    pthread_mutex_lock(&hooks->lock);
    scan(hooks);
    hooks->finished = true;
    pthread_cond_broadcast(&hooks->wake);
    while (!hooks->gone)
        pthread_cond_wait(&hooks->wake, &hooks->lock);
    pthread_mutex_unlock(&hooks->lock);
    bool idle = muster_hook_pool_wait(&hooks->pool);
    if (hooks->pool.left_out)
        fprintf(stderr, "muster run: the hooks of %u findings were not run, the job was over\n",
                hooks->pool.left_out);
    if (idle)
        hooks_free(hooks);
}
