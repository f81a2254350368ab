#include "launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { NOT_FOUND = 127, NOT_RUN = 126, BY_SIGNAL = 128, KILL_MS = 500 };

/* What a child writes that could not become what it should. */
struct failure {
    int why;
    struct muster_err err;
};

/* ---- starting ---- */

static void set_signals(const struct muster_child *child)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; child->default_signals && number < NSIG; number++)
        signal(number, SIG_DFL); /* fails for those that have no other */
    if (child->mask || child->default_signals)
        sigprocmask(SIG_SETMASK, child->mask ? child->mask : &none, NULL);
}

/* What stands at 0 to 2 may itself be one of the files: copies are taken first. */
static int set_files(const int *files)
{
    int copy[3];
    for (int i = 0; i < 3; i++)
        if ((copy[i] = fcntl(files[i], F_DUPFD_CLOEXEC, 3)) < 0)
            return -1;
    for (int i = 0; i < 3; i++)
        if (dup2(copy[i], i) < 0)
            return -1;
    return 0;
}

static void live_as_child(const struct muster_child *child, pid_t parent, int fd)
{
    struct failure failure = {.why = ECANCELED};
    if (child->group)
        setpgid(0, 0);
    if (child->orphaned && (prctl(PR_SET_PDEATHSIG, child->orphaned) || getppid() != parent))
        _exit(NOT_RUN);
    set_signals(child);
    if (child->files && set_files(child->files)) {
        failure.why = errno;
        muster_fail(&failure.err, "cannot pass on files: %s", strerror(failure.why));
    } else if (!child->prepare || child->prepare(child->arg, &failure.err) == 0) {
        if (child->work) {
            close(fd);
            _exit(child->work(child->arg));
        }
        const char *program = child->program ? child->program : child->argv[0];
        execvp(program, (char *const *)(uintptr_t)child->argv);
        failure.why = errno;
        muster_fail(&failure.err, "cannot run %s: %s", program, strerror(failure.why));
    }
    while (write(fd, &failure, sizeof failure) < 0 && errno == EINTR) {
    }
    _exit(NOT_RUN);
}

/* 0 once its end was closed by what the child became. */
static int hear(int fd, struct muster_err *err)
{
    struct failure failure;
    ssize_t n;
    do {
        n = read(fd, &failure, sizeof failure);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof failure)
        return 0;
    muster_fail(err, "%s", failure.err.text);
    return failure.why;
}

int muster_child_start(const struct muster_child *child, pid_t *pid, struct muster_err *err)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC)) {
        int why = errno;
        muster_fail(err, "cannot make a pipe: %s", strerror(why));
        return why;
    }
    *pid = fork();
    if (*pid == 0)
        live_as_child(child, parent, ends[1]);
    int why = *pid < 0 ? errno : 0;
    close(ends[1]);
    if (why) {
        muster_fail(err, "cannot fork: %s", strerror(why));
    } else {
        if (child->group)
            setpgid(*pid, *pid); /* whoever comes first */
        why = hear(ends[0], err);
        if (why)
            muster_child_reap(*pid, NULL);
    }
    close(ends[0]);
    return why;
}

/* ---- its end ---- */

bool muster_child_ended(pid_t pid, int *status)
{
    pid_t ended = waitpid(pid, status, WNOHANG);
    return ended == pid || (ended < 0 && errno != EINTR);
}

bool muster_child_wait(pid_t pid, unsigned patience_ms, int *status)
{
    const struct timespec pause = {0, (long)MUSTER_NS_PER_MS};
    uint64_t end_ns = muster_now_ns() + patience_ms * MUSTER_NS_PER_MS;
    while (!muster_child_ended(pid, status)) {
        if (muster_now_ns() >= end_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

void muster_child_reap(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
}

bool muster_child_kill(pid_t pid, int *status)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    return muster_child_wait(pid, KILL_MS, status);
}

/* ---- as if it had been called itself ---- */

sigset_t muster_child_signals(const int *sent, size_t n)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < n; i++)
        sigaddset(&set, sent[i]);
    return set;
}

sigset_t muster_child_signals_to_end(void)
{
    static const int endings[] = {SIGINT, SIGTERM, SIGHUP};
    return muster_child_signals(endings, sizeof endings / sizeof *endings);
}

/* The terminal signals the whole foreground group, the command included: passing that on would
 * signal it twice. */
static void pass_on(pid_t pid, const siginfo_t *info)
{
    if (info->si_code != SI_KERNEL)
        kill(pid, info->si_signo);
    if (info->si_signo == SIGTSTP)
        raise(SIGSTOP);
}

static int wait_for(pid_t pid, const sigset_t *set)
{
    int status = NOT_RUN << 8;
    while (!muster_child_ended(pid, &status)) {
        siginfo_t info;
        if (sigwaitinfo(set, &info) > 0 && info.si_signo != SIGCHLD)
            pass_on(pid, &info);
    }
    return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* What came for the command after its end must not hit this process once it listens again. */
static void forget_pending(const sigset_t *set)
{
    static const struct timespec now = {0};
    while (sigtimedwait(set, NULL, &now) > 0) {
    }
}

int muster_child_run(char **argv, struct muster_err *err)
{
    static const int forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                    SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    sigset_t set = muster_child_signals(forwarded, sizeof forwarded / sizeof *forwarded);
    sigset_t before;
    pid_t pid = -1;
    err->text[0] = '\0';
    signal(SIGCHLD, SIG_DFL); /* ignored, it would leave nothing to wait for */
    sigprocmask(SIG_BLOCK, &set, &before);
    const struct muster_child child = {.argv = (const char *const *)argv, .mask = &before};
    int why = muster_child_start(&child, &pid, err);
    int status = why == 0 ? wait_for(pid, &set) : why == ENOENT ? NOT_FOUND : NOT_RUN;
    if (why == 0)
        forget_pending(&set);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
