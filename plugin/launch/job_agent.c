#include "launch/job_agent.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "launch/child.h"

enum { PATIENCE_MS = 3000 };

static size_t add(const char **argv, size_t n, const char *option, const char *value)
{
    if (!value)
        return n;
    argv[n] = option;
    argv[n + 1] = value;
    return n + 2;
}

int muster_job_agent_start(const struct muster_job_agent_options *options, pid_t *pid,
                           struct muster_err *err)
{
    const char *argv[16] = {"muster", "agent", "--own"};
    size_t n = 3;
    n = add(argv, n, "--listen", options->listen);
    n = add(argv, n, "--nats", options->nats);
    n = add(argv, n, "--nats-credentials", options->nats_credentials);
    n = add(argv, n, "--nats-ca", options->nats_ca);
    argv[n] = options->quiet ? "--quiet" : NULL;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const struct muster_child child = {
        .argv = argv,
        .program = "/proc/self/exe",
        .files = (const int[]){nothing, STDERR_FILENO, STDERR_FILENO},
        .default_signals = true,
        .group = true,
        .orphaned = SIGTERM,
    };
    int rc = muster_child_start(&child, pid, err);
    if (nothing >= 0)
        close(nothing);
    return rc;
}

void muster_job_agent_end(pid_t pid)
{
    int status;
    if (muster_child_ended(pid, &status))
        return;
    kill(pid, SIGTERM);
    if (!muster_child_wait(pid, PATIENCE_MS, &status))
        muster_child_kill(pid, &status);
}
