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

#include "base/thread.h"

enum { FILES = 1024, BLOCK = 1 << 16, DEADLINE_MS = 10000 };
static const char suffix[] = ".findings.jsonl";

struct muster_hooks {
    struct muster_actions on[MUSTER_FINDING_KINDS];
    char dir[PATH_MAX];
    pthread_mutex_t lock; /* one look at a time */
    bool finished;
    struct {
        char name[256];
        off_t read;
    } file[FILES];
    unsigned files;
    char block[BLOCK];
};

/* Lines are muster's own (finding.h): the kind comes first. */
static const struct muster_actions *action_of(const struct muster_hooks *hooks, const char *line)
{
    for (unsigned i = 0; i < MUSTER_FINDING_KINDS; i++) {
        char head[64];
        int n = snprintf(head, sizeof head, "{\"kind\":\"%s\"", muster_finding_rows[i].name);
        if (strncmp(line, head, (size_t)n) == 0)
            return hooks->on[i].args ? &hooks->on[i] : NULL;
    }
    return NULL;
}

static void act(const struct muster_hooks *hooks, char *line, size_t bytes)
{
    const char *argv[MUSTER_ACTION_ARGS + 1] = {NULL};
    line[bytes - 1] = '\0';
    const struct muster_actions *on = action_of(hooks, line);
    if (!on || !strstr(line, "\"resolved\":false"))
        return;
    line[bytes - 1] = '\n';
    muster_action_argv(on, argv);
    muster_hook_run(argv, line, bytes, DEADLINE_MS);
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
        act(hooks, at, (size_t)(line_end + 1 - at));
        at = line_end + 1;
    }
    if (at == hooks->block && n == BLOCK)
        at = end; /* no line of muster's */
    hooks->file[i].read += at - hooks->block;
}

static bool is_known(const struct muster_hooks *hooks, const char *name)
{
    for (unsigned i = 0; i < hooks->files; i++) {
        if (strcmp(hooks->file[i].name, name) == 0)
            return true;
    }
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
    for (;;) {
        pthread_mutex_lock(&hooks->lock);
        bool finished = hooks->finished;
        if (!finished)
            scan(hooks);
        pthread_mutex_unlock(&hooks->lock);
        if (finished)
            return NULL;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
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
    if (muster_thread_start("muster-hooks", hooks_main, hooks) != 0) {
        free(hooks);
        return NULL;
    }
    return hooks;
}

/* The thread may still sleep: what it holds stays until the command ends. */
void muster_hooks_finish(struct muster_hooks *hooks)
{
    if (!hooks)
        return;
    pthread_mutex_lock(&hooks->lock);
    scan(hooks);
    hooks->finished = true;
    pthread_mutex_unlock(&hooks->lock);
}
