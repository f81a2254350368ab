#include "launch/bounded.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "launch/child.h"

enum { FIRST = 4096, FAILED = 3, REAP_MS = 500 };

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

struct task {
    muster_bounded_work *work;
    void *arg;
    int answer, unheard; /* pipe's ends */
};

static int work_for_answer(void *arg)
{
    struct task *task = arg;
    struct muster_err err = {""};
    close(task->unheard);
    if (task->work(task->arg, task->answer, &err) == 0)
        return 0;
    (void)!write(task->answer, err.text, strlen(err.text));
    return FAILED;
}

/* What drivers print on the way is nobody's result. */
static pid_t start(struct task *task, struct muster_err *err)
{
    pid_t pid = -1;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        muster_fail(err, "/dev/null: %s", strerror(errno));
        return -1;
    }
    const struct muster_child child = {.work = work_for_answer,
                                       .arg = task,
                                       .files = (const int[]){null, null, null},
                                       .group = true,
                                       .orphaned = SIGKILL};
    fflush(NULL);
    if (muster_child_start(&child, &pid, err) != 0)
        pid = -1;
    close(null);
    return pid;
}

static int grow(struct answer *answer, struct muster_err *err)
{
    if (2 * answer->room > MUSTER_BOUNDED_MAX)
        return muster_fail(err, "the answer is too large");
    return muster_reserve(&answer->bytes, &answer->room, answer->room + FIRST, 1)
               ? 0
               : muster_fail_memory(err, "an answer");
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

static int evaluate(const char *what, int status, const struct answer *answer,
                    struct muster_err *err)
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
    struct task task = {work, arg, ends[1], ends[0]};
    pid_t pid = start(&task, err);
    close(ends[1]);
    int rc = pid < 0 ? -1 : collect(ends[0], &limits, &answer, err);
    close(ends[0]);
    if (pid > 0 &&
        !(rc == 0 ? muster_child_wait(pid, REAP_MS, &status) : muster_child_kill(pid, &status)) &&
        rc == 0)
        rc = 1;
    if (rc == 1)
        rc = muster_fail(err, "%s: no %sanswer in %u ms", what,
                         pause_ms && answer.n ? "further " : "",
                         pause_ms && answer.n ? pause_ms : deadline_ms);
    if (rc == 0)
        rc = evaluate(what, status, &answer, err);
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
    int rc = muster_bounded_partly(what, work, arg, deadline_ms, 0, &answer, n, err);
    if (rc == 0 && bytes)
        *bytes = answer;
    else
        free(answer);
    return rc;
}
