#include "cli/bounded.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { FAILED = 3, REAP_MS = 500 };

struct answer {
    char *bytes;
    size_t n, room;
};

struct limits {
    unsigned deadline_ms, pause_ms;
};

int muster_bounded_write(int fd, const void *bytes, size_t n, struct muster_err *err)
{
    const char *from = bytes;
    while (n) {
        ssize_t done = write(fd, from, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return muster_fail(err, "cannot pass on an answer: %s", strerror(errno));
        from += done;
        n -= (size_t)done;
    }
    return 0;
}

/* What drivers print on the way is nobody's result. */
static void silence(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
}

static void live_as_child(muster_bounded_work *work, void *arg, int fd)
{
    struct muster_err err = {""};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    silence();
    if (work(arg, fd, &err) == 0)
        _exit(0);
    (void)!write(fd, err.text, strlen(err.text));
    _exit(FAILED);
}

static int grow(struct answer *answer, struct muster_err *err)
{
    size_t room = answer->room ? 2 * answer->room : 4096;
    char *bytes = room <= MUSTER_BOUNDED_MAX ? realloc(answer->bytes, room) : NULL;
    if (!bytes)
        return muster_fail(err, "the answer is too large");
    answer->bytes = bytes;
    answer->room = room;
    return 0;
}

/* 0: end of the answer; 1: deadline; -1. */
static int collect(int fd, const struct limits *limits, struct answer *answer,
                   struct muster_err *err)
{
    uint64_t end_ns = muster_now_ns() + limits->deadline_ms * MUSTER_NS_PER_MS, until_ns = end_ns;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        uint64_t now = muster_now_ns();
        if (answer->n + 1 >= answer->room && grow(answer, err))
            return -1;
        if (now >= until_ns)
            return 1;
        int rc = poll(&ready, 1, (int)((until_ns - now) / MUSTER_NS_PER_MS) + 1);
        if (rc < 0 && errno != EINTR)
            return muster_fail(err, "poll: %s", strerror(errno));
        if (rc <= 0)
            continue;
        ssize_t n = read(fd, answer->bytes + answer->n, answer->room - answer->n - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        answer->n += (size_t)n;
        uint64_t pause_ns = limits->pause_ms * MUSTER_NS_PER_MS, came_ns = muster_now_ns();
        if (pause_ns)
            until_ns = came_ns + pause_ns < end_ns ? came_ns + pause_ns : end_ns;
    }
}

/* A process inside a driver may ignore even SIGKILL: it is left behind then. */
static int reap(pid_t pid, bool kill_it, int *status)
{
    uint64_t end_ns = muster_now_ns() + REAP_MS * MUSTER_NS_PER_MS;
    const struct timespec pause = {0, (long)MUSTER_NS_PER_MS};
    if (kill_it) {
        kill(-pid, SIGKILL);
        kill(pid, SIGKILL);
    }
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return 0;
        if ((got < 0 && errno != EINTR) || muster_now_ns() >= end_ns)
            return -1;
        nanosleep(&pause, NULL);
    }
}

static int judge(const char *what, int status, const struct answer *answer, struct muster_err *err)
{
    if (WIFSIGNALED(status))
        return muster_fail(err, "%s: crashed (signal %d, %s)", what, WTERMSIG(status),
                           strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) == FAILED && answer->n < sizeof err->text)
        return muster_fail(err, "%.*s", (int)answer->n, answer->bytes);
    if (WEXITSTATUS(status))
        return muster_fail(err, "%s: ended with status %d", what, WEXITSTATUS(status));
    return 0;
}

int muster_bounded_partly(const char *what, muster_bounded_work *work, void *arg,
                          unsigned deadline_ms, unsigned pause_ms, char **bytes, size_t *n,
                          struct muster_err *err)
{
    const struct limits limits = {deadline_ms, pause_ms};
    struct answer answer = {NULL, 0, 0};
    int ends[2], status = 0;
    *bytes = NULL;
    *n = 0;
    if (pipe2(ends, O_CLOEXEC))
        return muster_fail(err, "%s: cannot make a pipe: %s", what, strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        live_as_child(work, arg, ends[1]);
    }
    close(ends[1]);
    int rc = pid < 0 ? muster_fail(err, "%s: cannot fork: %s", what, strerror(errno))
                     : collect(ends[0], &limits, &answer, err);
    close(ends[0]);
    if (pid > 0 && reap(pid, rc != 0, &status) && rc == 0)
        rc = 1;
    if (rc == 1)
        rc = muster_fail(err, "%s: no %sanswer in %u ms", what,
                         pause_ms && answer.n ? "further " : "",
                         pause_ms && answer.n ? pause_ms : deadline_ms);
    if (rc == 0)
        rc = judge(what, status, &answer, err);
    if (answer.bytes)
        answer.bytes[answer.n] = '\0';
    *bytes = answer.bytes;
    *n = answer.n;
    return rc;
}

int muster_bounded(const char *what, muster_bounded_work *work, void *arg, unsigned deadline_ms,
                   char **bytes, size_t *n, struct muster_err *err)
{
    char *answer = NULL;
    if (muster_bounded_partly(what, work, arg, deadline_ms, 0, &answer, n, err)) {
        free(answer);
        return -1;
    }
    *bytes = answer;
    return 0;
}
