#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "launch/child.h"
#include "launch/hooks.h"

enum { PASSED_ON = 4096, AT_MOST = 65536, PAUSE_MS = 20 };

struct hook {
    const char *who, *name;
    pid_t pid;
    int in, out; /* our ends; -1: closed */
    const char *text;
    size_t left;
    size_t printed;
    uint64_t end_ns;
    const _Atomic uint64_t *job_end_ns;
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void give(struct hook *hook)
{
    ssize_t n = write(hook->in, hook->text, hook->left);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        hook->text += n;
        hook->left -= (size_t)n;
    }
    if (n < 0 || hook->left == 0)
        close_end(&hook->in);
}

static void take(struct hook *hook)
{
    char text[1024];
    ssize_t n = read(hook->out, text, sizeof text);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close_end(&hook->out);
        return;
    }
    if (hook->printed < PASSED_ON)
        fwrite(text, 1, (size_t)n, stderr);
    hook->printed += (size_t)n;
}

/* Relaxed: only the time itself is passed on. */
static bool job_is_over(const struct hook *hook, uint64_t now)
{
    return hook->job_end_ns && now > atomic_load_explicit(hook->job_end_ns, memory_order_relaxed);
}

/* False once it has to go: late, or it prints without end. */
static bool serve(struct hook *hook)
{
    struct pollfd fds[] = {{.fd = hook->in, .events = POLLOUT},
                           {.fd = hook->out, .events = POLLIN}};
    poll(fds, 2, PAUSE_MS);
    if (hook->in >= 0 && fds[0].revents)
        give(hook);
    if (hook->out >= 0 && fds[1].revents)
        take(hook);
    uint64_t now = muster_now_ns();
    if (hook->printed > AT_MOST)
        fprintf(stderr, "%s: hook %s: ended, it printed more than %d bytes\n", hook->who,
                hook->name, AT_MOST);
    else if (job_is_over(hook, now))
        fprintf(stderr, "%s: hook %s: ended, the job is over\n", hook->who, hook->name);
    else if (now > hook->end_ns)
        fprintf(stderr, "%s: hook %s: ended, it took too long\n", hook->who, hook->name);
    else
        return true;
    return false;
}

static void wait_for(struct hook *hook)
{
    int status;
    while (!muster_child_ended(hook->pid, &status)) {
        if (serve(hook))
            continue;
        muster_child_kill(hook->pid, &status);
        return;
    }
    while (hook->out >= 0 && hook->printed <= AT_MOST &&
           poll(&(struct pollfd){.fd = hook->out, .events = POLLIN}, 1, 0) > 0)
        take(hook);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fprintf(stderr, "%s: hook %s failed (%s %d)\n", hook->who, hook->name,
                WIFEXITED(status) ? "status" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* 0 or an errno. */
static int start(struct hook *hook, const char *const *argv, const int in[2], const int out[2])
{
    const struct muster_child child = {.argv = argv,
                                       .files = (const int[]){in[0], out[1], out[1]},
                                       .default_signals = true,
                                       .group = true};
    return muster_child_start(&child, &hook->pid, NULL);
}

static void run(struct hook *hook, const char *const *argv)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    int rc = pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) ? errno : start(hook, argv, in, out);
    close_end(&in[0]);
    close_end(&out[1]);
    hook->in = in[1];
    hook->out = out[0];
    if (rc != 0) {
        fprintf(stderr, "%s: hook %s: %s\n", hook->who, argv[0], strerror(rc));
    } else {
        fcntl(hook->in, F_SETFL, O_NONBLOCK);
        fcntl(hook->out, F_SETFL, O_NONBLOCK);
        wait_for(hook);
    }
    close_end(&hook->in);
    close_end(&hook->out);
}

void muster_hook_run(const char *who, const char *const *argv, const char *text, size_t bytes,
                     unsigned deadline_ms, const _Atomic uint64_t *end_ns)
{
    struct hook hook = {.who = who,
                        .name = argv[0],
                        .in = -1,
                        .out = -1,
                        .text = text,
                        .left = bytes,
                        .end_ns = muster_now_ns() + deadline_ms * MUSTER_NS_PER_MS,
                        .job_end_ns = end_ns};
    /* A hook that does not read what it is given must not end who runs it. */
    struct muster_sigpipe hold;
    muster_sigpipe_hold(&hold);
    run(&hook, argv);
    muster_sigpipe_release(&hold, true);
}
