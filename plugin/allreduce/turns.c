/* Turns by a lock on a common file. */
#include "allreduce/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

/* Long enough for those who look every millisecond. */
static const uint64_t pause_ns = 3 * MUSTER_NS_PER_MS;

int muster_turns_open(struct muster_turns *turns, const char *path, uint32_t jobs,
                      struct muster_err *err)
{
    *turns = (struct muster_turns){.fd = -1, .jobs = jobs};
    if (!*path)
        return 0;
    turns->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (turns->fd < 0)
        return muster_fail(err, "cannot open %s, where jobs take turns: %s", path, strerror(errno));
    return 0;
}

int muster_turns_ask(struct muster_turns *turns, struct muster_err *err)
{
    turns->waiting = true;
    if (turns->fd < 0 || turns->came)
        return 0;
    if (write(turns->fd, "j", 1) != 1)
        return muster_fail(err, "cannot write to the file where jobs take turns: %s",
                           strerror(errno));
    turns->came = true;
    return 0;
}

static bool all_have_come(const struct muster_turns *turns)
{
    struct stat file;
    return fstat(turns->fd, &file) == 0 && file.st_size >= (off_t)turns->jobs;
}

bool muster_turns_begin(struct muster_turns *turns, uint64_t now_ns)
{
    if (turns->fd >= 0 && (now_ns < turns->not_before_ns || !all_have_come(turns) ||
                           flock(turns->fd, LOCK_EX | LOCK_NB)))
        return false;
    turns->waiting = false;
    turns->held = true;
    return true;
}

void muster_turns_end(struct muster_turns *turns, uint64_t now_ns)
{
    if (turns->fd >= 0)
        flock(turns->fd, LOCK_UN);
    turns->held = false;
    turns->not_before_ns = now_ns + pause_ns;
}

void muster_turns_close(struct muster_turns *turns)
{
    if (turns->fd >= 0)
        close(turns->fd);
    turns->fd = -1;
}
