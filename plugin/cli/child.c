#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_FOUND = 127, NOT_RUN = 126, BY_SIGNAL = 128 };

sigset_t muster_child_signals(const int *sent, size_t n)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < n; i++) {
        sigaddset(&set, sent[i]);
    }
    return set;
}

sigset_t muster_child_signals_to_end(void)
{
    static const int endings[] = {SIGINT, SIGTERM, SIGHUP};
    return muster_child_signals(endings, sizeof endings / sizeof *endings);
}

/* In the child: becomes the command, or tells the parent why not. */
static void become(char **argv, const sigset_t *mask, int tell)
{
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    int why = errno;
    while (write(tell, &why, sizeof why) < 0 && errno == EINTR) {
    }
    _exit(NOT_FOUND);
}

/* 0 once the command runs, else the errno of exec. */
static int exec_error(int listen)
{
    int why = 0;
    ssize_t n;
    do {
        n = read(listen, &why, sizeof why);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof why ? why : 0;
}

/* The terminal signals the whole foreground group, the command included: passing that on would
 * signal it twice. */
static void pass_on(pid_t child, const siginfo_t *info)
{
    if (info->si_code != SI_KERNEL) {
        kill(child, info->si_signo);
    }
    if (info->si_signo == SIGTSTP) {
        raise(SIGSTOP);
    }
}

static int wait_for(pid_t child, const sigset_t *set)
{
    for (;;) {
        siginfo_t info;
        int status;
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
        }
        if (ended < 0) {
            return NOT_RUN;
        }
        if (sigwaitinfo(set, &info) > 0 && info.si_signo != SIGCHLD) {
            pass_on(child, &info);
        }
    }
}

static int start(char **argv, const sigset_t *mask, pid_t *child)
{
    int pipe_fd[2];
    if (pipe2(pipe_fd, O_CLOEXEC)) {
        return errno;
    }
    *child = fork();
    if (*child == 0) {
        become(argv, mask, pipe_fd[1]);
    }
    int why = *child < 0 ? errno : 0;
    close(pipe_fd[1]);
    if (!why) {
        why = exec_error(pipe_fd[0]);
    }
    close(pipe_fd[0]);
    if (why && *child > 0) {
        waitpid(*child, NULL, 0);
    }
    return why;
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
    pid_t child = -1;
    int status;
    err->text[0] = '\0';
    signal(SIGCHLD, SIG_DFL); /* ignored, it would leave nothing to wait for */
    sigprocmask(SIG_BLOCK, &set, &before);
    int why = start(argv, &before, &child);
    if (why) {
        muster_fail(err, "cannot run %s: %s", argv[0], strerror(why));
        status = why == ENOENT ? NOT_FOUND : NOT_RUN;
    } else {
        status = wait_for(child, &set);
        forget_pending(&set);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
