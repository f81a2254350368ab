/* Members that share a folder: each message is a file, whole as soon as it has its name, since file
 * systems of many hosts promise little about files that grow. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "doctor/hosts/hosts_channel.h"

enum { POLL_MS = 100, MESSAGE_MAX = 64 << 20, JOIN_MS = 120000 };

struct share {
    struct muster_arena memory; /* of all of it, but `text` */
    char folder[PATH_MAX - 128];
    char meeting[24]; /* of this run of the leader: what a dead one left is not read */
    unsigned members, own, sent;
    bool leads;
    uint64_t give_up_ns; /* a member's: when the leader has to have been seen */
    unsigned *taken;     /* of each member; a member's own: of the leader */
    char *text;
};

static void share_close(void *self)
{
    struct share *share = self;
    DIR *dir = share->leads ? opendir(share->folder) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) {
        closedir(dir);
        rmdir(share->folder);
    }
    free(share->text);
    struct muster_arena memory = share->memory;
    muster_arena_free(&memory);
}

static int write_file(const struct share *share, const char *name, const char *text,
                      struct muster_err *err)
{
    char path[PATH_MAX], whole[PATH_MAX];
    snprintf(path, sizeof path, "%s/.%s.%u", share->folder, name, share->own);
    snprintf(whole, sizeof whole, "%s/%s", share->folder, name);
    FILE *file = fopen(path, "we");
    bool ok = file && fputs(text, file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    int why = errno;
    if (file && fclose(file) && ok) {
        ok = false;
        why = errno;
    }
    if (ok && rename(path, whole)) {
        ok = false;
        why = errno;
    }
    return ok ? 0 : muster_fail(err, "%s: %s", whole, strerror(why));
}

static int share_send(void *self, const char *text, struct muster_err *err)
{
    struct share *share = self;
    char name[96];
    if (share->leads)
        snprintf(name, sizeof name, "%s.all.%u", share->meeting, share->sent);
    else
        snprintf(name, sizeof name, "%s.%u.%u", share->meeting, share->own, share->sent);
    share->sent++;
    return write_file(share, name, text, err);
}

/* The file's text into share->text; 0: there is none. */
static size_t read_message(struct share *share, const char *name)
{
    char path[PATH_MAX];
    struct stat status;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", share->folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (fstat(fd, &status) == 0 && status.st_size > 0 && status.st_size < MESSAGE_MAX) {
        char *text = realloc(share->text, (size_t)status.st_size + 1);
        share->text = text ? text : share->text;
        ssize_t got = text ? read(fd, text, (size_t)status.st_size) : -1;
        n = got > 0 ? (size_t)got : 0;
        if (n)
            text[n] = '\0';
    }
    close(fd);
    return n;
}

/* The next message of any member. */
static int take_of_members(struct share *share, unsigned *from)
{
    size_t length = strlen(share->meeting);
    DIR *dir = opendir(share->folder);
    int found = 0;
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        unsigned member, number;
        char rest;
        if (strncmp(entry->d_name, share->meeting, length) != 0 ||
            sscanf(entry->d_name + length, ".%u.%u%c", &member, &number, &rest) != 2 ||
            member >= share->members || number != share->taken[member])
            continue;
        found = read_message(share, entry->d_name) > 0;
        if (found) {
            share->taken[member]++;
            *from = member;
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

/* The leader's next message. A new meeting is another run of the leader's. -1: it has gone. */
static int take_of_leader(struct share *share, struct muster_err *err)
{
    char name[64];
    DIR *dir = opendir(share->folder); /* makes network file systems look again */
    if (dir)
        closedir(dir);
    if (!read_message(share, "now")) {
        if (share->meeting[0])
            return muster_fail(err, "the leader has gone");
        if (muster_now_ns() > share->give_up_ns)
            return muster_fail(err,
                               "no leader wrote %s/now: is that folder shared by all hosts? "
                               "--share DIR names another one",
                               share->folder);
        return 0;
    }
    if (strncmp(share->text, share->meeting, sizeof share->meeting) != 0) {
        snprintf(share->meeting, sizeof share->meeting, "%.20s", share->text);
        share->taken[0] = share->sent = 0;
    }
    snprintf(name, sizeof name, "%s.all.%u", share->meeting, share->taken[0]);
    if (!read_message(share, name))
        return 0;
    share->taken[0]++;
    return 1;
}

static int share_take(void *self, unsigned wait_ms, unsigned *from, const char **text, size_t *size,
                      struct muster_err *err)
{
    struct share *share = self;
    uint64_t end_ns = muster_now_ns() + wait_ms * MUSTER_NS_PER_MS;
    const struct timespec pause = {0, (long)(POLL_MS * MUSTER_NS_PER_MS)};
    *from = 0;
    for (;;) {
        int rc = share->leads ? take_of_members(share, from) : take_of_leader(share, err);
        if (rc) {
            *text = share->text;
            *size = rc > 0 ? strlen(share->text) : 0;
            return rc;
        }
        if (muster_now_ns() >= end_ns)
            return 0;
        nanosleep(&pause, NULL);
    }
}

static const char *share_lost(void *self, unsigned member)
{
    (void)self;
    (void)member;
    return NULL; /* files do not show who died: the leader's patience does */
}

static int share_new(const char *below, const char *key, unsigned members,
                     struct muster_hosts_channel *channel, struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct share *share = muster_arena_array(&memory, 1, sizeof *share);
    unsigned *taken = muster_arena_array(&memory, members, sizeof *taken);
    if (muster_arena_check(&memory, err, "the shared folder")) {
        muster_arena_free(&memory);
        return -1;
    }
    *share = (struct share){memory, .members = members, .taken = taken};
    share->give_up_ns = muster_now_ns() + JOIN_MS * MUSTER_NS_PER_MS;
    *channel =
        (struct muster_hosts_channel){share, share_send, share_take, share_lost, share_close};
    int n = snprintf(share->folder, sizeof share->folder, "%s/muster-hosts.%s", below, key);
    if (n < 0 || (size_t)n >= sizeof share->folder) {
        share_close(share);
        return muster_fail(err, "%.100s...: too long a path", below);
    }
    return 0;
}

int muster_hosts_share_lead(const char *below, const char *key, unsigned n,
                            struct muster_hosts_channel *channel, struct muster_err *err)
{
    uint64_t meeting;
    if (share_new(below, key, n, channel, err))
        return -1;
    struct share *share = channel->self;
    if (getrandom(&meeting, sizeof meeting, 0) != (ssize_t)sizeof meeting)
        meeting = muster_unix_ns();
    snprintf(share->meeting, sizeof share->meeting, "%016llx", (unsigned long long)meeting);
    if (mkdir(share->folder, 0700) && errno != EEXIST) {
        muster_fail(err, "%s: %s; --share DIR names a folder that all hosts can write to",
                    share->folder, strerror(errno));
        share_close(share);
        return -1;
    }
    share->leads = true;
    if (write_file(share, "now", share->meeting, err)) {
        share_close(share);
        return -1;
    }
    return 0;
}

int muster_hosts_share_join(const char *below, const char *key, unsigned member,
                            struct muster_hosts_channel *channel, struct muster_err *err)
{
    if (share_new(below, key, 1, channel, err))
        return -1;
    ((struct share *)channel->self)->own = member;
    return 0;
}
